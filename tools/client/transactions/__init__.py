"""tools/client/transactions."""
