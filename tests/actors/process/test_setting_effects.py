"""Every setting of a cluster file does something: what a broker does with one value of it, it does not with another.

Each effect begins with the facts that a broker is given, so the way from the file to the code that uses the setting is
shown too. Defaults of topics become the settings of their logs, whose effects are tried in
tests/log/settings/test_effects.py and tests/log/partition/test_admission.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.cluster_file.config import SETTINGS, BrokerConfig, ClusterConfig, KafkaConfig
from actors.cluster_file.facts import ClusterFacts
from actors.control.internal_topics import making_of
from actors.messages.coordinator import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from actors.process.formation import facts_of
from actors.serving.kafka.handlers import served
from log.raft.pacer import Pacer
from log.settings.table import TOPIC_SETTINGS
from log.settings.unclean import CONFIG
from log.topic_configs import settings_of
from tests.log.machines.group.consumers import Consumer, Topics
from tests.log.machines.group.consumers import Coordinator as ConsumerCoordinator
from tests.log.machines.group.coordinator import Coordinator, commit_request, join_request
from tests.log.machines.transaction.driven import Driven

HERE = "tests/actors/"
CONFIG_EFFECTS = f"{HERE}serving/kafka/handlers/test_config_effects.py"
CLEANER = f"{HERE}partition/test_cleaner.py"


def topic_settings(facts: ClusterFacts) -> Any:
    """Of a topic without configs of its own."""
    return settings_of(dict(facts.topic_defaults), min_insync_replicas=1)


def catching_up(facts: ClusterFacts) -> Any:
    """When somebody who was just sent a megabyte may be sent more."""
    return Pacer(facts.catch_up_bytes_per_s).spend(1 << 20, 0.0)


def session_taken(timeout_ms: int) -> Callable[[ClusterFacts], Any]:
    def effect(facts: ClusterFacts) -> Any:
        return Coordinator(facts.groups).ask(join_request(session_ms=timeout_ms), 9).error_code

    return effect


def metadata_taken(facts: ClusterFacts) -> Any:
    return Coordinator(facts.groups).commit(1, metadata="x" * 100)


def committed_after_two_minutes(facts: ClusterFacts) -> Any:
    kafka = Coordinator(facts.groups)
    kafka.fail_over()
    kafka.commit(1)
    kafka.wait(120)
    return kafka.committed()


def third_member(facts: ClusterFacts) -> Any:
    kafka = Coordinator(facts.groups)
    kafka.stable("a", "b")
    return kafka.ask(join_request(), 9).error_code


def first_answered_at_once(facts: ClusterFacts) -> Any:
    kafka = Coordinator(facts.groups)
    _, token = kafka.joins("a")
    return token in kafka.answers


def consumer_after_ten_seconds(facts: ClusterFacts) -> Any:
    kafka = ConsumerCoordinator(Topics(orders=4), facts.groups)
    Consumer(kafka, "alice", "orders").beat()
    kafka.tick(10)
    return kafka.group.is_empty


def told_interval(facts: ClusterFacts) -> Any:
    kafka = ConsumerCoordinator(Topics(orders=4), facts.groups)
    return Consumer(kafka, "alice", "orders").beat().heartbeat_interval_ms


def second_consumer(facts: ClusterFacts) -> Any:
    kafka = ConsumerCoordinator(Topics(orders=4), facts.groups)
    Consumer(kafka, "alice", "orders").beat()
    bob = Consumer(kafka, "bob", "orders")
    return kafka.ask(bob.request(), version=1).error_code


def second_group(facts: ClusterFacts) -> Any:
    kafka = Coordinator(facts.groups)
    kafka.commit(1)
    return kafka.ask(commit_request(1, group="another"), 8).topics[0].partitions[0].error_code


def second_transactional_id(facts: ClusterFacts) -> Any:
    driven = Driven(facts.transactions)
    driven.begin("first")
    return driven.init("second").error_code


def transaction_timeout_taken(facts: ClusterFacts) -> Any:
    return Driven(facts.transactions).init(timeout_ms=60_000).error_code


def idle_id_after_an_hour(facts: ClusterFacts) -> Any:
    driven = Driven(facts.transactions)
    driven.begin("idle")
    driven.now, driven.wall_ms = 3600.0, driven.wall_ms + 3_600_000
    driven.machine.tick(driven.moment)
    return len(driven.take().records)


def two_phase_taken(facts: ClusterFacts) -> Any:
    return [api.advertised for api in served(facts.transactions)]


EFFECTS: dict[str, tuple[Callable[[ClusterFacts], Any], dict[str, Any], Any]] = {
    "leader.replication.throttled.rate": (catching_up, {}, 1 << 10),
    "offsets.topic.num.partitions": (lambda facts: making_of(facts, GROUPS_TOPIC, ""), {}, 3),
    "offsets.topic.replication.factor": (lambda facts: making_of(facts, GROUPS_TOPIC, ""), {}, 2),
    "transaction.state.log.num.partitions": (lambda facts: making_of(facts, TRANSACTIONS_TOPIC, ""), {}, 3),
    "transaction.state.log.replication.factor": (lambda facts: making_of(facts, TRANSACTIONS_TOPIC, ""), {}, 2),
    "offset.metadata.max.bytes": (metadata_taken, {}, 99),
    "offsets.retention.minutes": (
        committed_after_two_minutes, {"offsets_retention_check_interval_ms": 1000}, 1
    ),
    "offsets.retention.check.interval.ms": (committed_after_two_minutes, {"offsets_retention_minutes": 1}, 1000),
    "group.min.session.timeout.ms": (session_taken(1000), {}, 500),
    "group.max.session.timeout.ms": (session_taken(60_000), {}, 50_000),
    "group.initial.rebalance.delay.ms": (first_answered_at_once, {}, 3000),
    "group.max.size": (third_member, {}, 2),
    "group.consumer.session.timeout.ms": (consumer_after_ten_seconds, {}, 9000),
    "group.consumer.heartbeat.interval.ms": (told_interval, {}, 100),
    "group.consumer.max.size": (second_consumer, {}, 1),
    "offsets.topic.max.groups.per.partition": (second_group, {}, 1),
    "transaction.state.log.max.ids.per.partition": (second_transactional_id, {}, 1),
    "transaction.max.timeout.ms": (transaction_timeout_taken, {}, 50_000),
    "transactional.id.expiration.ms": (idle_id_after_an_hour, {}, 5000),
    "transaction.remove.expired.transaction.cleanup.interval.ms": (
        idle_id_after_an_hour, {"transactional_id_expiration_ms": 5000}, 4_000_000
    ),
    "transaction.two.phase.commit.enable": (two_phase_taken, {}, True),
    "log.segment.bytes": (topic_settings, {}, 5000),
    "log.roll.ms": (topic_settings, {}, 5000),
    "log.roll.hours": (topic_settings, {}, 5),
    "log.index.size.max.bytes": (topic_settings, {}, 5000),
    "log.index.interval.bytes": (topic_settings, {}, 5000),
    "log.flush.interval.messages": (topic_settings, {}, 5000),
    "log.flush.interval.ms": (topic_settings, {}, 5000),
    "log.retention.ms": (topic_settings, {}, 5000),
    "log.retention.minutes": (topic_settings, {}, 5),
    "log.retention.hours": (topic_settings, {}, 5),
    "log.retention.bytes": (topic_settings, {}, 5000),
    "log.cleanup.policy": (topic_settings, {}, "compact"),
    "log.cleaner.delete.retention.ms": (topic_settings, {}, 5000),
    "log.cleaner.min.compaction.lag.ms": (topic_settings, {}, 5000),
    "log.cleaner.max.compaction.lag.ms": (topic_settings, {}, 5000),
    "log.cleaner.min.cleanable.ratio": (topic_settings, {}, 0.25),
    "message.max.bytes": (topic_settings, {}, 5000),
    "log.message.timestamp.type": (topic_settings, {}, "LogAppendTime"),
    "log.message.timestamp.before.max.ms": (topic_settings, {}, 5000),
    "log.message.timestamp.after.max.ms": (topic_settings, {}, 5000),
    "compression.type": (topic_settings, {}, "zstd"),
    "min.insync.replicas": (topic_settings, {}, 2),
}  # fmt: skip
"""The effect, what else the file says, and a value with which it is not what it is by default."""

ELSEWHERE = {
    "num.partitions": f"{CONFIG_EFFECTS}::test_num_partitions",
    "default.replication.factor": f"{CONFIG_EFFECTS}::test_default_replication_factor",
    "max.partitions": f"{CONFIG_EFFECTS}::test_max_partitions",
    "auto.create.topics.enable": f"{CONFIG_EFFECTS}::test_auto_create_topics_enable",
    "producer.id.expiration.ms": f"{CONFIG_EFFECTS}::test_producer_id_expiration_ms",
    "unclean.leader.election.enable": f"{HERE}cluster_file/test_config.py::test_unclean_elections_are_refused",
    "disk.reserve.bytes": f"{HERE}test_full_disk.py::test_a_topic_is_deleted_on_a_full_disk_and_everything_goes_on",
    "max.connections": f"{HERE}serving/test_listener.py::test_one_client_too_many_waits_until_another_leaves",
    "queued.max.request.bytes": f"{HERE}serving/test_request_memory.py::test_large_requests_wait_for_memory",
    "max.connections.per.ip": f"{HERE}serving/test_listener.py::test_one_client_too_many_from_one_address_is_closed",
    "log.retention.check.interval.ms": f"{CLEANER}::test_retention_is_looked_at_when_its_interval_is_over",
    "connections.max.idle.ms": f"{HERE}serving/test_listener.py::test_a_client_that_says_nothing_is_hung_up_on",
}
"""Where those are tried that need a broker that runs."""


def facts_with(directory: Path, settings: dict[str, Any]) -> ClusterFacts:
    brokers = tuple(BrokerConfig(number, 0, directory / str(number)) for number in (1, 2, 3))
    for broker in brokers:
        broker.data_dir.mkdir(parents=True)
    return facts_of(ClusterConfig("c", "127.0.0.1", directory, KafkaConfig(**settings), brokers, ()))


def test_every_setting_is_tried() -> None:
    assert {*EFFECTS, *ELSEWHERE} == set(SETTINGS)


def test_every_default_of_a_topic_is_a_setting() -> None:
    assert {synonym.name for facts in TOPIC_SETTINGS.values() for synonym in facts.synonyms} <= {*EFFECTS, CONFIG}


@pytest.mark.parametrize("place", ELSEWHERE.values())
def test_what_is_tried_elsewhere_is_tried_there(place: str) -> None:
    file, _, name = place.partition("::")
    assert f"def {name}(" in (Path(__file__).parents[3] / file).read_text()


@pytest.mark.parametrize("name", EFFECTS)
def test_a_setting_takes_effect(name: str, tmp_path: Path) -> None:
    effect, others, value = EFFECTS[name]
    usual = facts_with(tmp_path / "usual", others)
    changed = facts_with(tmp_path / "changed", {**others, SETTINGS[name].name: value})
    assert effect(usual) != effect(changed)
