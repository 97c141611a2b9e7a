"""What makes a transaction hang, by script."""

from __future__ import annotations

import time

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
from tests.tools.client.scripted_broker import ScriptedBroker
from tools.client.admin import Admin
from tools.client.metadata import TopicPartition

LONG_AGO_MS = 1_600_000_000_000


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
