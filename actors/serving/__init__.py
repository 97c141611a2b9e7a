"""actors/serving."""
