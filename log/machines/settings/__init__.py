"""log/machines/settings."""
