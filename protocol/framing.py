"""Kafka's side of a connection, without the connection: bytes go in, requests or responses come out, and the reverse.

A frame is an int32 size and as many bytes: a header and a message.

    request header    api key i16, version i16, correlation id i32, client id: nullable string, 2-byte length
                      flexible versions: tagged fields (the client id keeps its 2-byte length)
    response header   correlation id i32
                      flexible versions, but never ApiVersions: tagged fields

Both ends are driven as in h11: `receive_data` with what came, b"" at the end of the stream; `next_event` until it is
NEED_DATA. What is handed in must not change afterwards: frames are views of it where that is possible. After an error
the rest of the stream cannot be read.
"""

from __future__ import annotations

import enum
import struct
from collections import deque
from collections.abc import Generator, Iterable
from typing import Any, NamedTuple, TypeVar

from protocol.apis import API_VERSIONS, APIS, Api
from protocol.error_codes import ErrorCode
from protocol.errors import MalformedFrame, MalformedMessage, ProtocolError
from protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from protocol.records.varint import decode_unsigned
from protocol.schema.codec import decode, decode_in_steps, encode, encode_in_steps
from protocol.schema.declaration import Buffer
from protocol.schema.decoder import TAGS_MAX

T = TypeVar("T")

FRAME_SIZE_MAX = 100 * 1024 * 1024  # Kafka's default of socket.request.max.bytes
_SIZE = struct.Struct(">i")
_REQUEST = struct.Struct(">ihhih")  # with the frame's size before it, and the length of the client id behind it
_REQUEST_HEADER = struct.Struct(">hhih")
_RESPONSE = struct.Struct(">ii")  # with the frame's size before it
_NO_TAGS = 0
_TEXT = b"\t\r\n" + bytes(range(0x20, 0x7F))


class Dialect(enum.Enum):
    """What is spoken on a connection."""

    KAFKA = "kafka"
    JSON_LINES = "json lines"


def dialect_of(first_byte: int) -> Dialect:
    """The dialect, by the first byte: a Kafka frame that begins like text would be larger than any that is taken."""
    return Dialect.JSON_LINES if first_byte in _TEXT else Dialect.KAFKA


class Pause(enum.Enum):
    """Why there is no event."""

    NEED_DATA = enum.auto()
    CLOSED = enum.auto()  # by the peer, between two frames


NEED_DATA, CLOSED = Pause.NEED_DATA, Pause.CLOSED


class FrameReader:
    """Cuts a stream into frames. A size is checked before anything is kept for it.

    A frame that came whole is a view of what came. One that came in pieces is put together once.
    """

    def __init__(self, frame_size_max: int) -> None:
        self._frame_size_max = frame_size_max
        self._unread: deque[memoryview] = deque()
        self._begun = bytearray()  # the size and the first bytes of a frame that came in pieces
        self._is_closed = False

    def receive_data(self, data: bytes) -> None:
        """What came on the connection; nothing, when its end was reached."""
        if data:
            self._unread.append(memoryview(data))
        else:
            self._is_closed = True

    def next_frame(self) -> memoryview | Pause:
        while self._unread:
            data = self._unread.popleft()
            if not self._begun and len(data) >= _SIZE.size:
                end = _SIZE.size + self._size_of(data)
                if len(data) >= end:
                    self._keep(data[end:])
                    return data[_SIZE.size : end]
            missing = self._missing()
            self._begun += data[:missing]
            self._keep(data[missing:])
            if len(self._begun) >= _SIZE.size and not self._missing():
                frame, self._begun = memoryview(self._begun), bytearray()
                return frame[_SIZE.size :]
        if self._is_closed and self._begun:
            raise MalformedFrame(f"the stream ends {len(self._begun)} bytes into a frame")
        return CLOSED if self._is_closed else NEED_DATA

    def _keep(self, rest: memoryview) -> None:
        if rest:
            self._unread.appendleft(rest)

    def _missing(self) -> int:
        """The bytes up to the end of the frame, or of its size if that is not yet known."""
        if len(self._begun) < _SIZE.size:
            return _SIZE.size - len(self._begun)
        return _SIZE.size + self._size_of(self._begun) - len(self._begun)

    def _size_of(self, data: Buffer) -> int:
        (size,) = _SIZE.unpack_from(data)
        if not 0 <= size <= self._frame_size_max:
            raise MalformedFrame(f"a frame of {size} bytes; at most {self._frame_size_max} are taken")
        return int(size)


class KafkaRequest(NamedTuple):
    """A request that came. Its message is decoded when it is read."""

    api: Api
    version: int
    correlation_id: int
    client_id: str | None
    frame: memoryview
    message_at: int

    def read(self, cls: type[T]) -> T:
        """The message, which must be of the API's class."""
        assert cls is self.api.request, f"{cls.__name__} is not the request of {self.api.name}"
        return decode(cls, self.version, self.frame, self.message_at)[0]

    def read_in_steps(self, cls: type[T]) -> Generator[int, None, T]:
        """As `read`, with a pause for each element of an array, that gives how many elements those were."""
        assert cls is self.api.request, f"{cls.__name__} is not the request of {self.api.name}"
        return (yield from decode_in_steps(cls, self.version, self.frame, self.message_at))[0]


class UnsupportedApiVersions(NamedTuple):
    """An ApiVersions request of an unknown version. What follows its header is unknown too; `refuse` answers it."""

    version: int
    correlation_id: int


class UnsupportedRequest(NamedTuple):
    """A request that is not served. As in Kafka the connection is closed: no answer could be understood."""

    api_key: int
    version: int
    correlation_id: int


class ServerConnection:
    """A broker's side of a connection."""

    def __init__(self, apis: Iterable[Api] = APIS.values(), frame_size_max: int = FRAME_SIZE_MAX) -> None:
        self._apis = {api.key: api for api in apis}
        self._frames = FrameReader(frame_size_max)
        self.receive_data = self._frames.receive_data

    def next_event(self) -> KafkaRequest | UnsupportedApiVersions | UnsupportedRequest | Pause:
        frame = self._frames.next_frame()
        return frame if isinstance(frame, Pause) else self.request_in(frame)

    def request_in(self, frame: memoryview) -> KafkaRequest | UnsupportedApiVersions | UnsupportedRequest:
        """The request in a whole frame, given without its size. For a caller that cuts the stream itself."""
        try:
            key, version, correlation_id, length = _REQUEST_HEADER.unpack_from(frame)
            api = self._apis.get(key)
            if api is None or version not in api.versions or version not in api.advertised:
                if key == API_VERSIONS.key:
                    return UnsupportedApiVersions(version, correlation_id)
                return UnsupportedRequest(key, version, correlation_id)
            at = _REQUEST_HEADER.size
            client_id = None
            if length >= 0:
                at += length
                client_id = str(frame[at - length : at], "utf-8")
            if version in api.flexible:
                at = _skip_tags(frame, at)
            if at > len(frame):
                raise MalformedMessage(f"a client id of {length} bytes in a frame of {len(frame)}")
        except (struct.error, IndexError, UnicodeDecodeError, ProtocolError) as error:
            raise MalformedMessage(f"request header in a frame of {len(frame)} bytes: {error}") from None
        return KafkaRequest(api, version, correlation_id, client_id, frame, at)

    def respond(self, request: KafkaRequest, response: object) -> list[Buffer]:
        """The buffers of the frame that answers a request."""
        out = _response_header(request, response)
        return _framed(encode(response, request.version, out), _RESPONSE, request.correlation_id)

    def respond_in_steps(self, request: KafkaRequest, response: object) -> Generator[int, None, list[Buffer]]:
        """As `respond`, with a pause for each element of an array."""
        out = _response_header(request, response)
        buffers = yield from encode_in_steps(response, request.version, out)
        return _framed(buffers, _RESPONSE, request.correlation_id)

    def refuse(self, event: UnsupportedApiVersions) -> list[Buffer]:
        """The answer from which a client learns which versions it can ask for."""
        response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=self.advertised())
        return _framed(encode(response, 0, bytearray(_RESPONSE.size)), _RESPONSE, event.correlation_id)

    def advertised(self) -> list[ApiVersion]:
        """What an ApiVersions response says of the APIs that are served here."""
        return [
            ApiVersion(api_key=api.key, min_version=api.advertised.first, max_version=api.advertised.last)
            for api in self._apis.values()
        ]


class Response(NamedTuple):
    """A response that came. Its message is decoded when it is read."""

    api: Api
    version: int
    correlation_id: int
    frame: memoryview
    message_at: int

    def read(self, cls: type[T]) -> T:
        """The message, which must be of the API's class."""
        assert cls is self.api.response, f"{cls.__name__} is not the response of {self.api.name}"
        version = self.version
        if self.api.key == API_VERSIONS.key:  # a broker answers an unknown version in version 0, and says so
            error_code = bytes(self.frame[self.message_at : self.message_at + 2])
            if error_code == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big"):
                version = 0
        return decode(cls, version, self.frame, self.message_at)[0]


class ClientConnection:
    """A client's side of a connection. Responses come in the order of the requests."""

    def __init__(self, client_id: str | None = None, frame_size_max: int = FRAME_SIZE_MAX) -> None:
        self._client_id = client_id if client_id is None else client_id.encode()
        self._frames = FrameReader(frame_size_max)
        self._sent: deque[tuple[int, Api, int]] = deque()
        self._next_correlation_id = 0
        self.receive_data = self._frames.receive_data

    def send(self, api: Api, message: Any, version: int) -> list[Buffer]:
        """The buffers of a request. Its response will be the event after those of all requests before."""
        correlation_id, buffers = self._request(api, message, version)
        self._sent.append((correlation_id, api, version))
        return buffers

    def send_unanswered(self, api: Api, message: Any, version: int) -> list[Buffer]:
        """The buffers of a request to which there is no response: Produce without acks."""
        return self._request(api, message, version)[1]

    def _request(self, api: Api, message: Any, version: int) -> tuple[int, list[Buffer]]:
        assert isinstance(message, api.request)
        out = bytearray(_REQUEST.size)
        if self._client_id is not None:
            out += self._client_id
        if version in api.flexible:
            out.append(_NO_TAGS)
        length = -1 if self._client_id is None else len(self._client_id)
        correlation_id = self._next_correlation_id
        buffers = _framed(encode(message, version, out), _REQUEST, api.key, version, correlation_id, length)
        self._next_correlation_id = (correlation_id + 1) % (1 << 31)
        return correlation_id, buffers

    def next_event(self) -> Response | Pause:
        frame = self._frames.next_frame()
        if isinstance(frame, Pause):
            return frame
        if not self._sent:
            raise MalformedFrame("a response to no request")
        expected, api, version = self._sent.popleft()
        try:
            (correlation_id,) = _SIZE.unpack_from(frame)
            at = _SIZE.size
            if version in api.flexible and api.key != API_VERSIONS.key:
                at = _skip_tags(frame, at)
        except (struct.error, IndexError, ProtocolError) as error:
            raise MalformedMessage(f"response header in a frame of {len(frame)} bytes: {error}") from None
        if correlation_id != expected:
            raise MalformedFrame(f"a response to request {correlation_id}, where request {expected} is the next")
        return Response(api, version, correlation_id, frame, at)


def _response_header(request: KafkaRequest, response: object) -> bytearray:
    """Room for the header of a response, up to its message."""
    assert isinstance(response, request.api.response)
    out = bytearray(_RESPONSE.size)
    if request.version in request.api.flexible and request.api.key != API_VERSIONS.key:
        out.append(_NO_TAGS)
    return out


def _framed(buffers: list[Buffer], layout: struct.Struct, *header: int) -> list[Buffer]:
    """Fills in the header for which the first buffer has left room."""
    size = sum(map(len, buffers)) - _SIZE.size
    layout.pack_into(buffers[0], 0, size, *header)
    return buffers


def _skip_tags(frame: memoryview, at: int) -> int:
    count, at = decode_unsigned(frame, at)
    if count > TAGS_MAX:
        raise MalformedMessage(f"{count} tagged fields; at most {TAGS_MAX} are taken")
    for _ in range(count):
        _, at = decode_unsigned(frame, at)
        size, at = decode_unsigned(frame, at)
        at += size
    if at > len(frame):
        raise MalformedMessage(f"tagged fields up to byte {at}")
    return at
