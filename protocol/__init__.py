"""Kafka's wire formats: pure functions from bytes to messages and back."""
