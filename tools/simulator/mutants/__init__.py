"""tools/simulator/mutants."""
