"""tools/client/batches."""
