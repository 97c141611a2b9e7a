"""Which columns a table gets."""

from __future__ import annotations

import pytest
from pyspark.sql.types import ArrayType, BinaryType, DataType, DecimalType, LongType, StringType, TimestampType

from tools.pipeline.sql_sink import POSTGRES, SQLITE


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
