"""Messages as bytes: a small explicit codec, one per message class, no pickle.

    @wire(0x0101)
    @frozen
    class Append:
        epoch: int
        topic: str
        records: Payload

The number is the message's name on the wire; it is never given to another message. The field types give the form:

    int float bool                  8, 8 and 1 bytes, big-endian
    str bytes Address               length, then bytes
    T | None, tuple[T, ...]         a mark or a count, then each value
    another @wire class             the same, nested
    Payload (or memoryview)         bulk bytes, at most one such field: carried behind the message as they are, handed
                                    to the socket without a copy and out again as a memoryview

A message is a head, one struct with every fixed field and the length of every other one, then those others' bytes. The
functions that do it are compiled from source once per class, at its first use, so there is no loop over fields.
"""

from __future__ import annotations

import struct
import types
import typing
from collections.abc import Callable
from typing import Any, NewType, TypeVar

import attrs

from actors.runtime.address import Address
from actors.runtime.errors import AddressError, CodecError
from actors.runtime.pykka_hooks import ActorStop

Buffer = bytes | bytearray | memoryview
Payload = NewType("Payload", memoryview)
"""The type of a bulk field. Senders may give bytes, a bytearray or a memoryview; receivers get a memoryview."""

T = TypeVar("T")
Encode = Callable[[Any], tuple[bytes, Buffer]]
Decode = Callable[[memoryview, memoryview], Any]
_EMPTY = memoryview(b"")
_FIXED = {int: "q", float: "d", bool: "?"}

_by_id: dict[int, type] = {}
_id_of: dict[type, int] = {}
_encoders: dict[type, Encode] = {}
_decoders: dict[int, Decode] = {}


def wire(message_id: int) -> Callable[[type[T]], type[T]]:
    """Register an attrs class as a message that may cross process borders."""

    def register(message_class: type[T]) -> type[T]:
        if not 0x100 <= message_id <= 0xFFFF:
            raise CodecError(f"{message_class.__name__}: message ids go from 0x100 to 0xffff, not {message_id:#x}")
        taken = _by_id.get(message_id)
        if taken is not None and taken.__qualname__ != message_class.__qualname__:
            raise CodecError(f"{message_class.__name__}: id {message_id:#x} belongs to {taken.__name__}")
        if "__attrs_attrs__" not in vars(message_class):
            raise CodecError(f"{message_class.__name__} is no attrs class")
        _by_id[message_id] = message_class
        _id_of[message_class] = message_id
        _decoders.pop(message_id, None)  # made for an earlier loading of the same class
        return message_class

    return register


def encode(message: Any) -> tuple[int, bytes, Buffer]:
    """The id, the body and the bulk bytes of a message."""
    message_class = type(message)
    encoder = _encoders.get(message_class)
    if encoder is None:
        encoder = _compile_encoder(message_class)
    try:
        body, payload = encoder(message)
    except (struct.error, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
        raise CodecError(f"{message!r:.200} cannot be encoded: {error}") from error
    return _id_of[message_class], body, payload


def decode(message_id: int, body: memoryview, payload: memoryview) -> Any:
    """The message with this id, body and bulk bytes. The result keeps `payload`, never `body`."""
    decoder = _decoders.get(message_id)
    if decoder is None:
        decoder = _compile_decoder(message_id)
    try:
        return decoder(body, payload)
    except (struct.error, ValueError, TypeError, IndexError, AddressError, RecursionError) as error:
        raise CodecError(f"{_by_id[message_id].__name__}: {len(body)} bytes are no such message: {error}") from error


# -- compiling ---------------------------------------------------------------------------------------------------


def _compile_encoder(message_class: type) -> Encode:
    if message_class not in _id_of:
        raise CodecError(f"{message_class.__name__} is not registered with @wire, so it cannot cross a process border")
    names, fixed, blobs, bulk = _layout(message_class)
    scope: dict[str, Any] = {"pack": struct.Struct(_head_format(fixed, blobs)).pack, "EMPTY": b""}
    lines = ["def encode(m):"]
    for name, hint in blobs.items():
        scope[f"to_{name}"] = _blob_encoder(hint, f"{message_class.__name__}.{name}")
        lines.append(f"    b_{name} = to_{name}(m.{name})")
    head = [f"m.{name}" for name in names if name in fixed] + [f"len(b_{name})" for name in blobs]
    parts = [f"pack({', '.join(head)})", *(f"b_{name}" for name in blobs)]
    body = parts[0] if len(parts) == 1 else f"b''.join(({', '.join(parts)}))"
    lines.append(f"    return {body}, {f'm.{bulk}' if bulk else 'EMPTY'}")
    exec("\n".join(lines), scope)  # noqa: S102  our own source, made from declared field names
    encoder: Encode = scope["encode"]
    _encoders[message_class] = encoder
    return encoder


def _compile_decoder(message_id: int) -> Decode:
    message_class = _by_id.get(message_id)
    if message_class is None:
        raise CodecError(f"message id {message_id:#x} is unknown here")
    names, fixed, blobs, bulk = _layout(message_class)
    head = struct.Struct(_head_format(fixed, blobs))
    scope: dict[str, Any] = {"unpack": head.unpack_from, "Message": message_class, "check": _check_end}
    targets = [f"f_{name}" for name in names if name in fixed] + [f"n_{name}" for name in blobs]
    lines = ["def decode(body, payload):"]
    if targets:
        lines.append(f"    ({', '.join(targets)},) = unpack(body)")
    lines.append(f"    at = {head.size}")
    for name, hint in blobs.items():
        scope[f"from_{name}"] = _blob_decoder(hint, f"{message_class.__name__}.{name}")
        lines += [f"    f_{name} = from_{name}(body[at:at + n_{name}])", f"    at += n_{name}"]
    lines.append("    check(body, at)")
    arguments = ", ".join("payload" if name == bulk else f"f_{name}" for name in names)
    lines.append(f"    return Message({arguments})")
    exec("\n".join(lines), scope)  # noqa: S102  our own source, made from declared field names
    decoder: Decode = scope["decode"]
    _decoders[message_id] = decoder
    return decoder


def _layout(message_class: type) -> tuple[list[str], dict[str, str], dict[str, Any], str | None]:
    """Field names in order; formats of the fixed ones; types of the others; the name of the bulk field."""
    hints = typing.get_type_hints(message_class)
    names = [field.name for field in attrs.fields(message_class) if field.init]
    fixed = {name: _FIXED[hints[name]] for name in names if hints[name] in _FIXED}
    bulk = [name for name in names if hints[name] in (Payload, memoryview)]
    if len(bulk) > 1:
        raise CodecError(f"{message_class.__name__} has {len(bulk)} Payload fields; one is allowed")
    blobs = {name: hints[name] for name in names if name not in fixed and name not in bulk}
    return names, fixed, blobs, bulk[0] if bulk else None


def _head_format(fixed: dict[str, str], blobs: dict[str, Any]) -> str:
    return ">" + "".join(fixed.values()) + "I" * len(blobs)


def _check_end(body: memoryview, at: int) -> None:
    if at != len(body):
        raise ValueError(f"{at} bytes declared, {len(body)} there")


# -- values of a length that is not fixed ---------------------------------------------------------------------------


def _blob_encoder(hint: Any, where: str) -> Callable[[Any], bytes]:
    if hint in _FIXED:
        return struct.Struct(">" + _FIXED[hint]).pack
    if hint is str:
        return str.encode
    if hint is bytes:
        return bytes
    if hint is Address:
        return lambda value: value.encoded
    if hint in _id_of:
        _refuse_bulk(hint, where)
        return lambda value: encode(value)[1]
    inner = _inner(hint, where)
    encode_inner = _blob_encoder(inner, where)
    if typing.get_origin(hint) is tuple:
        return lambda values: b"".join(_with_length(encode_inner(value)) for value in values)
    return lambda value: b"\0" if value is None else b"\1" + encode_inner(value)


def _blob_decoder(hint: Any, where: str) -> Callable[[memoryview], Any]:
    if hint in _FIXED:
        unpack = struct.Struct(">" + _FIXED[hint]).unpack
        return lambda blob: unpack(blob)[0]
    if hint is str:
        return lambda blob: str(blob, "utf-8")
    if hint is bytes:
        return bytes
    if hint is Address:
        return lambda blob: Address.parse(str(blob, "utf-8"))
    if hint in _id_of:
        _refuse_bulk(hint, where)
        message_id = _id_of[hint]
        return lambda blob: decode(message_id, blob, _EMPTY)
    inner = _inner(hint, where)
    decode_inner = _blob_decoder(inner, where)
    if typing.get_origin(hint) is tuple:
        return lambda blob: tuple(decode_inner(part) for part in _parts(blob))
    return lambda blob: _optional(blob, decode_inner)


def _refuse_bulk(hint: type, where: str) -> None:
    if attrs.has(hint) and _layout(hint)[3] is not None:
        raise CodecError(f"{where}: {hint.__name__} has a Payload, which only the outermost message can carry")


def _inner(hint: Any, where: str) -> Any:
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return arguments[0]
    if typing.get_origin(hint) in (typing.Union, types.UnionType) and len(arguments) == 2 and type(None) in arguments:
        return arguments[0] if arguments[1] is type(None) else arguments[1]
    raise CodecError(f"{where}: a field of type {hint} has no wire form")


def _with_length(blob: bytes) -> bytes:
    return len(blob).to_bytes(4, "big") + blob


def _parts(blob: memoryview) -> typing.Iterator[memoryview]:
    at = 0
    while at < len(blob):
        size = int.from_bytes(blob[at : at + 4], "big")
        part = blob[at + 4 : at + 4 + size]
        if len(part) != size or at + 4 > len(blob):
            raise ValueError("a list ends in the middle of a value")
        yield part
        at += 4 + size


def _optional(blob: memoryview, decode_inner: Callable[[memoryview], Any]) -> Any:
    mark = bytes(blob[:1])
    if mark == b"\0" and len(blob) == 1:
        return None
    if mark != b"\1":
        raise ValueError("neither present nor absent")
    return decode_inner(blob[1:])


# -- plain values, so that an ask may be answered with one ----------------------------------------------------------


def _register_plain(message_id: int, value_class: type, to_bytes: Callable[[Any], bytes], from_blob: Any) -> None:
    _by_id[message_id] = value_class
    _id_of[value_class] = message_id
    _encoders[value_class] = lambda value: (to_bytes(value), b"")
    _decoders[message_id] = lambda body, _payload: from_blob(body)


_register_plain(1, type(None), lambda _: b"", lambda _: None)
for _plain_id, _plain_class in enumerate((bool, int, float, str, bytes), start=2):
    _register_plain(_plain_id, _plain_class, _blob_encoder(_plain_class, ""), _blob_decoder(_plain_class, ""))
_register_plain(7, ActorStop, lambda _: b"", lambda _: ActorStop())
