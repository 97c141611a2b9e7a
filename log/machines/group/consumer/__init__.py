"""log/machines/group/consumer."""
