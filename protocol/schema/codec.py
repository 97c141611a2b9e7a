"""Messages to bytes and back. A version of a message is compiled when it is first used, which takes milliseconds.

    request, end = decode(FetchRequest, 12, frame, at)
    buffers = encode(FetchResponse(responses=[...]), 12)

For any bytes, `decode` returns a message or raises MalformedMessage; what it makes is bounded by their number.
Blobs are views of the bytes that were given. `encode` leaves large ones as they are, as buffers of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from protocol.errors import MalformedMessage, ProtocolError, UnencodableMessage, UnsupportedVersion
from protocol.late_attrs import frozen
from protocol.schema import decoder, encoder
from protocol.schema.declaration import Buffer, declaration_of, holds_blob
from protocol.schema.source import Source

T = TypeVar("T")

VERSION_SIZE = 2


@frozen
class _Compiled:
    source: Source
    function: Callable[..., Any]
    reads_views: bool


_DECODERS: dict[tuple[type, int], _Compiled] = {}
_ENCODERS: dict[tuple[type, int], _Compiled] = {}
_STEPWISE_DECODERS: dict[tuple[type, int], _Compiled] = {}
_STEPWISE_ENCODERS: dict[tuple[type, int], _Compiled] = {}


def decode(cls: type[T], version: int, data: Buffer, at: int = 0) -> tuple[T, int]:
    """The message at a position, and the position behind it. What follows it is not looked at."""
    compiled = _DECODERS.get((cls, version)) or _compile_decoder(cls, version, _DECODERS)
    given = _given(compiled, data)
    try:
        return compiled.function(given, at)  # type: ignore[no-any-return]
    except decoder.FAULTS as error:
        raise _malformed(compiled, error, len(given)) from None


def decode_in_steps(cls: type[T], version: int, data: Buffer, at: int = 0) -> Generator[int, None, tuple[T, int]]:
    """As `decode`, with a pause for each element of an array, that gives how many elements those were.

    An array of numbers is read in one step; how many there are is given before that.
    """
    compiled = _STEPWISE_DECODERS.get((cls, version)) or _compile_decoder(cls, version, _STEPWISE_DECODERS)
    given = _given(compiled, data)
    try:
        return (yield from compiled.function(given, at))  # type: ignore[no-any-return]
    except decoder.FAULTS as error:
        raise _malformed(compiled, error, len(given)) from None


def encode(message: object, version: int, out: bytearray | None = None) -> list[Buffer]:
    """Buffers that hold the message, one after another. The first is `out`, if given, to which was added."""
    compiled = _ENCODERS.get((type(message), version)) or _compile_encoder(type(message), version, _ENCODERS)
    try:
        return compiled.function(message, bytearray() if out is None else out)  # type: ignore[no-any-return]
    except (UnsupportedVersion, *encoder.FAULTS) as error:
        raise _unencodable(compiled, error) from error


def encode_in_steps(message: object, version: int, out: bytearray | None = None) -> Generator[int, None, list[Buffer]]:
    """As `encode`, with a pause for each element of an array."""
    key = type(message), version
    compiled = _STEPWISE_ENCODERS.get(key) or _compile_encoder(*key, _STEPWISE_ENCODERS)
    try:
        return (yield from compiled.function(message, bytearray() if out is None else out))  # type: ignore[no-any-return]
    except (UnsupportedVersion, *encoder.FAULTS) as error:
        raise _unencodable(compiled, error) from error


def decode_versioned(cls: type[T], data: Buffer) -> T:
    """A message behind its version as an int16: a record of an internal topic, or of the consumer protocol."""
    return decode(cls, version_of(data), data, VERSION_SIZE)[0]


def encode_versioned(message: object, version: int) -> bytes:
    """A message behind its version as an int16."""
    return b"".join(encode(message, version, bytearray(version.to_bytes(VERSION_SIZE, "big"))))


def version_of(data: Buffer) -> int:
    """The int16 that begins a message with a version."""
    if len(data) < VERSION_SIZE:
        raise MalformedMessage(f"{len(data)} bytes are too few for a version")
    return int.from_bytes(data[:VERSION_SIZE], "big", signed=True)


def _given(compiled: _Compiled, data: Buffer) -> Buffer:
    """The bytes in the form that this decoder reads."""
    if compiled.reads_views:
        return data if type(data) is memoryview else memoryview(data)
    return data if type(data) is bytes else bytes(data)


def _compile_decoder(cls: type, version: int, kept: dict[tuple[type, int], _Compiled]) -> _Compiled:
    _check_version(cls, version)
    source = decoder.decoder_source(cls, version, in_steps=kept is _STEPWISE_DECODERS)
    made = _Compiled(source, source.compile("decode"), holds_blob(source.struct, version))
    kept[cls, version] = made
    return made


def _compile_encoder(cls: type, version: int, kept: dict[tuple[type, int], _Compiled]) -> _Compiled:
    _check_version(cls, version)
    source = encoder.encoder_source(cls, version, in_steps=kept is _STEPWISE_ENCODERS)
    made = _Compiled(source, source.compile("encode"), reads_views=False)
    kept[cls, version] = made
    return made


def _check_version(cls: type, version: int) -> None:
    versions = declaration_of(cls).versions
    if version not in versions:
        raise UnsupportedVersion(f"{cls.__name__} has versions {versions}, not {version}")


def _name(compiled: _Compiled) -> str:
    return f"{compiled.source.cls.__name__} version {compiled.source.version}"


def _unencodable(compiled: _Compiled, error: Exception) -> ProtocolError:
    if isinstance(error, UnsupportedVersion):
        return UnsupportedVersion(f"{_name(compiled)}: {error}")
    failure = compiled.source.failure(compiled.function, error.__traceback__)
    fields = ", ".join(path for path, _ in failure.places)
    return UnencodableMessage(f"{_name(compiled)}: {fields}: {error}")


def _malformed(compiled: _Compiled, error: Exception, size: int) -> MalformedMessage:
    places, variables = compiled.source.failure(compiled.function, error.__traceback__)
    at = variables["at"]
    path, offset = places[0]
    for later, further in places[1:]:  # of a run that goes past the end, the field that does
        if at + further <= size:
            path, offset = later, further
    text = str(error)
    if not isinstance(error, ValueError | ProtocolError):
        text = f"the message ends at byte {size}"
    return MalformedMessage(f"{_name(compiled)}, field {path.format_map(variables)}, byte {at + offset}: {text}")
