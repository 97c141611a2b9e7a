"""tools/spark/writing."""
