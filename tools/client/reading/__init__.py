"""tools/client/reading."""
