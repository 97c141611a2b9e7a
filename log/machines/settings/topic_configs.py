"""The settings of a topic, by Kafka's names: which there are, what they may be, and what they do to a log."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from attrs import fields

from log.config import CleanupPolicy, LogConfig, TimestampType
from log.machines.settings import unclean
from protocol.late_attrs import frozen
from protocol.records.compression import Codec

_LONG_MAX = (1 << 63) - 1
_SAID_CHARS_MAX = 300
_RATIO_CHARS_MAX = 24


class InvalidConfig(ValueError):
    """A setting that does not exist, or may not be that."""


@frozen(slots=True)
class TopicSettings:
    """What a topic's configs come to."""

    log: LogConfig
    min_insync_replicas: int


def _whole(low: int, high: int = _LONG_MAX) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,99}", text.strip()):  # int() would also take 1_000 and other scripts' digits
            raise InvalidConfig(f"{_said(text)} is no whole number")
        value = int(text.strip())
        if not low <= value <= high:
            raise InvalidConfig(f"{value} is out of range; give a whole number from {low} to {high}")
        return value

    return parse


def _said(text: str) -> str:
    return repr(text[:_SAID_CHARS_MAX])


def _ratio(text: str) -> float:
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text.strip()):
        raise InvalidConfig(f"{_said(text)} is no number")
    value = float(text.strip())
    if not 0 <= value <= 1:
        raise InvalidConfig(f"{value} is out of range; give a number from 0 to 1")
    return value


def _cleanup_policy(text: str) -> CleanupPolicy:
    """An empty list keeps everything, until DeleteRecords raises the log's start."""
    names = {policy.name.lower(): policy for policy in CleanupPolicy if policy.name is not None}
    policy = CleanupPolicy(0)
    for word in text.split(",") if text.strip() else ():
        if word.strip() not in names:
            choice = "give delete, compact, delete,compact, or an empty text to keep everything"
            raise InvalidConfig(f"{_said(text)} is no cleanup policy; {choice}")
        policy |= names[word.strip()]
    return policy


def _unclean(text: str) -> bool:
    """Kafka's tools set it to what it is anyway; true would promise what is not done."""
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise InvalidConfig(f"{_said(text)} is neither true nor false")
    if word == "true":
        raise InvalidConfig(f"true is refused: {unclean.REFUSAL}; leave it false, and {unclean.REMEDY}")
    return False


def _timestamp_type(text: str) -> TimestampType:
    try:
        return TimestampType(text.strip())
    except ValueError:
        raise InvalidConfig(f"{_said(text)} is no timestamp type; give CreateTime or LogAppendTime") from None


def _compression_type(text: str) -> Codec | None:
    if text.strip() not in _CODECS:
        raise InvalidConfig(f"{_said(text)} is no compression type; give one of {', '.join(_CODECS)}")
    return _CODECS[text.strip()]


_CODECS = {
    "producer": None, "uncompressed": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}  # fmt: skip
_INT_MAX = (1 << 31) - 1
_LOG: Mapping[str, Callable[[str], Any]] = {
    "segment.bytes": _whole(14, _INT_MAX),
    "segment.ms": _whole(1),
    "segment.index.bytes": _whole(12, _INT_MAX),
    "index.interval.bytes": _whole(0, _INT_MAX),
    "flush.messages": _whole(1),
    "flush.ms": _whole(0),
    "retention.ms": _whole(-1),
    "retention.bytes": _whole(-1),
    "cleanup.policy": _cleanup_policy,
    "delete.retention.ms": _whole(0),
    "min.compaction.lag.ms": _whole(0),
    "max.compaction.lag.ms": _whole(1),
    "min.cleanable.dirty.ratio": _ratio,
    "max.message.bytes": _whole(0, _INT_MAX),
    "message.timestamp.type": _timestamp_type,
    "message.timestamp.before.max.ms": _whole(0),
    "message.timestamp.after.max.ms": _whole(0),
    "compression.type": _compression_type,
}
_MIN_INSYNC = "min.insync.replicas"
_min_insync = _whole(1, _INT_MAX)
_OTHERS: Mapping[str, Callable[[str], Any]] = {_MIN_INSYNC: _min_insync, unclean.CONFIG: _unclean}
"""Those that do nothing to the log."""
TOPIC_CONFIGS = (*_LOG, *_OTHERS)
"""Every setting that a topic may have."""
LISTS: Mapping[str, str] = {"cleanup.policy": "delete"}
"""Those that are lists of words, with their defaults."""


def check(name: str, text: str) -> str:
    """The value as a topic keeps it. InvalidConfig, naming the setting, unless it exists and may be that."""
    parse = _OTHERS.get(name) or _LOG.get(name)
    if parse is None:
        raise InvalidConfig(unknown_config(name))
    try:
        return _normal(text, parse(text))
    except InvalidConfig as error:
        raise InvalidConfig(f"{name}: {error}") from None


def _normal(text: str, value: object) -> str:
    """The shortest text of this value that a client would write: it is kept for ever, on every broker."""
    if isinstance(value, CleanupPolicy):
        return ",".join(dict.fromkeys(word.strip() for word in text.split(",")))  # in the order in which it was given
    if isinstance(value, float):
        return text.strip() if len(text.strip()) <= _RATIO_CHARS_MAX else str(value)
    return _shown(value)


def unknown_config(name: str) -> str:
    """That there is no such setting, and which one may be meant."""
    near = get_close_matches(name[:_SAID_CHARS_MAX].lower(), TOPIC_CONFIGS, n=1)
    remedy = f"did you mean {near[0]}?" if near else f"known are {', '.join(TOPIC_CONFIGS)}"
    return f"there is no topic config {_said(name)}; {remedy}"


def settings_of(configs: Mapping[str, str], *, min_insync_replicas: int) -> TopicSettings:
    """What these configs come to; min.insync.replicas is the cluster's unless the topic has its own."""
    log = LogConfig(**{name.replace(".", "_"): parse(configs[name]) for name, parse in _LOG.items() if name in configs})
    own = configs.get(_MIN_INSYNC)
    return TopicSettings(log, min_insync_replicas if own is None else _min_insync(own))


def defaults(*, min_insync_replicas: int) -> dict[str, str]:
    """Every setting of a topic that has none of its own."""
    log = LogConfig()
    shown = {name: _shown(getattr(log, name.replace(".", "_"))) for name in _LOG}
    return {**shown, _MIN_INSYNC: str(min_insync_replicas), unclean.CONFIG: "false"}


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, CleanupPolicy):
        return ",".join(policy.name.lower() for policy in CleanupPolicy if policy in value and policy.name is not None)
    if isinstance(value, TimestampType):
        return value.value
    if value is None or isinstance(value, Codec):
        return next(name for name, codec in _CODECS.items() if codec is value)
    return str(value)


assert {name.replace(".", "_") for name in _LOG} == {one.name for one in fields(LogConfig)}
