"""actors/runtime/links."""
