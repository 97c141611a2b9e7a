from __future__ import annotations

import math
import struct
from typing import Any

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from actors.runtime import Address, CodecError, Payload, wire
from actors.runtime.links.codec import decode, encode
from tests.actors.runtime.probes import PATIENT, Bulk, Fail, Note, Numbered, Owe

EMPTY = memoryview(b"")


@wire(0x7010)
@frozen
class Point:
    x: int
    y: int


@wire(0x7011)
@frozen
class Everything:
    """One field of every form."""

    number: int
    ratio: float
    flag: bool
    text: str
    raw: bytes
    where: Address
    point: Point
    maybe_number: int | None
    maybe_text: str | None
    maybe_where: Address | None
    maybe_point: Point | None
    numbers: tuple[int, ...]
    flags: tuple[bool, ...]
    texts: tuple[str, ...]
    raws: tuple[bytes, ...]
    points: tuple[Point, ...]
    rows: tuple[tuple[int, ...], ...]
    maybe_texts: tuple[str | None, ...]
    maybe_list: tuple[str, ...] | None
    bulk: Payload


@wire(0x7012)
@frozen
class Nothing:
    pass


@wire(0x7013)
@frozen
class Tree:
    name: str
    children: tuple[Tree, ...]


@wire(0x7014)
@frozen
class OnlyBulk:
    data: Payload


@frozen
class Stranger:
    number: int


INT64 = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False)
ADDRESSES = st.builds(
    Address,
    st.sampled_from(["replica", "controller"]),
    st.sampled_from(["", "a", "orders-3", "ü"]),
    st.integers(-1, 99),
)
POINTS = st.builds(Point, INT64, INT64)
TUPLES = {
    "numbers": st.lists(INT64, max_size=4).map(tuple),
    "flags": st.lists(st.booleans(), max_size=4).map(tuple),
    "texts": st.lists(st.text(max_size=5), max_size=4).map(tuple),
    "raws": st.lists(st.binary(max_size=5), max_size=4).map(tuple),
    "points": st.lists(POINTS, max_size=3).map(tuple),
    "rows": st.lists(st.lists(INT64, max_size=3).map(tuple), max_size=3).map(tuple),
    "maybe_texts": st.lists(st.none() | st.text(max_size=3), max_size=4).map(tuple),
}
EVERYTHING = st.builds(
    Everything, number=INT64, ratio=FLOATS, flag=st.booleans(), text=st.text(), raw=st.binary(), where=ADDRESSES,
    point=POINTS, maybe_number=st.none() | INT64, maybe_text=st.none() | st.text(), maybe_where=st.none() | ADDRESSES,
    maybe_point=st.none() | POINTS, maybe_list=st.none() | TUPLES["texts"],
    bulk=st.binary().map(memoryview), **TUPLES,
)  # fmt: skip
TREES = st.recursive(
    st.builds(Tree, st.text(max_size=3), st.just(())),
    lambda trees: st.builds(Tree, st.text(max_size=3), st.lists(trees, max_size=3).map(tuple)),
    max_leaves=8,
)
PLAIN = st.none() | st.booleans() | INT64 | FLOATS | st.text() | st.binary()


def travel(message: Any) -> Any:
    message_id, body, payload = encode(message)
    return decode(message_id, memoryview(body), memoryview(payload))


@PATIENT
@given(EVERYTHING)
def test_a_message_with_every_kind_of_field_survives_the_journey(message: Everything) -> None:
    assert travel(message) == message


@PATIENT
@given(TREES)
def test_a_message_may_hold_messages_of_its_own_class(tree: Tree) -> None:
    assert travel(tree) == tree


@PATIENT
@given(PLAIN)
def test_a_plain_value_survives_the_journey_with_its_type(value: Any) -> None:
    arrived = travel(value)
    assert arrived == value
    assert type(arrived) is type(value)


def test_odd_floats_survive() -> None:
    assert math.isnan(travel(math.nan))
    assert travel(-math.inf) == -math.inf
    assert math.copysign(1.0, travel(-0.0)) == -1.0


def test_a_message_without_fields_is_empty() -> None:
    assert encode(Nothing())[1:] == (b"", b"")
    assert travel(Nothing()) == Nothing()


def test_numbers_of_fixed_size_go_big_endian_and_without_padding() -> None:
    assert encode(Point(1, -1)) == (0x7010, struct.pack(">qq", 1, -1), b"")


@pytest.mark.parametrize("data", [b"bytes", bytearray(b"bytearray"), memoryview(b"view")])
def test_bulk_bytes_are_handed_on_as_the_very_same_buffer(data: Any) -> None:
    _, body, payload = encode(Bulk(1, data))
    assert payload is data
    assert bytes(data) not in body


def test_bulk_bytes_are_handed_out_as_the_very_same_view() -> None:
    view = memoryview(b"x" * 100)
    message_id, body, _ = encode(Bulk(1, Payload(view)))
    assert decode(message_id, memoryview(body), view).data is view


def test_a_decoded_message_keeps_nothing_of_its_body() -> None:
    message = Everything(
        1, 0.5, True, "text", b"raw", Address("a", "b", 1), Point(1, 2), 3, "maybe", Address("c", "", 2), Point(3, 4),
        (1,), (True,), ("t",), (b"r",), (Point(5, 6),), ((1, 2),), (None, "x"), ("l",), Payload(EMPTY),
    )  # fmt: skip
    message_id, body, _ = encode(message)
    buffer = bytearray(body)
    arrived = decode(message_id, memoryview(buffer), EMPTY)
    buffer[:] = b"\xff" * len(buffer)
    assert arrived == message


# -- what cannot be encoded ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30])
def test_a_number_out_of_range_is_refused(number: int) -> None:
    for message in (Point(number, 0), number):
        with pytest.raises(CodecError, match="cannot be encoded"):
            encode(message)


WRONG: list[tuple[type, Any]] = [
    (Note, 5), (Note, None), (Note, "\ud800"), (Numbered, "5"), (Numbered, 1.5), (Numbered, None), (Fail, b"bytes"),
]  # fmt: skip


@pytest.mark.parametrize(("message_class", "value"), WRONG)
def test_a_field_of_another_type_is_refused_and_the_message_named(message_class: type, value: Any) -> None:
    with pytest.raises(CodecError, match=message_class.__name__):
        encode(message_class(value))


@pytest.mark.parametrize("message", [Stranger(1), object(), [1], {"a": 1}, (1, 2)], ids=lambda m: type(m).__name__)
def test_what_is_not_registered_cannot_travel(message: Any) -> None:
    with pytest.raises(CodecError, match=f"{type(message).__name__} is not registered with @wire"):
        encode(message)


# -- what cannot be declared -----------------------------------------------------------------------------------------


def test_an_id_belongs_to_one_class() -> None:
    with pytest.raises(CodecError, match="Stranger: id 0x7000 belongs to Note"):
        wire(0x7000)(Stranger)
    assert travel(Note("x")) == Note("x")


@pytest.mark.parametrize("message_id", [0, 1, 0xFF, 0x10000, -1])
def test_an_id_outside_the_range_is_refused(message_id: int) -> None:
    with pytest.raises(CodecError, match="message ids go from 0x100 to 0xffff"):
        wire(message_id)(Stranger)


def test_only_attrs_classes_are_messages() -> None:
    with pytest.raises(CodecError, match="Plain is no attrs class"):
        wire(0x70F0)(type("Plain", (), {}))


def test_a_class_that_is_loaded_again_takes_the_place_of_its_elder() -> None:
    def load() -> type:
        @wire(0x70F1)
        @frozen
        class Loaded:
            number: int

        return Loaded

    first, second = load(), load()
    assert type(travel(first(1))) is second
    third = load()
    assert type(travel(third(1))) is third


@wire(0x70F2)
@frozen
class HasList:
    numbers: list[int]


@wire(0x70F3)
@frozen
class HasUnion:
    value: int | str


@wire(0x70F4)
@frozen
class HasPair:
    pair: tuple[int, int]


@wire(0x70F5)
@frozen
class TwoBulks:
    one: Payload
    two: Payload


@wire(0x70F6)
@frozen
class MaybeBulk:
    data: Payload | None


@wire(0x70F7)
@frozen
class NestedBulk:
    inner: OnlyBulk


@pytest.mark.parametrize(
    "message",
    [HasList([1]), HasUnion(1), HasPair((1, 2)), TwoBulks(Payload(EMPTY), Payload(EMPTY)), MaybeBulk(None),
     NestedBulk(OnlyBulk(Payload(memoryview(b"would be lost"))))],
    ids=lambda message: type(message).__name__,
)  # fmt: skip
def test_a_field_without_a_wire_form_is_refused_at_first_use_and_named(message: Any) -> None:
    with pytest.raises(CodecError, match=type(message).__name__):
        encode(message)
    with pytest.raises(CodecError, match=type(message).__name__):
        decode(encode.__globals__["_id_of"][type(message)], memoryview(b"\0" * 64), EMPTY)


# -- what cannot be decoded ------------------------------------------------------------------------------------------

REGISTERED = [Note, Fail, Owe, Bulk, Numbered, Point, Everything, Nothing, Tree, OnlyBulk]
IDS = [1, 2, 3, 4, 5, 6, *(encode.__globals__["_id_of"][message_class] for message_class in REGISTERED)]


@PATIENT
@given(st.sampled_from(IDS), st.binary(max_size=200), st.binary(max_size=8))
def test_garbage_is_a_message_or_a_codec_error(message_id: int, body: bytes, payload: bytes) -> None:
    try:
        decode(message_id, memoryview(body), memoryview(payload))
    except CodecError:
        return


@PATIENT
@given(EVERYTHING | TREES, st.data())
def test_a_damaged_message_is_a_message_or_a_codec_error(message: Any, data: st.DataObject) -> None:
    message_id, body, payload = encode(message)
    damaged = bytearray(body)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at] = data.draw(st.integers(0, 255))
    try:
        decode(message_id, memoryview(damaged), memoryview(payload))
    except CodecError:
        return


@PATIENT
@given(EVERYTHING, st.data())
def test_a_message_that_was_cut_or_has_something_behind_it_is_refused(message: Everything, data: st.DataObject) -> None:
    message_id, body, payload = encode(message)
    cut = data.draw(st.integers(0, len(body) - 1))
    for wrong in (body[:cut], body + b"\0"):
        with pytest.raises(CodecError, match="bytes are no such message"):
            decode(message_id, memoryview(wrong), memoryview(payload))


def test_a_list_that_ends_in_the_middle_of_a_length_is_refused() -> None:
    message_id, _, _ = encode(Tree("", ()))
    body = struct.pack(">II", 0, 2) + b"\0\0"
    with pytest.raises(CodecError, match="a list ends in the middle of a value"):
        decode(message_id, memoryview(body), EMPTY)


def test_nesting_without_end_is_refused() -> None:
    message_id, body, _ = encode(Tree("", ()))
    for _ in range(20_000):
        body = struct.pack(">III", 0, 4 + len(body), len(body)) + body
    with pytest.raises(CodecError):
        decode(message_id, memoryview(body), EMPTY)


def test_an_unknown_id_is_refused_and_named() -> None:
    with pytest.raises(CodecError, match="message id 0x70ff is unknown here"):
        decode(0x70FF, EMPTY, EMPTY)
