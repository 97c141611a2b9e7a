"""The language in which Kafka's messages are declared: plain classes whose annotations say how a field travels.

    @message(FETCH.versions, FETCH.flexible)
    class FetchRequest:
        cluster_id: String | None = field("12+", tag=0, default=None, ignorable=True)
        max_wait_ms: Int32 = 0
        topics: list[FetchTopic] = field(factory=list)

A declaration is read twice. A type checker sees a class with a keyword constructor, and that `Int32` is an int. The
codec sees a Struct of Fields (`struct_of`), from which it writes the functions that encode and decode one version.

- A field that says nothing of versions is in every one. Every field has a default, which is what a message of a version
  without the field is read as. Writing another value in such a version is an error, unless the field is ignorable.
- `X | None` can be null: in every version that has the field, or in those that `nullable` names.
- A tagged field is written only when it is not its default. A tagged struct is None where Kafka's own classes hold one
  that is all defaults: None is what is left out.
- Strings are str, uuids their 16 bytes, bytes and records any buffer; they are decoded as views of what was received.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from functools import cache
from typing import Annotated, Any, TypeVar, Union, dataclass_transform, get_args, get_origin, get_type_hints, overload

import attrs

from protocol.late_attrs import define, frozen

T = TypeVar("T")

Buffer = bytes | bytearray | memoryview

NO_UUID = bytes(16)
TEXT_SIZE_MAX = 0x7FFF
INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1
_FOREVER = (1 << 15) - 1
_DECLARED = "kafka"


@frozen
class Versions:
    """A range of versions, both ends included; it is empty if the last comes before the first."""

    first: int
    last: int

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last + 1))

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"

    @classmethod
    def parse(cls, text: str) -> Versions:
        """From Kafka's notation: `3+`, `0-7`, `2` or `none`."""
        if text == "none":
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), _FOREVER)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))


ALWAYS = Versions(0, _FOREVER)
NEVER = Versions(0, -1)


@frozen
class Fixed:
    """A type whose size never varies. `code` is its letter in the struct module."""

    name: str
    code: str
    size: int


@frozen
class Text:
    """UTF-8 behind its length, in at most TEXT_SIZE_MAX bytes."""


@frozen
class Blob:
    """Bytes behind their length, which are neither copied nor looked at."""


@frozen
class Array:
    """A count, then the elements."""

    element: Type


@frozen
class MessageField:
    """One field of a struct. With a tag, it is tagged in every version that has it."""

    name: str
    type: Type
    versions: Versions
    nullable: Versions
    tag: int | None
    ignorable: bool
    default: Any  # a list stands for a new list, a class for a new one of it


@frozen
class Struct:
    """The fields of a class, in the order in which they travel."""

    cls: type
    fields: tuple[MessageField, ...]

    def plain(self, version: int) -> list[MessageField]:
        """The fields of a version that are not tagged."""
        return [f for f in self.fields if version in f.versions and f.tag is None]

    def tagged(self, version: int) -> list[MessageField]:
        """The tagged fields of a version, by tag."""
        found = [f for f in self.fields if version in f.versions and f.tag is not None]
        return sorted(found, key=lambda f: f.tag or 0)

    def absent(self, version: int) -> list[MessageField]:
        """The fields that a version does not have."""
        return [f for f in self.fields if version not in f.versions]


Type = Fixed | Text | Blob | Array | Struct

Bool = Annotated[bool, Fixed("bool", "?", 1)]
Int8 = Annotated[int, Fixed("int8", "b", 1)]
Int16 = Annotated[int, Fixed("int16", "h", 2)]
UInt16 = Annotated[int, Fixed("uint16", "H", 2)]
Int32 = Annotated[int, Fixed("int32", "i", 4)]
UInt32 = Annotated[int, Fixed("uint32", "I", 4)]
Int64 = Annotated[int, Fixed("int64", "q", 8)]
Float64 = Annotated[float, Fixed("float64", "d", 8)]
Uuid = Annotated[bytes, Fixed("uuid", "16s", 16)]
String = Annotated[str, Text()]
Bytes = Annotated[Buffer, Blob()]
Records = Annotated[Buffer, Blob()]


@frozen
class _Declared:
    versions: Versions
    nullable: Versions | None  # None leaves it to the annotation
    tag: int | None
    ignorable: bool


@overload
def field(
    versions: str = ...,
    *,
    default: T,
    nullable: str | None = ...,
    tag: int | None = ...,
    ignorable: bool = ...,
) -> T: ...
@overload
def field(
    versions: str = ...,
    *,
    factory: Callable[[], T],
    nullable: str | None = ...,
    tag: int | None = ...,
    ignorable: bool = ...,
) -> T: ...
def field(
    versions: str = "0+",
    *,
    default: Any = attrs.NOTHING,
    factory: Callable[[], Any] | None = None,
    nullable: str | None = None,
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """A field of which there is more to say than its type and default."""
    present = Versions.parse(versions)
    stated = None if nullable is None else Versions.parse(nullable)
    declared = _Declared(present, stated, tag, ignorable)
    return attrs.field(default=attrs.Factory(factory) if factory else default, metadata={_DECLARED: declared})


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def struct(cls: type[T]) -> type[T]:
    """A class of fields that is part of messages."""
    return define(weakref_slot=False)(cls)


@frozen
class Declaration:
    """What a message says of itself beyond its fields."""

    versions: Versions
    flexible: Versions


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def message(versions: Versions, flexible: Versions) -> Callable[[type[T]], type[T]]:
    """A class of fields that travels alone, in these versions. The flexible ones have compact lengths and tags."""

    def declare(cls: type[T]) -> type[T]:
        made = define(weakref_slot=False)(cls)
        made.__declaration__ = Declaration(versions, flexible)  # type: ignore[attr-defined]
        return made

    return declare


def declaration_of(cls: type) -> Declaration:
    """The declaration of a message."""
    found = getattr(cls, "__declaration__", None)
    if not isinstance(found, Declaration):
        raise TypeError(f"{cls.__name__} is not declared as a message")
    return found


@cache
def struct_of(cls: type) -> Struct:
    """The fields of a class that was declared with `message` or `struct`."""
    hints = get_type_hints(cls, include_extras=True)
    return Struct(cls, tuple(_field_of(attribute, hints[attribute.name]) for attribute in attrs.fields(cls)))


def _field_of(attribute: attrs.Attribute[Any], hint: Any) -> MessageField:
    stated = attribute.metadata.get(_DECLARED) or _Declared(ALWAYS, None, None, ignorable=False)
    default = attribute.default
    factory = getattr(default, "factory", None)
    if factory is not None:
        default = [] if factory is list else factory
    hint, may_be_none = _without_none(hint)
    kind = _type_of(hint)
    left_out = stated.tag is not None and isinstance(kind, Struct)
    nullable = stated.nullable or (stated.versions if may_be_none and not left_out else NEVER)
    if may_be_none != (nullable != NEVER or left_out):
        raise TypeError(f"{attribute.name}: {hint} and nullable in versions {nullable} do not agree")
    return MessageField(attribute.name, kind, stated.versions, nullable, stated.tag, stated.ignorable, default)


def _without_none(hint: Any) -> tuple[Any, bool]:
    if get_origin(hint) not in (Union, types.UnionType):
        return hint, False
    (other,) = (part for part in get_args(hint) if part is not types.NoneType)
    return other, True


def _type_of(hint: Any) -> Type:
    if get_origin(hint) is Annotated:
        kind = hint.__metadata__[0]
        assert isinstance(kind, Fixed | Text | Blob)
        return kind
    if get_origin(hint) is list:
        return Array(_type_of(get_args(hint)[0]))
    return struct_of(hint)


def holds_blob(kind: Type, version: int) -> bool:
    """Whether bytes or records can be anywhere in it."""
    match kind:
        case Array(element):
            return holds_blob(element, version)
        case Struct(_, fields):
            return any(holds_blob(f.type, version) for f in fields if version in f.versions)
    return isinstance(kind, Blob)


def size_min(kind: Type, version: int, *, flexible: bool) -> int:
    """The fewest bytes that a value which is not null takes. No element of an array takes none."""
    match kind:
        case Fixed():
            return kind.size
        case Text():
            return 1 if flexible else 2
        case Struct():
            sizes = (
                1
                if isinstance(f.type, Struct) and version in f.nullable
                else size_min(f.type, version, flexible=flexible)
                for f in kind.plain(version)
            )
            return max(1, sum(sizes) + flexible)
    return 1 if flexible else 4
