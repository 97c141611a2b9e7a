"""The interface of a sink, and the id of a micro-batch."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

from attrs import frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import is_remote


class NoCheckpoint(Exception):
    """The id of the query is not known."""


@frozen
class BatchId:
    """A micro-batch of a query. The query's id is in its checkpoint: it is the same after a restart, and another one
    for a query with a new checkpoint, whose batch 0 is another batch.
    """

    query: str
    number: int


class Sink(Protocol):
    def apply(self, rows: DataFrame, batch: BatchId) -> bool:
        """Write the rows of a batch. False if it was written before."""
        ...


def query_id(session: SparkSession, checkpoint: str | None) -> str:
    """The id of the query whose foreachBatch this is.

    Spark sets it as a property of the thread. A function that a Spark Connect server runs has no such property, only a
    copy of the session without a query: there the id is read from the checkpoint.
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
    """Cached per session, because a server gives every run of a query its own session."""
    row = session.read.schema("id STRING").json(f"{checkpoint}/metadata").head()
    if row is None or not row.id:
        raise NoCheckpoint(f"{checkpoint} is not the checkpoint of this query: there is no id in its metadata")
    return row.id
