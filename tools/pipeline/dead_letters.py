"""Records that cannot be used, to a topic for dead letters: with the reason, their offset and the number of attempts.

Key and value are the record's own, so a program can send them again; the number of attempts then grows. Written at
least once: after a crash the same dead letter may be written twice, with the same source offset.
"""

from __future__ import annotations

from attrs import frozen
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from tools.pipeline.decoders import ERROR, RECORD
from tools.pipeline.letter_headers import ATTEMPT, OFFSET, PARTITION, PREFIX, REASON, TOPIC

_HEADERS = "array<struct<key:string,value:binary>>"


@frozen
class DeadLetters:
    """The topic for dead letters."""

    bootstrap: str
    topic: str

    def write(self, bad: DataFrame) -> None:
        """Write rows with `_record` and `_error`."""
        writer = self.letters(bad).write.format("barnabas").mode("append")
        writer.option("kafka.bootstrap.servers", self.bootstrap).option("topic", self.topic).save()

    def letters(self, bad: DataFrame) -> DataFrame:
        """The rows of dead letters, for the sink."""
        return bad.select(f"{RECORD}.key", f"{RECORD}.value", _headers(bad).alias("headers"))


def _headers(bad: DataFrame) -> Column:
    """The record's own headers without those of an earlier attempt, and the new ones."""
    field = bad.schema[RECORD].dataType
    has_headers = "headers" in field.fieldNames()
    given = f.col(f"{RECORD}.headers") if has_headers else f.lit(None).cast(_HEADERS)
    before = f.coalesce(given, f.array().cast(_HEADERS))
    own = f.filter(before, lambda one: ~one["key"].startswith(PREFIX))
    attempts = f.filter(before, lambda one: one["key"] == ATTEMPT)
    attempt = f.coalesce(f.try_element_at(attempts, f.lit(1))["value"].cast("string").cast("int"), f.lit(0)) + 1
    told = {
        REASON: f.col(ERROR),
        TOPIC: f.col(f"{RECORD}.topic"),
        PARTITION: f.col(f"{RECORD}.partition"),
        OFFSET: f.col(f"{RECORD}.offset"),
        ATTEMPT: attempt,
    }
    new = f.array(
        *(
            f.struct(f.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))
            for name, value in told.items()
        )
    )
    return f.concat(own, new.cast(_HEADERS))
