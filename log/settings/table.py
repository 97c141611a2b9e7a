"""Every setting, once: Kafka's name, kind and range, default, and what it does.

The classes that hold values (LogConfig, GroupConfig, TransactionConfig, KafkaConfig), DescribeConfigs' answer, and
docs/reference/configuration.md are made from this table. A setting that Kafka does not have says so.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from log.settings import unclean
from log.settings.kinds import INT_MAX, LONG_MAX, ConfigType, Kind, Ratio, Truth, Whole, Word, Words
from protocol.late_attrs import frozen

BROKERS_MAX = 64
PARTITIONS_MAX = 10_000
_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
_MIB = 1 << 20


class Area(enum.Enum):
    """What a setting applies to. The order is that of the documentation."""

    TOPICS = "new topics"
    LOGS = "topics without a config of their own"
    REPLICATION = "replication"
    CLIENTS = "connections and requests"
    GROUPS = "consumer groups"
    TRANSACTIONS = "producers and transactions"


@frozen(slots=True)
class Synonym:
    """The name of a broker's setting for a topic config, and how many of the topic's units are one of its own."""

    name: str
    factor: int = 1

    def of_topic(self, text: str) -> str:
        """A value of this setting as the topic's config has it. Negative is without limit, in any unit."""
        return text if self.factor == 1 or int(text) < 0 else str(int(text) * self.factor)

    def of_broker(self, text: str) -> str:
        """And the other way round."""
        return text if self.factor == 1 or int(text) < 0 else str(int(text) // self.factor)


@frozen(slots=True)
class TopicSetting:
    """A config of topics. The last synonym is the broker's setting that has the default, if one has it."""

    name: str
    kind: Kind
    default: Any
    documentation: str
    synonyms: tuple[Synonym, ...]
    broker_has_default: bool = True

    @property
    def type(self) -> ConfigType:
        return self.kind.type


@frozen(slots=True)
class BrokerSetting:
    """A setting of cluster.toml, for all brokers."""

    name: str
    kind: Kind
    default: Any
    """None: none of its own."""
    area: Area
    documentation: str
    is_kafkas: bool = True
    """Does Apache Kafka have it?"""


def _topic(
    name: str, kind: Kind, default: Any, documentation: str, *synonyms: str | Synonym, broker_has_default: bool = True
) -> TopicSetting:
    made = tuple(one if isinstance(one, Synonym) else Synonym(one) for one in synonyms)
    return TopicSetting(name, kind, default, documentation, made, broker_has_default)


_TOPIC_ROWS = (
    _topic(
        "segment.bytes", Whole(14, INT_MAX), 1 << 30,
        "The size at which a segment of the log is full and the next one begins.", "log.segment.bytes",
    ),
    _topic(
        "segment.ms", Whole(1, LONG_MAX), 7 * _DAY,
        "The age at which a segment ends even if it is not full, so that retention and compaction get at it.",
        "log.roll.ms", Synonym("log.roll.hours", _HOUR),
    ),
    _topic(
        "segment.index.bytes", Whole(12, INT_MAX), 10 * _MIB,
        "The size at which a segment's offset index is full, and with it the segment.", "log.index.size.max.bytes",
    ),
    _topic(
        "index.interval.bytes", Whole(0, INT_MAX), 4096,
        "How many bytes of the log there are to one entry of its offset index.", "log.index.interval.bytes",
    ),
    _topic(
        "flush.messages", Whole(1, LONG_MAX), LONG_MAX,
        "After how many records the log is synced to disk; with 1, before they are acknowledged.",
        "log.flush.interval.messages",
    ),
    _topic(
        "flush.ms", Whole(0, LONG_MAX), LONG_MAX,
        "After how many milliseconds what was appended is synced to disk.", "log.flush.interval.ms",
        broker_has_default=False,
    ),
    _topic(
        "retention.ms", Whole(-1, LONG_MAX), 7 * _DAY,
        "How old records may become before they are deleted, segment by segment; -1 for any age.",
        "log.retention.ms", Synonym("log.retention.minutes", _MINUTE), Synonym("log.retention.hours", _HOUR),
    ),
    _topic(
        "retention.bytes", Whole(-1, LONG_MAX), -1,
        "How large a partition may become before its oldest segments are deleted; -1 for any size.",
        "log.retention.bytes",
    ),
    _topic(
        "cleanup.policy", Words("cleanup policy", ("delete", "compact")), "delete",
        "What happens to old records: delete removes them by age and size, compact keeps the last one of every key; an "
        "empty list keeps everything.", "log.cleanup.policy",
    ),
    _topic(
        "delete.retention.ms", Whole(0, LONG_MAX), _DAY,
        "How long compaction keeps tombstones, for readers to see them.", "log.cleaner.delete.retention.ms",
    ),
    _topic(
        "min.compaction.lag.ms", Whole(0, LONG_MAX), 0, "How long a record is safe from compaction.",
        "log.cleaner.min.compaction.lag.ms",
    ),
    _topic(
        "max.compaction.lag.ms", Whole(1, LONG_MAX), LONG_MAX, "How long a record may wait for compaction.",
        "log.cleaner.max.compaction.lag.ms",
    ),
    _topic(
        "min.cleanable.dirty.ratio", Ratio(), 0.5, "How much of the log has to be new before it is compacted.",
        "log.cleaner.min.cleanable.ratio",
    ),
    _topic(
        "max.message.bytes", Whole(0, INT_MAX), 1_048_588,
        "How large a record batch may be, as it comes, compressed or not.", "message.max.bytes",
    ),
    _topic(
        "message.timestamp.type", Word("timestamp type", ("CreateTime", "LogAppendTime")), "CreateTime",
        "Whose clock a record's timestamp is of: the producer's (CreateTime) or the broker's (LogAppendTime).",
        "log.message.timestamp.type",
    ),
    _topic(
        "message.timestamp.before.max.ms", Whole(0, LONG_MAX), LONG_MAX,
        "How far a record's timestamp may be behind the broker's clock.", "log.message.timestamp.before.max.ms",
    ),
    _topic(
        "message.timestamp.after.max.ms", Whole(0, LONG_MAX), _HOUR,
        "How far a record's timestamp may be ahead of the broker's clock.", "log.message.timestamp.after.max.ms",
    ),
    _topic(
        "compression.type",
        Word("compression type", ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")), "producer",
        "The codec in which batches are kept: producer leaves that to the producer, uncompressed is none.",
        "compression.type",
    ),
    _topic(
        "min.insync.replicas", Whole(1, INT_MAX), 1,
        "How many replicas have to be in sync for acks=all to be accepted.", "min.insync.replicas",
    ),
    _topic(
        unclean.CONFIG, Truth(unclean.REFUSAL, unclean.REMEDY), False,
        "May a replica lead that is not in sync? Never here: only false is accepted.", unclean.CONFIG,
    ),
)  # fmt: skip
TOPIC_SETTINGS: Mapping[str, TopicSetting] = {row.name: row for row in _TOPIC_ROWS}


def _of_topics() -> list[BrokerSetting]:
    """The settings of brokers that are defaults of topic configs."""
    rows = []
    for topic in _TOPIC_ROWS:
        for synonym in topic.synonyms:
            kind = topic.kind
            if isinstance(kind, Whole) and (synonym.factor != 1 or topic.name == "min.insync.replicas"):
                kind = Whole(kind.low, INT_MAX if synonym.factor != 1 else BROKERS_MAX)
            default = topic.default if topic.name == "min.insync.replicas" else None
            documentation = f"{topic.documentation} Of topics that do not say."
            rows.append(BrokerSetting(synonym.name, kind, default, Area.LOGS, documentation))
    return rows


_BROKER_ROWS = (
    BrokerSetting(
        "num.partitions", Whole(1, PARTITIONS_MAX), 1, Area.TOPICS,
        "How many partitions a topic gets that does not say.",
    ),
    BrokerSetting(
        "default.replication.factor", Whole(1, BROKERS_MAX), 1, Area.TOPICS,
        "How many replicas the partitions of a topic get that does not say.",
    ),
    BrokerSetting(
        "auto.create.topics.enable", Truth(), True, Area.TOPICS,
        "Is a topic made when a client asks for one that is not there?",
    ),
    BrokerSetting(
        "max.partitions", Whole(1, INT_MAX), 5_000, Area.TOPICS,
        "How many partitions all topics may have together, but for those of coordinators.", is_kafkas=False,
    ),
    *_of_topics(),
    BrokerSetting(
        "log.retention.check.interval.ms", Whole(1, LONG_MAX), 5 * _MINUTE, Area.LOGS,
        "How often it is looked whether old segments are to be deleted.",
    ),
    BrokerSetting(
        "disk.reserve.bytes", Whole(0, LONG_MAX), 8 * _MIB, Area.LOGS,
        "How many bytes of its disk a broker keeps for metadata, votes and deletions when the disk is full.",
        is_kafkas=False,
    ),
    BrokerSetting(
        "leader.replication.throttled.rate", Whole(1, LONG_MAX), 64 * _MIB, Area.REPLICATION,
        "How many bytes a second new replicas are sent by one broker; Kafka has no limit unless it is set.",
    ),
    BrokerSetting(
        "max.connections", Whole(1, INT_MAX), 10_000, Area.CLIENTS,
        "How many connections a broker takes; Kafka has no limit unless it is set.",
    ),
    BrokerSetting(
        "max.connections.per.ip", Whole(1, INT_MAX), INT_MAX, Area.CLIENTS,
        "How many connections a broker takes from one address.",
    ),
    BrokerSetting(
        "queued.max.request.bytes", Whole(1, LONG_MAX), 512 * _MIB, Area.CLIENTS,
        "How many bytes of requests that are not answered a broker holds; Kafka has no limit unless it is set.",
    ),
    BrokerSetting(
        "connections.max.idle.ms", Whole(1, LONG_MAX), 10 * _MINUTE, Area.CLIENTS,
        "How long a connection lives on which nothing is read or written.",
    ),
    BrokerSetting(
        "offsets.topic.num.partitions", Whole(1, PARTITIONS_MAX), 8, Area.GROUPS,
        "How many partitions __consumer_offsets gets; Kafka's default is 50.",
    ),
    BrokerSetting(
        "offsets.topic.replication.factor", Whole(1, BROKERS_MAX), 3, Area.GROUPS,
        "How many replicas the partitions of __consumer_offsets get, if there are as many brokers.",
    ),
    BrokerSetting(
        "offset.metadata.max.bytes", Whole(0, INT_MAX), 4096, Area.GROUPS,
        "How large the metadata may be that a client commits with an offset.",
    ),
    BrokerSetting(
        "offsets.retention.minutes", Whole(1, INT_MAX), 10_080, Area.GROUPS,
        "How long the offsets of a group without members are kept.",
    ),
    BrokerSetting(
        "offsets.retention.check.interval.ms", Whole(1, LONG_MAX), 10 * _MINUTE, Area.GROUPS,
        "How often it is looked for offsets that are no longer kept.",
    ),
    BrokerSetting(
        "group.min.session.timeout.ms", Whole(1, INT_MAX), 6 * _SECOND, Area.GROUPS,
        "The shortest session time-out that a member of a classic group may ask for.",
    ),
    BrokerSetting(
        "group.max.session.timeout.ms", Whole(1, INT_MAX), 30 * _MINUTE, Area.GROUPS,
        "The longest session time-out that a member of a classic group may ask for.",
    ),
    BrokerSetting(
        "group.initial.rebalance.delay.ms", Whole(0, INT_MAX), 0, Area.GROUPS,
        "How long the first rebalance of a classic group waits for further members; Kafka's default is 3,000.",
    ),
    BrokerSetting(
        "group.max.size", Whole(1, INT_MAX), 10_000, Area.GROUPS,
        "How many members a classic group may have; Kafka has no limit unless it is set.",
    ),
    BrokerSetting(
        "group.consumer.session.timeout.ms", Whole(1, INT_MAX), 45 * _SECOND, Area.GROUPS,
        "After how long without a heartbeat a member of a group of the new protocol is removed.",
    ),
    BrokerSetting(
        "group.consumer.heartbeat.interval.ms", Whole(1, INT_MAX), 5 * _SECOND, Area.GROUPS,
        "How often a member of a group of the new protocol is told to send a heartbeat.",
    ),
    BrokerSetting(
        "group.consumer.max.size", Whole(1, INT_MAX), 10_000, Area.GROUPS,
        "How many members a group of the new protocol may have; Kafka has no limit unless it is set.",
    ),
    BrokerSetting(
        "offsets.topic.max.groups.per.partition", Whole(1, INT_MAX), 20_000, Area.GROUPS,
        "How many groups one partition of __consumer_offsets may have.", is_kafkas=False,
    ),
    BrokerSetting(
        "transaction.state.log.num.partitions", Whole(1, PARTITIONS_MAX), 8, Area.TRANSACTIONS,
        "How many partitions __transaction_state gets; Kafka's default is 50.",
    ),
    BrokerSetting(
        "transaction.state.log.replication.factor", Whole(1, BROKERS_MAX), 3, Area.TRANSACTIONS,
        "How many replicas the partitions of __transaction_state get, if there are as many brokers.",
    ),
    BrokerSetting(
        "transaction.max.timeout.ms", Whole(1, INT_MAX), 15 * _MINUTE, Area.TRANSACTIONS,
        "The longest transaction time-out that a producer may ask for.",
    ),
    BrokerSetting(
        "transactional.id.expiration.ms", Whole(1, INT_MAX), 7 * _DAY, Area.TRANSACTIONS,
        "How long a transactional id is kept that begins no transaction.",
    ),
    BrokerSetting(
        "producer.id.expiration.ms", Whole(1, INT_MAX), _DAY, Area.TRANSACTIONS,
        "How long a partition knows an idempotent producer that writes nothing to it.",
    ),
    BrokerSetting(
        "transaction.remove.expired.transaction.cleanup.interval.ms", Whole(1, INT_MAX), _HOUR, Area.TRANSACTIONS,
        "How often it is looked for transactional ids that are no longer kept.",
    ),
    BrokerSetting(
        "transaction.state.log.max.ids.per.partition", Whole(1, INT_MAX), 20_000, Area.TRANSACTIONS,
        "How many transactional ids one partition of __transaction_state may have.", is_kafkas=False,
    ),
    BrokerSetting(
        "transaction.two.phase.commit.enable", Truth(), False, Area.TRANSACTIONS,
        "May producers prepare transactions that only they end (KIP-939)?",
    ),
)  # fmt: skip
BROKER_SETTINGS: Mapping[str, BrokerSetting] = {row.name: row for row in _BROKER_ROWS}


def field_name(name: str) -> str:
    """The name of a setting's field: dots as underscores."""
    return name.replace(".", "_")


def broker_field(name: str) -> Any:
    """The field of a class that holds the value of this setting of brokers."""
    return attrs.field(default=BROKER_SETTINGS[name].default, metadata={"name": name})


def topic_field(name: str, value_of: Callable[[Any], Any] = lambda default: default) -> Any:
    """The field of a class that holds the value of this topic config; a number is checked against its range."""
    row = TOPIC_SETTINGS[name]
    validators: list[Any] = []
    if isinstance(row.kind, Whole):
        validators = [attrs.validators.ge(row.kind.low)]
    elif isinstance(row.kind, Ratio):
        validators = [attrs.validators.ge(0.0)]
    return attrs.field(default=value_of(row.default), validator=validators or None)
