"""tools/simulator/endings."""
