"""tools/simulator/transactions."""
