"""tools/simulator/record."""
