"""What kio, whose classes are generated from Kafka's own definitions, has for a message of ours."""

from __future__ import annotations

import dataclasses
import datetime as dt
import io
import re
import types
import typing
import uuid
from importlib import import_module
from typing import Any

from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.protocol import Entity

_WIRE_TYPES = {"error_code": "int16", "timedelta_i32": "int32", "timedelta_i64": "int64", "datetime_i64": "int64"}
_EPOCH = dt.datetime.fromtimestamp(0, dt.UTC)


def versions(cls: type) -> list[int]:
    """The versions of a message that kio has."""
    return sorted(schema_name_map[_module_and_kind(cls)[0]])


def kio_class(cls: type, version: int) -> type[Entity]:
    """The class that kio has for a version of a message."""
    module, kind = _module_and_kind(cls)
    found: type[Entity] = getattr(import_module(f"kio.schema.{module}.v{version}.{kind}"), cls.__name__)
    assert found.__version__ == version
    return found


def _module_and_kind(cls: type) -> tuple[str, str]:
    api, _, kind = re.sub("(?<!^)(?=[A-Z])", "_", cls.__name__).lower().rpartition("_")
    return (api, kind) if kind in ("request", "response") else (f"{api}_{kind}", "data")


def read(cls: type[Entity], data: bytes) -> tuple[Any, int]:
    """What kio makes of these bytes, and how many of them."""
    return entity_reader(cls)(data, 0)


def written(message: Entity) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


class KioField(typing.NamedTuple):
    """A field of kio's, in the words of our schemas."""

    name: str  # without the `_ms` of what kio makes a date or duration of
    kind: str | type  # a primitive's name, or the class of a struct
    is_array: bool
    nullable: bool
    tag: int | None
    has_default: bool
    default: Any  # as we hold it


def fields(cls: type) -> list[KioField]:
    return [_field(f) for f in dataclasses.fields(cls)]


def _field(f: dataclasses.Field[Any]) -> KioField:
    kind, nullable = _without_none(f.type)
    is_array = typing.get_origin(kind) is tuple
    if is_array:
        kind = _without_none(typing.get_args(kind)[0])[0]
    stated = f.metadata.get("kafka_type")
    if stated in ("uuid", "datetime_i64"):
        nullable = False  # kio reads zeros, and -1, as None
    has_default = f.default is not dataclasses.MISSING
    default = plain(f.default, stated) if has_default else None
    kind = _WIRE_TYPES.get(stated, stated) if stated else kind
    return KioField(f.name, kind, is_array, nullable, f.metadata.get("tag"), has_default, default)


def _without_none(kind: Any) -> tuple[Any, bool]:
    if typing.get_origin(kind) not in (typing.Union, types.UnionType):
        return kind, False
    (other,) = (part for part in typing.get_args(kind) if part is not types.NoneType)
    return other, True


def plain(value: Any, kafka_type: str | None) -> Any:
    """A value of kio's as we hold it: milliseconds, bytes, lists."""
    match value:
        case None if kafka_type == "uuid":
            return bytes(16)
        case None if kafka_type == "datetime_i64":
            return -1
        case uuid.UUID():
            return value.bytes
        case dt.datetime():
            return (value - _EPOCH) // dt.timedelta(milliseconds=1)
        case dt.timedelta():
            return value // dt.timedelta(milliseconds=1)
        case tuple():
            return [plain(item, kafka_type) for item in value]
    return value
