"""A history as a file: one JSON object per line, `op` says which operation it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import attrs
import orjson

from tools.checker.history import OPERATIONS, OUTCOMES, History, Operation

_NAMES = {cls: name for name, cls in OPERATIONS.items()}
_FIELDS = {cls: tuple(field.name for field in attrs.fields(cls)) for cls in _NAMES}


class NoHistory(Exception):
    """The file cannot be read, or a line of it is no operation. The message is one line."""


def write(path: Path, operations: Iterable[Operation]) -> None:
    with path.open("wb") as file:
        for operation in operations:
            file.write(line(operation))


def line(operation: Operation) -> bytes:
    cls = type(operation)
    made: dict[str, Any] = {"op": _NAMES[cls]}
    for name in _FIELDS[cls]:
        made[name] = getattr(operation, name)
    return orjson.dumps(made, option=orjson.OPT_APPEND_NEWLINE)


def read(path: Path) -> History:
    try:
        with path.open("rb") as file:
            return list(_operations(file, path))
    except OSError as error:
        raise NoHistory(f"{path}: {error.strerror}") from error


def _operations(lines: Iterable[bytes], path: Path) -> Iterator[Operation]:
    for number, text in enumerate(lines, start=1):
        try:
            made = orjson.loads(text)
            cls = OPERATIONS[made.pop("op")]
            if "records" in made:
                made["records"] = tuple((offset, value) for offset, value in made["records"])
            operation: Operation = cls(**made)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise NoHistory(f"{path}, line {number}: no operation: {error!r}") from error
        if getattr(operation, "outcome", OUTCOMES[0]) not in OUTCOMES:
            raise NoHistory(f"{path}, line {number}: the outcome is none of {', '.join(OUTCOMES)}")
        yield operation
