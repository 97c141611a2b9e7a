"""What is told of every topic config: its type, what it does, and by which names brokers give its default.

A broker's name may be in another unit (log.retention.hours), and there may be several of them: the first that is given
counts. Topics that have a config of their own do not mind any of that.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping

from log.machines.settings.topic_configs import defaults
from protocol.late_attrs import frozen

_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000


class ConfigType(enum.IntEnum):
    """As it travels in DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


@frozen(slots=True)
class Synonym:
    """The name of a broker's setting, and how many of the topic's units are one of its own."""

    name: str
    factor: int = 1

    def of_topic(self, text: str) -> str:
        """A value of this setting as the topic's config has it. Negative is without limit, in any unit."""
        return text if self.factor == 1 or int(text) < 0 else str(int(text) * self.factor)

    def of_broker(self, text: str) -> str:
        """And the other way round."""
        return text if self.factor == 1 or int(text) < 0 else str(int(text) // self.factor)


@frozen(slots=True)
class ConfigFacts:
    """What there is to tell of a topic config. The last synonym is the one that has the default."""

    type: ConfigType
    documentation: str
    synonyms: tuple[Synonym, ...]


def _facts(kind: ConfigType, documentation: str, *synonyms: str | Synonym) -> ConfigFacts:
    made = tuple(one if isinstance(one, Synonym) else Synonym(one) for one in synonyms)
    return ConfigFacts(kind, documentation, made)


CATALOG: Mapping[str, ConfigFacts] = {
    "segment.bytes": _facts(
        ConfigType.INT, "The size at which a segment of the log is full and the next one begins.", "log.segment.bytes"
    ),
    "segment.ms": _facts(
        ConfigType.LONG,
        "The age at which a segment ends even if it is not full, so that retention and compaction get at it.",
        "log.roll.ms",
        Synonym("log.roll.hours", _HOUR_MS),
    ),
    "segment.index.bytes": _facts(
        ConfigType.INT, "The size at which a segment's offset index is full, and with it the segment.",
        "log.index.size.max.bytes",
    ),
    "index.interval.bytes": _facts(
        ConfigType.INT, "How many bytes of the log there are to one entry of its offset index.",
        "log.index.interval.bytes",
    ),
    "flush.messages": _facts(
        ConfigType.LONG,
        "After how many records the log is synced to disk; with 1, before they are acknowledged.",
        "log.flush.interval.messages",
    ),
    "flush.ms": _facts(
        ConfigType.LONG, "After how many milliseconds what was appended is synced to disk.", "log.flush.interval.ms"
    ),
    "retention.ms": _facts(
        ConfigType.LONG,
        "How old records may become before they are deleted, segment by segment; -1 for any age.",
        "log.retention.ms",
        Synonym("log.retention.minutes", _MINUTE_MS),
        Synonym("log.retention.hours", _HOUR_MS),
    ),
    "retention.bytes": _facts(
        ConfigType.LONG,
        "How large a partition may become before its oldest segments are deleted; -1 for any size.",
        "log.retention.bytes",
    ),
    "cleanup.policy": _facts(
        ConfigType.LIST,
        "What happens to old records: delete removes them by age and size, compact keeps the last one of every key; an "
        "empty list keeps everything.",
        "log.cleanup.policy",
    ),
    "delete.retention.ms": _facts(
        ConfigType.LONG, "How long compaction keeps tombstones, for readers to see them.",
        "log.cleaner.delete.retention.ms",
    ),
    "min.compaction.lag.ms": _facts(
        ConfigType.LONG, "How long a record is safe from compaction.", "log.cleaner.min.compaction.lag.ms"
    ),
    "max.compaction.lag.ms": _facts(
        ConfigType.LONG, "How long a record may wait for compaction.", "log.cleaner.max.compaction.lag.ms"
    ),
    "min.cleanable.dirty.ratio": _facts(
        ConfigType.DOUBLE, "How much of the log has to be new before it is compacted.",
        "log.cleaner.min.cleanable.ratio",
    ),
    "max.message.bytes": _facts(
        ConfigType.INT, "How large a record batch may be, as it comes, compressed or not.", "message.max.bytes"
    ),
    "message.timestamp.type": _facts(
        ConfigType.STRING,
        "Whose clock a record's timestamp is of: the producer's (CreateTime) or the broker's (LogAppendTime).",
        "log.message.timestamp.type",
    ),
    "message.timestamp.before.max.ms": _facts(
        ConfigType.LONG, "How far a record's timestamp may be behind the broker's clock.",
        "log.message.timestamp.before.max.ms",
    ),
    "message.timestamp.after.max.ms": _facts(
        ConfigType.LONG, "How far a record's timestamp may be ahead of the broker's clock.",
        "log.message.timestamp.after.max.ms",
    ),
    "compression.type": _facts(
        ConfigType.STRING,
        "The codec in which batches are kept: producer leaves that to those who send them, uncompressed is none.",
        "compression.type",
    ),
    "min.insync.replicas": _facts(
        ConfigType.INT, "How many replicas have to be in sync for acks=all to be accepted.", "min.insync.replicas"
    ),
    "unclean.leader.election.enable": _facts(
        ConfigType.BOOLEAN, "May a replica lead that is not in sync? Never here: only false is accepted.",
        "unclean.leader.election.enable",
    ),
}  # fmt: skip
_WITHOUT_BROKER_DEFAULT = frozenset({"flush.ms"})
"""Configs whose default is the topic's alone: no setting of a broker has a value for it unless the file sets one."""
_UNTOLD = _facts(ConfigType.STRING, "")


def facts_of(name: str) -> ConfigFacts:
    """Of a topic config."""
    return CATALOG.get(name, _UNTOLD)


def topic_defaults(given: Mapping[str, str]) -> dict[str, str]:
    """The topic configs that these settings of a broker come to."""
    found = {name: topic_default(name, given) for name in CATALOG}
    return {name: text for name, text in found.items() if text is not None}


def topic_default(name: str, given: Mapping[str, str]) -> str | None:
    """What these settings of a broker make of a topic config, if anything."""
    for synonym in CATALOG[name].synonyms:
        if synonym.name in given:
            return synonym.of_topic(given[synonym.name])
    return None


def broker_defaults() -> Iterator[tuple[str, ConfigFacts, str | None]]:
    """Every setting of a broker that is a topic's default: name, facts, and its own default if it has one."""
    topic = defaults(min_insync_replicas=1)
    for name, facts in CATALOG.items():
        for synonym in facts.synonyms:
            has_default = synonym is facts.synonyms[-1] and name not in _WITHOUT_BROKER_DEFAULT
            yield synonym.name, facts, synonym.of_broker(topic[name]) if has_default else None
