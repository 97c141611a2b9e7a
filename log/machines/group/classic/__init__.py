"""log/machines/group/classic."""
