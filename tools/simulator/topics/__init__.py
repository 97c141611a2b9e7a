"""tools/simulator/topics."""
