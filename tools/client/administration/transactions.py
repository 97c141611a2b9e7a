"""Administration of transactions: list, describe, find hanging ones and abort them. Reached as `Admin.transactions`.

A transaction hangs if it is open in a partition and its coordinator will never write the marker that ends it:
read_committed consumers stop before it. The coordinator's state is compared with the state of the partitions. At last
the partitions are asked again, to leave out transactions that have ended in the meantime.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from attrs import frozen

from log.machines.transaction.transaction import NO_TIMEOUT
from protocol.apis import (
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    LIST_TRANSACTIONS,
    WRITE_TXN_MARKERS,
)
from protocol.error_codes import ErrorCode
from protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse, TopicRequest
from protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tools.client.administration.questions import Questions
from tools.client.errors import ClientError, KafkaError, TimedOut, check
from tools.client.membership.member import by_topic
from tools.client.metadata import TopicPartition
from tools.client.network.coordinator import TRANSACTION
from tools.client.writing.transaction_coordinator import Transactional, Transactions

OPEN = "Ongoing"
ENDING = ("PrepareCommit", "PrepareAbort", "PrepareEpochFence")
_LATE_SECONDS = 30.0
"""Coordinators look for timed-out transactions periodically: one that is open for this much longer is hanging."""


@frozen
class ListedTransaction:
    transactional_id: str
    producer_id: int
    state: str


@frozen
class DescribedTransaction:
    """A transactional id and its transaction. `start_ms` is −1 before the first transaction."""

    transactional_id: str
    state: str
    producer_id: int
    epoch: int
    timeout_ms: int
    start_ms: int
    coordinator: int
    partitions: tuple[TopicPartition, ...]


@frozen
class OpenTransaction:
    """An open transaction as its partition knows it: by producer id, without the transactional id."""

    where: TopicPartition
    producer_id: int
    epoch: int
    start_offset: int
    last_ms: int
    coordinator_epoch: int


@frozen
class Hanging:
    transaction: OpenTransaction
    transactional_id: str | None
    reason: str


class TransactionAdmin(Questions):
    """Every method waits for its answer, for at most the admin's `seconds`."""

    def list(self, *, states: Iterable[str] = ()) -> list[ListedTransaction]:
        """All transactional ids of all coordinators, sorted; or only those in these states."""
        request = ListTransactionsRequest(state_filters=list(states))

        def attempt() -> list[ListedTransaction]:
            listed: dict[str, ListedTransaction] = {}
            for broker in self._cluster.refreshed(self._seconds).brokers:
                response: ListTransactionsResponse = self._call(LIST_TRANSACTIONS, request, broker)
                check(response.error_code, f"the transactions of broker {broker}")
                if response.unknown_state_filters:
                    raise ClientError(f"there is no such state: {', '.join(response.unknown_state_filters)}")
                for one in response.transaction_states:
                    listed[one.transactional_id] = ListedTransaction(
                        one.transactional_id, one.producer_id, one.transaction_state
                    )
            return [listed[name] for name in sorted(listed)]

        return self._persist(attempt)

    def describe(self, transactional_id: str) -> DescribedTransaction:
        """The state of a transactional id. An unknown one is refused with TRANSACTIONAL_ID_NOT_FOUND."""

        def attempt() -> DescribedTransaction:
            node = self._find(transactional_id, TRANSACTION)
            request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
            response: DescribeTransactionsResponse = self._call(DESCRIBE_TRANSACTIONS, request, node)
            (told,) = response.transaction_states
            check(told.error_code, f"transactional id {transactional_id}")
            partitions = [TopicPartition(topic.topic, number) for topic in told.topics for number in topic.partitions]
            return DescribedTransaction(
                transactional_id, told.transaction_state, told.producer_id, told.producer_epoch,
                told.transaction_timeout_ms, told.transaction_start_time_ms, node, tuple(partitions),
            )  # fmt: skip

        return self._persist(attempt)

    def open_in(self, wheres: Iterable[TopicPartition]) -> tuple[OpenTransaction, ...]:
        """The transactions that are open in these partitions."""
        wanted = sorted(wheres)

        def attempt() -> tuple[OpenTransaction, ...]:
            by_leader: dict[int, list[TopicPartition]] = {}
            for where in wanted:
                by_leader.setdefault(self._leader(where), []).append(where)
            told = (one for leader, some in by_leader.items() for one in self._open_at(leader, some))
            return tuple(sorted(told, key=lambda one: (one.where, one.start_offset)))

        return self._persist(attempt)

    def find_hanging(self, wheres: Iterable[TopicPartition], older_than: float = 0.0) -> tuple[Hanging, ...]:
        """The hanging transactions and the reasons. `older_than`: only those without a write for so many seconds."""
        before_ms = time.time() * 1000 - older_than * 1000
        open_ones = [one for one in self.open_in(wheres) if one.last_ms <= before_ms]
        if not open_ones:
            return ()
        names = {one.producer_id: one.transactional_id for one in self.list()}
        suspects: dict[OpenTransaction, Hanging] = {}
        for one in open_ones:
            name = names.get(one.producer_id)
            reason = self._why_hanging(one, name)
            if reason is not None:
                suspects[one] = Hanging(one, name, reason)
        still = {(one.where, one.producer_id, one.start_offset) for one in self.open_in({o.where for o in suspects})}
        return tuple(
            found for one, found in suspects.items() if (one.where, one.producer_id, one.start_offset) in still
        )

    def abort_hanging(self, transaction: OpenTransaction) -> None:
        """Write the abort marker in place of the coordinator. If the coordinator knows the transaction, use `fence`."""
        where = transaction.where
        request = WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=transaction.producer_id,
                    producer_epoch=transaction.epoch,
                    transaction_result=False,
                    topics=[WritableTxnMarkerTopic(name=where.topic, partition_indexes=[where.partition])],
                    coordinator_epoch=max(transaction.coordinator_epoch, 0),
                )
            ]
        )

        def attempt() -> None:
            response: WriteTxnMarkersResponse = self._call(WRITE_TXN_MARKERS, request, self._leader(where))
            for marker in response.markers:
                for topic in marker.topics:
                    for one in topic.partitions:
                        check(one.error_code, f"the end of a transaction in {where}")

        self._persist(attempt)

    def fence(self, transactional_id: str) -> None:
        """Take the transactional id over: its producer is fenced, and its open transaction is aborted."""
        Transactions(self._cluster, Transactional(transactional_id), threading.Condition()).init(self._seconds)

    # -- requests ----------------------------------------------------------------------------------------------------

    def _why_hanging(self, one: OpenTransaction, name: str | None) -> str | None:
        if name is None:
            return f"no coordinator knows producer {one.producer_id}"
        try:
            known = self.describe(name)
        except TimedOut as error:
            return f"the coordinator of {name} is gone: {error}"
        except KafkaError as error:
            if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise
            return f"its coordinator has forgotten {name}"
        if known.state in ENDING:
            return None
        if known.state != OPEN or one.where not in known.partitions:
            return f"its coordinator knows nothing of it: {name} is {known.state}, and has not {one.where}"
        if one.epoch > known.epoch:
            return f"its coordinator knows only epoch {known.epoch} of {name}, and it is of {one.epoch}"
        if known.timeout_ms == NO_TIMEOUT:
            return None  # a prepared two-phase transaction has no timeout
        over_ms = time.time() * 1000 - known.start_ms - known.timeout_ms
        if over_ms > _LATE_SECONDS * 1000:
            return f"it is open for {over_ms / 1000:.0f} s longer than its timeout, and its coordinator does not end it"
        return None

    def _leader(self, where: TopicPartition) -> int:
        self._cluster.topic(where.topic, self._seconds)
        known = self._cluster.view.partition(where)
        if known is None:
            raise ClientError(f"there is no partition {where}")
        if known.leader is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, str(where))
        return known.leader

    def _open_at(self, leader: int, wheres: Iterable[TopicPartition]) -> Iterable[OpenTransaction]:
        request = DescribeProducersRequest(
            topics=[TopicRequest(name=topic, partition_indexes=numbers) for topic, numbers in by_topic(wheres).items()]
        )
        response: DescribeProducersResponse = self._call(DESCRIBE_PRODUCERS, request, leader)
        for topic in response.topics:
            for partition in topic.partitions:
                where = TopicPartition(topic.name, partition.partition_index)
                check(partition.error_code, f"the producers of {where}", partition.error_message)
                for one in partition.active_producers:
                    if one.current_txn_start_offset >= 0:
                        yield OpenTransaction(
                            where, one.producer_id, one.producer_epoch, one.current_txn_start_offset,
                            one.last_timestamp, one.coordinator_epoch,
                        )  # fmt: skip
