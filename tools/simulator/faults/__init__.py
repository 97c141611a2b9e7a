"""tools/simulator/faults."""
