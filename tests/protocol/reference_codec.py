"""Kafka's encoding, field by field, as slow and as plain as can be: what the compiled codec must equal."""

from __future__ import annotations

import struct
from typing import Any

import attrs

from protocol.schema.declaration import (
    Array,
    Blob,
    Buffer,
    Fixed,
    MessageField,
    Struct,
    Text,
    Type,
    declaration_of,
    struct_of,
)


class Unreadable(Exception):
    """These bytes are not the message."""


def encode(message: object, version: int) -> bytes:
    cls: type = type(message)
    return _Writer(cls, version).struct(struct_of(cls), message)


def decode(cls: type, version: int, data: Buffer) -> tuple[Any, int]:
    reader = _Reader(cls, version, bytes(data))
    return reader.struct(struct_of(cls)), reader.at


def unsigned_varint(number: int) -> bytes:
    out = b""
    while number >= 0x80:
        out += bytes([number % 0x80 + 0x80])
        number //= 0x80
    return out + bytes([number])


def default_of(field: MessageField) -> Any:
    """What a field is when nobody said anything."""
    if isinstance(field.default, type):
        return field.default()
    return [] if field.default == [] else field.default


class _Writer:
    def __init__(self, cls: type, version: int) -> None:
        self.version = version
        self.flexible = version in declaration_of(cls).flexible

    def struct(self, kind: Struct, value: object) -> bytes:
        out = b""
        tagged: dict[int, bytes] = {}
        for field in kind.fields:
            if self.version not in field.versions:
                continue
            item = getattr(value, field.name)
            nullable = self.version in field.nullable
            if field.tag is None:
                out += self.value(field.type, item, nullable=nullable)
            elif item != default_of(field):
                tagged[field.tag] = self.value(field.type, item, nullable=nullable)
        if self.flexible:
            out += unsigned_varint(len(tagged))
            for tag in sorted(tagged):
                out += unsigned_varint(tag) + unsigned_varint(len(tagged[tag])) + tagged[tag]
        return out

    def value(self, kind: Type, value: Any, *, nullable: bool) -> bytes:
        if value is None:
            assert nullable
        if isinstance(kind, Fixed):
            return struct.pack(">" + kind.code, value)
        if isinstance(kind, Text):
            raw = None if value is None else value.encode("utf-8")
            return self.length(raw, ">h") + (raw or b"")
        if isinstance(kind, Blob):
            return self.length(value, ">i") + bytes(value or b"")
        if isinstance(kind, Array):
            items = (self.value(kind.element, item, nullable=False) for item in value or [])
            return self.length(value, ">i") + b"".join(items)
        if value is None:
            return b"\xff"
        return (b"\x01" if nullable else b"") + self.struct(kind, value)

    def length(self, value: Any, code: str) -> bytes:
        length = -1 if value is None else len(value)
        return unsigned_varint(length + 1) if self.flexible else struct.pack(code, length)


class _Reader:
    def __init__(self, cls: type, version: int, data: bytes) -> None:
        self.version = version
        self.flexible = version in declaration_of(cls).flexible
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self.data) - self.at:
            raise Unreadable(f"{size} bytes at {self.at}")
        self.at += size
        return self.data[self.at - size : self.at]

    def unsigned_varint(self) -> int:
        number = 0
        for place in range(5):
            (byte,) = self.take(1)
            number += (byte % 0x80) << (7 * place)
            if byte < 0x80:
                break
        else:
            raise Unreadable("a varint of more than five bytes")
        if number >= 1 << 32:
            raise Unreadable("a varint of more than 32 bits")
        return number

    def struct(self, kind: Struct) -> Any:
        values = {field.name: default_of(field) for field in kind.fields}
        for field in kind.fields:
            if self.version in field.versions and field.tag is None:
                values[field.name] = self.value(field.type, nullable=self.version in field.nullable)
        if self.flexible:
            tags = {
                field.tag: field for field in kind.fields if self.version in field.versions and field.tag is not None
            }
            for _ in range(self.unsigned_varint()):
                tag = self.unsigned_varint()
                size = self.unsigned_varint()
                end = self.at + size
                if end > len(self.data):
                    raise Unreadable("a tag beyond the end")
                if tag in tags:
                    field = tags[tag]
                    values[field.name] = self.value(field.type, nullable=self.version in field.nullable)
                    if self.at != end:
                        raise Unreadable("a tagged field of another size")
                self.at = end
        return attrs.evolve(kind.cls(), **values)

    def value(self, kind: Type, *, nullable: bool) -> Any:
        if isinstance(kind, Fixed):
            return struct.unpack(">" + kind.code, self.take(kind.size))[0]
        if isinstance(kind, Struct):
            is_null = nullable and struct.unpack(">b", self.take(1))[0] < 0
            return None if is_null else self.struct(kind)
        length = self.length(2 if isinstance(kind, Text) else 4)
        if length < 0:
            if not nullable:
                raise Unreadable("null")
            return None
        if isinstance(kind, Text):
            if length > 0x7FFF:
                raise Unreadable("a long string")
            try:
                return self.take(length).decode("utf-8")
            except UnicodeDecodeError:
                raise Unreadable("not text") from None
        if isinstance(kind, Blob):
            return self.take(length)
        if length > len(self.data) - self.at:
            raise Unreadable("more elements than bytes")
        return [self.value(kind.element, nullable=False) for _ in range(length)]

    def length(self, size: int) -> int:
        if self.flexible:
            return self.unsigned_varint() - 1
        return int.from_bytes(self.take(size), "big", signed=True)
