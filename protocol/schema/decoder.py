"""Writes the function that decodes one version of a message.

The function takes a buffer and a position. It reads a message without blobs from bytes, where slices are quickest, and
one with blobs from a memoryview, so that they are views of what was received and nothing is copied. A length or count
is held against the bytes that are left before anything is made of it. What fails in it is one of FAULTS.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from protocol.errors import CorruptBatch
from protocol.records.varint import ByteSequence, decode_unsigned
from protocol.schema.declaration import (
    TEXT_SIZE_MAX,
    Array,
    Blob,
    Fixed,
    MessageField,
    Struct,
    Text,
    Type,
    holds_blob,
    size_min,
)
from protocol.schema.source import COUNTS_READY, Source, ready

FAULTS = (struct.error, IndexError, ValueError, CorruptBatch)  # UnicodeDecodeError is a ValueError


TAGS_MAX = 1000
"""Tagged fields of one struct. Each takes time even where it is skipped; the schemas have fewer than ten."""


def decoder_source(cls: type, version: int, *, in_steps: bool = False) -> Source:
    """The source of `decode(data, at)`, which returns the message and where it ends."""
    source = Source(cls, version, in_steps=in_steps)
    known = {"varint": decode_unsigned, "text_length": _text_length, "skip": _skip_tags, "wrong": _wrong_size}
    source.namespace.update(known, unpack_from=struct.unpack_from, not_the_end=_not_the_end, too_many=_too_many_tags)
    with source.block("def decode(data, at):"):
        source.line("size = len(data)")
        source.step("0")
        made = _Decoder(source).struct(source.struct)
        source.line(f"return {made}, at")
    return source


class _Decoder:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.line = source.line
        self.version = source.version
        self.flexible = source.flexible
        self.views = holds_blob(source.struct, source.version)

    def struct(self, kind: Struct) -> str:
        """Reads a struct; returns the expression that makes it. The run is flushed."""
        names = {f.name: self._default(f) for f in kind.fields}
        for f in kind.plain(self.version):
            names[f.name] = self.source.fresh("v")
            with self.source.field(f.name):
                self.value(f.type, names[f.name], nullable=self.version in f.nullable)
        if self.flexible:
            self.tags(kind, names)
        self.flush()
        return f"{self.source.bind('C', kind.cls)}({', '.join(names.values())})"

    def _default(self, f: MessageField) -> str:
        if isinstance(f.default, type):
            return f"{self.source.bind('C', f.default)}()"
        return repr(f.default)

    def flush(self) -> None:
        """Reads what is in the run."""
        run = self.source.run
        if not run:
            return
        if [item.code for item in run] == ["B"]:
            self.line(f"{run[0].name} = data[at]")
        else:
            self.line(f"{', '.join(item.name for item in run)}, = {self.source.bind_run('unpack_from')}(data, at)")
        size = sum(item.size for item in run)
        run.clear()
        self.line(f"at += {size}")

    def value(self, kind: Type, name: str, *, nullable: bool) -> None:
        match kind:
            case Fixed():
                self.source.add_to_run(name, kind)
            case Text():
                self.length("h", "text_length")
                decoded = "str(data[at:end], 'utf-8')" if self.views else "data[at:end].decode()"
                self.sized(name, decoded, nullable=nullable)
            case Blob():
                self.length("i", "varint")
                self.sized(name, "data[at:end]", nullable=nullable)
            case Array(element):
                self.length("i", "varint")
                self.array(element, name, nullable=nullable)
            case Struct():
                self.inner_struct(kind, name, nullable=nullable)

    def length(self, code: str, longer: str) -> None:
        """Leaves a length or count in n; if it is compact, one more than that. The run is flushed."""
        self.source.add_to_run("n", "B" if self.flexible else code)
        self.flush()
        if self.flexible:
            with self.source.block("if n > 127:"):
                self.line(f"n, at = {longer}(data, at - 1)")

    def sized(self, name: str, expression: str, *, nullable: bool) -> None:
        def read() -> None:
            self.line("end = at + n - 1" if self.flexible else "end = at + n")
            with self.source.block("if not at <= end <= size:"):
                self.line("raise wrong(end - at, size - at)")
            self.line(f"{name} = {expression}")
            self.line("at = end")

        self.unless_null(name, read, nullable=nullable)

    def unless_null(self, name: str, read: Callable[[], None], *, nullable: bool) -> None:
        if not nullable:
            read()
            return
        with self.source.block("if n == 0:" if self.flexible else "if n < 0:"):
            self.line(f"{name} = None")
        with self.source.block("else:"):
            read()

    def array(self, element: Type, name: str, *, nullable: bool) -> None:
        def read() -> None:
            if self.flexible:
                self.line("n -= 1")
            smallest = size_min(element, self.version, flexible=self.flexible)
            with self.source.block(f"if not 0 <= n <= (size - at) // {smallest}:"):
                self.line("raise wrong(n, size - at)")
            self.elements(element, name)

        self.unless_null(name, read, nullable=nullable)

    def elements(self, element: Type, name: str) -> None:
        """Reads n elements into a list."""
        if isinstance(element, Fixed):
            self.source.step("n")
            if element.name == "uuid":
                self.line(f"{name} = [bytes(data[i : i + 16]) for i in range(at, at + 16 * n, 16)]")
            else:
                few = self.source.bind("few", ready(element.code, "unpack_from"))
                many = f"unpack_from(f'>{{n}}{element.code}', data, at)"
                self.line(f"{name} = list({few}[n](data, at) if n < {COUNTS_READY} else {many})")
            self.line(f"at += {element.size} * n")
            return
        index, add = self.source.fresh("i"), self.source.fresh("add")
        self.line(f"{name} = []")
        self.line(f"{add} = {name}.append")
        with self.source.block(f"for {index} in range(n):"), self.source.field(f"[{{{index}}}]"):
            if isinstance(element, Struct):
                made = self.struct(element)
            else:
                made = self.source.fresh("v")
                self.value(element, made, nullable=False)
            self.line(f"{add}({made})")
            self.source.step("1")

    def inner_struct(self, kind: Struct, name: str, *, nullable: bool) -> None:
        if not nullable:
            self.line(f"{name} = {self.struct(kind)}")
            return
        self.source.add_to_run("n", "b")
        self.flush()
        with self.source.block("if n < 0:"):
            self.line(f"{name} = None")
        with self.source.block("else:"):
            self.line(f"{name} = {self.struct(kind)}")

    def tags(self, kind: Struct, names: dict[str, str]) -> None:
        """Reads the tagged fields; those that are not known are skipped."""
        known = kind.tagged(self.version)
        count = self.source.fresh("tags")
        self.source.add_to_run(count, "B")
        self.flush()
        for f in known:
            default, names[f.name] = names[f.name], self.source.fresh("v")
            self.line(f"{names[f.name]} = {default}")
        with self.source.block(f"if {count}:"):
            with self.source.block(f"if {count} > 127:"):
                self.line(f"{count}, at = varint(data, at - 1)")
                with self.source.block(f"if {count} > {TAGS_MAX}:"):
                    self.line(f"raise too_many({count})")
            if not known:
                self.line(f"at = skip(data, at, {count})")
                return
            tag, stop = self.source.fresh("tag"), self.source.fresh("stop")
            with self.source.block(f"for _ in range({count}):"):
                self.line(f"{tag}, at = varint(data, at)")
                self.line("n, at = varint(data, at)")
                self.line(f"{stop} = at + n")
                with self.source.block(f"if {stop} > size:"):
                    self.line("raise wrong(n, size - at)")
                opening = "if"
                for f in known:
                    with self.source.block(f"{opening} {tag} == {f.tag}:"), self.source.field(f.name):
                        self.value(f.type, names[f.name], nullable=self.version in f.nullable)
                        self.flush()
                        with self.source.block(f"if at != {stop}:"):
                            self.line(f"raise not_the_end({stop})")
                    opening = "elif"
                with self.source.block("else:"):
                    self.line(f"at = {stop}")


def _text_length(data: ByteSequence, at: int) -> tuple[int, int]:
    length, at = decode_unsigned(data, at)
    if length > TEXT_SIZE_MAX + 1:
        raise ValueError(f"a string of {length - 1} bytes")
    return length, at


def _skip_tags(data: bytes | memoryview, at: int, count: int) -> int:
    for _ in range(count):
        _, at = decode_unsigned(data, at)
        size, at = decode_unsigned(data, at)
        if size > len(data) - at:
            raise _wrong_size(size, len(data) - at)
        at += size
    return at


def _wrong_size(size: int, left: int) -> ValueError:
    if size < 0:
        return ValueError("null, where it must not be")
    return ValueError(f"a length or count of {size} where {left} bytes are left")


def _too_many_tags(count: int) -> ValueError:
    return ValueError(f"{count} tagged fields; at most {TAGS_MAX} are taken")


def _not_the_end(stop: int) -> ValueError:
    return ValueError(f"the tagged field should end at byte {stop}")
