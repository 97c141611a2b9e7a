"""The compiled codec, held against a slow one, against its own inverse, and against bytes that mean nothing."""

from __future__ import annotations

import random
from collections.abc import Generator
from typing import Any, TypeVar

import pytest
from hypothesis import given

from protocol.errors import MalformedMessage, UnencodableMessage, UnsupportedVersion
from protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from protocol.messages.group_records import KEYS, OffsetCommitKey
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.varint import encode_unsigned
from protocol.schema.codec import (
    decode,
    decode_in_steps,
    decode_versioned,
    encode,
    encode_in_steps,
    encode_versioned,
    version_of,
)
from protocol.schema.declaration import Array, Blob, Fixed, Struct, Text, Type, struct_of
from protocol.schema.decoder import TAGS_MAX
from protocol.schema.encoder import ERROR_CHARS_MAX
from tests.protocol import reference_codec
from tests.protocol.messages import MESSAGES, every_version, few, versions_of

T = TypeVar("T")
by_name = pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)


@by_name
def test_compiled_and_reference_codec_agree(cls: type) -> None:
    @few
    @given(every_version(cls))
    def agree(made: list[tuple[int, Any]]) -> None:
        for version, message in made:
            encoded = b"".join(encode(message, version))
            assert encoded == reference_codec.encode(message, version)
            assert decode(cls, version, encoded) == (message, len(encoded))
            assert reference_codec.decode(cls, version, encoded) == (message, len(encoded))
            assert b"".join(result_of(encode_in_steps(message, version))) == encoded
            assert result_of(decode_in_steps(cls, version, encoded)) == (message, len(encoded))

    agree()


def result_of(steps: Generator[int, None, T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result


def test_steps_count_the_elements_before_they_are_many() -> None:
    topics = [FetchTopic(topic="t", partitions=[FetchPartition() for _ in range(3)]) for _ in range(2)]
    encoded = b"".join(encode(FetchRequest(topics=topics), 12))
    assert sum(decode_in_steps(FetchRequest, 12, encoded)) == 2 + 2 * 3
    forgotten = FetchRequest(forgotten_topics_data=[ForgottenTopic(topic="t", partitions=[1, 2, 3, 4])])
    steps = decode_in_steps(FetchRequest, 12, b"".join(encode(forgotten, 12)))
    assert list(steps) == [0, 4, 1], "numbers are counted before they are read"


def test_more_tagged_fields_than_any_schema_has_are_refused() -> None:
    data = b"".join(encode(MetadataRequest(topics=[]), 9))
    assert data[-1] == 0
    count = TAGS_MAX + 1
    with pytest.raises(MalformedMessage, match=f"{count} tagged fields"):
        decode(MetadataRequest, 9, data[:-1] + encode_unsigned(count) + b"\x63\x00" * count)


@by_name
def test_only_one_error_comes_of_damaged_bytes(cls: type) -> None:
    """And where the compiled codec makes sense of them, the slow one makes the same."""
    rng = random.Random(cls.__name__)
    for version in versions_of(cls):
        for data in damaged(cls, version, rng):
            try:
                found: tuple[Any, int] = decode(cls, version, data)
            except MalformedMessage:
                with pytest.raises(reference_codec.Unreadable):
                    reference_codec.decode(cls, version, data)
                with pytest.raises(MalformedMessage):
                    result_of(decode_in_steps(cls, version, data))
            else:
                assert found == reference_codec.decode(cls, version, data)
                assert found == result_of(decode_in_steps(cls, version, data))


def damaged(cls: type, version: int, rng: random.Random) -> list[bytes]:
    """Noise, beginnings of a message, and messages with a few bytes changed, most to what a length should not be."""
    encoded = b"".join(encode(filled(struct_of(cls), version), version))
    noise = [rng.randbytes(rng.randrange(64)) for _ in range(4)] + [bytes(40), b"\x01" * 40, b"\xff" * 40]
    cut = [encoded[: rng.randrange(len(encoded))] for _ in range(4) if encoded]
    changed = []
    for _ in range(16 if encoded else 0):
        data = bytearray(encoded)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 2, 127, 128, 255, rng.randrange(256)))
        changed.append(bytes(data))
    return noise + cut + changed


def filled(kind: Struct, version: int) -> Any:
    """A message in which nothing is left out, so that there is much to damage."""

    def value(of: Type) -> Any:
        match of:
            case Fixed():
                return bytes(range(16)) if of.name == "uuid" else 1
            case Text():
                return "text"
            case Blob():
                return b"blob"
            case Array(element):
                return [value(element), value(element)]
        return filled(of, version)

    return kind.cls(**{f.name: value(f.type) for f in kind.fields if version in f.versions})


@pytest.mark.parametrize(
    ("size", "what"),
    [
        (20, "session_id, byte 17: the message ends at byte 20"),
        (41, "topics[1].topic, byte 38: a length or count of 4 where 3 bytes are left"),
        (50, "topics[1].partitions, byte 46: a length or count of 1 where 4 bytes are left"),
    ],
)
def test_error_names_message_version_field_and_byte(size: int, what: str) -> None:
    topics = [FetchTopic(topic="a"), FetchTopic(topic="beta", partitions=[FetchPartition(partition=1)])]
    encoded = b"".join(encode(FetchRequest(topics=topics), 11))
    with pytest.raises(MalformedMessage) as caught:
        decode(FetchRequest, 11, encoded[:size])
    assert str(caught.value) == f"FetchRequest version 11, field {what}"


@pytest.mark.parametrize(("version", "data"), [(1, b"\x7f\xff\xff\xff"), (9, b"\xff\xff\xff\xff\x0f")])
def test_count_is_held_against_the_bytes_that_are_left(version: int, data: bytes) -> None:
    with pytest.raises(MalformedMessage, match=r"field topics, byte .: a length or count of \d+ where 3 bytes"):
        decode(MetadataRequest, version, data + bytes(3))


def test_varint_of_more_than_32_bits_is_malformed() -> None:
    with pytest.raises(MalformedMessage, match="more than 32 bits"):
        decode(MetadataRequest, 9, b"\xff\xff\xff\xff\x7f")


def test_unknown_tagged_fields_are_skipped() -> None:
    encoded = b"".join(encode(MetadataRequest(topics=None), 9))
    assert encoded[-1:] == b"\0"
    unknown = b"\x02" + b"\x05\x01a" + b"\xc8\x01\x02bc"
    assert decode(MetadataRequest, 9, encoded[:-1] + unknown) == (MetadataRequest(topics=None), len(encoded) + 8)


def test_records_are_a_view_of_what_was_received() -> None:
    records = bytes(16_384)
    produced = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=records)])]
    buffers = encode(ProduceRequest(acks=-1, topic_data=produced), 9)
    assert any(buffer is records for buffer in buffers)
    frame = b"".join(buffers)
    request, _ = decode(ProduceRequest, 9, frame)
    view = request.topic_data[0].partition_data[0].records
    assert isinstance(view, memoryview)
    assert view.obj is frame
    assert view == records


def test_what_is_encoded_goes_behind_what_was_there() -> None:
    out = bytearray(b"header")
    buffers = encode(MetadataRequest(topics=[]), 1, out)
    assert buffers[0] is out
    assert b"".join(buffers) == b"header\0\0\0\0"


def test_field_of_another_version_is_refused_unless_it_is_ignorable() -> None:
    assert encode(FetchRequest(rack_id="r"), 4) == encode(FetchRequest(), 4)
    with pytest.raises(UnsupportedVersion, match="FetchRequest version 4: there is no field replica_state"):
        encode(FetchRequest(replica_state=ReplicaState(replica_id=1)), 4)


def test_version_that_is_not_declared_is_refused() -> None:
    with pytest.raises(UnsupportedVersion, match="FetchRequest has versions 4-18, not 3"):
        decode(FetchRequest, 3, b"")
    with pytest.raises(UnsupportedVersion, match="FetchRequest has versions 4-18, not 19"):
        encode(FetchRequest(), 19)


@pytest.mark.parametrize(
    ("message", "version", "what"),
    [
        (MetadataResponse(throttle_time_ms=1 << 31), 3, "throttle_time_ms"),
        (MetadataResponse(cluster_id="x" * 32_768), 8, "cluster_id"),
        (MetadataResponse(cluster_id="x" * 32_768), 9, "cluster_id: a string of 32768 bytes"),
        (MetadataRequest(topics=None), 0, "topics"),
        (FetchRequest(topics=[FetchTopic(topic_id=b"short")]), 13, r"topics\[\].topic_id: b'short' is not a uuid's 16"),
    ],
)
def test_what_cannot_travel_is_named(message: object, version: int, what: str) -> None:
    with pytest.raises(UnencodableMessage, match=f"{type(message).__name__} version {version}: .*{what}"):
        encode(message, version)


def with_errors(kind: Struct, version: int, text: str) -> Any:
    """A message that has one element in each array, and this text wherever an error is told."""
    given: dict[str, Any] = {}
    for one in kind.plain(version):
        if one.name.endswith("error_message"):
            given[one.name] = text
        elif isinstance(one.type, Struct):
            given[one.name] = with_errors(one.type, version, text)
        elif isinstance(one.type, Array) and isinstance(one.type.element, Struct):
            given[one.name] = [with_errors(one.type.element, version, text)]
    return kind.cls(**given)


@by_name
def test_the_text_of_an_error_is_cut_so_that_its_message_can_travel(cls: type) -> None:
    for version in versions_of(cls):
        message = with_errors(struct_of(cls), version, "\N{OWL}" * 40_000)
        decoded: Any = decode(cls, version, b"".join(encode(message, version)))[0]
        assert decoded == with_errors(struct_of(cls), version, "\N{OWL}" * ERROR_CHARS_MAX)


def test_version_stands_before_records_and_the_consumer_protocol() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=3)
    encoded = encode_versioned(key, 1)
    assert encoded == b"\0\x01\0\x01g\0\x01t\0\0\0\x03"
    assert decode_versioned(KEYS[version_of(encoded)], encoded) == key
    subscription = ConsumerProtocolSubscription(topics=["t"])
    assert decode_versioned(ConsumerProtocolSubscription, encode_versioned(subscription, 3)) == subscription
    with pytest.raises(MalformedMessage, match="1 bytes are too few"):
        version_of(b"\0")
