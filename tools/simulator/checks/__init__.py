"""tools/simulator/checks."""
