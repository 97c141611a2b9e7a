"""log/replica."""
