"""The plugin of pytest, as its entry point names it, and the types of its fixtures."""

from __future__ import annotations

from tools.testing import plugin
from tools.testing.kafka import Kafka, KafkaClusterFactory

__all__ = ["Kafka", "KafkaClusterFactory", "plugin"]
