"""actors/serving/json."""
