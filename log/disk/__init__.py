"""log/disk."""
