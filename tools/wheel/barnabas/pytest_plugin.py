"""The plugin that pytest loads by itself, and the types of what its fixtures give."""

from __future__ import annotations

from tools.testing import plugin
from tools.testing.kafka import Kafka, KafkaClusterFactory, KafkaFixtureError

__all__ = ["Kafka", "KafkaClusterFactory", "KafkaFixtureError", "plugin"]
