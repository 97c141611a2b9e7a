"""actors/raft."""
