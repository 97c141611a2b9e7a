"""The columns of a table, and its rows after repeated batches and repeated keys."""

from __future__ import annotations

import datetime as dt
import decimal
import os
import pwd
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from tests.tools.pipeline.frames import Frame
from tools.pipeline.sinks.sink import BatchId
from tools.pipeline.sinks.sql import POSTGRES, SQLITE, SqlSink, postgres_sink, sqlite_sink

NOON = dt.datetime(2026, 10, 25, 12, tzinfo=dt.UTC)
SCHEMA = (
    StructType()
    .add("id", LongType())
    .add("100% of", StringType())
    .add("at", TimestampType())
    .add("day", DateType())
    .add("sum", DecimalType(10, 2))
    .add("raw", BinaryType())
)


def row(number: int, text: str | None = None) -> tuple[Any, ...]:
    micros = int(NOON.timestamp()) * 1_000_000 + number
    return number, text, micros, NOON.date(), decimal.Decimal("1.10"), bytearray(b"\0\xff")


@pytest.mark.parametrize(
    ("kind", "sqlite", "postgres"),
    [
        (LongType(), "INTEGER", "BIGINT"),
        (DecimalType(10, 2), "TEXT", "NUMERIC"),  # SQLite would make a float of it
        (BinaryType(), "BLOB", "BYTEA"),
        (TimestampType(), "TEXT", "TIMESTAMPTZ"),
        (StringType(), "TEXT", "TEXT"),
        (ArrayType(LongType()), "TEXT", "TEXT"),
    ],
)
def test_a_column_keeps_what_its_values_are_where_the_database_can(kind: DataType, sqlite: str, postgres: str) -> None:
    assert SQLITE.type_of(kind) == sqlite
    assert POSTGRES.type_of(kind) == postgres


def test_values_without_a_type_in_the_database_are_text(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    assert sqlite_sink(str(path), "t").apply(Frame(SCHEMA, [row(7, "x")]), BatchId("q", 0))
    with closing(sqlite3.connect(path)) as database:
        found = database.execute("SELECT * FROM t").fetchall()
    assert found == [(7, "x", "2026-10-25T12:00:00.000007+00:00", "2026-10-25", "1.10", b"\0\xff")]


class LikePostgres:
    """A DB-API module over SQLite whose parameters are written %s, as psycopg's are."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def connect(self, _dsn: str) -> Any:
        database = sqlite3.connect(self._path)
        return types.SimpleNamespace(
            cursor=lambda: Cursor(database.cursor()),
            commit=database.commit,
            rollback=database.rollback,
            close=database.close,
        )


class Cursor:
    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self._cursor = cursor
        self.fetchone = cursor.fetchone

    def execute(self, statement: str, values: tuple[Any, ...] | None = None) -> None:
        self._cursor.execute(statement if values is None else self._marked(statement), values or ())

    def executemany(self, statement: str, rows: list[list[Any]]) -> None:
        taken = [[str(one) if isinstance(one, (dt.date, decimal.Decimal)) else one for one in row] for row in rows]
        self._cursor.executemany(self._marked(statement), taken)

    def _marked(self, statement: str) -> str:
        """A % that is no mark is an error, as it is to psycopg. SQLite has one writer, and no FOR UPDATE."""
        return statement.removesuffix(" FOR UPDATE") % (("?",) * statement.replace("%%", "").count("%s"))


def applied_again(sink: SqlSink) -> None:
    """Rows with a key; the second batch comes twice, and replaces a row of the first."""
    batches = [[row(1, "old"), row(2, "two")], [row(1, "new"), row(3, "three")]]
    for number, is_new in ((0, True), (1, True), (1, False), (0, False)):
        assert sink.apply(Frame(SCHEMA, batches[number]), BatchId("q", number)) is is_new


def test_a_row_replaces_the_one_with_its_key_and_a_batch_is_applied_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "like_postgres", LikePostgres(tmp_path / "p.db"))
    applied_again(sqlite_sink(str(tmp_path / "s.db"), "50%", key=["id"]))
    applied_again(postgres_sink("dsn", "50%", key=["id"], module="like_postgres"))
    for name in ("s.db", "p.db"):
        with closing(sqlite3.connect(tmp_path / name)) as database:
            found = database.execute('SELECT id, "100% of" FROM "50%" ORDER BY id').fetchall()
        assert found == [(1, "new"), (2, "two"), (3, "three")]


def test_a_batch_that_fails_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    sink = sqlite_sink(str(path), "t")
    bad = (2, object(), *row(2)[2:])
    sink.apply(Frame(SCHEMA, [row(1)]), BatchId("q", 0))
    with pytest.raises(ValueError, match="shorter"):
        sink.apply(Frame(SCHEMA, [row(2), bad[:3]]), BatchId("q", 1))
    assert sink.apply(Frame(SCHEMA, [row(2)]), BatchId("q", 1))
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT id FROM t").fetchall() == [(1,), (2,)]


@pytest.fixture
def postgres() -> Iterator[str]:
    """A server of its own, on a socket in a directory of its own; root may not run one, so then another user does."""
    pytest.importorskip("psycopg")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    postgres = found[-1] if found else shutil.which("postgres")
    if postgres is None:
        pytest.skip("no PostgreSQL server is installed")
    user = pwd.getpwnam("nobody") if os.getuid() == 0 else pwd.getpwuid(os.getuid())
    directory = Path(tempfile.mkdtemp(prefix="barnabas-postgres-"))
    os.chown(directory, user.pw_uid, user.pw_gid)
    as_user: dict[str, Any] = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "cwd": directory}
    if os.getuid() != 0:
        as_user = {"cwd": directory}
    log = (directory / "log").open("wb")
    data = str(directory / "data")
    try:
        initdb = [str(Path(postgres).with_name("initdb")), "-D", data, "-U", "tests", "-A", "trust", "-N"]
        subprocess.run(initdb, check=True, stdout=log, stderr=log, **as_user)
        process = subprocess.Popen(
            [str(postgres), "-D", data, "-k", str(directory), "-c", "listen_addresses=", "-c", "timezone=Asia/Tokyo"],
            stdout=log, stderr=log, **as_user,
        )  # fmt: skip
        try:
            ready = [str(Path(postgres).with_name("pg_isready")), "-q", "-h", str(directory), "-t", "30"]
            while subprocess.run(ready, check=False).returncode:
                assert process.poll() is None, (directory / "log").read_text()
            yield f"host={directory} user=tests dbname=postgres"
        finally:
            process.terminate()
            process.wait(60)
    finally:
        log.close()
        shutil.rmtree(directory)


@pytest.mark.long
def test_a_postgresql_server_takes_batches_once(postgres: str) -> None:
    import psycopg  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415  not a dependency

    applied_again(postgres_sink(postgres, "50%", key=["id"]))
    with closing(psycopg.connect(postgres)) as database:
        found = database.execute('SELECT id, "100% of", at, day, sum, raw FROM "50%" ORDER BY id').fetchall()
    assert [one[:2] for one in found] == [(1, "new"), (2, "two"), (3, "three")]
    assert found[0][2:] == (NOON + dt.timedelta(microseconds=1), NOON.date(), decimal.Decimal("1.10"), b"\0\xff")
