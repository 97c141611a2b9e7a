"""One micro-batch through decoder, function and sinks, for `writeStream.foreachBatch`."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.storagelevel import StorageLevel

from tools.pipeline.dead_letters import DeadLetters
from tools.pipeline.decoders import ERROR, RECORD, BytesDecoder, Decoder
from tools.pipeline.sinks.sink import BatchId, Sink, query_id

Function = Callable[[DataFrame], DataFrame]


class BadRecords(Exception):
    """A record cannot be used, and there is no topic for dead letters."""


@frozen
class Batches:
    """Applies micro-batches. With Spark Connect, the server has a copy of this."""

    function: Function
    sinks: tuple[Sink, ...]
    decoder: Decoder
    dead_letters: DeadLetters | None
    checkpoint: str | None

    def __call__(self, records: DataFrame, number: int) -> None:
        batch = BatchId(query_id(records.sparkSession, self.checkpoint), number)
        decoded = self.decoder.decode(records).persist(StorageLevel.MEMORY_AND_DISK)
        made: DataFrame | None = None
        try:
            bad = decoded.where(f.col(ERROR).isNotNull())
            made = self.function(decoded.where(f.col(ERROR).isNull()).drop(ERROR))
            if ERROR in made.columns or len(self.sinks) > 1:  # used more than once: uuid() must give the same values
                made = made.persist(StorageLevel.MEMORY_AND_DISK)
            if ERROR in made.columns:
                if RECORD not in made.columns:
                    raise TypeError(f"rows with {ERROR} need {RECORD}, so that the record can be a dead letter")
                bad = bad.select(RECORD, ERROR).unionByName(made.where(f.col(ERROR).isNotNull()).select(RECORD, ERROR))
            self._bury(bad)
            good = made.where(f.col(ERROR).isNull()).drop(ERROR) if ERROR in made.columns else made
            for sink in self.sinks:
                sink.apply(good.drop(RECORD), batch)
        finally:
            decoded.unpersist()
            if made is not None:
                made.unpersist()

    def _bury(self, bad: DataFrame) -> None:
        first = bad.select(ERROR, f"{RECORD}.topic", f"{RECORD}.partition", f"{RECORD}.offset").head()
        if first is None:
            return
        if self.dead_letters is None:
            raise BadRecords(f"{first.topic}-{first.partition} at offset {first.offset}: {first[ERROR]}")
        self.dead_letters.write(bad)


def foreach_batch(
    function: Function,
    *sinks: Sink,
    decoder: Decoder | None = None,
    dead_letters: DeadLetters | None = None,
    checkpoint: str | None = None,
) -> Batches:
    """The argument of `foreachBatch`.

    `function` gets the decoded rows, with the record itself in `_record`, and returns the rows for the sinks. Rows in
    which it sets the column `_error` become dead letters instead. Without `dead_letters` such a row ends the query.
    `checkpoint` is the query's checkpointLocation; only Spark Connect needs it.
    """
    return Batches(function, sinks, decoder or BytesDecoder(), dead_letters, checkpoint)
