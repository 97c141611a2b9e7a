"""The kinds of settings: what a value may be, as the text of a client and as a value of a TOML file.

A kind has two ways in. `parse` takes the text that a client sends for a topic and raises `InvalidConfig`. `complaint`
takes a value as tomllib gives it and says what is wrong with it, or None. Nothing is coerced: in a file `true` is not
1, `"9092"` is not 9092 and `1.0` is not 1.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Sequence
from typing import Any, Protocol

from protocol.late_attrs import frozen

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1
SAID_CHARS_MAX = 300


class InvalidConfig(ValueError):
    """There is no setting of this name, or it may not have this value."""


class ConfigType(enum.IntEnum):
    """The type of a config, as it travels in DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class Kind(Protocol):
    """What the value of a setting may be."""

    @property
    def type(self) -> ConfigType: ...

    @property
    def range(self) -> str:
        """The good values, for the documentation."""
        ...

    def parse(self, text: str) -> Any:
        """The value that this text of a client stands for."""

    def complaint(self, value: object) -> str | None:
        """What is wrong with this value of a file."""


def shown(value: object) -> str:
    """A value as a TOML file would spell it, on one line."""
    match value:
        case dict():
            return "a table"
        case list():
            return "an array"
        case str():
            return json.dumps(value, ensure_ascii=not value.isprintable())
        case bool():
            return "true" if value else "false"
        case int() if value.bit_length() > 64:
            return f"a number of {value.bit_length()} bits"
        case _:
            return str(value)


def said(text: str) -> str:
    """The beginning of a client's text, in quotes."""
    return repr(text[:SAID_CHARS_MAX])


@frozen(slots=True)
class Whole:
    """A whole number."""

    low: int
    high: int

    @property
    def type(self) -> ConfigType:
        return ConfigType.INT if self.high <= INT_MAX else ConfigType.LONG

    @property
    def range(self) -> str:
        ends = {INT_MAX: "2³¹−1", LONG_MAX: "2⁶³−1"}
        return f"{self.low} to {ends.get(self.high, f'{self.high:,}')}"

    def parse(self, text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,99}", text.strip()):  # int() would also take 1_000 and other scripts' digits
            raise InvalidConfig(f"{said(text)} is no whole number")
        value = int(text.strip())
        if not self.low <= value <= self.high:
            raise InvalidConfig(f"{value} is out of range; give a whole number from {self.low} to {self.high}")
        return value

    def complaint(self, value: object) -> str | None:
        if type(value) is not int:
            return f"expected a whole number, got {shown(value)}"
        if not self.low <= value <= self.high:
            return f"{shown(value)} is out of range; give a whole number from {self.low} to {self.high}"
        return None


@frozen(slots=True)
class Ratio:
    """A number from 0 to 1."""

    type = ConfigType.DOUBLE
    range = "0 to 1"

    def parse(self, text: str) -> float:
        if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text.strip()):
            raise InvalidConfig(f"{said(text)} is no number")
        value = float(text.strip())
        if not 0 <= value <= 1:
            raise InvalidConfig(f"{value} is out of range; give a number from 0 to 1")
        return value

    def complaint(self, value: object) -> str | None:
        if type(value) not in (int, float):
            return f"expected a number, got {shown(value)}"
        if not 0 <= value <= 1:  # type: ignore[operator]
            return f"{shown(value)} is out of range; give a number from 0 to 1"
        return None


@frozen(slots=True)
class Truth:
    """true or false; with `refusal`, only false: why the other one is refused, and what to do instead."""

    refusal: str = ""
    remedy: str = ""

    type = ConfigType.BOOLEAN

    @property
    def range(self) -> str:
        return "false" if self.refusal else "true, false"

    def parse(self, text: str) -> bool:
        word = text.strip().lower()
        if word not in ("true", "false"):
            raise InvalidConfig(f"{said(text)} is neither true nor false")
        if word == "true" and self.refusal:
            raise InvalidConfig(f"true is refused: {self.refusal}; leave it false, and {self.remedy}")
        return word == "true"

    def complaint(self, value: object) -> str | None:
        if value is True and self.refusal:
            return f"true is refused: {self.refusal}; leave it out, and {self.remedy}"
        return None if isinstance(value, bool) else f"expected true or false, got {shown(value)}"


@frozen(slots=True)
class Word:
    """One of some words."""

    what: str
    words: tuple[str, ...]

    type = ConfigType.STRING

    @property
    def range(self) -> str:
        return ", ".join(self.words)

    def parse(self, text: str) -> str:
        if text.strip() not in self.words:
            raise InvalidConfig(f"{said(text)} is no {self.what}; give {_choice(self.words)}")
        return text.strip()

    def complaint(self, value: object) -> str | None:
        if not isinstance(value, str):
            return f"expected text in quotes, got {shown(value)}"
        return None if value in self.words else f"{shown(value)} is none of {self.range}; give one of them"


@frozen(slots=True)
class Words:
    """A list of words with commas between them, which may be empty."""

    what: str
    words: tuple[str, ...]

    type = ConfigType.LIST

    @property
    def range(self) -> str:
        return ", ".join((*self.words, ",".join(self.words), '""'))

    def parse(self, text: str) -> tuple[str, ...]:
        words = tuple(word.strip() for word in text.split(",")) if text.strip() else ()
        if not set(words) <= set(self.words):
            raise InvalidConfig(f"{said(text)} is no {self.what}; {self._choice('an empty text')}")
        return tuple(dict.fromkeys(words))  # in the order in which they were given

    def complaint(self, value: object) -> str | None:
        if not isinstance(value, str):
            return f"expected text in quotes, got {shown(value)}"
        good = not value.strip() or {word.strip() for word in value.split(",")} <= set(self.words)
        return None if good else f"{shown(value)} is no {self.what}; {self._choice(chr(34) * 2)}"

    def _choice(self, empty: str) -> str:
        return f"give {', '.join(self.words)}, {','.join(self.words)}, or {empty} to keep everything"


def _choice(words: Sequence[str]) -> str:
    return f"{words[0]} or {words[1]}" if len(words) == 2 else f"one of {', '.join(words)}"
