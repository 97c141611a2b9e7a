"""Kafka's settings as a plain dict, and the factor of a topic that states none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from actors.cluster_file.config import KafkaConfig
from actors.harness import Cluster, HarnessError
from actors.harness.options import kafka_config


def test_settings_have_kafkas_names() -> None:
    config = kafka_config({"num.partitions": 6, "auto.create.topics.enable": False, "log.retention.ms": 1000}, 3)
    assert (config.num_partitions, config.auto_create_topics_enable, config.log_retention_ms) == (6, False, 1000)


@pytest.mark.parametrize(("brokers", "factor"), [(1, 1), (2, 2), (3, 3), (5, 3)])
def test_a_topic_has_up_to_three_replicas_unless_stated(brokers: int, factor: int) -> None:
    assert kafka_config(None, brokers).default_replication_factor == factor
    assert kafka_config({"default.replication.factor": 1}, brokers).default_replication_factor == 1
    assert kafka_config(KafkaConfig(), brokers).default_replication_factor == 1


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"num.partitons": 6}, 'config."num.partitons": unknown; did you mean "num.partitions"?'),
        ({"num.partitions": "6"}, 'config."num.partitions": expected a whole number, got "6"'),
        ({"num.partitions": 0}, 'config."num.partitions": '),
        ({"default.replication.factor": 3}, "3 is more than the number of brokers (2); lower it or add brokers"),
        ({6: 1}, "config: expected a dict of Kafka's names"),
        (["num.partitions"], "config: expected a dict of Kafka's names"),
    ],
)
def test_a_mistake_is_told_in_one_line_that_names_the_key(config: Any, message: str) -> None:
    with pytest.raises(HarnessError) as refused:
        Cluster(2, config=config)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_every_mistake_is_told() -> None:
    with pytest.raises(HarnessError) as refused:
        Cluster(config={"num.partitions": 0, "log.dirs": "/tmp"})
    assert [line.split(":")[0] for line in str(refused.value).splitlines()] == [
        'config."log.dirs"', 'config."num.partitions"',
    ]  # fmt: skip


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(config={"num.partitions": 6}) as cluster:
        yield cluster


def test_a_topic_gets_what_the_settings_say(cluster: Cluster) -> None:
    cluster.admin.create_topic("orders")
    partitions = cluster.admin.topic("orders")["partitions"]
    assert [len(one["replicas"]) for one in partitions] == [3] * 6


def test_the_leader_that_is_killed_is_named_and_another_is_elected(cluster: Cluster) -> None:
    cluster.admin.create_topic("failover", 1)
    killed = cluster.kill_leader("failover", 0)
    assert killed not in cluster.alive
    assert cluster.leader("failover", 0) in set(cluster.brokers) - {killed}
    cluster.restart(killed)


def test_a_partition_that_is_not_there_has_no_leader_to_kill(cluster: Cluster) -> None:
    cluster.admin.create_topic("small", 2)
    with pytest.raises(HarnessError, match="topic small has no partition 2; it has 0 to 1"):
        cluster.kill_leader("small", 2)
