"""tools/client/membership."""
