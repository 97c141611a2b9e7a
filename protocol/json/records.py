"""Records in newline JSON, and back.

    {"key":"k","value":{"total":5},"headers":{"trace":"1"},"timestamp":1700000000000}

A key, a value or the value of a header is one of:

    "text"             its UTF-8 bytes
    {"base64":"//4="}  any bytes
    null               nothing; as a value, a tombstone
    anything else      a JSON value, kept as compact JSON

and comes back as text, or in base64 if its bytes are no UTF-8; on request, a value that is JSON comes back as JSON.
Headers may be given as an object or, since names may come more than once, as a list of pairs; they come back as pairs.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from typing import Any

import orjson

from protocol.json.fields import BadField, count, refuse_unknown, word
from protocol.json.fields import within as number_within
from protocol.json.lines import DEPTH_MAX, Facts, is_deeper, quoted, short
from protocol.late_attrs import frozen
from protocol.records.record import Headers, Record

_MEMBERS: dict[str, None] = dict.fromkeys(("key", "value", "headers", "timestamp", "partition"))
_partition = number_within(0, (1 << 31) - 1)


@frozen(slots=True)
class NewRecord:
    """A record to be written. Without a partition it goes where its key belongs; without a time it gets the present."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int | None
    partition: int | None


def read_record(path: str, given: Any) -> NewRecord:
    """What an object says of one record; BadField if that is no record."""
    if not isinstance(given, dict):
        raise BadField(f'{path}: must be an object, such as {{"key":"k","value":"v"}}, not {quoted(given)}')
    dot = f"{path}." if path else ""
    refuse_unknown(given, _MEMBERS, dot)
    if "value" not in given:
        raise BadField(f"{dot}value: is missing; null is a tombstone")
    timestamp, partition = given.get("timestamp"), given.get("partition")
    return NewRecord(
        read_data(f"{dot}key", given.get("key")),
        read_data(f"{dot}value", given["value"]),
        _read_headers(f"{dot}headers", given.get("headers")),
        None if timestamp is None else count(f"{dot}timestamp", timestamp),
        None if partition is None else _partition(f"{dot}partition", partition),
    )


def read_data(path: str, given: Any) -> bytes | None:
    """The bytes that a key, a value or a header's value stands for."""
    if given is None:
        return None
    if isinstance(given, str):
        return given.encode()
    if isinstance(given, dict) and given.keys() == {"base64"}:
        try:
            return b64decode(given["base64"], validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise BadField(f"{path}.base64: must be base64, not {quoted(given['base64'])}") from None
    return orjson.dumps(given)


def _read_headers(path: str, given: Any) -> Headers:
    if given is None:
        return ()
    if isinstance(given, dict):
        return tuple((name, read_data(f"{path}.{short(name)}", value)) for name, value in given.items())
    if not isinstance(given, list):
        raise BadField(f'{path}: must be an object or a list of pairs, such as [["name","value"]], not {quoted(given)}')
    made = []
    for at, pair in enumerate(given):
        if not isinstance(pair, list) or len(pair) != 2:
            raise BadField(f'{path}[{at}]: must be a pair, such as ["name","value"], not {quoted(pair)}')
        made.append((word(f"{path}[{at}][0]", pair[0]), read_data(f"{path}[{at}][1]", pair[1])))
    return tuple(made)


def told_record(record: Record) -> Facts:
    """A record as it is answered."""
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": told_data(record.key),
        "value": told_data(record.value),
        "headers": [(_told_name(name), told_data(value)) for name, value in record.headers],
    }


def told_json_record(record: Record) -> Facts:
    """The same, with a value that is JSON as such."""
    return {**told_record(record), "value": _told_json(record.value)}


def told_data(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def _told_json(data: bytes | None) -> Any:
    if data is not None:
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError:
            return told_data(data)
        if not isinstance(value, dict | list) or not is_deeper(value, DEPTH_MAX):
            return value
    return told_data(data)


def _told_name(name: str) -> Any:
    """A header's name, whose bytes need not be UTF-8."""
    return told_data(name.encode("utf-8", "surrogateescape"))
