"""Configs as they are told: every one of a topic or of this broker, with where its value comes from.

A topic's own config counts before what the brokers' file says, and that before the default. A setting of the file that
is the same as its default counts as that.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from actors.process.config import SETTINGS, KafkaConfig
from log.machines.config_catalog import ConfigType, broker_defaults, facts_of
from log.machines.topic_configs import defaults
from protocol.late_attrs import frozen

if TYPE_CHECKING:
    from actors.serving import Serving

DYNAMIC_TOPIC_CONFIG, STATIC_BROKER_CONFIG, DEFAULT_CONFIG = 1, 4, 5

_BROKER_DOCUMENTATION: Mapping[str, str] = {
    "num.partitions": "How many partitions a topic gets that does not say.",
    "default.replication.factor": "How many replicas the partitions of a topic get that does not say.",
    "auto.create.topics.enable": "Is a topic made when a client asks for one that is not there?",
    "leader.replication.throttled.rate": "How many bytes a second replicas that are being made get, of a whole broker.",
    "max.partitions": "How many partitions all topics may have together.",
    "max.connections": "How many connections a broker takes.",
    "max.connections.per.ip": "How many connections a broker takes from one address.",
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
    """Every config of a topic that has these of its own."""
    given = _given(serving)
    return [_topic_entry(name, default, own, given) for name, default in defaults(min_insync_replicas=1).items()]


def broker_entries(serving: Serving) -> list[Entry]:
    """Every config of this broker. None changes while it runs."""
    given, told = _given(serving), _broker_settings()
    entries = [_broker_entry(name, given.get(name), *told[name]) for name in SETTINGS]
    me = serving.metadata.brokers.get(serving.broker)
    known = {"node.id": str(serving.broker), "log.dirs": serving.services.data_dir}
    if me is not None:
        known["listeners"] = f"PLAINTEXT://{me.host}:{me.port}"
    for name, value in known.items():
        kind = ConfigType.INT if name == "node.id" else ConfigType.STRING
        entries.append(_broker_entry(name, value, kind, _BROKER_DOCUMENTATION[name], None))
    return entries


def _topic_entry(name: str, default: str, own: Mapping[str, str], given: Mapping[str, str]) -> Entry:
    facts = facts_of(name)
    value, chain = None, []
    if name in own:
        value = own[name]
        chain.append(SynonymEntry(name, value, DYNAMIC_TOPIC_CONFIG))
    for synonym in facts.synonyms:
        if synonym.name in given:
            text = given[synonym.name]
            value = synonym.of_topic(text) if value is None else value
            chain.append(SynonymEntry(synonym.name, text, STATIC_BROKER_CONFIG))
    value = default if value is None else value
    if facts.synonyms:
        last = facts.synonyms[-1]
        chain.append(SynonymEntry(last.name, last.of_broker(default), DEFAULT_CONFIG))
    else:
        chain.append(SynonymEntry(name, default, DEFAULT_CONFIG))
    return Entry(name, value, chain[0].source, False, facts.type, facts.documentation, tuple(chain))


def _broker_entry(name: str, given: str | None, kind: ConfigType, documentation: str, default: str | None) -> Entry:
    chain = []
    if given is not None:
        chain.append(SynonymEntry(name, given, STATIC_BROKER_CONFIG))
    if default is not None:
        chain.append(SynonymEntry(name, default, DEFAULT_CONFIG))
    value, source = (chain[0].value, chain[0].source) if chain else (None, DEFAULT_CONFIG)
    return Entry(name, value, source, True, kind, documentation, tuple(chain))


def _given(serving: Serving) -> dict[str, str]:
    """What the file says of brokers that is not the default."""
    usual = _usual()
    return {name: text for name, text in serving.facts.broker_configs if usual.get(name) != text}


@cache
def _usual() -> dict[str, str]:
    return KafkaConfig().spelled()


@cache
def _broker_settings() -> dict[str, tuple[ConfigType, str, str | None]]:
    """Of every setting of the file: its type, what it does, and its default."""
    told: dict[str, tuple[ConfigType, str, str | None]] = {}
    for name, setting in SETTINGS.items():
        kind = {bool: ConfigType.BOOLEAN, int: ConfigType.INT}.get(type(setting.default), ConfigType.STRING)
        told[name] = (kind, _BROKER_DOCUMENTATION.get(name, ""), _usual().get(name))
    for name, facts, default in broker_defaults():
        if name in SETTINGS:
            told[name] = (facts.type, f"{facts.documentation} Of topics that do not say.", default)
    return told
