"""The exactly-once sink dies at every point at which it can, and Spark runs the micro-batch again. No JVM is needed."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from actors.cluster_file.config import KafkaConfig
from actors.harness import Cluster
from protocol.error_codes import ErrorCode
from tools.client.admin import Admin
from tools.client.consumer import Consumer
from tools.client.errors import KafkaError, NotPrepared, ProducerFenced
from tools.client.offsets import EARLIEST
from tools.client.prepared import complete_prepared
from tools.client.producer import Producer

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql.types import StringType, StructField, StructType  # noqa: E402

from tools.spark.decisions import TOPIC, Decider, Decision, last_decision  # noqa: E402
from tools.spark.errors import OptionError  # noqa: E402
from tools.spark.options import MicroBatch, SinkOptions  # noqa: E402
from tools.spark.writing import exactly_once  # noqa: E402
from tools.spark.writing.exactly_once import ExactlyOnceBatchSink, ExactlyOnceStreamSink  # noqa: E402

SCHEMA = StructType([StructField("value", StringType())])
TWO_PHASE = KafkaConfig(transaction_two_phase_commit_enable=True)
_numbers = itertools.count(1)


class Died(Exception):
    """The driver is gone."""


class Task:
    """What a task knows of itself."""

    def __init__(self, query: str, batch: int, partition: int, attempt: int, run: str) -> None:
        self._properties = {
            "sql.streaming.queryId": query, "streaming.sql.batchId": str(batch), "spark.jobGroup.id": run
        }  # fmt: skip
        self._partition, self._attempt = partition, attempt

    def getLocalProperty(self, name: str) -> str:  # noqa: N802  Spark's name
        return self._properties[name]

    def partitionId(self) -> int:  # noqa: N802  Spark's name
        return self._partition

    def attemptNumber(self) -> int:  # noqa: N802  Spark's name
        return self._attempt


class Query:
    """A stream that copies rows to a topic, as Spark would run it."""

    def __init__(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, topic: str | None = None) -> None:
        self.topic = topic or f"copy-{next(_numbers)}"
        cluster.admin.create_topic(self.topic, partitions=2, replication_factor=1)
        self.bootstrap = cluster.bootstrap
        self._monkeypatch = monkeypatch
        self._query = f"query-of-{self.topic}"
        self._options = SinkOptions(self.bootstrap, self.topic, is_exactly_once=True)

    def write(self, batch: int, values: list[str], partition: int = 0, attempt: int = 0, run: str = "a-run") -> Any:
        context = type("TaskContext", (), {"get": lambda: Task(self._query, batch, partition, attempt, run)})
        self._monkeypatch.setattr(exactly_once, "TaskContext", context)
        return self._sink(batch).write(iter([pa.RecordBatch.from_pydict({"value": values})]))

    def commit(self, messages: list[Any], batch: int) -> None:
        self._sink(batch).commit(messages, batch)

    def abort(self, messages: list[Any], batch: int) -> None:
        self._sink(batch).abort(messages, batch)

    def _sink(self, batch: int) -> Any:
        """A new one for every micro-batch, and for every process."""
        return ExactlyOnceStreamSink(self._options, SCHEMA)

    def read(self) -> Counter[str]:
        """What readers of committed records see; nothing that is open may stand in their way."""
        with (
            Consumer(self.bootstrap, isolation="read_committed") as consumer,
            Admin(self.bootstrap) as admin,
        ):
            wheres = consumer.partitions(self.topic)
            ends = consumer.end_offsets(wheres)
            assert ends == {where: at.offset for where, at in admin.list_offsets(dict.fromkeys(wheres, -1)).items()}, (
                "a transaction is open"
            )
            consumer.assign(dict.fromkeys(wheres, EARLIEST))
            found: Counter[str] = Counter()
            while any(consumer.position(where) < end for where, end in ends.items()):
                for records in consumer.poll(0.2).values():
                    found.update((record.value or b"").decode() for record in records)
        return found


class ForeachBatch(Query):
    """The same in foreachBatch, whose writer gets the number of the micro-batch as an option."""

    def commit(self, messages: list[Any], batch: int) -> None:
        self._sink(batch).commit(messages)

    def abort(self, messages: list[Any], batch: int) -> None:
        self._sink(batch).abort(messages)

    def _sink(self, batch: int) -> Any:
        return ExactlyOnceBatchSink(self._options, MicroBatch(f"same/{self.topic}", batch), SCHEMA)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1, config=TWO_PHASE) as cluster:
        yield cluster


@pytest.fixture(params=[Query, ForeachBatch], ids=["stream", "foreachBatch"])
def query(request: pytest.FixtureRequest, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Query:
    made: Query = request.param(cluster, monkeypatch)
    return made


ROWS = [["a", "b"], ["c", "d"]]
ONCE = Counter("abcd")


def written(query: Query, batch: int = 0, run: str = "a-run") -> list[Any]:
    return [query.write(batch, rows, partition, run=run) for partition, rows in enumerate(ROWS)]


def test_what_is_prepared_is_not_seen_before_it_is_committed(query: Query) -> None:
    messages = written(query)
    with Consumer(query.bootstrap, isolation="read_committed") as consumer:
        assert set(consumer.end_offsets(consumer.partitions(query.topic)).values()) == {0}
    query.commit(messages, 0)
    assert query.read() == ONCE
    query.commit(messages, 0)
    assert query.read() == ONCE


def test_a_batch_that_was_committed_and_is_run_again_writes_nothing(query: Query) -> None:
    query.commit(written(query), 0)
    query.commit(written(query), 0)
    assert query.read() == ONCE
    query.commit([query.write(1, ["e"])], 1)
    assert query.read() == ONCE + Counter("e")


def test_a_driver_that_dies_with_its_decision_made_is_followed_by_one_that_carries_it_out(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = written(query)
    complete = complete_prepared
    calls = itertools.count()

    def dies(*given: Any, **options: Any) -> None:
        if next(calls):
            raise Died
        complete(*given, **options)

    monkeypatch.setattr(exactly_once, "complete_prepared", dies)
    with pytest.raises(Died):
        query.commit(messages, 0)
    monkeypatch.setattr(exactly_once, "complete_prepared", complete)
    query.abort(messages, 0)  # Spark says so when a commit fails, but it is decided
    query.commit(written(query), 0)
    assert query.read() == ONCE


def test_a_driver_that_dies_undecided_leaves_nothing_that_is_seen_or_blocks(query: Query) -> None:
    written(query)
    again = [query.write(0, [*ROWS[0], *ROWS[1]], partition=0)]  # as one task this time
    query.commit(again, 0)
    assert query.read() == ONCE


def test_an_attempt_whose_task_failed_is_not_seen(query: Query) -> None:
    query.write(0, ROWS[0], 0, attempt=0)
    messages = [query.write(0, ROWS[0], 0, attempt=1), query.write(0, ROWS[1], 1)]
    query.commit(messages, 0)
    assert query.read() == ONCE


def test_a_batch_that_is_given_up_is_not_seen(query: Query) -> None:
    query.abort([query.write(0, ROWS[0]), None], 0)  # the other task failed
    assert query.read() == Counter()
    query.commit(written(query), 0)
    assert query.read() == ONCE


def test_a_batch_whose_commit_was_interrupted_is_not_aborted_while_it_may_be_decided(query: Query) -> None:
    messages = written(query)
    query.abort(messages, 0)
    query.commit(messages, 0)
    assert query.read() == ONCE


def test_the_run_that_decides_first_is_carried_out_whichever_it_is(query: Query) -> None:
    """Spark has given the first one up, but it goes on."""
    given_up, messages = written(query), written(query, run="another-run")
    query.commit(given_up, 0)
    query.commit(messages, 0)
    assert query.read() == ONCE


def test_a_run_that_was_given_up_is_fenced_when_its_successor_commits(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the last moment: it has looked, nothing was decided, and all that it has prepared can be committed."""
    given_up, messages = written(query), written(query, run="another-run")
    decide = Decider.decide

    def overtaken(decider: Decider, decision: Decision) -> None:
        monkeypatch.setattr(Decider, "decide", decide)
        query.commit(messages, 0)
        decide(decider, decision)

    monkeypatch.setattr(Decider, "decide", overtaken)
    with pytest.raises(ProducerFenced):
        query.commit(given_up, 0)
    assert query.read() == ONCE
    query.commit(given_up, 0)
    assert query.read() == ONCE


def test_what_was_aborted_is_not_decided_on(query: Query) -> None:
    messages = written(query)
    complete_prepared(query.bootstrap, messages[1].transaction, commit=False)
    with pytest.raises(NotPrepared, match="was aborted"):
        query.commit(messages, 0)
    query.commit(written(query, run="another-run"), 0)
    assert query.read() == ONCE


def test_a_decision_behind_one_that_is_being_written_is_found(cluster: Cluster) -> None:
    """By the process that waits until the other is written, or aborted."""
    with (
        Decider(cluster.bootstrap, "late") as late,
        Decider(cluster.bootstrap, "mine") as mine,
        ThreadPoolExecutor(1) as thread,
    ):
        late._producer.begin()
        late._producer.send(TOPIC, b"{}", key=b"late", partition=0).result()
        mine.decide(Decision(3, ()))
        found = thread.submit(last_decision, cluster.bootstrap, "mine")
        with pytest.raises(TimeoutError):
            found.result(0.2)
        late._producer.abort()
        assert found.result(60) == Decision(3, ())


def test_sinks_of_one_query_leave_each_other_alone(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the name of one begins like the other's."""
    name = f"both-{next(_numbers)}"
    one, other = ForeachBatch(cluster, monkeypatch, name), ForeachBatch(cluster, monkeypatch, f"{name}-0")
    of_one, of_other = written(one), written(other)
    one.commit(of_one, 0)
    other.commit(of_other, 0)
    assert one.read() == other.read() == ONCE


def test_tasks_without_rows_have_nothing_to_commit(query: Query) -> None:
    query.commit([query.write(0, []), query.write(0, ["x"], 1)], 0)
    assert query.read() == Counter("x")


def test_a_cluster_that_denies_two_phase_commit_is_told_so(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Kafka does that knows it and is not set to it."""

    def denied(_producer: Producer) -> None:
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "a new producer")

    monkeypatch.setattr(Producer, "init_transactions", denied)
    with pytest.raises(OptionError, match=r"transaction\.two\.phase\.commit\.enable=true"):
        query.write(0, ["x"])


def test_a_cluster_without_two_phase_commit_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with Cluster(1) as cluster, pytest.raises(OptionError, match="two-phase commit"):
        Query(cluster, monkeypatch).write(0, ["x"])
