"""Transactions as administrators see them: commands against our brokers, and what makes one hang, by script."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from actors.harness import Cluster
from protocol.apis import (
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    FIND_COORDINATOR,
    LIST_TRANSACTIONS,
)
from protocol.messages.describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from protocol.messages.describe_transactions import DescribeTransactionsResponse, TopicData
from protocol.messages.describe_transactions import TransactionState as Described
from protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from protocol.messages.list_transactions import ListTransactionsResponse
from protocol.messages.list_transactions import TransactionState as Listed
from tests.actors.waiting import wait_until
from tests.naming import unique
from tests.tools.client.scripted_broker import ScriptedBroker
from tools.cli.root import main
from tools.client.admin import Admin
from tools.client.consumer import Consumer
from tools.client.errors import ProducerFenced
from tools.client.metadata import TopicPartition
from tools.client.producer import Producer

LONG_AGO_MS = 1_600_000_000_000


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Cluster(3, log_level="critical") as cluster:
        yield cluster.bootstrap


@pytest.fixture
def name() -> str:
    return unique("id")


@pytest.fixture
def producer(bootstrap: str, name: str) -> Iterator[Producer]:
    """One whose transaction is open in a topic of its transactional id's name."""
    with Producer(bootstrap, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin()
        producer.send(name, b"x", partition=0).result()
        yield producer


def cli(capsys: pytest.CaptureFixture[str], bootstrap: str, *arguments: str, code: int = 0) -> str:
    assert main(["transactions", *arguments, "--bootstrap", bootstrap]) == code
    return capsys.readouterr().out


def stable_end(bootstrap: str, where: TopicPartition) -> int:
    with Consumer(bootstrap, isolation="read_committed") as consumer:
        return consumer.end_offsets([where])[where]


@pytest.mark.usefixtures("producer")
def test_what_is_open_is_listed_and_described(bootstrap: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert name in cli(capsys, bootstrap, "list", "--state", "Ongoing")
    assert name not in cli(capsys, bootstrap, "list", "--state", "Empty")
    transaction, partition = cli(capsys, bootstrap, "describe", name).splitlines()
    assert transaction.split("\t")[:3] == ["transaction", name, "Ongoing"]
    assert partition.split("\t") == ["partition", name, "0"]
    told = json.loads(cli(capsys, bootstrap, "describe", name, "--json"))
    assert told["partitions"] == [[name, 0]]
    assert main(["transactions", "describe", "nobody", "--bootstrap", bootstrap]) == 1
    assert "TRANSACTIONAL_ID_NOT_FOUND" in capsys.readouterr().err
    assert main(["transactions", "list", "--state", "Sleepy", "--bootstrap", bootstrap]) == 1
    assert "no such state: Sleepy" in capsys.readouterr().err


@pytest.mark.usefixtures("producer")
def test_what_is_merely_open_does_not_hang(bootstrap: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(capsys, bootstrap, "find-hanging", "--topic", name, "--older-than", "0") == ""


def test_an_aborted_transactional_id_is_fenced(
    bootstrap: str, name: str, producer: Producer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "aborted" in cli(capsys, bootstrap, "abort", name)
    with pytest.raises(ProducerFenced):
        producer.commit()
    wait_until(lambda: stable_end(bootstrap, TopicPartition(name, 0)) == 2, lambda: "there is no marker yet")
    assert "no transaction was open" in cli(capsys, bootstrap, "abort", name)


@pytest.mark.usefixtures("producer")
def test_a_marker_ends_a_transaction_in_one_partition(
    bootstrap: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--topic", name, "--partition", "0", "--start-offset")
    assert stable_end(bootstrap, TopicPartition(name, 0)) == 0
    assert main(["transactions", "abort", *where, "7", "--bootstrap", bootstrap]) == 1
    assert "began at offset 7" in capsys.readouterr().err
    assert "aborted" in cli(capsys, bootstrap, "abort", *where, "0")
    assert stable_end(bootstrap, TopicPartition(name, 0)) == 2
    assert main(["transactions", "abort", "--topic", name, "--bootstrap", bootstrap]) == 2
    # The coordinator does not know; it ends what it has, as ever.


class Script:
    """A cluster of one broker with one open transaction of producer 7, epoch 3, in orders-0."""

    def __init__(self) -> None:
        self.known = Described(
            transactional_id="till", transaction_state="Ongoing", transaction_timeout_ms=60_000,
            transaction_start_time_ms=int(time.time() * 1000), producer_id=7, producer_epoch=3,
            topics=[TopicData(topic="orders", partitions=[0])],
        )  # fmt: skip
        self.listed = [Listed(transactional_id="till", producer_id=7, transaction_state="Ongoing")]
        self.ends_meanwhile = False
        self._looks = 0

    def broker(self) -> ScriptedBroker:
        return ScriptedBroker(
            {
                LIST_TRANSACTIONS: lambda *_: ListTransactionsResponse(transaction_states=self.listed),
                DESCRIBE_TRANSACTIONS: lambda *_: DescribeTransactionsResponse(transaction_states=[self.known]),
                DESCRIBE_PRODUCERS: self._producers,
                FIND_COORDINATOR: lambda request, _: FindCoordinatorResponse(
                    coordinators=[Coordinator(key="till", node_id=1, host="127.0.0.1", port=self.port)]
                ),
            },
            {"orders": 1},
        )

    def _producers(self, _request: object, _version: int) -> DescribeProducersResponse:
        self._looks += 1
        is_open = not (self.ends_meanwhile and self._looks > 1)
        one = ProducerState(
            producer_id=7, producer_epoch=3, last_timestamp=LONG_AGO_MS, current_txn_start_offset=5 if is_open else -1
        )
        partition = PartitionResponse(partition_index=0, active_producers=[one])
        return DescribeProducersResponse(topics=[TopicResponse(name="orders", partitions=[partition])])

    def reasons(self) -> list[str]:
        with self.broker() as broker:
            self.port = broker.port
            with Admin(broker.bootstrap, seconds=5.0) as admin:
                found = admin.transactions.find_hanging([TopicPartition("orders", 0)], older_than=60.0)
        return [one.reason for one in found]


def test_an_open_transaction_whose_coordinator_knows_it_does_not_hang() -> None:
    assert Script().reasons() == []


def test_one_that_its_coordinator_should_have_ended_long_ago_hangs() -> None:
    script = Script()
    script.known.transaction_start_time_ms = LONG_AGO_MS
    (reason,) = script.reasons()
    assert "longer than its timeout" in reason


def test_one_that_waits_for_the_second_of_two_phases_does_not_hang() -> None:
    script = Script()
    script.known.transaction_start_time_ms, script.known.transaction_timeout_ms = 0, 2**31 - 1
    assert script.reasons() == []


def test_one_of_which_no_coordinator_knows_hangs() -> None:
    script = Script()
    script.listed = []
    assert script.reasons() == ["no coordinator knows producer 7"]


def test_one_that_has_ended_for_its_coordinator_hangs() -> None:
    script = Script()
    script.known.transaction_state, script.known.topics = "CompleteCommit", []
    (reason,) = script.reasons()
    assert "knows nothing of it: till is CompleteCommit" in reason


def test_one_that_is_about_to_end_does_not_hang() -> None:
    script = Script()
    script.known.transaction_state = "PrepareCommit"
    assert script.reasons() == []


def test_one_that_is_over_its_timeout_hangs() -> None:
    script = Script()
    script.known.transaction_start_time_ms = LONG_AGO_MS
    (reason,) = script.reasons()
    assert "longer than its timeout" in reason


def test_one_that_its_coordinator_forgot_hangs() -> None:
    script = Script()
    script.known = Described(transactional_id="till", error_code=105)
    assert script.reasons() == ["its coordinator has forgotten till"]


def test_one_that_ended_while_it_was_looked_at_does_not_hang() -> None:
    script = Script()
    script.listed, script.ends_meanwhile = [], True
    assert script.reasons() == []
