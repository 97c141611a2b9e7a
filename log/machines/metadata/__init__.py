"""log/machines/metadata."""
