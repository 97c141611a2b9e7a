"""tools/simulator/cluster."""
