"""actors/serving/kafka."""
