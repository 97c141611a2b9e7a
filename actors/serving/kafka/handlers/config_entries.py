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

from actors.cluster_file.config import KafkaConfig
from log.settings.kinds import ConfigType
from log.settings.table import BROKER_SETTINGS, TOPIC_SETTINGS
from log.topic_configs import broker_defaults, defaults, topic_default
from protocol.late_attrs import frozen

if TYPE_CHECKING:
    from actors.serving.context import Serving

DYNAMIC_TOPIC_CONFIG, STATIC_BROKER_CONFIG, DEFAULT_CONFIG = 1, 4, 5

_OF_ONE_BROKER: Mapping[str, tuple[ConfigType, str]] = {
    "node.id": (ConfigType.INT, "The number of this broker."),
    "log.dirs": (ConfigType.STRING, "Where this broker keeps its logs."),
    "listeners": (ConfigType.STRING, "Where clients find this broker."),
}
"""What a broker knows of itself, and no setting of the file says."""


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
    given = _given(serving)
    entries = [_broker_entry(row.name, given, row.kind.type, row.documentation) for row in BROKER_SETTINGS.values()]
    me = serving.metadata.brokers.get(serving.broker)
    known = {"node.id": str(serving.broker), "log.dirs": serving.context.data_dir}
    if me is not None:
        known["listeners"] = f"PLAINTEXT://{me.host}:{me.port}"
    return [*entries, *(_broker_entry(name, known, *_OF_ONE_BROKER[name]) for name in known)]


def _topic_entry(name: str, default: str, own: Mapping[str, str], given: Mapping[str, str]) -> Entry:
    row = TOPIC_SETTINGS[name]
    names = [synonym.name for synonym in row.synonyms]
    chain = [SynonymEntry(name, own[name], DYNAMIC_TOPIC_CONFIG)] if name in own else []
    chain += _chain(names[0], names, given)
    from_file = topic_default(name, given)
    value = own.get(name, default if from_file is None else from_file)
    source = chain[0].source if chain else DEFAULT_CONFIG
    return Entry(name, value, source, False, row.type, row.documentation, tuple(chain))


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
    for row in TOPIC_SETTINGS.values():
        names = [synonym.name for synonym in row.synonyms]
        if name in names:
            return names
    return [name]


def _given(serving: Serving) -> dict[str, str]:
    """What the file sets for brokers."""
    return dict(serving.facts.broker_configs)


@cache
def _broker_defaults() -> dict[str, str]:
    """The default of every setting of a broker that has one."""
    return {**KafkaConfig().spelled(), **broker_defaults()}
