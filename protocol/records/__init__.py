"""protocol/records."""
