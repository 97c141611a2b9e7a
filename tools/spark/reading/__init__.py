"""tools/spark/reading."""
