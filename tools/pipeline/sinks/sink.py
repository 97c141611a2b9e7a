"""What a sink is, and under which number it knows a micro-batch."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

from attrs import frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import is_remote


class NoCheckpoint(Exception):
    """It cannot be known which query this is."""


@frozen
class BatchId:
    """A micro-batch of a query. The query's id is in its checkpoint, so it is the same after a restart, and another
    one for a query that begins anew: its batch 0 is not the old one's.
    """

    query: str
    number: int


class Sink(Protocol):
    def apply(self, rows: DataFrame, batch: BatchId) -> bool:
        """Write the rows of a batch. False if that was done before."""
        ...


def query_id(session: SparkSession, checkpoint: str | None) -> str:
    """The id of the query whose foreachBatch this is.

    Spark says it in a property of the thread. A function that a Spark Connect server runs has no such property, only a
    copy of the session, in which no query runs: there it is read from the checkpoint.
    """
    if not is_remote():
        query: str | None = session.sparkContext.getLocalProperty("sql.streaming.queryId")
        assert query, "this is called in foreachBatch"
        return query
    if checkpoint is None:
        raise NoCheckpoint("on Spark Connect foreach_batch needs checkpoint=…, the same as option 'checkpointLocation'")
    return _kept_id(session, checkpoint)


@lru_cache(maxsize=16)
def _kept_id(session: SparkSession, checkpoint: str) -> str:
    """Read once, for a server gives every run of a query a session of its own."""
    row = session.read.schema("id STRING").json(f"{checkpoint}/metadata").head()
    if row is None or not row.id:
        raise NoCheckpoint(f"{checkpoint} is not the checkpoint of this query: there is no id in its metadata")
    return row.id
