"""Configs as they are told: every one of a topic or of this broker, with where its value comes from.

A topic's own config counts before what the brokers' file says, and that before the default. What the file sets is
STATIC_BROKER_CONFIG, also where that is the default. The synonyms of a config are listed as Apache Kafka lists them:
from the broker setting of the highest precedence on, and none if that one has no value. So retention.ms has the
synonyms log.retention.ms, log.retention.minutes and log.retention.hours if the file sets the first of them; otherwise
it has none and counts as a default, even if the file sets log.retention.hours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from itertools import dropwhile
from typing import TYPE_CHECKING

from actors.cluster_file.config import SETTINGS, KafkaConfig
from log.machines.settings.catalog import CATALOG, ConfigType, broker_defaults, facts_of, topic_default
from log.machines.settings.topic_configs import defaults
from protocol.late_attrs import frozen

if TYPE_CHECKING:
    from actors.serving.context import Serving

DYNAMIC_TOPIC_CONFIG, STATIC_BROKER_CONFIG, DEFAULT_CONFIG = 1, 4, 5

_BROKER_DOCUMENTATION: Mapping[str, str] = {
    "num.partitions": "How many partitions a topic gets that does not say.",
    "default.replication.factor": "How many replicas the partitions of a topic get that does not say.",
    "auto.create.topics.enable": "Is a topic made when a client asks for one that is not there?",
    "leader.replication.throttled.rate": "How many bytes a second replicas that are being made get, of a whole broker.",
    "max.partitions": "How many partitions all topics may have together.",
    "max.connections": "How many connections a broker takes.",
    "max.connections.per.ip": "How many connections a broker takes from one address.",
    "queued.max.request.bytes": "How many bytes of requests that are not answered a broker holds.",
    "connections.max.idle.ms": "How long a connection lives on which nothing is read or written.",
    "node.id": "The number of this broker.",
    "log.dirs": "Where this broker keeps its logs.",
    "listeners": "Where clients find this broker.",
}


@frozen(slots=True)
class SynonymEntry:
    """One place where a value may come from."""

    name: str
    value: str | None
    source: int


@frozen(slots=True)
class Entry:
    """One config. Its synonyms stand in the order in which they count."""

    name: str
    value: str | None
    source: int
    read_only: bool
    type: ConfigType
    documentation: str
    synonyms: tuple[SynonymEntry, ...]


def topic_entries(serving: Serving, own: Mapping[str, str]) -> list[Entry]:
    """Every config of a topic that has these of its own. The others are the same objects for every topic."""
    usual = usual_topic_entries(serving.facts.broker_configs)
    if not own:
        return list(usual.values())
    given, default = _given(serving), defaults(min_insync_replicas=1)
    return [_topic_entry(name, default[name], own, given) if name in own else entry for name, entry in usual.items()]


@lru_cache(maxsize=16)
def usual_topic_entries(broker_configs: tuple[tuple[str, str], ...]) -> dict[str, Entry]:
    """Every config of a topic that has none of its own, where the file sets these for brokers."""
    given = dict(broker_configs)
    return {name: _topic_entry(name, default, {}, given) for name, default in defaults(min_insync_replicas=1).items()}


def broker_entries(serving: Serving) -> list[Entry]:
    """Every config of this broker. None changes while it runs."""
    given, told = _given(serving), _broker_settings()
    entries = [_broker_entry(name, given, *told[name]) for name in SETTINGS]
    me = serving.metadata.brokers.get(serving.broker)
    known = {"node.id": str(serving.broker), "log.dirs": serving.services.data_dir}
    if me is not None:
        known["listeners"] = f"PLAINTEXT://{me.host}:{me.port}"
    for name in known:
        kind = ConfigType.INT if name == "node.id" else ConfigType.STRING
        entries.append(_broker_entry(name, known, kind, _BROKER_DOCUMENTATION[name]))
    return entries


def _topic_entry(name: str, default: str, own: Mapping[str, str], given: Mapping[str, str]) -> Entry:
    facts = facts_of(name)
    names = [synonym.name for synonym in facts.synonyms]
    chain = [SynonymEntry(name, own[name], DYNAMIC_TOPIC_CONFIG)] if name in own else []
    chain += _chain(names[0], names, given)
    from_file = topic_default(name, given)
    value = own.get(name, default if from_file is None else from_file)
    source = chain[0].source if chain else DEFAULT_CONFIG
    return Entry(name, value, source, False, facts.type, facts.documentation, tuple(chain))


def _broker_entry(name: str, given: Mapping[str, str], kind: ConfigType, documentation: str) -> Entry:
    chain = _chain(name, _family(name), given)
    value, source = (chain[0].value, chain[0].source) if chain else (None, DEFAULT_CONFIG)
    return Entry(name, value, source, True, kind, documentation, tuple(chain))


def _chain(first: str, names: Sequence[str], given: Mapping[str, str]) -> list[SynonymEntry]:
    """The values of these settings of a broker, in the order in which they count, from that of `first` on."""
    usual = _broker_defaults()
    chain = [SynonymEntry(name, given[name], STATIC_BROKER_CONFIG) for name in names if name in given]
    chain += [SynonymEntry(name, usual[name], DEFAULT_CONFIG) for name in names if name in usual]
    return list(dropwhile(lambda one: one.name != first, chain))


def _family(name: str) -> Sequence[str]:
    """The settings of a broker that are the same config in other units, this one among them."""
    for facts in CATALOG.values():
        names = [synonym.name for synonym in facts.synonyms]
        if name in names:
            return names
    return [name]


def _given(serving: Serving) -> dict[str, str]:
    """What the file sets for brokers."""
    return dict(serving.facts.broker_configs)


@cache
def _broker_defaults() -> dict[str, str]:
    """The default of every setting of a broker that has one."""
    topic = {name: default for name, _, default in broker_defaults() if default is not None}
    return {**KafkaConfig().spelled(), **topic}


@cache
def _broker_settings() -> dict[str, tuple[ConfigType, str]]:
    """Of every setting of the file: its type, and what it does."""
    told: dict[str, tuple[ConfigType, str]] = {}
    for name, setting in SETTINGS.items():
        kind = {bool: ConfigType.BOOLEAN, int: ConfigType.INT}.get(type(setting.default), ConfigType.STRING)
        told[name] = (kind, _BROKER_DOCUMENTATION.get(name, ""))
    for name, facts, _ in broker_defaults():
        if name in SETTINGS:
            told[name] = (facts.type, f"{facts.documentation} Of topics that do not say.")
    return told
