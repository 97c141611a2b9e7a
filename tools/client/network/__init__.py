"""tools/client/network."""
