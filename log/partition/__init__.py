"""log/partition."""
