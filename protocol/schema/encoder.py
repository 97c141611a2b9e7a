"""Writes the function that encodes one version of a message.

The function appends to a bytearray. A blob above BLOB_COPIED_MAX bytes is not copied into it: it becomes a buffer of
its own, and what follows goes into a new bytearray. What fails in it is one of FAULTS.

The text of an error is cut to ERROR_CHARS_MAX. It may quote what a client sent, which is as long as a string can be;
the text would then be too long for a string, and the client would get no answer at all.
"""

from __future__ import annotations

import struct

from protocol.errors import UnsupportedVersion
from protocol.records.varint import encode_unsigned
from protocol.schema.declaration import TEXT_SIZE_MAX, Array, Blob, Fixed, MessageField, Struct, Text, Type
from protocol.schema.source import COUNTS_READY, Source, ready

FAULTS = (struct.error, AttributeError, TypeError, ValueError)  # UnicodeEncodeError is a ValueError
BLOB_COPIED_MAX = 1024
ERROR_CHARS_MAX = 4000
_ERROR_TEXT = "error_message"


def encoder_source(cls: type, version: int, *, in_steps: bool = False) -> Source:
    """The source of `encode(m, out)`, which returns a list of buffers, the first of which is `out`."""
    source = Source(cls, version, in_steps=in_steps)
    source.namespace.update(
        varint=encode_unsigned, text_length=_text_length, unsaid=_unsaid, pack=struct.pack, not_a_uuid=_not_a_uuid
    )
    with source.block("def encode(m, out):"):
        source.line("parts = [out]")
        source.step("0")
        encoder = _Encoder(source)
        encoder.struct(source.struct, "m")
        encoder.flush()
        source.line("return parts")
    return source


class _Encoder:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.line = source.line
        self.version = source.version
        self.flexible = source.flexible
        self._tags_around = 0

    def struct(self, kind: Struct, name: str) -> None:
        """Writes a struct; the run may stay open."""
        for f in kind.absent(self.version):
            if not f.ignorable:
                self.flush()
                with self.source.field(f.name), self.source.block(f"if {self.is_said(f, f'{name}.{f.name}')}:"):
                    self.line(f"raise unsaid({f.name!r})")
        for f in kind.plain(self.version):
            value = f"{name}.{f.name}"
            if f.name.endswith(_ERROR_TEXT):
                value = f"{value} and {value}[:{ERROR_CHARS_MAX}]"
            with self.source.field(f.name):
                self.value(f.type, value, nullable=self.version in f.nullable)
        if self.flexible:
            self.tags(kind, name)

    def is_said(self, f: MessageField, value: str) -> str:
        """The expression for whether a field is something other than its default."""
        if f.default is None:
            return f"{value} is not None"
        if f.default == []:
            return f"{value} is None or {value}" if self.version in f.nullable else value
        if isinstance(f.default, type):
            return f"{value} != {self.source.bind('default', f.default())}"
        return f"{value} != {f.default!r}"

    def flush(self) -> None:
        """Writes what is in the run."""
        run = self.source.run
        if run:
            self.line(self._packed())
            run.clear()

    def _packed(self) -> str:
        if all(item.code == "x" for item in self.source.run):
            return f"out += {bytes(len(self.source.run))!r}"
        if [item.code for item in self.source.run] == ["B"]:
            return f"out.append({self.source.run[0].name})"
        values = ", ".join(item.name for item in self.source.run if item.name)
        return f"out += {self.source.bind_run('pack')}({values})"

    def value(self, kind: Type, value: str, *, nullable: bool) -> None:
        match kind:
            case Fixed():
                self.fixed(kind, value)
            case Text():
                self.text(value, nullable=nullable)
            case Blob():
                self.blob(value, nullable=nullable)
            case Array(element):
                self.array(element, value, nullable=nullable)
            case Struct():
                self.inner_struct(kind, value, nullable=nullable)

    def fixed(self, kind: Fixed, value: str) -> None:
        if kind.name == "uuid":
            self.uuid_check(value)
        self.source.add_to_run(value, kind)

    def uuid_check(self, value: str) -> None:
        """A struct would cut or pad bytes of another length, and say nothing."""
        kept, self.source.run[:] = self.source.run[:], []
        with self.source.block(f"if len({value}) != 16:"):
            self.line(f"raise not_a_uuid({value})")
        self.source.run[:] = kept

    def text(self, value: str, *, nullable: bool) -> None:
        raw = self.source.fresh("raw")
        self.ahead_of_run(f"{raw} = {value}" if nullable else f"{raw} = {value}.encode()")
        if nullable:
            self.ahead_of_run(f"if {raw} is not None: {raw} = {raw}.encode()")
        self.length(raw, "h", "text_length", nullable=nullable)
        self.line(f"if {raw}: out += {raw}" if nullable else f"out += {raw}")

    def blob(self, value: str, *, nullable: bool) -> None:
        raw = self.source.fresh("raw")
        self.ahead_of_run(f"{raw} = {value}")
        self.length(raw, "i", "varint", nullable=nullable)
        if self._tags_around:  # the size of a tagged field stands before it: it is written on its own, and then copied
            self.line(f"if {raw}: out += {raw}" if nullable else f"out += {raw}")
            return
        with self.source.block(f"if {raw} and len({raw}) > {BLOB_COPIED_MAX}:"):
            self.line("out = bytearray()")
            self.line(f"parts += ({raw}, out)")
        with self.source.block(f"elif {raw}:"):
            self.line(f"out += {raw}")

    def ahead_of_run(self, text: str) -> None:
        """A line that must come before what is in the run is written, since the run holds what it makes."""
        kept, self.source.run[:] = self.source.run[:], []
        self.line(text)
        self.source.run[:] = kept

    def length(self, name: str, code: str, longer: str, *, nullable: bool) -> None:
        """Writes how long the value of a variable is, and the run before it."""
        size = f"len({name})"
        if not self.flexible:
            self.source.add_to_run(f"-1 if {name} is None else {size}" if nullable else size, code)
            self.flush()
            return
        self.ahead_of_run(f"n = 0 if {name} is None else {size} + 1" if nullable else f"n = {size} + 1")
        kept, self.source.run[:] = self.source.run[:], []
        with self.source.block("if n < 128:"):
            self.source.run[:] = kept
            self.source.add_to_run("n", "B")
            self.flush()
        with self.source.block("else:"):
            self.source.run[:] = kept
            self.flush()
            self.line(f"out += {longer}(n)")

    def array(self, element: Type, value: str, *, nullable: bool) -> None:
        items = self.source.fresh("items")
        self.ahead_of_run(f"{items} = {value}")
        self.length(items, "i", "varint", nullable=nullable)
        if nullable:
            with self.source.block(f"if {items}:"):
                self.elements(element, items)
        else:
            self.elements(element, items)

    def elements(self, element: Type, items: str) -> None:
        if isinstance(element, Fixed) and element.name != "uuid":
            few = self.source.bind("few", ready(element.code, "pack"))
            many = f"pack(f'>{{n}}{element.code}', *{items})"
            self.line(f"n = len({items})")
            self.line(f"out += {few}[n](*{items}) if n < {COUNTS_READY} else {many}")
            return
        item = self.source.fresh("item")
        with self.source.block(f"for {item} in {items}:"), self.source.field("[]"):
            if isinstance(element, Struct):
                self.struct(element, item)
            else:
                self.value(element, item, nullable=False)
            self.flush()
            self.source.step("1")

    def inner_struct(self, kind: Struct, value: str, *, nullable: bool) -> None:
        inner = self.source.fresh("inner")
        self.ahead_of_run(f"{inner} = {value}")
        if not nullable:
            self.struct(kind, inner)
            return
        self.flush()
        with self.source.block(f"if {inner} is None:"):
            self.line("out.append(255)")
        with self.source.block("else:"):
            self.line("out.append(1)")
            self.struct(kind, inner)
            self.flush()

    def tags(self, kind: Struct, name: str) -> None:
        """Writes the tagged fields that are not their defaults."""
        known = kind.tagged(self.version)
        if not known:
            self.source.add_to_run("", "x")  # no tags
            return
        self.flush()
        said = {f.name: self.is_said(f, f"{name}.{f.name}") for f in known}
        around, tagged, count = self.source.fresh("around"), self.source.fresh("tagged"), self.source.fresh("count")
        with self.source.block(f"if {' or '.join(said.values())}:"):
            self.line(f"{around}, {tagged}, {count} = out, bytearray(), 0")
            self._tags_around += 1
            for f in known:
                with self.source.block(f"if {said[f.name]}:"), self.source.field(f.name):
                    self.line("out = bytearray()")
                    self.value(f.type, f"{name}.{f.name}", nullable=self.version in f.nullable)
                    self.flush()
                    self.line(f"{count} += 1")
                    self.line(f"{tagged} += varint({f.tag}) + varint(len(out)) + out")
            self._tags_around -= 1
            self.line(f"out = {around}")
            self.line(f"out += varint({count}) + {tagged}")
        with self.source.block("else:"):
            self.line("out.append(0)")


def _text_length(length: int) -> bytes:
    if length > TEXT_SIZE_MAX + 1:
        raise ValueError(f"a string of {length - 1} bytes")
    return encode_unsigned(length)


def _not_a_uuid(value: bytes) -> ValueError:
    return ValueError(f"{value!r} is not a uuid's 16 bytes")


def _unsaid(name: str) -> UnsupportedVersion:
    return UnsupportedVersion(f"there is no field {name}")
