"""The configs of a topic as clients give them: checked, brought to their shortest text, and what they come to."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from attrs import fields

from log.config import CleanupPolicy, LogConfig, TimestampType, cleanup_policy_of, codec_of
from log.settings.kinds import SAID_CHARS_MAX, InvalidConfig, Words, said
from log.settings.table import TOPIC_SETTINGS, field_name
from protocol.late_attrs import frozen

_RATIO_CHARS_MAX = 24
_MIN_INSYNC = "min.insync.replicas"
_VALUES: Mapping[str, Any] = {
    "cleanup.policy": cleanup_policy_of, "message.timestamp.type": TimestampType, "compression.type": codec_of,
}  # fmt: skip
"""What LogConfig has in the place of words."""
_OF_LOGS = tuple(name for name in TOPIC_SETTINGS if field_name(name) in {one.name for one in fields(LogConfig)})
TOPIC_CONFIGS = tuple(TOPIC_SETTINGS)
"""Every config that a topic may have."""
LISTS: Mapping[str, str] = {name: row.default for name, row in TOPIC_SETTINGS.items() if isinstance(row.kind, Words)}
"""The configs that are lists of words, with their defaults."""


@frozen(slots=True)
class TopicSettings:
    """What a topic's configs come to."""

    log: LogConfig
    min_insync_replicas: int


def check(name: str, text: str) -> str:
    """The value as a topic keeps it. InvalidConfig, naming the config, unless it exists and may be that."""
    row = TOPIC_SETTINGS.get(name)
    if row is None:
        raise InvalidConfig(unknown_config(name))
    try:
        return _normal(text, row.kind.parse(text))
    except InvalidConfig as error:
        raise InvalidConfig(f"{name}: {error}") from None


def _normal(text: str, value: object) -> str:
    """The shortest text of this value that a client would write: it is kept for ever, on every broker."""
    if isinstance(value, float):
        return text.strip() if len(text.strip()) <= _RATIO_CHARS_MAX else str(value)
    return spelled(value)


def spelled(value: object) -> str:
    """A value as Kafka writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)


def unknown_config(name: str) -> str:
    """The error text for an unknown config, with the one that may be meant."""
    near = get_close_matches(name[:SAID_CHARS_MAX].lower(), TOPIC_CONFIGS, n=1)
    remedy = f"did you mean {near[0]}?" if near else f"known are {', '.join(TOPIC_CONFIGS)}"
    return f"there is no topic config {said(name)}; {remedy}"


def settings_of(configs: Mapping[str, str], *, min_insync_replicas: int) -> TopicSettings:
    """What these configs come to; min.insync.replicas is the cluster's unless the topic has its own."""
    log = LogConfig(**{field_name(name): _value(name, configs[name]) for name in _OF_LOGS if name in configs})
    own = configs.get(_MIN_INSYNC)
    return TopicSettings(log, min_insync_replicas if own is None else TOPIC_SETTINGS[_MIN_INSYNC].kind.parse(own))


def _value(name: str, text: str) -> Any:
    value = TOPIC_SETTINGS[name].kind.parse(text)
    return _VALUES[name](value) if name in _VALUES else value


def defaults(*, min_insync_replicas: int) -> dict[str, str]:
    """Every config of a topic that has none of its own."""
    shown = {name: spelled(row.default) for name, row in TOPIC_SETTINGS.items()}
    return {**shown, _MIN_INSYNC: str(min_insync_replicas)}


def topic_defaults(given: Mapping[str, str]) -> dict[str, str]:
    """The topic configs that these settings of a broker come to."""
    found = {name: topic_default(name, given) for name in TOPIC_SETTINGS}
    return {name: text for name, text in found.items() if text is not None}


def topic_default(name: str, given: Mapping[str, str]) -> str | None:
    """What these settings of a broker make of a topic config, if anything."""
    for synonym in TOPIC_SETTINGS[name].synonyms:
        if synonym.name in given:
            return synonym.of_topic(given[synonym.name])
    return None


def broker_defaults() -> dict[str, str]:
    """The default of each setting of a broker that is a topic's default and has one."""
    found = {}
    for row in TOPIC_SETTINGS.values():
        if row.broker_has_default:
            found[row.synonyms[-1].name] = row.synonyms[-1].of_broker(spelled(row.default))
    return found


assert {field_name(name) for name in _OF_LOGS} == {one.name for one in fields(LogConfig)}
assert CleanupPolicy(0) == cleanup_policy_of(())
