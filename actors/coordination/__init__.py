"""actors/coordination."""
