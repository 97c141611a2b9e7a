"""Records to columns. An undecodable record does not end the query: its row has the reason in `_error`.

Every decoder keeps the record itself in the column `_record`, for dead letters and for its offset.
"""

from __future__ import annotations

from typing import Protocol

from attrs import frozen
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

RECORD, ERROR = "_record", "_error"
_CORRUPT = "_corrupt"


class Decoder(Protocol):
    def decode(self, records: DataFrame) -> DataFrame:
        """The decoded columns, `_record`, and `_error`, which is null for good records."""
        ...


@frozen
class JsonDecoder:
    """JSON objects with these columns, in Spark's DDL: `id STRING, total DOUBLE`."""

    schema: str

    def decode(self, records: DataFrame) -> DataFrame:
        wanted = StructType.fromDDL(self.schema)
        parsed = StructType([*wanted.fields, StructField(_CORRUPT, StringType())])
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
        text = f.col("value").cast("string")
        rows = _kept(records).withColumn("_parsed", f.from_json(text, parsed, options))
        is_bad = f.col("_parsed").isNull() | f.col(f"_parsed.{_CORRUPT}").isNotNull()
        reason = f.when(f.col("value").isNull(), "the value is null").otherwise(
            f.lit(f"the value is not JSON with {self.schema}")
        )
        columns = [f.col(f"_parsed.`{name}`").alias(name) for name in wanted.fieldNames()]
        return rows.select(*columns, RECORD, f.when(is_bad, reason).alias(ERROR))


@frozen
class TextDecoder:
    """UTF-8, in the column `value`, with `key` beside it."""

    def decode(self, records: DataFrame) -> DataFrame:
        is_bad = f.col("value").isNotNull() & ~f.is_valid_utf8(f.col("value").cast("string"))
        return _kept(records).select(
            f.col("key").cast("string").alias("key"),
            f.col("value").cast("string").alias("value"),
            RECORD,
            f.when(is_bad, f.lit("the value is not UTF-8")).alias(ERROR),
        )


@frozen
class BytesDecoder:
    """Undecoded, in the columns `key` and `value`."""

    def decode(self, records: DataFrame) -> DataFrame:
        return _kept(records).select("key", "value", RECORD, f.lit(None).cast("string").alias(ERROR))


def _kept(records: DataFrame) -> DataFrame:
    headers = "headers" if "headers" in records.columns else None
    kept = ["key", "value", "topic", "partition", "offset", "timestamp", *([headers] if headers else [])]
    return records.withColumn(RECORD, f.struct(*kept))
