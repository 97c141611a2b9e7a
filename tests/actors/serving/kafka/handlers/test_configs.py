"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs: values, where they come from, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.cluster_file.config import KafkaConfig
from actors.harness import Cluster
from actors.serving.kafka.handlers import describe_configs
from actors.serving.kafka.handlers.config_entries import Entry
from log.settings.table import TOPIC_SETTINGS
from log.topic_configs import TOPIC_CONFIGS
from protocol.apis import ALTER_CONFIGS, DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from protocol.error_codes import ErrorCode
from protocol.messages import alter_configs, incremental_alter_configs
from protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from tests.actors.serving.kafka.handlers.conftest import BROKERS, FIRST
from tests.actors.serving.kafka.handlers.wire_client import WireClient
from tests.actors.waiting import wait_until

TOPIC, BROKER, LOGGER = 2, 4, 8
DYNAMIC_TOPIC, STATIC_BROKER, DEFAULT = 1, 4, 5
SET, DELETE, APPEND, SUBTRACT = range(4)
SEGMENT_BYTES = 2000
FILE = KafkaConfig(
    log_retention_hours=48, log_retention_minutes=90, log_segment_bytes=SEGMENT_BYTES, default_replication_factor=3,
    log_roll_ms=9 * 3_600_000, log_roll_hours=7,
)  # fmt: skip


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def cluster(data_dir: Path) -> Iterator[Cluster]:
    """One whose file has defaults for topics."""
    with Cluster(len(BROKERS), data_dir=data_dir, config=FILE, topics=[FIRST], log_level="error") as cluster:
        yield cluster


@pytest.fixture
def topic(client: WireClient, cluster: Cluster, name: str) -> str:
    cluster.admin.create_topic(name, 1, 3)
    client.until_led(name)
    return name


def describe(
    client: WireClient, kind: int, name: str, *keys: str, version: int | None = None, **options: Any
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    result: DescribeConfigsResult = client.ask(
        DescribeConfigsRequest(resources=[resource], **options), version
    ).results[0]
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def config_of(client: WireClient, topic: str, key: str, **options: Any) -> DescribeConfigsResourceResult:
    (config,) = describe(client, TOPIC, topic, key, **options).configs
    return config


def replace(client: WireClient, name: str, configs: dict[str, str | None], kind: int = TOPIC, **options: Any) -> Any:
    altered = [alter_configs.AlterableConfig(name=key, value=value) for key, value in configs.items()]
    resource = alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=altered)
    version = options.pop("version", None)
    return client.ask(alter_configs.AlterConfigsRequest(resources=[resource], **options), version).responses[0]


def change(client: WireClient, name: str, *changes: tuple[str, int, str | None], kind: int = TOPIC, **more: Any) -> Any:
    altered = [
        incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    resource = incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=altered)
    version = more.pop("version", None)
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource], **more)
    return client.ask(request, version).responses[0]


def own(client: WireClient, topic: str) -> dict[str, str | None]:
    """What the topic has of its own."""
    configs = describe(client, TOPIC, topic).configs
    return {config.name: config.value for config in configs if config.config_source == DYNAMIC_TOPIC}


# -- DescribeConfigs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(DESCRIBE_CONFIGS.versions.first, DESCRIBE_CONFIGS.versions.last + 1))
def test_a_topic_has_every_config_with_a_source(client: WireClient, topic: str, version: int) -> None:
    result = describe(client, TOPIC, topic, version=version)
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)
    assert [config.name for config in result.configs] == list(TOPIC_CONFIGS)
    told = {config.name: (config.value, config.config_source) for config in result.configs}
    assert told["segment.bytes"] == (str(SEGMENT_BYTES), STATIC_BROKER)
    assert told["retention.ms"] == (str(90 * 60_000), DEFAULT), "as in Kafka: log.retention.ms is not in the file"
    assert told["retention.bytes"] == ("-1", DEFAULT)
    assert told["flush.messages"] == (str(2**63 - 1), DEFAULT)
    assert told["min.insync.replicas"] == ("1", DEFAULT)
    assert not any(config.read_only or config.is_sensitive or config.synonyms for config in result.configs)


def test_configs_that_topics_have_in_common_are_made_once(
    client: WireClient, topic: str, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [f"{topic}-{at}" for at in range(4)]
    for other in others:
        cluster.admin.create_topic(other, 1, 3, configs={"retention.ms": "5"} if other == others[0] else {})
        client.until_led(other)
    made: list[str] = []
    told = describe_configs._told

    def noting(request: DescribeConfigsRequest, entry: Entry) -> DescribeConfigsResourceResult:
        made.append(entry.name)
        return told(request, entry)

    monkeypatch.setattr(describe_configs, "_told", noting)
    named = [DescribeConfigsResource(resource_type=TOPIC, resource_name=name) for name in (topic, *others)]
    results = client.ask(DescribeConfigsRequest(resources=named)).results
    assert len({len(result.configs) for result in results}) == 1
    values = [{config.name: config.value for config in result.configs}["retention.ms"] for result in results]
    assert values == [values[0], "5", *[values[0]] * 3]
    assert len(made) == len(results[0].configs) + 1


def test_synonyms_tell_where_a_value_comes_from_in_order(client: WireClient, topic: str) -> None:
    change(client, topic, ("retention.ms", SET, "1000"))
    config = config_of(client, topic, "retention.ms", include_synonyms=True)
    assert (config.value, config.config_source) == ("1000", DYNAMIC_TOPIC)
    assert [(one.name, one.value, one.source) for one in config.synonyms] == [("retention.ms", "1000", DYNAMIC_TOPIC)]
    rolled = config_of(client, topic, "segment.ms", include_synonyms=True)
    assert (rolled.value, rolled.config_source) == (str(9 * 3_600_000), STATIC_BROKER)
    assert [(one.name, one.value, one.source) for one in rolled.synonyms] == [
        ("log.roll.ms", str(9 * 3_600_000), STATIC_BROKER),
        ("log.roll.hours", "7", STATIC_BROKER),
        ("log.roll.hours", "168", DEFAULT),
    ]
    assert config_of(client, topic, "flush.ms", include_synonyms=True).synonyms == []
    untouched = config_of(client, topic, "cleanup.policy", include_synonyms=True)
    assert [(one.name, one.value, one.source) for one in untouched.synonyms] == [
        ("log.cleanup.policy", "delete", DEFAULT)
    ]


def test_types_and_documentation(client: WireClient, topic: str) -> None:
    types = {"cleanup.policy": 7, "min.cleanable.dirty.ratio": 6, "retention.ms": 5, "segment.bytes": 3}
    told = {one.name: one for one in describe(client, TOPIC, topic, include_documentation=True).configs}
    assert {name: told[name].config_type for name in types} == types
    assert all(one.documentation for one in told.values())
    assert all(one.documentation is None for one in describe(client, TOPIC, topic).configs)


def test_every_config_is_in_the_catalog() -> None:
    assert set(TOPIC_SETTINGS) == set(TOPIC_CONFIGS)


def test_only_what_is_asked_for_is_told(client: WireClient, topic: str) -> None:
    result = describe(client, TOPIC, topic, "segment.ms", "nonsense", "retention.ms")
    assert [config.name for config in result.configs] == ["segment.ms", "retention.ms"]


@pytest.mark.parametrize("version", [DESCRIBE_CONFIGS.versions.first, DESCRIBE_CONFIGS.versions.last])
def test_a_broker_tells_its_own_configs(client: WireClient, version: int) -> None:
    result = describe(client, BROKER, "2", version=version, include_synonyms=True)
    told = {config.name: config for config in result.configs}
    assert result.error_code == ErrorCode.NONE
    assert all(config.read_only for config in told.values())
    sources = {name: (config.value, config.config_source) for name, config in told.items()}
    assert sources["num.partitions"] == ("1", DEFAULT)
    assert sources["log.retention.check.interval.ms"] == ("300000", DEFAULT)
    assert sources["log.flush.interval.ms"] == (None, DEFAULT)
    assert sources["default.replication.factor"] == ("3", STATIC_BROKER)
    assert sources["auto.create.topics.enable"] == ("true", DEFAULT)
    assert sources["log.segment.bytes"] == (str(SEGMENT_BYTES), STATIC_BROKER)
    assert sources["log.retention.ms"] == (None, DEFAULT)
    assert sources["log.retention.hours"] == ("48", STATIC_BROKER)
    assert sources["node.id"] == ("2", STATIC_BROKER)
    assert [(one.name, one.value, one.source) for one in told["log.retention.minutes"].synonyms] == [
        ("log.retention.minutes", "90", STATIC_BROKER),
        ("log.retention.hours", "48", STATIC_BROKER),
        ("log.retention.hours", "168", DEFAULT),
    ]
    assert [(one.name, one.value, one.source) for one in told["log.segment.bytes"].synonyms] == [
        ("log.segment.bytes", str(SEGMENT_BYTES), STATIC_BROKER),
        ("log.segment.bytes", str(1 << 30), DEFAULT),
    ]


def test_all_brokers_together_have_no_configs(client: WireClient) -> None:
    result = describe(client, BROKER, "")
    assert (result.error_code, result.configs) == (ErrorCode.NONE, [])


@pytest.mark.parametrize(
    ("kind", "name", "error", "words"),
    [
        (TOPIC, "not-there", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no topic"),
        (TOPIC, "not a name", ErrorCode.INVALID_TOPIC_EXCEPTION, "is not a topic name"),
        (BROKER, "1", ErrorCode.INVALID_REQUEST, "this is broker 2"),
        (BROKER, "two", ErrorCode.INVALID_REQUEST, "'two' is asked for"),
        (LOGGER, "2", ErrorCode.INVALID_REQUEST, "loggers have no configs here"),
        (77, "2", ErrorCode.INVALID_REQUEST, "resources of type 77"),
    ],
)
def test_what_cannot_be_described(client: WireClient, kind: int, name: str, error: ErrorCode, words: str) -> None:
    result = describe(client, kind, name)
    assert ErrorCode(result.error_code) == error
    assert words in (result.error_message or "")
    assert result.configs == []


# -- AlterConfigs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(ALTER_CONFIGS.versions.first, ALTER_CONFIGS.versions.last + 1))
def test_configs_are_replaced_as_a_whole(client: WireClient, topic: str, version: int) -> None:
    first = replace(client, topic, {"retention.ms": "1000", "segment.bytes": "5000"}, version=version)
    assert (first.error_code, first.error_message) == (ErrorCode.NONE, None)
    assert own(client, topic) == {"retention.ms": "1000", "segment.bytes": "5000"}
    replace(client, topic, {"segment.bytes": "6000"}, version=version)
    assert own(client, topic) == {"segment.bytes": "6000"}
    replace(client, topic, {}, version=version)
    assert own(client, topic) == {}


def test_a_replacement_that_is_only_validated_is_not_made(client: WireClient, topic: str) -> None:
    assert replace(client, topic, {"retention.ms": "1"}, validate_only=True).error_code == ErrorCode.NONE
    assert replace(client, topic, {"retention.ms": "x"}, validate_only=True).error_code == ErrorCode.INVALID_CONFIG
    assert own(client, topic) == {}


# -- IncrementalAlterConfigs -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "version", range(INCREMENTAL_ALTER_CONFIGS.versions.first, INCREMENTAL_ALTER_CONFIGS.versions.last + 1)
)
def test_configs_are_set_and_deleted(client: WireClient, topic: str, version: int) -> None:
    change(client, topic, ("retention.ms", SET, "1000"), ("segment.bytes", SET, "5000"), version=version)
    assert own(client, topic) == {"retention.ms": "1000", "segment.bytes": "5000"}
    result = change(client, topic, ("retention.ms", DELETE, None), ("flush.ms", DELETE, None), version=version)
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)
    assert own(client, topic) == {"segment.bytes": "5000"}


def test_lists_are_appended_to_and_subtracted_from(client: WireClient, topic: str) -> None:
    change(client, topic, ("cleanup.policy", APPEND, "compact"))
    assert own(client, topic) == {"cleanup.policy": "delete,compact"}
    change(client, topic, ("cleanup.policy", APPEND, "compact"))
    assert own(client, topic) == {"cleanup.policy": "delete,compact"}
    change(client, topic, ("cleanup.policy", SUBTRACT, "delete"))
    assert own(client, topic) == {"cleanup.policy": "compact"}
    change(client, topic, ("cleanup.policy", SUBTRACT, "compact"))
    assert own(client, topic) == {"cleanup.policy": ""}
    assert config_of(client, topic, "cleanup.policy").value == ""


def test_a_change_that_is_only_validated_is_not_made(client: WireClient, topic: str) -> None:
    assert change(client, topic, ("retention.ms", SET, "1"), validate_only=True).error_code == ErrorCode.NONE
    assert own(client, topic) == {}


def test_one_bad_config_keeps_all_of_a_topic_from_changing(client: WireClient, topic: str) -> None:
    result = change(client, topic, ("retention.ms", SET, "1000"), ("segment.bytes", SET, "-5"))
    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert own(client, topic) == {}


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ([("retention.msec", SET, "1")], ErrorCode.INVALID_CONFIG, "did you mean retention.ms?"),
        ([("retention.msec", DELETE, None)], ErrorCode.INVALID_CONFIG, "did you mean retention.ms?"),
        ([("xyz", SET, "1")], ErrorCode.INVALID_CONFIG, "known are segment.bytes"),
        ([("retention.ms", SET, "-2")], ErrorCode.INVALID_CONFIG, "retention.ms: -2 is out of range"),
        ([("cleanup.policy", SET, "shred")], ErrorCode.INVALID_CONFIG, "is no cleanup policy"),
        ([("retention.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG, "is no list"),
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST, "has no value"),
        ([("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST, "set is 0, delete 1"),
        ([("retention.ms", SET, "1"), ("retention.ms", DELETE, None)], ErrorCode.INVALID_REQUEST, "twice"),
    ],
)
def test_changes_that_cannot_be_are_refused_with_a_reason(
    client: WireClient, topic: str, changes: list[tuple[str, int, str | None]], error: ErrorCode, words: str
) -> None:
    result = change(client, topic, *changes)
    assert ErrorCode(result.error_code) == error
    assert words in result.error_message
    assert own(client, topic) == {}


THROTTLES = [
    (BROKER, "leader.replication.throttled.rate"),
    (BROKER, "follower.replication.throttled.rate"),
    (BROKER, "replica.alter.log.dirs.io.max.bytes.per.second"),
    (TOPIC, "leader.replication.throttled.replicas"),
    (TOPIC, "follower.replication.throttled.replicas"),
]


@pytest.mark.parametrize("kind", [BROKER, TOPIC])
def test_throttles_that_were_never_set_end_after_a_move(client: WireClient, topic: str, kind: int) -> None:
    """As kafka-reassign-partitions.sh --verify asks for it."""
    changes = [(key, DELETE, None) for of, key in THROTTLES if of == kind]
    result = change(client, "2" if kind == BROKER else topic, *changes, kind=kind)
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)
    assert own(client, topic) == {}


@pytest.mark.parametrize(("kind", "key"), THROTTLES)
def test_throttles_are_not_set(client: WireClient, topic: str, kind: int, key: str) -> None:
    result = change(client, "2" if kind == BROKER else topic, (key, SET, "1000"), kind=kind)
    assert result.error_code == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(("kind", "key"), THROTTLES)
def test_what_comes_with_the_end_of_a_throttle_is_judged(client: WireClient, topic: str, kind: int, key: str) -> None:
    name, other = ("2", "num.partitions") if kind == BROKER else (topic, "retention.ms")
    result = change(client, name, (key, DELETE, None), (other, SET, "x"), kind=kind)
    assert result.error_code == ErrorCode.INVALID_CONFIG


def test_throttles_of_a_topic_or_broker_that_is_not_here_do_not_end(client: WireClient) -> None:
    (_, of_broker), (_, of_topic) = THROTTLES[0], THROTTLES[-1]
    missing = change(client, "not-there", (of_topic, DELETE, None))
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert change(client, "3", (of_broker, DELETE, None), kind=BROKER).error_code == ErrorCode.INVALID_REQUEST
    for kind, key in ((BROKER, of_topic), (TOPIC, of_broker)):
        name = "2" if kind == BROKER else FIRST.name
        assert change(client, name, (key, DELETE, None), kind=kind).error_code == ErrorCode.INVALID_CONFIG


def test_names_as_long_as_can_be_are_refused_in_few_words(client: WireClient) -> None:
    long = "n" * 32_000
    for result in (
        change(client, "t", (long, SET, None), version=0),
        change(client, "t", (long, SET, "1"), (long, SET, "2"), version=0),
        change(client, long, ("retention.ms", SET, "1"), version=0),
        change(client, long, ("retention.ms", SET, "1"), kind=BROKER, version=0),
        change(client, "2", (long, SET, "1"), kind=BROKER, version=0),
        replace(client, "t", {long: None}, version=0),
    ):
        assert result.error_code != ErrorCode.NONE
        assert 0 < len(result.error_message) < 2000


def test_null_replaces_nothing(client: WireClient, topic: str) -> None:
    result = replace(client, topic, {"retention.ms": None})
    assert (result.error_code, "has no value" in result.error_message) == (ErrorCode.INVALID_REQUEST, True)


@pytest.mark.parametrize(
    ("kind", "name", "key", "error", "words"),
    [
        (TOPIC, "not-there", "retention.ms", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no topic"),
        (BROKER, "2", "log.retention.ms", ErrorCode.INVALID_CONFIG, "set it in cluster.toml"),
        (BROKER, "", "num.partitions", ErrorCode.INVALID_CONFIG, "set it in cluster.toml"),
        (BROKER, "2", "log.retention.msec", ErrorCode.INVALID_CONFIG, "did you mean log.retention.ms?"),
        (BROKER, "3", "num.partitions", ErrorCode.INVALID_REQUEST, "ask that broker itself"),
        (LOGGER, "2", "root", ErrorCode.INVALID_REQUEST, "loggers have no configs here"),
    ],
)
def test_what_cannot_be_altered(
    client: WireClient, kind: int, name: str, key: str, error: ErrorCode, words: str
) -> None:
    for result in (replace(client, name, {key: "1"}, kind), change(client, name, (key, SET, "1"), kind=kind)):
        assert ErrorCode(result.error_code) == error
        assert words in result.error_message


def test_a_resource_that_is_there_twice_is_refused(client: WireClient, topic: str) -> None:
    resource = alter_configs.AlterConfigsResource(resource_type=TOPIC, resource_name=topic)
    (result,) = client.ask(alter_configs.AlterConfigsRequest(resources=[resource, resource])).responses
    assert (result.error_code, "twice" in result.error_message) == (ErrorCode.INVALID_REQUEST, True)


# -- what they do ------------------------------------------------------------------------------------------------


def segments(data_dir: Path, cluster: Cluster, topic: str, broker: int) -> int:
    return len(list((data_dir / str(broker) / cluster.group(topic, 0)).glob("*.log")))


def test_a_default_of_the_file_counts_until_the_topic_has_its_own(
    clients: dict[int, WireClient], cluster: Cluster, data_dir: Path, topic: str
) -> None:
    """What a file says of segments is seen on disk."""
    leader = clients[1].until_led(topic).partitions[0].leader_id
    client = clients[leader]
    for _ in range(4):
        client.produce(topic, [bytes(SEGMENT_BYTES // 2)])
    before = segments(data_dir, cluster, topic, leader)
    assert before == 4
    change(client, topic, ("segment.bytes", SET, "1000000"))
    offset = [0]

    def stays() -> bool:  # the replica hears of it a moment later than its broker
        had = segments(data_dir, cluster, topic, leader)
        offset[0] = client.produce(topic, [bytes(SEGMENT_BYTES // 2)])
        return segments(data_dir, cluster, topic, leader) == had

    wait_until(stays, lambda: f"still another segment at {offset[0]}")
