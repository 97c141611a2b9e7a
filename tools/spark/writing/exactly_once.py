"""Rows into topics, every row of a micro-batch once: `option("exactlyOnce", "true")`, for streams and in foreachBatch.

Tasks write in parallel, each in its own transaction, and prepare it (KIP-939): any process that knows its id can commit
it, and it never times out. The driver decides: before it commits the first transaction it writes all of them into a
decision record (decisions.py). If the driver dies half-way, the next one finishes the same commit, and a batch that
Spark repeats after its decision writes nothing.

A task or driver that dies earlier leaves open transactions, at which read_committed consumers wait. Their transactional
ids contain the writer's id: the driver aborts all open ones of the writer after the decision. The ids contain the run
of the query too, so that no task ends a transaction of an earlier run, which may just be decided.

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
"""The job group of a query's jobs is the id of its run."""


@frozen
class Prepared(WriterCommitMessage):
    """The prepared transaction of a task; None if its batch was decided before, or the task has no rows."""

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
                pass  # Spark waits until all rows are consumed
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
        """Abort a micro-batch of which not all tasks have ended.

        Spark calls this also if all tasks have ended and the commit failed or was interrupted. The commit's process may
        still run and decide the batch, so its transactions are left to the next attempt.
        """
        if not all(isinstance(one, Prepared) for one in messages):
            self._abort(_prepared(messages))

    def _abort(self, prepared: Iterable[PreparedTransaction]) -> None:
        for one in prepared:
            try:
                complete_prepared(self._bootstrap, one, commit=False)
            except NotPrepared as error:
                _log.warning("%s", error)  # another attempt of the task has aborted it already

    def _must_be_open(self, prepared: Sequence[PreparedTransaction]) -> None:
        """Raise NotPrepared if a transaction was aborted: a decision with it could not be carried out."""
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
        if told:  # only tasks know the query's id; without one there are no rows
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
    """The decision on this micro-batch or a later one, which is carried out; None if the batch is to be written."""
    decision = last_decision(bootstrap, batch.writer)
    if decision is None or decision.batch < batch.number:
        return None
    if decision.batch == batch.number:
        _finish(bootstrap, batch.writer, decision)
    return decision


def _prepared(messages: Sequence[WriterCommitMessage | None]) -> tuple[PreparedTransaction, ...]:
    return tuple(one.transaction for one in messages if isinstance(one, Prepared) and one.transaction is not None)


def _finish(bootstrap: str, writer: str, decision: Decision) -> None:
    """Commit the decided transactions, then abort the open ones of other attempts at the batch. Not in the other order:
    before the decision, an open transaction may still be decided.
    """
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        for done in [threads.submit(complete_prepared, bootstrap, one, commit=True) for one in decision.prepared]:
            done.result()
    with Admin(bootstrap, client_id=_CLIENT) as admin:
        found = [one.transactional_id for one in admin.transactions.list(states=["Ongoing"])]
    for transactional_id in found:
        # Compared without run, task and attempt: another writer's id may begin with this one's.
        if transactional_id.rsplit("-", 3)[0] == _prefix(writer):
            _log.warning("%s was left open by a task that failed: aborted", transactional_id)
            _two_phase_producer(bootstrap, transactional_id, client_id=_CLIENT).close()


def _two_phase_producer(bootstrap: str, transactional_id: str, **options: Any) -> Producer:
    """A producer with two-phase commit. An open transaction of its id is aborted."""
    producer = Producer(bootstrap, transactional_id=transactional_id, two_phase_commit=True, **options)
    try:
        producer.init_transactions()
    except BaseException as error:
        producer.close()
        if _is_refusal(error):
            raise OptionError(
                f"option 'exactlyOnce' needs two-phase commit (KIP-939), which {bootstrap} does not offer to "
                "this client: set transaction.two.phase.commit.enable=true there, or leave the option out"
            ) from error
        raise
    return producer


def _is_refusal(error: BaseException) -> bool:
    """Does the broker not support two-phase commit, or is it switched off there?"""
    if isinstance(error, KafkaError):
        return error.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return isinstance(error, NotSupported)


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "rows are written by tasks"
    return task


def _prefix(writer: str) -> str:
    return f"spark-{writer}"
