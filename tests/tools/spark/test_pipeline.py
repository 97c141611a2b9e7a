"""What sinks make of Spark's rows."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Where an hour comes twice in October."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("berlin")
def test_an_instant_is_the_same_wherever_the_driver_is(spark: Any, tmp_path: Path) -> None:
    from tools.pipeline.sinks.sink import BatchId  # noqa: PLC0415  not without pyspark
    from tools.pipeline.sinks.sql import sqlite_sink  # noqa: PLC0415

    rows = spark.sql(
        "SELECT at AS `a``t`, named_struct('at', at, 'none', CAST(NULL AS INT)) AS s, array(at) AS a, to_date(at) AS d "
        "FROM VALUES (TIMESTAMP'2026-10-25 00:30:00.000001Z'), (TIMESTAMP'2026-10-25 01:30:00Z'), (NULL) AS t(at)"
    )
    sqlite_sink(str(tmp_path / "t.db"), "t").apply(rows, BatchId("q", 0))
    with closing(sqlite3.connect(tmp_path / "t.db")) as database:
        first, second, third = database.execute("SELECT * FROM t ORDER BY 1 NULLS LAST").fetchall()
    assert (first[0], second[0]) == ("2026-10-25T00:30:00.000001+00:00", "2026-10-25T01:30:00+00:00")
    assert second[1:] == ('{"at":"2026-10-25T01:30:00.000Z","none":null}', '["2026-10-25T01:30:00.000Z"]', "2026-10-25")
    assert third == (None, '{"at":null,"none":null}', "[null]", None)


def test_all_sinks_get_the_same_rows(spark: Any) -> None:
    from tools.pipeline.batches import foreach_batch  # noqa: PLC0415

    applied: list[list[Any]] = []

    class Collected:
        def apply(self, rows: Any, _batch: Any) -> bool:
            applied.append(rows.collect())
            return True

    fields = "key BINARY, value BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP"
    records = spark.createDataFrame([(None, b"x", "t", 0, 0, None)], fields)
    clock = "java_method('java.lang.System', 'nanoTime') AS at"
    kept = spark.sparkContext._jsc.getPersistentRDDs  # a query that another test stopped may have left some
    before = set(kept())
    spark.sparkContext.setLocalProperty("sql.streaming.queryId", "q")
    try:
        foreach_batch(lambda rows: rows.selectExpr("value", clock), Collected(), Collected())(records, 0)
    finally:
        spark.sparkContext.setLocalProperty("sql.streaming.queryId", None)
    assert applied[0] == applied[1]
    assert set(kept()) <= before


def test_the_named_column_is_the_key(spark: Any) -> None:
    from tools.pipeline.sinks.topic import TopicSink  # noqa: PLC0415

    rows = spark.sql("SELECT 7 AS id, X'FF' AS raw, 'v' AS value, 'k' AS key")
    for key, wanted in ((None, "k"), ("id", "7"), ("raw", b"\xff")):
        (found,) = TopicSink("b", "t", key).records(rows).collect()
        assert (found.key, found.value) == (wanted, "v")


def test_a_dead_letter_tells_why_and_where_it_comes_from(spark: Any) -> None:
    """What was tried before counts on, and the record's own headers stay."""
    from tools.pipeline.dead_letters import DeadLetters  # noqa: PLC0415
    from tools.pipeline.decoders import JsonDecoder  # noqa: PLC0415

    records = spark.sql(
        "SELECT X'6B' AS key, CAST('pill' AS BINARY) AS value, 't' AS topic, 3 AS partition, 17L AS offset, now() AS "
        "timestamp, array(named_struct('key', 'own', 'value', X'31'), "
        "named_struct('key', 'dead-letter.attempt', 'value', X'32')) AS headers"
    )
    (letter,) = DeadLetters("b", "dead").letters(JsonDecoder("id STRING").decode(records)).collect()
    assert (letter.key, letter.value) == (b"k", b"pill")
    assert [(one.key, bytes(one.value).decode()) for one in letter.headers] == [
        ("own", "1"),
        ("dead-letter.reason", "the value is not JSON with id STRING"),
        ("dead-letter.topic", "t"),
        ("dead-letter.partition", "3"),
        ("dead-letter.offset", "17"),
        ("dead-letter.attempt", "3"),
    ]
    (first,) = DeadLetters("b", "dead").letters(JsonDecoder("id STRING").decode(records.drop("headers"))).collect()
    assert first.headers[-1].value == b"1"


@pytest.mark.parametrize(
    ("schema", "sql", "mistake"),
    [
        ("id STRNG", "SELECT * FROM batch", 'decode.schema: [UNSUPPORTED_DATATYPE] Unsupported data type "STRNG"'),
        ("id STRING", "SELEC id FROM batch", "transform.sql: [PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'"),
        ("id STRING", "SELECT nope FROM batch", "transform.sql: [UNRESOLVED_COLUMN"),
        ("id STRING", " ", "transform.sql: [PARSE_EMPTY_STATEMENT] Syntax error, unexpected empty statement"),
    ],
)
def test_a_mistake_that_spark_finds_ends_a_job_before_it_begins(
    spark: Any, schema: str, sql: str, mistake: str, capfd: pytest.CaptureFixture[str]
) -> None:
    from tools.pipeline.job import Job, JobError  # noqa: PLC0415  not without pyspark
    from tools.pipeline.job_runner import check  # noqa: PLC0415

    decode = {"format": "json", "schema": schema}
    job = Job("x", "c", "0 seconds", "127.0.0.1:1", {}, decode, sql, None, ({"type": "parquet", "path": "p"},), None)
    with pytest.raises(JobError) as raised:
        check(job, spark)
    (told,) = raised.value.mistakes
    assert told.startswith(mistake)
    assert "\n" not in told
    assert "\tat " not in capfd.readouterr().err
