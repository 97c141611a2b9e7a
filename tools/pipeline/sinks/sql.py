"""Rows into a table of a database, each micro-batch once: the rows and the batch's number are in one transaction.

Works with any DB-API module whose database has `INSERT … ON CONFLICT`, such as SQLite and PostgreSQL. The rows pass
through the driver in chunks, because a transaction belongs to one connection.

Timestamps do not depend on the driver's time zone: they leave Spark as numbers and become times in UTC. Values without
a type in the database become text: dates in ISO format, nested values in JSON.
"""

from __future__ import annotations

import datetime as dt
import importlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import Any

from attrs import frozen
from pyspark.sql import DataFrame, Row
from pyspark.sql.types import DataType, StructField

from tools.pipeline.sinks.sink import BatchId
from tools.pipeline.sql_names import quoted

MARKERS = "barnabas_batches"
_AT_ONCE = 5_000
_SQLITE_TYPES = {
    "boolean": "INTEGER", "tinyint": "INTEGER", "smallint": "INTEGER", "int": "INTEGER", "bigint": "INTEGER",
    "float": "REAL", "double": "REAL", "binary": "BLOB",
}  # fmt: skip
_POSTGRES_TYPES = {
    "boolean": "BOOLEAN", "tinyint": "SMALLINT", "smallint": "SMALLINT", "int": "INTEGER", "bigint": "BIGINT",
    "float": "REAL", "double": "DOUBLE PRECISION", "binary": "BYTEA", "timestamp": "TIMESTAMPTZ",
    "timestamp_ntz": "TIMESTAMP", "date": "DATE", "decimal": "NUMERIC",
}  # fmt: skip
_NESTED = ("struct", "array", "map", "variant")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@frozen
class Dialect:
    """The differences between databases."""

    begin: str | None
    """Locks out a second writer; None if the lock of the marker's row does that."""
    locked: str
    placeholder: str
    types: dict[str, str]

    def type_of(self, kind: DataType) -> str:
        return self.types.get(_kind(kind), "TEXT")

    def named(self, name: str) -> str:
        """A quoted name for a statement with values: if placeholders begin with %, a % in the name is doubled."""
        return quoted(name).replace("%", "%%") if self.placeholder.startswith("%") else quoted(name)


SQLITE = Dialect("BEGIN IMMEDIATE", "", "?", _SQLITE_TYPES)
POSTGRES = Dialect(None, " FOR UPDATE", "%s", _POSTGRES_TYPES)


@frozen
class SqlSink:
    """A table. With `key` columns a row replaces the one with the same key; without, rows are added."""

    connect: Callable[[], Any]
    dialect: Dialect
    table: str
    key: tuple[str, ...] = ()

    def apply(self, rows: DataFrame, batch: BatchId) -> bool:
        with closing(self.connect()) as connection:
            try:
                is_new = self._apply(connection.cursor(), rows, batch)
                connection.commit()
            except BaseException:
                connection.rollback()
                raise
        return is_new

    def _apply(self, cursor: Any, rows: DataFrame, batch: BatchId) -> bool:
        if self.dialect.begin is not None:
            cursor.execute(self.dialect.begin)
        mark = self.dialect.placeholder
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {MARKERS} "
            "(query VARCHAR(64), target VARCHAR(200), batch BIGINT, PRIMARY KEY (query, target))"
        )
        cursor.execute(
            f"INSERT INTO {MARKERS} VALUES ({mark}, {mark}, -1) ON CONFLICT DO NOTHING",  # noqa: S608  no values
            (batch.query, self.table),
        )
        of_this = f"WHERE query = {mark} AND target = {mark}"
        cursor.execute(
            f"SELECT batch FROM {MARKERS} {of_this}{self.dialect.locked}",  # noqa: S608  no values
            (batch.query, self.table),
        )
        (last,) = cursor.fetchone()
        if last >= batch.number:
            return False
        self._insert(cursor, rows)
        cursor.execute(
            f"UPDATE {MARKERS} SET batch = {mark} {of_this}",  # noqa: S608  no values
            (batch.number, batch.query, self.table),
        )
        return True

    def _insert(self, cursor: Any, rows: DataFrame) -> None:
        columns = rows.schema.fields
        described = [f"{quoted(one.name)} {self.dialect.type_of(one.dataType)}" for one in columns]
        if self.key:
            described.append(f"PRIMARY KEY ({', '.join(map(quoted, self.key))})")
        cursor.execute(f"CREATE TABLE IF NOT EXISTS {quoted(self.table)} ({', '.join(described)})")
        statement = self._statement([one.name for one in columns])
        values = [_value_of(one.dataType, self.dialect) for one in columns]
        for some in _chunks(rows.selectExpr(*map(_expression, columns)).toLocalIterator(), _AT_ONCE):
            cursor.executemany(
                statement, [[value(one) for value, one in zip(values, row, strict=True)] for row in some]
            )

    def _statement(self, names: Sequence[str]) -> str:
        marks = ", ".join([self.dialect.placeholder] * len(names))
        named = self.dialect.named
        listed = ", ".join(map(named, names))
        statement = f"INSERT INTO {named(self.table)} ({listed}) VALUES ({marks})"  # noqa: S608  names are quoted
        if not self.key:
            return statement
        others = [f"{named(name)} = excluded.{named(name)}" for name in names if name not in self.key]
        action = f"DO UPDATE SET {', '.join(others)}" if others else "DO NOTHING"
        return f"{statement} ON CONFLICT ({', '.join(map(named, self.key))}) {action}"


def sqlite_sink(path: str, table: str, *, key: Sequence[str] = ()) -> SqlSink:
    """A table of a SQLite file, on the driver's machine."""
    return SqlSink(lambda: sqlite3.connect(path, timeout=60, isolation_level=None), SQLITE, table, tuple(key))


def postgres_sink(dsn: str, table: str, *, key: Sequence[str] = (), module: str = "psycopg") -> SqlSink:
    """A table of PostgreSQL, through a DB-API module: psycopg, psycopg2 or another with its parameter style."""
    return SqlSink(lambda: importlib.import_module(module).connect(dsn), POSTGRES, table, tuple(key))


def _chunks(rows: Iterator[Row], size: int) -> Iterator[list[Row]]:
    while some := list(islice(rows, size)):
        yield some


def _kind(kind: DataType) -> str:
    """A type's name without its parameters."""
    name: str = kind.simpleString()
    return name.partition("(")[0].partition("<")[0]


def _expression(column: StructField) -> str:
    """The expression of Spark's SQL for a column that is sent to the driver."""
    name = "`" + column.name.replace("`", "``") + "`"
    kind = _kind(column.dataType)
    if kind == "timestamp":
        return f"unix_micros({name}) AS {name}"
    if kind in _NESTED:
        return f"to_json({name}, map('timeZone', 'UTC', 'ignoreNullFields', 'false')) AS {name}"
    return name


def _value_of(kind: DataType, dialect: Dialect) -> Callable[[Any], Any]:
    """The function from a column's values to values for the database."""
    make = _instant if _kind(kind) == "timestamp" else _same
    if dialect.type_of(kind) != "TEXT":
        return make
    return lambda value: _text(make(value))


def _instant(micros: int | None) -> dt.datetime | None:
    return None if micros is None else _EPOCH + dt.timedelta(microseconds=micros)


def _same(value: Any) -> Any:
    return value


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return value.isoformat() if isinstance(value, dt.date) else str(value)
