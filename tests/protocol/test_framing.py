"""Both ends of a connection, joined without one."""

from __future__ import annotations

import contextlib
import io
import random

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as RequestHeaderV1
from kio.schema.request_header.v2.header import RequestHeader as RequestHeaderV2
from kio.serial import entity_writer

from protocol.apis import API_VERSIONS, APIS, FETCH, INIT_PRODUCER_ID, METADATA, PRODUCE, Api
from protocol.errors import MalformedFrame, MalformedMessage, ProtocolError
from protocol.framing import (
    CLOSED,
    FRAME_SIZE_MAX,
    NEED_DATA,
    ClientConnection,
    Dialect,
    FrameReader,
    KafkaRequest,
    Response,
    ServerConnection,
    UnsupportedApiVersions,
    UnsupportedRequest,
    dialect_of,
)
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.messages.produce import ProduceRequest
from protocol.schema.declaration import Buffer, Versions
from tests.protocol.messages import few


class ConnectionPair:
    """A client and a server, and what goes from one to the other."""

    def __init__(self, client_id: str | None = "me") -> None:
        self.client = ClientConnection(client_id)
        self.server = ServerConnection()

    def ask(self, api: Api, message: object, version: int) -> KafkaRequest:
        self.server.receive_data(b"".join(self.client.send(api, message, version)))
        request = self.server.next_event()
        assert isinstance(request, KafkaRequest)
        return request

    def answer(self, request: KafkaRequest, message: object) -> Response:
        return self.deliver(self.server.respond(request, message))

    def deliver(self, buffers: list[Buffer]) -> Response:
        self.client.receive_data(b"".join(buffers))
        response = self.client.next_event()
        assert isinstance(response, Response)
        return response


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_every_api_and_version_crosses_both_ways(api: Api) -> None:
    pair = ConnectionPair()
    for version in (version for version in api.versions if version in api.advertised):
        request = pair.ask(api, api.request(), version)
        assert (request.api, request.version, request.client_id) == (api, version, "me")
        assert request.read(api.request) == api.request()
        assert pair.answer(request, api.response()).read(api.response) == api.response()
    assert pair.client.next_event() is NEED_DATA
    assert pair.server.next_event() is NEED_DATA


@pytest.mark.parametrize(("version", "header"), [(8, RequestHeaderV1), (9, RequestHeaderV2)])
@pytest.mark.parametrize("client_id", ["me", "", None])
def test_request_header_is_that_of_kio(version: int, header: type, client_id: str | None) -> None:
    client = ClientConnection(client_id)
    client.send(METADATA, MetadataRequest(), version)
    frame = b"".join(client.send(METADATA, MetadataRequest(), version))
    expected = io.BytesIO()
    named = {"request_api_key": 3, "request_api_version": version, "correlation_id": 1, "client_id": client_id}
    entity_writer(header)(expected, header(**named))
    assert frame[4:].startswith(expected.getvalue())
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4


def test_api_versions_response_has_the_old_header_in_flexible_versions() -> None:
    pair = ConnectionPair()
    request = pair.ask(API_VERSIONS, ApiVersionsRequest(client_software_name="n"), 4)
    frame = b"".join(pair.server.respond(request, ApiVersionsResponse(error_code=0x1234)))
    assert frame[4:10] == request.correlation_id.to_bytes(4, "big") + b"\x12\x34"


def test_unknown_version_of_api_versions_is_answered_in_the_form_of_version_0() -> None:
    client, server = ClientConnection("new"), ServerConnection()
    frame = bytearray(b"".join(client.send(API_VERSIONS, ApiVersionsRequest(), 4)))
    frame[6:8] = (99).to_bytes(2, "big")
    frame[-3:] = b"\xff\xff\xff"  # a body that nobody understands
    server.receive_data(bytes(frame))
    event = server.next_event()
    assert event == UnsupportedApiVersions(version=99, correlation_id=0)
    assert isinstance(event, UnsupportedApiVersions)
    client.receive_data(b"".join(server.refuse(event)))
    response = client.next_event()
    assert isinstance(response, Response)
    message = response.read(ApiVersionsResponse)
    assert message.error_code == 35
    ranges = {key.api_key: (key.min_version, key.max_version) for key in message.api_keys}
    assert ranges[18] == (0, 4)
    assert ranges[0] == (0, 13), "without 0 to 2, older librdkafka stops compressing"
    assert ranges[22] == (0, 5), "version 6 is unstable"


@pytest.mark.parametrize(("key", "version"), [(0, 2), (1, 3), (1, 19), (22, 6), (4, 0), (-1, 0), (3, -1)])
def test_what_nobody_serves_is_named(key: int, version: int) -> None:
    server = ServerConnection()
    header = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True) + bytes(4) + b"\xff\xff"
    server.receive_data(len(header).to_bytes(4, "big") + header)
    assert server.next_event() == UnsupportedRequest(key, version, 0)


def test_unstable_version_is_served_where_it_is_advertised() -> None:
    server = ServerConnection([attrs.evolve(INIT_PRODUCER_ID, advertised=Versions(0, 6))])
    message = InitProducerIdRequest(enable2_pc=True)
    server.receive_data(b"".join(ClientConnection().send(INIT_PRODUCER_ID, message, 6)))
    request = server.next_event()
    assert isinstance(request, KafkaRequest)
    assert request.read(InitProducerIdRequest) == message


@settings(few, max_examples=60)
@given(st.lists(st.integers(1, 40)), st.integers(0, 5))
def test_frames_come_whole_however_the_stream_is_cut(cuts: list[int], count: int) -> None:
    client, server = ClientConnection(), ServerConnection()
    sent = [MetadataRequest(topics=[MetadataRequestTopic(name="t" * n)]) for n in range(count)]
    stream = b"".join(b"".join(client.send(METADATA, message, 9)) for message in sent)
    received = []
    for size in [*cuts, len(stream) or 1]:
        piece, stream = stream[:size], stream[size:]
        if piece:
            server.receive_data(piece)
        while isinstance(event := server.next_event(), KafkaRequest):
            received.append((event.correlation_id, event.read(MetadataRequest)))
        assert event is NEED_DATA
    assert received == list(enumerate(sent))
    server.receive_data(b"")
    assert server.next_event() is CLOSED


def test_frame_that_came_whole_is_not_copied() -> None:
    frames = FrameReader(100)
    data = b"\0\0\0\x03abc\0\0\0\x02de"
    frames.receive_data(data)
    first, second = frames.next_frame(), frames.next_frame()
    assert isinstance(first, memoryview)
    assert isinstance(second, memoryview)
    assert first.obj is second.obj is data
    assert bytes(first) + bytes(second) == b"abcde"


@pytest.mark.parametrize("size", [101, (1 << 31) - 1, -1])
@pytest.mark.parametrize("pieces", [1, 4])
def test_size_is_refused_before_the_frame_comes(size: int, pieces: int) -> None:
    frames = FrameReader(100)
    data = size.to_bytes(4, "big", signed=True)
    for at in range(0, 4, 4 // pieces):
        frames.receive_data(data[at : at + 4 // pieces])
    with pytest.raises(MalformedFrame, match=f"a frame of {size} bytes; at most 100 are taken"):
        frames.next_frame()


def test_stream_that_ends_inside_a_frame_is_malformed() -> None:
    frames = FrameReader(100)
    frames.receive_data(b"\0\0\0\x05ab")
    assert frames.next_frame() is NEED_DATA
    frames.receive_data(b"")
    with pytest.raises(MalformedFrame, match="6 bytes into a frame"):
        frames.next_frame()


def test_responses_are_matched_in_order() -> None:
    pair = ConnectionPair()
    metadata = pair.ask(METADATA, MetadataRequest(topics=[]), 12)
    fetch = pair.ask(FETCH, FetchRequest(), 12)
    records = bytes(5000)
    partition = PartitionData(partition_index=1, records=records)
    fetched = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    buffers = pair.server.respond(metadata, MetadataResponse(cluster_id="c")) + pair.server.respond(fetch, fetched)
    assert any(buffer is records for buffer in buffers)
    first = pair.deliver(buffers)
    second = pair.client.next_event()
    assert first.read(MetadataResponse).cluster_id == "c"
    assert isinstance(second, Response)
    assert second.read(FetchResponse) == fetched


def test_request_without_an_answer_is_not_waited_for() -> None:
    pair = ConnectionPair()
    pair.server.receive_data(b"".join(pair.client.send_unanswered(PRODUCE, ProduceRequest(acks=0), 9)))
    assert isinstance(pair.server.next_event(), KafkaRequest)
    answered = pair.ask(METADATA, MetadataRequest(), 12)
    assert pair.answer(answered, MetadataResponse()).correlation_id == answered.correlation_id == 1


def test_response_to_another_request_is_malformed() -> None:
    pair = ConnectionPair()
    request = pair.ask(METADATA, MetadataRequest(), 12)
    stray = request._replace(correlation_id=7)
    with pytest.raises(MalformedFrame, match="a response to request 7, where request 0 is the next"):
        pair.answer(stray, MetadataResponse())
    with pytest.raises(MalformedFrame, match="a response to no request"):
        pair.answer(request, MetadataResponse())


@pytest.mark.parametrize(
    "header",
    [
        b"\0\x03\0\x09",
        b"\0\x03\0\x09\0\0\0\0\0\x05ab",
        b"\0\x03\0\x09\0\0\0\0\0\x01\xff\0",
        b"\0\x03\0\x09\0\0\0\0\xff\xff",
        b"\0\x03\0\x09\0\0\0\0\xff\xff\x01\0\x09",
        b"\0\x03\0\x08\0\0\0\0\0\x05ab",
    ],
)
def test_header_that_does_not_add_up_is_malformed(header: bytes) -> None:
    server = ServerConnection()
    server.receive_data(len(header).to_bytes(4, "big") + header)
    with pytest.raises(MalformedMessage, match=f"request header in a frame of {len(header)} bytes"):
        server.next_event()


def test_only_protocol_errors_come_of_noise() -> None:
    rng = random.Random(7)
    for _ in range(1000):
        api, version = rng.choice([(METADATA, 8), (METADATA, 12), (API_VERSIONS, 3)])
        server, client = ServerConnection(frame_size_max=64), ClientConnection(frame_size_max=64)
        client.send(api, api.request(), version)
        size = bytes([0, 0, 0, rng.randrange(64)])
        server.receive_data(size + bytes([0, api.key, 0, version]) + rng.randbytes(64))
        client.receive_data(size + bytes(4) + rng.choice([b"\0", b"", b"\0\x23"]) + rng.randbytes(64))
        with contextlib.suppress(ProtocolError):
            if isinstance(request := server.next_event(), KafkaRequest):
                request.read(api.request)
        with contextlib.suppress(ProtocolError):
            if isinstance(response := client.next_event(), Response):
                response.read(api.response)


@pytest.mark.parametrize("first", b'{ \t\r\n["h7~')
def test_text_is_told_by_its_first_byte(first: int) -> None:
    """A line that is no request is answered, too."""
    assert dialect_of(first) is Dialect.JSON_LINES


def test_frames_that_are_taken_never_begin_like_text() -> None:
    """The first byte of a size that is a tab or more would be of a frame that is refused."""
    assert {dialect_of(size >> 24) for size in range(0, FRAME_SIZE_MAX + 1, 1 << 20)} == {Dialect.KAFKA}
