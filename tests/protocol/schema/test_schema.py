"""The language of declarations: what it reads into a class, and what it refuses."""

from __future__ import annotations

import pytest

from protocol.errors import ProtocolError
from protocol.schema.codec import decode, encode
from protocol.schema.declaration import (
    Array,
    Float64,
    Int32,
    String,
    UInt32,
    Uuid,
    Versions,
    declaration_of,
    field,
    message,
    struct,
    struct_of,
)


@struct
class Inner:
    number: Int32 = 7


@message(Versions(0, 3), Versions.parse("2+"))
class Sample:
    always: Int32 = 0
    since: String | None = field("1+", nullable="3+", default="")
    tagged: Inner | None = field("2+", tag=0, default=None)
    inner: list[Inner] = field(factory=list)
    wide: UInt32 = 0
    real: Float64 = 0.0


@message(Versions(0, 1), Versions.parse("0+"))
class Seldom:
    ids: list[Uuid] = field(factory=list)
    inner: Inner = field("1+", factory=Inner)


@message(Versions(0, 0), Versions.parse("none"))
class Contradiction:
    number: Int32 = field(nullable="0+", default=0)


@pytest.mark.parametrize(
    ("text", "contained", "other"), [("3+", [3, 99], [2]), ("0-2", [0, 2], [3]), ("4", [4], [3, 5]), ("none", [], [0])]
)
def test_versions_are_read_as_kafka_writes_them(text: str, contained: list[int], other: list[int]) -> None:
    versions = Versions.parse(text)
    assert all(version in versions for version in contained)
    assert not any(version in versions for version in other)


def test_versions_can_be_counted_through() -> None:
    assert list(Versions(4, 6)) == [4, 5, 6]
    assert str(Versions(4, 6)) == "4-6"


def test_fields_are_read_from_annotations() -> None:
    sample = struct_of(Sample)
    always, since, tagged, inner, *_ = sample.fields
    assert always.versions == Versions.parse("0+")
    assert always.nullable == Versions.parse("none")
    assert since.nullable == Versions.parse("3+")
    assert (tagged.tag, tagged.default) == (0, None)
    assert inner.type == Array(struct_of(Inner))
    assert [f.name for f in sample.plain(0)] == ["always", "inner", "wide", "real"]
    assert [f.name for f in sample.absent(0)] == ["since", "tagged"]
    assert [f.name for f in sample.tagged(2)] == ["tagged"]


def test_values_have_defaults_of_their_own() -> None:
    one, other = Sample(), Sample()
    one.inner.append(Inner())
    assert other == Sample(always=0, since="", tagged=None, inner=[])


@pytest.mark.parametrize("version", range(4))
def test_numbers_of_every_type_cross(version: int) -> None:
    sample = Sample(always=-1, inner=[Inner(number=2)], wide=(1 << 32) - 1, real=-1.5)
    encoded = b"".join(encode(sample, version))
    assert decode(Sample, version, encoded) == (sample, len(encoded))


def test_null_that_the_annotation_does_not_allow_is_refused() -> None:
    with pytest.raises(TypeError, match=r"number: .* do not agree"):
        struct_of(Contradiction)


def test_class_that_is_no_message_is_refused() -> None:
    with pytest.raises(TypeError, match="Inner is not declared as a message"):
        declaration_of(Inner)


def test_lists_of_ids_travel() -> None:
    given = Seldom(ids=[bytes([number]) * 16 for number in range(3)])
    data = b"".join(encode(given, 0))
    assert decode(Seldom, 0, data) == (given, len(data))


def test_a_struct_that_a_version_does_not_have_must_be_its_default() -> None:
    assert encode(Seldom(inner=Inner()), 0)
    with pytest.raises(ProtocolError, match="inner"):
        encode(Seldom(inner=Inner(number=8)), 0)
