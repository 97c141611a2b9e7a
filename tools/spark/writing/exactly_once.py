"""Rows into topics, every row of a micro-batch once: `option("exactlyOnce", "true")`, for streams and in foreachBatch.

Tasks write in parallel, each in a transaction of its own, and prepare it (KIP-939): it is written, can be committed by
whoever knows its id, and never times out. The driver decides. Before it commits the first of them it writes down all of
them (decisions.py); so a driver that dies half-way is followed by one that finishes the same commit, and a batch that
Spark runs again after it was decided writes nothing.

What dies earlier leaves transactions that nobody will commit. They have the writer's id in theirs: the driver aborts
whatever of it is open when the batch is decided. Until then readers of committed records wait at them. Ids have the run
of the query in them too, so that no task takes over what an earlier run has prepared: that one may just be decided.

A stream's writer has the query's id, and its batch number from Spark. A batch writer knows neither, so its options say
them: `exactlyOnceId`, one for each pair of query and target, and `exactlyOnceBatch`, which only grows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pyarrow as pa
from attrs import frozen
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from protocol.error_codes import ErrorCode
from tools.client.admin import Admin
from tools.client.errors import KafkaError, NotPrepared, NotSupported
from tools.client.prepared import complete_prepared, is_prepared
from tools.client.producer import Producer
from tools.client.writing.transaction import PreparedTransaction
from tools.spark.decisions import Decider, Decision, last_decision
from tools.spark.errors import OptionError
from tools.spark.options import MicroBatch, SinkOptions
from tools.spark.writing.sink import RowWriter

_log = logging.getLogger(__name__)
_AT_ONCE = 8
_CLIENT = "barnabas-spark"
_RUN = "spark.jobGroup.id"
"""A query gives its jobs the id of its run as their group."""


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
        run = (task.getLocalProperty(_RUN) or "").replace("-", "")
        transactional_id = f"{_prefix(batch.writer)}-{run}-{task.partitionId()}-{task.attemptNumber()}"
        settings = self._options.producer_settings
        with _two_phase_producer(self._bootstrap, transactional_id, **settings) as producer:
            producer.begin()
            self._rows.send_rows(producer, rows)
            prepared = producer.prepare()
        return Prepared(batch.writer, None if prepared.is_empty else prepared)

    # -- on the driver -----------------------------------------------------------------------------------------------

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch: MicroBatch) -> None:
        """Commit a micro-batch; called again for the same one after a crash."""
        prepared = _prepared(messages)
        with Decider(self._bootstrap, batch.writer) as decider:
            decision = last_decision(self._bootstrap, batch.writer)
            if decision is None or decision.batch < batch.number:
                self._must_be_open(prepared)
                decision = Decision(batch.number, prepared)
                decider.decide(decision)
        if decision.batch == batch.number:
            _finish(self._bootstrap, batch.writer, decision)
        else:
            self._abort(prepared)

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
        """What somebody has aborted must not be decided on: nobody could carry that out."""
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            for one, is_open in zip(
                prepared, threads.map(partial(is_prepared, self._bootstrap), prepared), strict=True
            ):
                if not is_open:
                    raise NotPrepared(f"{one} was aborted: the batch is to be written again")


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
        _finish(bootstrap, batch.writer, decision)
    return decision


def _prepared(messages: Sequence[WriterCommitMessage | None]) -> tuple[PreparedTransaction, ...]:
    return tuple(one.transaction for one in messages if isinstance(one, Prepared) and one.transaction is not None)


def _finish(bootstrap: str, writer: str, decision: Decision) -> None:
    """Commit what was decided, and abort what other attempts at the batch have left open: never before, for what is not
    decided yet may be decided on in the next moment.
    """
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        for done in [threads.submit(complete_prepared, bootstrap, one, commit=True) for one in decision.prepared]:
            done.result()
    with Admin(bootstrap, client_id=_CLIENT) as admin:
        found = [one.transactional_id for one in admin.transactions.list(states=["Ongoing"])]
    for transactional_id in found:
        # Without run, task and attempt it must be the same, not begin the same: another writer's may begin like ours.
        if transactional_id.rsplit("-", 3)[0] == _prefix(writer):
            _log.warning("%s was left open by a task that failed: aborted", transactional_id)
            _two_phase_producer(bootstrap, transactional_id, client_id=_CLIENT).close()


def _two_phase_producer(bootstrap: str, transactional_id: str, **options: Any) -> Producer:
    """One whose transactions can be prepared. What was open under its id is aborted."""
    producer = Producer(bootstrap, transactional_id=transactional_id, two_phase_commit=True, **options)
    try:
        producer.init_transactions()
    except BaseException as error:
        producer.close()
        if _is_refusal(error):
            raise OptionError(
                f"option 'exactlyOnce' needs two-phase commit (KIP-939), which {bootstrap} does not have, or not for "
                "us: set transaction.two.phase.commit.enable=true there, or leave the option out"
            ) from error
        raise
    return producer


def _is_refusal(error: BaseException) -> bool:
    """A broker that does not know two-phase commit says so; one that does, but shall not do it, denies the right."""
    if isinstance(error, KafkaError):
        return error.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return isinstance(error, NotSupported)


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "rows are written by tasks"
    return task


def _prefix(writer: str) -> str:
    return f"spark-{writer}"
