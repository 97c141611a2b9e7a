"""tools/simulator/clients."""
