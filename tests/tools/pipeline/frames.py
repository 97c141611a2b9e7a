"""Rows that are given to a sink without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from attrs import frozen


@frozen
class Frame:
    """As much of a DataFrame as a SQL sink uses. Rows are as Spark gives them when it has done what was selected."""

    schema: Any
    rows: Sequence[tuple[Any, ...]]

    def selectExpr(self, *expressions: str) -> Frame:  # noqa: N802  Spark's name
        assert len(expressions) == len(self.schema.fields)
        return self

    def toLocalIterator(self) -> Iterator[tuple[Any, ...]]:  # noqa: N802
        return iter(self.rows)
