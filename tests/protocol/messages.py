"""Messages as hypothesis makes them, of any class and version, from what the class declares."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from protocol.apis import APIS
from protocol.messages import consumer_protocol, group_records, transaction_records
from protocol.schema.declaration import Array, Blob, Fixed, MessageField, Struct, Text, Type, declaration_of, struct_of

API_MESSAGES: list[type[Any]] = [cls for api in APIS.values() for cls in (api.request, api.response)]
RECORDS: list[type[Any]] = list(
    dict.fromkeys(
        cls
        for known in (group_records.KEYS, group_records.VALUES, transaction_records.KEYS, transaction_records.VALUES)
        for cls in known.values()
    )
)
CONSUMER_PROTOCOL: list[type[Any]] = [
    consumer_protocol.ConsumerProtocolSubscription,
    consumer_protocol.ConsumerProtocolAssignment,
]
MESSAGES = API_MESSAGES + RECORDS + CONSUMER_PROTOCOL

few = settings(max_examples=4, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_TEXTS = ["", "a", "topic", "žluťoučký", "x" * 126, "y" * 127, "z" * 300]
_BLOBS = [b"", b"\0", b"records", b"k" * 126, b"l" * 127, b"m" * 1500]


def versions_of(cls: type) -> list[int]:
    return list(declaration_of(cls).versions)


@cache
def messages(cls: type, version: int) -> st.SearchStrategy[Any]:
    """Messages of a class that say nothing which the version has no field for."""
    return _structs(struct_of(cls), version)


@st.composite
def every_version(draw: st.DrawFn, cls: type) -> list[tuple[int, Any]]:
    """A message of each version of a class."""
    return [(version, draw(messages(cls, version))) for version in versions_of(cls)]


def _structs(kind: Struct, version: int) -> st.SearchStrategy[Any]:
    present = {f.name: _values(f, version) for f in kind.fields if version in f.versions}
    return st.fixed_dictionaries(present).map(lambda values: kind.cls(**values))


def _values(field: MessageField, version: int) -> st.SearchStrategy[Any]:
    values = _of(field.type, field.name, version)
    if version in field.nullable:
        return st.none() | values
    if field.tag is not None and isinstance(field.type, Struct):  # all defaults is None
        empty = field.type.cls()
        return st.none() | values.map(lambda value: None if value == empty else value)
    return values


def _of(kind: Type, name: str, version: int) -> st.SearchStrategy[Any]:
    match kind:
        case Fixed():
            return _numbers(kind, name)
        case Text():
            return st.sampled_from(_TEXTS)
        case Blob():
            return st.sampled_from(_BLOBS)
        case Array(element):
            return st.lists(_of(element, name, version), max_size=2)
    return _structs(kind, version)


def _numbers(kind: Fixed, name: str) -> st.SearchStrategy[Any]:
    if kind.name == "bool":
        return st.booleans()
    if kind.name == "uuid":
        return st.sampled_from([bytes(16), bytes(range(16)), b"\xff" * 16])
    if kind.name == "uint16":
        return st.sampled_from([0, 1, 0xFFFF])
    if name.endswith("error_code"):  # kio knows only those that Kafka has
        return st.sampled_from([-1, 0, 3, 35, 100])
    if kind.name == "int64" and "time" in name:  # kio makes dates of them
        return st.sampled_from([0, 1, 1_700_000_000_000])
    top = 1 << _BITS[kind.name] - 1
    return st.sampled_from([-top, -2, -1, 0, 1, 127, top - 1])
