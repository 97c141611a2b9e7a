"""The fields of a request in newline JSON: what each may hold, and what is said about one that holds something else.

A reader is given where a value stands and the value, and gives what it stands for, or raises BadField.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from protocol.json.lines import Facts, quoted, short
from protocol.late_attrs import frozen

STRING_CHARS_MAX = 32767  # as in Kafka's protocol
_INT32_MAX = (1 << 31) - 1
_INT64_MAX = (1 << 63) - 1
_REQUIRED = object()

Reader = Callable[[str, Any], Any]


class BadField(ValueError):
    """A field of a request is missing, unknown, or not what it has to be."""


@frozen(slots=True)
class Field:
    """Reads a value, or says what is wrong with it. One that is null counts as left out."""

    read: Reader
    default: Any = _REQUIRED


@frozen(slots=True)
class Fields:
    """What a request of one kind may hold."""

    known: Mapping[str, Field]

    def read(self, given: Facts) -> list[Any]:
        """Their values, in the order in which they are declared; BadField if something is wrong with them."""
        refuse_unknown(given, self.known)
        values = []
        for name, field in self.known.items():
            value = given.get(name)
            if value is not None:
                values.append(field.read(name, value))
            elif field.default is _REQUIRED:
                raise BadField(f"{name}: is missing")
            else:
                values.append(field.default)
        return values


def refuse_unknown(given: Facts, known: Mapping[str, Any], path: str = "") -> None:
    """Refuse a field that is not known: a client's mistake must not pass unnoticed."""
    for name in given:
        if name not in known:
            raise BadField(f"{path}{short(name)}: unknown field; known: {', '.join(known) or 'none'}")


def word(path: str, value: Any) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= STRING_CHARS_MAX:
        raise BadField(f"{path}: must be a string of 1 to {STRING_CHARS_MAX} characters, not {quoted(value)}")
    return value


def words(path: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise BadField(f'{path}: must be a list of strings, such as ["orders"], not {quoted(value)}')
    return tuple(word(f"{path}[{at}]", one) for at, one in enumerate(value))


def whole(path: str, value: Any) -> int:
    if type(value) is not int or not -_INT32_MAX <= value <= _INT32_MAX:
        raise BadField(f"{path}: must be a whole number of 32 bits, not {quoted(value)}")
    return value


def count(path: str, value: Any) -> int:
    """A number of 63 bits: an offset, a time in milliseconds."""
    if type(value) is not int or not 0 <= value <= _INT64_MAX:
        raise BadField(f"{path}: must be a whole number, 0 or more, not {quoted(value)}")
    return value


def within(first: int, last: int) -> Reader:
    """A whole number from the first to the last."""

    def read(path: str, value: Any) -> int:
        if type(value) is not int or not first <= value <= last:
            raise BadField(f"{path}: must be a whole number from {first} to {last}, not {quoted(value)}")
        return value

    return read


def one_of(meanings: Mapping[Any, Any]) -> Reader:
    """One of some words or numbers, each of which stands for something."""

    def read(path: str, value: Any) -> Any:
        for given, meant in meanings.items():
            if type(value) is type(given) and value == given:
                return meant
        known = ", ".join(quoted(given) for given in meanings)
        raise BadField(f"{path}: must be one of {known}, not {quoted(value)}")

    return read


def flag(path: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadField(f"{path}: must be true or false, not {quoted(value)}")
    return value


def brokers(path: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not value:
        raise BadField(f"{path}: must be a list of broker ids, such as [1,2,3], not {quoted(value)}")
    return tuple(whole(f"{path}[{at}]", one) for at, one in enumerate(value))


def assignment(path: str, value: Any) -> tuple[tuple[int, ...], ...]:
    if not isinstance(value, list) or not value:
        text = f"{path}: must be a list of broker ids for each partition, such as [[1,2],[2,3]], not {quoted(value)}"
        raise BadField(text)
    return tuple(brokers(f"{path}[{at}]", one) for at, one in enumerate(value))


def configs(path: str, value: Any) -> tuple[tuple[str, ...], ...]:
    return tuple((name, word(f"{path}.{short(name)}", text)) for name, text in _members(path, value))


def config_changes(path: str, value: Any) -> tuple[tuple[str, ...], ...]:
    """Null takes a config back to its default."""
    return tuple(
        (name,) if text is None else (name, word(f"{path}.{short(name)}", text)) for name, text in _members(path, value)
    )


def _members(path: str, value: Any) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise BadField(f'{path}: must be an object, such as {{"retention.ms":"60000"}}, not {quoted(value)}')
    return list(value.items())
