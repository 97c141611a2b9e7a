"""tools/pipeline/sinks."""
