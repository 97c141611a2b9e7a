"""A TOML file that describes a whole job. All mistakes in it are reported at once, each with its key.

    name = "orders"
    checkpoint = "state/orders"
    trigger = "1 second"                     # or "available now"

    [source]
    bootstrap = "127.0.0.1:9092"
    subscribe = "orders"                     # or subscribePattern, assign; other options of the source too
    startingOffsets = "earliest"

    [decode]
    format = "json"                          # or "text", "bytes"
    schema = "id STRING, total DOUBLE"

    [transform]
    sql = "SELECT id, total FROM batch WHERE total > 0"     # or function = "package.module:name"

    [[sink]]
    type = "sqlite"                          # or "postgres", "parquet", "topic"
    path = "orders.db"
    table = "orders"
    key = ["id"]

    [[sink]]
    type = "topic"
    topic = "orders.paid"
    key = "id"
    options = { exactlyOnce = true }         # needs transaction.two.phase.commit.enable; without it: at least once

    [dead_letters]
    topic = "orders.dead"

`--master` says where it runs: local[*], spark://… or a Spark Connect server, sc://…. Such a server works with its own
Python: paths, SQLite files and functions are the server's, and it connects to the brokers itself.

A job that captures external data has `[capture]` in place of everything but the name:

    [capture]
    type = "file"                            # or "sqlite", with `table`
    path = "/var/log/app.log"
    bootstrap = "127.0.0.1:9092"
    topic = "log"
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from tools.pipeline.job_options import bootstrap_mistakes, sink_mistakes, source_mistakes, texts, unknown
from tools.spark.options import suggestion

_TOP = ("name", "checkpoint", "trigger", "source", "decode", "transform", "sink", "dead_letters", "capture")
_FORMATS = ("json", "text", "bytes")
_SINKS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "sqlite": (("path", "table"), ("key",)),
    "postgres": (("dsn", "table"), ("key", "module")),
    "parquet": (("path",), ()),
    "topic": (("topic",), ("bootstrap", "key", "options")),
}
_CAPTURES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "file": (("path", "bootstrap", "topic"), ()),
    "sqlite": (("path", "table", "bootstrap", "topic"), ()),
}
AVAILABLE_NOW = "available now"
_TRIGGER = re.compile(
    r"(interval\s+)?(\d+\s*(microsecond|millisecond|second|minute|hour|day|week)s?\s*)+", re.IGNORECASE
)
_FUNCTION = re.compile(r"\w+(\.\w+)*:\w+")
_ANY_BOOTSTRAP = "host:0"
"""In place of a missing bootstrap, so that the other mistakes are found too."""


class JobError(Exception):
    """The mistakes in a file, one line each."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(mistakes))


@frozen
class Job:
    """A streaming job."""

    name: str
    checkpoint: str
    trigger: str
    bootstrap: str
    source: Mapping[str, str]
    """Options of the source."""
    decode: Mapping[str, str]
    sql: str | None
    function: str | None
    sinks: tuple[Mapping[str, Any], ...]
    dead_letters: str | None


@frozen
class CaptureJob:
    """A job that captures external data."""

    name: str
    type: str
    bootstrap: str
    topic: str
    path: str
    table: str | None


def load(path: Path) -> Job | CaptureJob:
    """The job in a file. Raises JobError with all mistakes."""
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise JobError([f"cannot be read ({error.strerror}); give the path of a job's file"]) from error
    except UnicodeDecodeError as error:
        raise JobError([f"is not UTF-8: {error.reason} at byte {error.start}; save it as UTF-8"]) from error
    except ValueError as error:  # tomllib's own error, and int()'s for a number of thousands of digits
        raise JobError([f"not TOML: {error}; correct it there"]) from error
    return parse(given)


def parse(given: Mapping[str, Any]) -> Job | CaptureJob:
    mistakes: list[str] = []
    _known(given, _TOP, "", mistakes)
    name = _text(given, "name", "", mistakes)
    if "capture" in given:
        return _capture(name, given, mistakes)
    checkpoint = _text(given, "checkpoint", "", mistakes)
    source = dict(_table(given, "source", mistakes))
    bootstrap = _text(source, "bootstrap", "source.", mistakes)
    options = {key: value for key, value in source.items() if key != "bootstrap"}
    if "source" in given:
        mistakes += source_mistakes(options, bootstrap or _ANY_BOOTSTRAP)
    trigger = _text(given, "trigger", "", mistakes) if "trigger" in given else "0 seconds"
    if trigger and trigger != AVAILABLE_NOW and not _TRIGGER.fullmatch(trigger):
        mistakes.append(f"trigger: a time like '10 seconds', or {AVAILABLE_NOW!r}, not {trigger!r}")
    decode = _table(given, "decode", mistakes) if "decode" in given else {"format": "bytes"}
    _check_decode(decode, mistakes)
    transform = _table(given, "transform", mistakes) if "transform" in given else {}
    _check_transform(transform, mistakes)
    sinks = given.get("sink", [])
    if not isinstance(sinks, list) or not sinks:
        mistakes.append("sink: missing; write at least one [[sink]]")
        sinks = []
    for at, sink in enumerate(sinks, 1):
        _check_sink(sink, f"sink[{at}]", bootstrap, mistakes)
    _check_targets(sinks, mistakes)
    dead = _table(given, "dead_letters", mistakes) if "dead_letters" in given else {}
    _known(dead, ("topic",), "dead_letters.", mistakes)
    if isinstance(given.get("dead_letters"), dict):
        _text(dead, "topic", "dead_letters.", mistakes)
    if mistakes:
        raise JobError(mistakes)
    return Job(
        name, checkpoint, trigger, bootstrap, texts(options), decode,
        transform.get("sql"), transform.get("function"), tuple(sinks), dead.get("topic"),
    )  # fmt: skip


def _capture(name: str, given: Mapping[str, Any], mistakes: list[str]) -> CaptureJob:
    mistakes += [f"{key}: not for a job with [capture]" for key in given if key not in ("name", "capture")]
    capture = _table(given, "capture", mistakes)
    _check_typed(capture, _CAPTURES, "capture", mistakes)
    if isinstance(capture.get("bootstrap"), str):
        mistakes += bootstrap_mistakes(capture["bootstrap"], "capture")
    if mistakes:
        raise JobError(mistakes)
    return CaptureJob(
        name, capture["type"], capture["bootstrap"], capture["topic"], capture["path"], capture.get("table")
    )


def _check_decode(decode: Mapping[str, Any], mistakes: list[str]) -> None:
    _known(decode, ("format", "schema"), "decode.", mistakes)
    kind = decode.get("format")
    if kind not in _FORMATS:
        mistakes.append(f"decode.format: one of {', '.join(_FORMATS)}, not {kind!r}")
    if (kind == "json") != ("schema" in decode):
        mistakes.append("decode.schema: needed for json, and for nothing else")
    elif kind == "json":
        _text(decode, "schema", "decode.", mistakes)


def _check_transform(transform: Mapping[str, Any], mistakes: list[str]) -> None:
    _known(transform, ("sql", "function"), "transform.", mistakes)
    if {"sql", "function"} <= transform.keys():
        mistakes.append("transform: sql or function, not both")
    elif "sql" in transform:
        _text(transform, "sql", "transform.", mistakes)
    elif "function" in transform:
        function = _text(transform, "function", "transform.", mistakes)
        if function and not _FUNCTION.fullmatch(function):
            mistakes.append(f"transform.function: write package.module:name, not {function!r}")


def _check_sink(sink: Any, where: str, bootstrap: str, mistakes: list[str]) -> None:
    _check_typed(sink, _SINKS, where, mistakes)
    if not isinstance(sink, dict) or sink.get("type") not in tuple(_SINKS):
        return
    for key in ("module", "bootstrap"):
        if key in sink:
            _text(sink, key, f"{where}.", mistakes)
    if sink["type"] == "topic":
        if "key" in sink:
            _text(sink, "key", f"{where}.", mistakes)
        options = sink.get("options", {})
        if isinstance(options, dict):
            brokers = sink.get("bootstrap", bootstrap)
            mistakes += sink_mistakes(
                options, brokers if brokers and isinstance(brokers, str) else _ANY_BOOTSTRAP, where
            )
        else:
            mistakes.append(f"{where}.options: a table, not {options!r}")
    elif "key" in sink:
        key = sink["key"]
        if not isinstance(key, list) or not key or not all(isinstance(one, str) and one for one in key):
            mistakes.append(f'{where}.key: names of columns, ["id"], not {key!r}')


def _check_typed(
    given: Any, kinds: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]], where: str, mistakes: list[str]
) -> None:
    if not isinstance(given, dict):
        mistakes.append(f"{where}: a table, not {given!r}")
        return
    kind = given.get("type")
    if not isinstance(kind, str) or kind not in kinds:
        choice = f"one of {', '.join(kinds)}"
        near = suggestion(str(kind), tuple(kinds))
        mistakes.append(f"{where}.type: " + (f"missing; {choice}" if kind is None else f"{choice}, not {kind!r}{near}"))
        of_any_type = [key for needed, allowed in kinds.values() for key in (*needed, *allowed)]
        _known(given, ("type", *of_any_type), f"{where}.", mistakes)
        return
    needed, allowed = kinds[given["type"]]
    _known(given, ("type", *needed, *allowed), f"{where}.", mistakes)
    for key in needed:
        _text(given, key, f"{where}.", mistakes)


def _check_targets(sinks: Sequence[Any], mistakes: list[str]) -> None:
    """No two sinks may have the same target: each would take the batches of the other for its own."""
    seen: dict[tuple[Any, ...], int] = {}
    for at, sink in enumerate(sinks, 1):
        if isinstance(sink, dict) and sink.get("type") in tuple(_SINKS):
            needed, _ = _SINKS[sink["type"]]
            target = (sink["type"], sink.get("bootstrap"), *(str(sink.get(key)) for key in needed))
            if target in seen:
                mistakes.append(f"sink[{at}]: writes where sink[{seen[target]}] does; give rows for both to one")
            seen.setdefault(target, at)


def _known(given: Mapping[str, Any], keys: Sequence[str], where: str, mistakes: list[str]) -> None:
    mistakes += [unknown(key, keys, where) for key in given if key not in keys]


def _table(given: Mapping[str, Any], key: str, mistakes: list[str]) -> Mapping[str, Any]:
    found = given.get(key)
    if isinstance(found, dict):
        return found
    mistakes.append(f"{key}: missing; write [{key}]" if found is None else f"{key}: a table, not {found!r}")
    return {}


def _text(given: Mapping[str, Any], key: str, where: str, mistakes: list[str]) -> str:
    found = given.get(key)
    if isinstance(found, str) and found:
        return found
    mistakes.append(f"{where}{key}: missing" if found is None else f"{where}{key}: a text, not {found!r}")
    return ""
