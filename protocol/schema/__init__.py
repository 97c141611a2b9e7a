"""protocol/schema."""
