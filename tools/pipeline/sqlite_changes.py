"""The changes of a SQLite table: rows that any program inserts, updates or deletes.

Triggers write each change into a table of changes, in the transaction of the change. So a change that is rolled back is
never captured, and a committed one is never missed. A position is a number in that table.

Captured changes are removed. A table may be captured into several topics: each is a reader, and changes are kept for
the slowest one. A reader that begins after changes were removed gets an error. To give a reader up, delete its row in
`barnabas_readers`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from attrs import field, frozen

from tools.pipeline.capture import CaptureError, Piece
from tools.pipeline.file_tail import absolute
from tools.pipeline.sql_names import quoted

_AT_ONCE = 1_000
_READERS = "barnabas_readers"


@frozen
class SqliteChanges:
    """Of one table. A record's key is the row's primary key as JSON, its value `{"op", "before", "after"}`."""

    path: Path = field(converter=absolute)
    table: str
    reader: str = ""
    """The name of this capture if several capture the table: a topic."""

    @property
    def name(self) -> str:
        return f"sqlite:{self.path}:{self.table}"

    @property
    def _changes(self) -> str:
        return f"barnabas_changes_{self.table}"

    def install(self) -> None:
        """Create the triggers, if they do not exist. The existing rows come first, as inserts."""
        with closing(self._connect()) as connection:
            columns, keys = self._columns(connection)
            changes = quoted(self._changes)
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {_READERS} (changes TEXT, reader TEXT, number INTEGER, "
                "PRIMARY KEY (changes, reader))"
            )
            there = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (self._changes,)).fetchone()
            if there is None:
                connection.execute(f"DELETE FROM {_READERS} WHERE changes = ?", (self._changes,))  # noqa: S608
                connection.execute(
                    f"CREATE TABLE {changes} (number INTEGER PRIMARY KEY AUTOINCREMENT, op TEXT, key TEXT, "
                    "before TEXT, after TEXT)"
                )
                for op, old, new in (("insert", None, "new"), ("update", "old", "new"), ("delete", "old", None)):
                    connection.execute(self._trigger(op, old, new, columns, keys))
                connection.execute(
                    f"INSERT INTO {changes} (op, key, before, after) SELECT 'insert', "  # noqa: S608  names are quoted
                    f"{_object(keys, None)}, NULL, {_object(columns, None)} FROM {quoted(self.table)}"
                )
            connection.execute(
                f"INSERT INTO {_READERS} VALUES (?, ?, ?) ON CONFLICT DO NOTHING",  # noqa: S608  no values
                (self._changes, self.reader, self._forgotten(connection)),
            )
            connection.execute("COMMIT")

    def _trigger(self, op: str, old: str | None, new: str | None, columns: list[str], keys: list[str]) -> str:
        before = "NULL" if old is None else _object(columns, old)
        after = "NULL" if new is None else _object(columns, new)
        return (
            f"CREATE TRIGGER {quoted(f'{self._changes}_{op}')} AFTER {op.upper()} ON {quoted(self.table)} BEGIN "  # noqa: S608
            f"INSERT INTO {quoted(self._changes)} (op, key, before, after) "
            f"VALUES ('{op}', {_object(keys, new or old)}, {before}, {after}); END"
        )

    def pieces(self, position: Any) -> Iterator[Piece]:
        """Changes in the order in which they were made."""
        last = position or 0
        with closing(self._connect()) as connection:
            forgotten = self._forgotten(connection)
            if last < forgotten:
                raise CaptureError(
                    f"{self.name}: changes {last + 1} to {forgotten} were captured by others and are gone; to begin "
                    f"again, drop the table {self._changes} and its triggers, and capture into another topic"
                )
            if last > self._last(connection):
                raise CaptureError(
                    f"{self.name}: change {last} was captured, and there were never so many: the table or its database "
                    "is not the one it was; capture it into another topic"
                )
            while True:
                found = connection.execute(
                    f"SELECT number, op, key, before, after FROM {quoted(self._changes)} "  # noqa: S608  names are quoted
                    "WHERE number > ? ORDER BY number LIMIT ?",
                    (last, _AT_ONCE),
                ).fetchall()
                for number, op, key, before, after in found:
                    last = number
                    value = {"op": op, "before": _parsed(before), "after": _parsed(after)}
                    yield Piece(key.encode(), json.dumps(value, separators=(",", ":")).encode(), number)
                if len(found) < _AT_ONCE:
                    return

    def captured(self, position: int) -> None:
        """Remove the changes that all readers have captured. Numbers are never reused."""
        with closing(self._connect()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(
                f"UPDATE {_READERS} SET number = max(number, ?) WHERE changes = ? AND reader = ?",  # noqa: S608  no values
                (position, self._changes, self.reader),
            )
            connection.execute(
                f"DELETE FROM {quoted(self._changes)} WHERE number <= ?",  # noqa: S608  names are quoted
                (self._forgotten(connection),),
            )
            connection.execute("COMMIT")

    def close(self) -> None:
        """There is no connection between two calls."""

    def _forgotten(self, connection: sqlite3.Connection) -> int:
        """The number up to which changes may have been removed."""
        (number,) = connection.execute(
            f"SELECT coalesce(min(number), 0) FROM {_READERS} WHERE changes = ?",  # noqa: S608  no values
            (self._changes,),
        ).fetchone()
        return number

    def _last(self, connection: sqlite3.Connection) -> int:
        """The number of the last change, also if it was removed."""
        found = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (self._changes,)).fetchone()
        return 0 if found is None else found[0]

    def _connect(self) -> sqlite3.Connection:
        if not self.path.exists():
            raise CaptureError(f"there is no database {self.path}")
        return sqlite3.connect(self.path, timeout=60, isolation_level=None)

    def _columns(self, connection: sqlite3.Connection) -> tuple[list[str], list[str]]:
        """All columns, and those of the primary key; without one, the row's own number."""
        described = connection.execute("SELECT name, pk FROM pragma_table_info(?)", (self.table,)).fetchall()
        if not described:
            raise CaptureError(f"{self.path} has no table {self.table!r}")
        keys = [name for name, pk in sorted(described, key=lambda one: one[1]) if pk]
        return [name for name, _ in described], keys or ["rowid"]


def _object(columns: list[str], row: str | None) -> str:
    """An SQL expression: a row's columns as JSON. Bytes are written in hexadecimal, for JSON has none."""
    parts = []
    for name in columns:
        column = quoted(name) if row is None else f"{row}.{quoted(name)}"
        literal = name.replace("'", "''")
        parts.append(f"'{literal}', CASE typeof({column}) WHEN 'blob' THEN hex({column}) ELSE {column} END")
    return f"json_object({', '.join(parts)})"


def _parsed(text: str | None) -> Any:
    return None if text is None else json.loads(text)
