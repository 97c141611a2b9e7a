"""log/machines/group/offsets."""
