"""actors/broker."""
