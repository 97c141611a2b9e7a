"""Tests that fail, whose reports are looked at."""

from __future__ import annotations

from tools.testing.kafka import Kafka, KafkaClusterFactory


def test_with_the_shared_cluster(kafka: Kafka) -> None:
    kafka.kill_leader(kafka.topic())


def test_with_a_cluster_of_its_own(kafka_cluster_factory: KafkaClusterFactory) -> None:
    kafka = kafka_cluster_factory(brokers=3, log_level="info")
    topic = kafka.topic(partitions=1)
    kafka.kill_leader(topic)
    kafka.cluster.leader(topic, 0)
    raise AssertionError


def test_without_a_running_cluster(kafka_external: Kafka) -> None:
    """No bootstrap is given."""
