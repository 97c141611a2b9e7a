"""actors/runtime/loop."""
