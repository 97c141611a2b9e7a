"""log/segment."""
