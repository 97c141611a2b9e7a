"""log/compaction."""
