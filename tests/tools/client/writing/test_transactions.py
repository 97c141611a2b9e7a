"""Our own client's transactions, in both versions of the protocol, against our brokers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.cluster_file.config import KafkaConfig
from actors.harness import Cluster
from tests.actors.waiting import wait_until
from tests.naming import unique
from tools.client.consumer import Consumer
from tools.client.errors import KafkaError, NotPrepared, NotSupported, ProducerFenced, TransactionFailed
from tools.client.group_offsets import Committed
from tools.client.metadata import TopicPartition
from tools.client.offsets import EARLIEST
from tools.client.prepared import complete_prepared
from tools.client.producer import Producer
from tools.client.writing import transaction_coordinator as transactions_module
from tools.client.writing.transaction import PreparedTransaction, TransactionStateError

TWO_PHASE = KafkaConfig(transaction_two_phase_commit_enable=True)
ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Cluster(3, log_level="critical", config=TWO_PHASE) as cluster:
        yield cluster.bootstrap


@pytest.fixture
def topic() -> str:
    return unique("topic")


@pytest.fixture
def name() -> str:
    return unique("id")


@pytest.fixture(params=["v2", "classic"])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether the cluster is taken to have agreed on transactions in version 2."""
    if request.param == "classic":
        monkeypatch.setattr(transactions_module, "speaks_v2", lambda _: False)
    chosen: str = request.param
    return chosen


def values(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[bytes | None]:
    """Everything up to the end that a reader of this kind may see, in the order of offsets."""
    found: list[bytes | None] = []
    with Consumer(bootstrap, isolation=isolation) as consumer:
        consumer.assign(dict.fromkeys(consumer.partitions(topic), EARLIEST))
        ends = consumer.end_offsets(consumer.assignment)
        while any(consumer.position(where) < end for where, end in ends.items()):
            for records in consumer.poll(1.0).values():
                found += [record.value for record in records]
    return found


def begun(bootstrap: str, name: str, **options: bool | float) -> Producer:
    producer = Producer(bootstrap, transactional_id=name, **options)  # type: ignore[arg-type]
    producer.init_transactions()
    producer.begin()
    return producer


@pytest.mark.usefixtures("version")
def test_only_what_is_committed_is_read(bootstrap: str, topic: str, name: str) -> None:
    with begun(bootstrap, name) as producer:
        producer.send(topic, b"one", partition=0)
        producer.commit()
        producer.begin()
        producer.send(topic, b"never", partition=0).result()
        producer.abort()
        for number in range(20):
            producer.begin()
            producer.send(topic, b"%d" % number, partition=0)
            producer.commit()
        producer.begin()
        producer.send(topic, b"open", partition=0).result()
        assert values(bootstrap, topic) == [b"one", *(b"%d" % number for number in range(20))]
        assert values(bootstrap, topic, "read_uncommitted")[-1] == b"open"


@pytest.mark.usefixtures("version")
def test_a_successor_fences_and_aborts(bootstrap: str, topic: str, name: str) -> None:
    with begun(bootstrap, name) as zombie:
        zombie.send(topic, b"zombie", partition=0).result()
        with begun(bootstrap, name) as producer:
            producer.send(topic, b"good", partition=0)
            with pytest.raises(ProducerFenced):
                zombie.commit()
            with pytest.raises(ProducerFenced):
                zombie.send(topic, b"more", partition=0)
            with pytest.raises(ProducerFenced):
                zombie.begin()
            producer.commit()
        assert values(bootstrap, topic) == [b"good"]


@pytest.mark.usefixtures("version")
def test_a_zombie_that_writes_fails_what_it_sent_and_learns_who_it_is_when_it_aborts(
    bootstrap: str, topic: str, name: str
) -> None:
    with begun(bootstrap, name) as zombie:
        zombie.send(topic, b"first", partition=0).result()
        with begun(bootstrap, name) as producer:
            with pytest.raises((KafkaError, TransactionFailed, ProducerFenced)):
                zombie.send(topic, b"zombie", partition=0).result()
            with pytest.raises(ProducerFenced):
                zombie.abort()
            producer.send(topic, b"good", partition=0)
            producer.commit()
        assert values(bootstrap, topic) == [b"good"]


@pytest.mark.usefixtures("version")
def test_offsets_are_committed_with_the_transaction_or_not_at_all(bootstrap: str, topic: str, name: str) -> None:
    where = TopicPartition(topic, 0)
    with Consumer(bootstrap, group_id=name) as reader, begun(bootstrap, name) as producer:
        producer.send(topic, b"result", partition=0)
        producer.send_offsets(name, {where: Committed(17)})
        producer.abort()
        assert reader.committed([where]) == {}
        producer.begin()
        producer.send_offsets(name, {where: Committed(18, metadata="here")})
        producer.commit()
        wait_until(
            lambda: reader.committed([where]) == {where: Committed(18, metadata="here")}, lambda: "not there yet"
        )


@pytest.mark.usefixtures("version")
def test_a_refused_record_fails_its_transaction_and_the_next_one_is_good(bootstrap: str, topic: str, name: str) -> None:
    with begun(bootstrap, name, linger=0.0) as producer:
        producer.send(topic, b"x", partition=0).result()
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            producer.send(topic, b"x" * (2 << 20), partition=0).result()
        with pytest.raises(TransactionFailed):
            producer.send(topic, b"y", partition=0)
        with pytest.raises(TransactionFailed):
            producer.commit()
        producer.abort()
        producer.begin()
        producer.send(topic, b"good", partition=0)
        producer.commit()
        assert values(bootstrap, topic) == [b"good"]


@pytest.mark.usefixtures("version")
def test_a_transaction_that_took_too_long_is_over(bootstrap: str, topic: str, name: str) -> None:
    with begun(bootstrap, name, transaction_timeout=0.2) as producer:
        producer.send(topic, b"late", partition=0).result()
        with Consumer(bootstrap, isolation="read_committed") as consumer:
            where = TopicPartition(topic, 0)
            consumer.assign({where: EARLIEST})
            wait_until(lambda: consumer.end_offsets([where])[where] == 2, lambda: "not there yet")
        with pytest.raises(ProducerFenced):
            producer.commit()
        assert values(bootstrap, topic) == []


def test_steps_out_of_order_are_told(bootstrap: str, topic: str, name: str) -> None:
    with Producer(bootstrap) as plain, pytest.raises(TransactionStateError, match="without a transactional id"):
        plain.begin()
    with Producer(bootstrap, transactional_id=name) as producer:
        with pytest.raises(TransactionStateError, match="init_transactions"):
            producer.begin()
        producer.init_transactions()
        with pytest.raises(TransactionStateError, match="no transaction has begun"):
            producer.send(topic, b"x")
        with pytest.raises(TransactionStateError, match="no transaction has begun"):
            producer.commit()
        producer.begin()
        with pytest.raises(TransactionStateError, match="two_phase_commit"):
            producer.prepare()
        producer.commit()
    with pytest.raises(ValueError, match="acks=all"):
        Producer(bootstrap, transactional_id=name, acks=1)


# -- prepared transactions ---------------------------------------------------------------------------------------------

PREPARES = f"""
import sys
from {Producer.__module__} import Producer
bootstrap, topic, name = sys.argv[1:]
producer = Producer(bootstrap, transactional_id=name, two_phase_commit=True, transaction_timeout=0.1)
producer.init_transactions()
producer.begin()
for number in range(100):
    producer.send(topic, b"%d" % number, partition=0)
print(producer.prepare().to_json(), flush=True)
sys.stdin.read()
"""


def prepared_by_a_process_that_dies(bootstrap: str, topic: str, name: str) -> PreparedTransaction:
    with subprocess.Popen(
        [sys.executable, "-c", PREPARES, bootstrap, topic, name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.kill()
    return PreparedTransaction.from_json(line)


@pytest.mark.parametrize("commit", [True, False])
def test_a_prepared_transaction_outlives_its_producer(bootstrap: str, topic: str, name: str, commit: bool) -> None:
    prepared = prepared_by_a_process_that_dies(bootstrap, topic, name)
    assert prepared.transactional_id == name
    assert values(bootstrap, topic) == []
    complete_prepared(bootstrap, prepared, commit=commit)
    complete_prepared(bootstrap, prepared, commit=commit)
    with pytest.raises(NotPrepared, match="was"):
        complete_prepared(bootstrap, prepared, commit=not commit)
    wait_until(
        lambda: values(bootstrap, topic) == [b"%d" % number for number in range(100 if commit else 0)],
        lambda: "not there yet",
    )


def test_a_prepared_transaction_survives_its_coordinator(tmp_path: Path, topic: str, name: str) -> None:
    with Cluster(3, processes=True, data_dir=tmp_path, log_level="critical", config=TWO_PHASE) as cluster:
        prepared = prepared_by_a_process_that_dies(cluster.bootstrap, topic, name)
        for broker in (1, 2, 3):
            cluster.kill(broker)
            cluster.restart(broker)
        assert values(cluster.bootstrap, topic) == []
        complete_prepared(cluster.bootstrap, prepared, commit=True)
        wait_until(
            lambda: values(cluster.bootstrap, topic) == [b"%d" % number for number in range(100)],
            lambda: "not there yet",
        )


def test_a_producer_resumes_what_it_prepared(bootstrap: str, topic: str, name: str) -> None:
    with begun(bootstrap, name, two_phase_commit=True) as producer:
        producer.send(topic, b"kept", partition=0)
        prepared = producer.prepare()
        with pytest.raises(TransactionStateError, match="prepared"):
            producer.send(topic, b"more", partition=0)
    with Producer(bootstrap, transactional_id=name, two_phase_commit=True) as producer:
        assert producer.resume() == prepared
        with pytest.raises(TransactionStateError, match="prepared"):
            producer.begin()
        producer.commit()
        producer.begin()
        producer.send(topic, b"next", partition=0)
        producer.commit()
    wait_until(lambda: values(bootstrap, topic) == [b"kept", b"next"], lambda: "not there yet")


def test_a_prepared_transaction_that_was_taken_over_is_told(bootstrap: str, topic: str, name: str) -> None:
    with begun(bootstrap, name, two_phase_commit=True) as producer:
        producer.send(topic, b"lost", partition=0)
        prepared = producer.prepare()
    with begun(bootstrap, name) as successor:
        successor.send(topic, b"new", partition=0).result()
        with pytest.raises(NotPrepared):
            complete_prepared(bootstrap, prepared, commit=True)
        successor.commit()
    assert values(bootstrap, topic) == [b"new"]


def test_nothing_prepared_is_nothing_to_end(bootstrap: str, name: str) -> None:
    with begun(bootstrap, name, two_phase_commit=True) as producer:
        prepared = producer.prepare()
        assert prepared.is_empty
        complete_prepared(bootstrap, prepared, commit=True)
        producer.commit()
    with Producer(bootstrap, transactional_id=name, two_phase_commit=True) as producer:
        assert producer.resume() is None
        producer.begin()


def test_two_phase_commit_is_only_where_the_cluster_has_it(name: str) -> None:
    with (
        Cluster(1, log_level="critical") as cluster,
        Producer(cluster.bootstrap, transactional_id=name, two_phase_commit=True) as producer,
        pytest.raises(NotSupported, match="InitProducerId"),
    ):
        producer.init_transactions()
