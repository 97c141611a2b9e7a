"""log/machines/group/migration."""
