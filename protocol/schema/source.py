"""The source of a function that encodes or decodes one version of one message, while it is written.

The function is flat: no call per field, no look-up of types. Adjacent fields of fixed size, and the lengths and counts
around them, are read and written by one `struct.Struct`: a *run*. Errors cost nothing until they happen: every line
knows the field it is about, so the line on which an exception came out says what was wrong.

The same lines make a function or, `in_steps`, a generator that pauses for every element of an array and gives how many
elements that was: for messages that are so long that nothing else must wait for the whole of them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import TracebackType
from typing import Any, NamedTuple

from protocol.schema.declaration import Fixed, declaration_of, struct_of

COUNTS_READY = 16


@cache
def ready(code: str, method: str) -> tuple[Any, ...]:
    """A method of the struct.Structs of 0, 1, 2 … numbers: most arrays are short, and a format takes time to read."""
    return tuple(getattr(struct.Struct(f">{count}{code}"), method) for count in range(COUNTS_READY))


class InRun(NamedTuple):
    """Something in a run: a variable to read into, or an expression to write."""

    name: str
    code: str
    path: str

    @property
    def size(self) -> int:
        return struct.calcsize(">" + self.code)


class Failure(NamedTuple):
    """The fields that a failing line is about, each with its offset in the run, and the variables at that time."""

    places: tuple[tuple[str, int], ...]
    variables: dict[str, Any]


class Source:
    """Lines so far, the values that they name, and the field that each is about."""

    def __init__(self, cls: type, version: int, *, in_steps: bool = False) -> None:
        declaration = declaration_of(cls)
        self.cls = cls
        self.in_steps = in_steps
        self.struct = struct_of(cls)
        self.version = version
        self.flexible = version in declaration.flexible
        self.lines: list[str] = []
        self.namespace: dict[str, Any] = {}
        self.run: list[InRun] = []
        self.about: dict[int, tuple[tuple[str, int], ...]] = {}
        self._depth = 0
        self._names = 0
        self._path: list[str] = []

    @property
    def path(self) -> str:
        return ".".join(self._path).replace(".[", "[")

    @contextmanager
    def field(self, name: str) -> Iterator[None]:
        """What is written inside is about this field of the field around it."""
        self._path.append(name)
        yield
        self._path.pop()

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        """An indented block. No run crosses its borders."""
        assert not self.run, "a run must be flushed before a block"
        self.line(opening)
        self._depth += 1
        yield
        assert not self.run, "a run must be flushed at the end of a block"
        self._depth -= 1

    def line(self, text: str) -> None:
        self.lines.append("    " * self._depth + text)
        self.about[len(self.lines)] = tuple(self._places())

    def step(self, count: str) -> None:
        """Here `count` elements of an array are done: a function that works in steps pauses."""
        if self.in_steps:
            self.line(f"yield {count}")

    def _places(self) -> Iterator[tuple[str, int]]:
        """The fields of the run that this line reads or writes, and how far into it they are."""
        offset = 0
        for item in self.run:
            yield item.path, offset
            offset += item.size
        if not self.run:
            yield self.path, 0

    def fresh(self, prefix: str) -> str:
        """A name that is not yet taken."""
        self._names += 1
        return f"{prefix}{self._names}"

    def bind(self, prefix: str, value: Any) -> str:
        """A name for a value."""
        for name, known in self.namespace.items():
            if known is value:
                return name
        name = self.fresh(prefix)
        self.namespace[name] = value
        return name

    def add_to_run(self, name: str, kind: Fixed | str) -> None:
        self.run.append(InRun(name, kind if isinstance(kind, str) else kind.code, self.path))

    def bind_run(self, method: str) -> str:
        """A name for a method of the struct.Struct that the run makes."""
        codes = "".join(item.code for item in self.run)
        name = f"{method}_{codes.replace('?', 't')}"
        self.namespace.setdefault(name, getattr(struct.Struct(">" + codes), method))
        return name

    def compile(self, name: str) -> Callable[..., Any]:
        """The function of this name, which the lines define."""
        assert not self.run
        text = "\n".join(self.lines)
        exec(compile(text, f"<{self.cls.__name__} version {self.version}>", "exec"), self.namespace)  # noqa: S102
        return self.namespace[name]  # type: ignore[no-any-return]

    def failure(self, function: Callable[..., Any], traceback: TracebackType | None) -> Failure:
        """Where a function failed."""
        while traceback is not None and traceback.tb_frame.f_code is not function.__code__:
            traceback = traceback.tb_next
        assert traceback is not None, f"{function} is not in the traceback"
        return Failure(self.about[traceback.tb_lineno], traceback.tb_frame.f_locals)
