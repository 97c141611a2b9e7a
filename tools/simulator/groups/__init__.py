"""tools/simulator/groups."""
