"""tools/simulator/settings."""
