"""Rows into a table of a database, each micro-batch once: the rows and the batch's number are one transaction.

Works with any DB-API module whose database knows `INSERT … ON CONFLICT`: SQLite and PostgreSQL do. The rows go through
the driver, some at a time, because a transaction belongs to one connection.
"""

from __future__ import annotations

import datetime as dt
import decimal
import importlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import Any

from attrs import frozen
from pyspark.sql import DataFrame, Row
from pyspark.sql.types import DataType

from tools.pipeline.sink import BatchId
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


@frozen
class Dialect:
    """What databases say differently."""

    begin: str | None
    """Takes the lock that keeps two writers apart; None where the marker's row does."""
    locked: str
    placeholder: str
    types: dict[str, str]

    def type_of(self, kind: DataType) -> str:
        return self.types.get(kind.simpleString().partition("(")[0], "TEXT")


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
        kinds = [self.dialect.type_of(one.dataType) for one in columns]
        for some in _chunks(rows.toLocalIterator(), _AT_ONCE):
            cursor.executemany(statement, [_plain(row, kinds) for row in some])

    def _statement(self, names: Sequence[str]) -> str:
        marks = ", ".join([self.dialect.placeholder] * len(names))
        listed = ", ".join(map(quoted, names))
        statement = f"INSERT INTO {quoted(self.table)} ({listed}) VALUES ({marks})"  # noqa: S608  names are quoted
        if not self.key:
            return statement
        others = [f"{quoted(name)} = excluded.{quoted(name)}" for name in names if name not in self.key]
        action = f"DO UPDATE SET {', '.join(others)}" if others else "DO NOTHING"
        return f"{statement} ON CONFLICT ({', '.join(map(quoted, self.key))}) {action}"


def sqlite_sink(path: str, table: str, *, key: Sequence[str] = ()) -> SqlSink:
    """A table of a SQLite file, on the driver's machine."""
    return SqlSink(lambda: sqlite3.connect(path, timeout=60, isolation_level=None), SQLITE, table, tuple(key))


def postgres_sink(dsn: str, table: str, *, key: Sequence[str] = (), module: str = "psycopg") -> SqlSink:
    """A table of PostgreSQL, through a DB-API module: psycopg, psycopg2 or another with its parameter style."""
    return SqlSink(lambda: importlib.import_module(module).connect(dsn), POSTGRES, table, tuple(key))


def _chunks(rows: Iterator[Row], size: int) -> Iterator[list[Row]]:
    while some := list(islice(rows, size)):
        yield some


def _plain(row: Row, kinds: Sequence[str]) -> list[Any]:
    """Values that a database takes. What has no type of its own there is text: JSON, or as ISO writes it."""
    return [_text(value) if kind == "TEXT" else value for value, kind in zip(row, kinds, strict=True)]


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    return json.dumps(value.asDict(recursive=True) if isinstance(value, Row) else value, default=str)
