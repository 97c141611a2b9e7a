"""Rows into topics, every row of a micro-batch once: `option("exactlyOnce", "true")`, for streams and in foreachBatch.

Tasks write in parallel, each in a transaction of its own, and prepare it (KIP-939): it is written, can be committed by
whoever knows its id, and never times out. The driver decides. Before it commits the first of them it writes down all of
them (decisions.py); so a driver that dies half-way is followed by one that finishes the same commit, and a batch that
Spark runs again after it was decided writes nothing.

What dies earlier leaves transactions that nobody will commit. They have the writer's id in theirs: the next attempt of
the same task aborts its predecessor's by taking the id over, and the driver aborts whatever else is open before it
decides. Until then readers of committed records wait at them.

A stream's writer has the query's id, and its batch number from Spark. A batch writer knows neither, so its options say
them: `exactlyOnceId`, one for each pair of query and target, and `exactlyOnceBatch`, which only grows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pyarrow as pa
from attrs import frozen
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tools.client.admin import Admin
from tools.client.errors import NotPrepared, NotSupported
from tools.client.prepared import complete_prepared, is_prepared
from tools.client.producer import Producer
from tools.client.transaction import PreparedTransaction
from tools.spark.decisions import Decision, last_decision, write_decision
from tools.spark.errors import OptionError
from tools.spark.options import MicroBatch, SinkOptions
from tools.spark.sink import RowWriter

_log = logging.getLogger(__name__)
_AT_ONCE = 8


@frozen
class Prepared(WriterCommitMessage):
    """What a task wrote. None if its batch was decided on before, or has no rows for it."""

    writer: str
    transaction: PreparedTransaction | None


class TwoPhaseWriter:
    """Writes micro-batches in two phases; the same for both kinds of sinks."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._bootstrap = options.bootstrap
        self._options = options
        self._rows = RowWriter(options, schema)

    # -- on executors ------------------------------------------------------------------------------------------------

    def write(self, rows: Iterator[pa.RecordBatch], task: TaskContext, batch: MicroBatch) -> Prepared:
        """Write the rows of a task."""
        decision = last_decision(self._bootstrap, batch.writer)
        if decision is not None and decision.batch >= batch.number:
            for _ in rows:
                pass  # Spark waits until its rows are taken
            return Prepared(batch.writer, None)
        transactional_id = f"{_prefix(batch.writer)}-{task.partitionId()}-{task.attemptNumber()}"
        with self._producer(transactional_id) as producer:
            producer.begin()
            self._rows.send_rows(producer, rows)
            prepared = producer.prepare()
        return Prepared(batch.writer, None if prepared.is_empty else prepared)

    def _producer(self, transactional_id: str) -> Producer:
        options = self._options
        producer = Producer(
            options.bootstrap,
            compression=options.compression,
            linger=options.linger,
            batch_bytes=options.batch_bytes,
            delivery=options.delivery,
            client_id=options.client_id,
            transactional_id=transactional_id,
            two_phase_commit=True,
        )
        try:
            producer.init_transactions()
        except BaseException as error:
            producer.close()
            if isinstance(error, NotSupported):
                raise OptionError(
                    f"option 'exactlyOnce' needs two-phase commit (KIP-939), which {options.bootstrap} does not have: "
                    "set transaction.two.phase.commit.enable=true there, or leave the option out"
                ) from error
            raise
        return producer

    # -- on the driver -----------------------------------------------------------------------------------------------

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch: MicroBatch) -> None:
        """Commit a micro-batch; called again for the same one after a crash."""
        prepared = _prepared(messages)
        decision = carry_out(self._bootstrap, batch)
        if decision is not None:
            self._abort(one for one in prepared if one not in decision.prepared)
            return
        self._must_be_open(prepared)
        self._abort_all_but(batch.writer, {one.transactional_id for one in prepared})
        write_decision(self._bootstrap, batch.writer, Decision(batch.number, prepared))
        _complete(self._bootstrap, prepared)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Give a micro-batch up whose tasks did not all come to their end.

        Spark calls this also when all did and their commit failed or was interrupted. That one may be decided now or in
        a moment, for its process goes on; so everything is left to the next attempt then, which finds out.
        """
        if not all(isinstance(one, Prepared) for one in messages):
            self._abort(_prepared(messages))

    def _abort(self, prepared: Iterable[PreparedTransaction]) -> None:
        for one in prepared:
            try:
                complete_prepared(self._bootstrap, one, commit=False)
            except NotPrepared as error:
                _log.warning("%s", error)  # another attempt of the task has aborted it

    def _must_be_open(self, prepared: Sequence[PreparedTransaction]) -> None:
        """A run of the query that was stopped or lost may still be at its commit when the next run's tasks have taken
        its ids over. It must not decide then: nobody could carry that out.
        """
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            for one, is_open in zip(
                prepared, threads.map(partial(is_prepared, self._bootstrap), prepared), strict=True
            ):
                if not is_open:
                    raise NotPrepared(f"{one} was taken over: another run of this query writes the batch")

    def _abort_all_but(self, writer: str, kept: set[str]) -> None:
        """Abort what attempts that failed have left open."""
        with Admin(self._bootstrap, client_id=self._options.client_id) as admin:
            found = [one.transactional_id for one in admin.transactions.list(states=["Ongoing"])]
        for transactional_id in found:
            # Without task and attempt it must be the same, not begin the same: another writer's id may begin like ours.
            if transactional_id.rsplit("-", 2)[0] == _prefix(writer) and transactional_id not in kept:
                _log.warning("%s was left open by a task that failed: aborted", transactional_id)
                self._producer(transactional_id).close()


class ExactlyOnceStreamSink(DataSourceStreamArrowWriter):
    """`df.writeStream.format("barnabas").option("exactlyOnce", "true")`."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._writer = TwoPhaseWriter(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = _task()
        query = task.getLocalProperty("sql.streaming.queryId")
        number = int(task.getLocalProperty("streaming.sql.batchId"))
        return self._writer.write(iterator, task, MicroBatch(query, number))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  Spark's name
        told = [one for one in messages if isinstance(one, Prepared)]
        if told:  # only tasks know the query's id; without tasks there are no rows
            self._writer.commit(messages, MicroBatch(told[0].writer, batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803  Spark's name
        self._writer.abort(messages)


class ExactlyOnceBatchSink(DataSourceArrowWriter):
    """`df.write.format("barnabas").option("exactlyOnce", "true")`, with the options that name the micro-batch."""

    def __init__(self, options: SinkOptions, batch: MicroBatch, schema: StructType) -> None:
        self._writer = TwoPhaseWriter(options, schema)
        self._batch = batch

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._writer.write(iterator, _task(), self._batch)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._writer.commit(messages, self._batch)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._writer.abort(messages)


def carry_out(bootstrap: str, batch: MicroBatch) -> Decision | None:
    """What was decided on a micro-batch, and commit it; or on a later one. None if nothing was: it is to be written."""
    decision = last_decision(bootstrap, batch.writer)
    if decision is None or decision.batch < batch.number:
        return None
    if decision.batch == batch.number:
        _complete(bootstrap, decision.prepared)
    return decision


def _prepared(messages: Sequence[WriterCommitMessage | None]) -> tuple[PreparedTransaction, ...]:
    return tuple(one.transaction for one in messages if isinstance(one, Prepared) and one.transaction is not None)


def _complete(bootstrap: str, prepared: Iterable[PreparedTransaction]) -> None:
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        for done in [threads.submit(complete_prepared, bootstrap, one, commit=True) for one in prepared]:
            done.result()


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "rows are written by tasks"
    return task


def _prefix(writer: str) -> str:
    return f"spark-{writer}"
