"""actors/partition."""
