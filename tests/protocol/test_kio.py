"""Our declarations and bytes beside those of kio, which are generated from Kafka's own definitions."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given

from protocol.schema.codec import encode
from protocol.schema.declaration import Array, Fixed, MessageField, Struct, Text, declaration_of, struct_of
from tests.protocol import kio_schema
from tests.protocol.messages import API_MESSAGES, CONSUMER_PROTOCOL, every_version, few, versions_of

by_name = pytest.mark.parametrize("cls", API_MESSAGES + CONSUMER_PROTOCOL, ids=lambda cls: cls.__name__)


@by_name
def test_versions_are_all_that_kafka_has(cls: type) -> None:
    assert versions_of(cls) == kio_schema.versions(cls)


@by_name
def test_declarations_are_kafkas(cls: type) -> None:
    for version in versions_of(cls):
        theirs = kio_schema.kio_class(cls, version)
        assert theirs.__flexible__ == (version in declaration_of(cls).flexible)
        assert_same_fields(struct_of(cls), theirs, version)


def assert_same_fields(ours: Struct, theirs: type, version: int) -> None:
    mine = [f for f in ours.fields if version in f.versions]
    kios = kio_schema.fields(theirs)
    for field, kio in zip(mine, kios, strict=True):
        assert kio.name in (field.name, field.name.removesuffix("_ms"))
        assert field.tag == kio.tag
        assert (version in field.nullable) == kio.nullable, (field, kio)
        kind = field.type.element if isinstance(field.type, Array) else field.type
        assert isinstance(field.type, Array) == kio.is_array
        assert_same_default(field, kio)
        if isinstance(kind, Struct):
            assert isinstance(kio.kind, type)
            assert_same_fields(kind, kio.kind, version)
        elif isinstance(kind, Fixed):
            assert kind.name == kio.kind
        elif isinstance(kind, Text):
            assert kio.kind == "string"
        else:
            assert kio.kind in ("bytes", "records")


def assert_same_default(field: MessageField, kio: kio_schema.KioField) -> None:
    """What Kafka states is what we have; what it leaves out is nothing, in the words of the type."""
    if isinstance(field.type, Struct):
        left_out = field.tag is not None or kio.nullable
        assert field.default is (None if left_out else field.type.cls)
    elif kio.has_default:
        assert field.default == kio.default
    elif kio.is_array and kio.nullable:
        assert field.default in (None, [])  # kio leaves out that an array of structs is null by default
    elif kio.kind == "records":
        assert field.default is None
    else:
        assert field.default in (0, False, "", b"", bytes(16), [])


@by_name
def test_bytes_are_those_of_kio(cls: type) -> None:
    @few
    @given(every_version(cls))
    def same(made: list[tuple[int, Any]]) -> None:
        for version, message in made:
            theirs = kio_schema.kio_class(cls, version)
            encoded = b"".join(encode(message, version))
            read, size = kio_schema.read(theirs, encoded)
            assert size == len(encoded)
            assert kio_schema.written(read) == encoded
            assert_same_values(struct_of(cls), message, read, version)

    same()


def assert_same_values(kind: Struct, ours: Any, theirs: Any, version: int) -> None:
    present = [f for f in kind.fields if version in f.versions]
    for field, kio in zip(present, dataclasses.fields(theirs), strict=True):
        mine, kios = getattr(ours, field.name), getattr(theirs, kio.name)
        inner = field.type.element if isinstance(field.type, Array) else field.type
        if isinstance(inner, Struct) and mine is not None:
            pairs = zip(mine, kios, strict=True) if isinstance(field.type, Array) else [(mine, kios)]
            for one, other in pairs:
                assert_same_values(inner, one, other, version)
        elif isinstance(inner, Struct):
            assert kios is None or kios == type(kios)()
        else:
            assert mine == kio_schema.plain(kios, kio.metadata["kafka_type"])
