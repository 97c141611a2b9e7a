"""protocol/json."""
