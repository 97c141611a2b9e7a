"""log/machines/names."""
