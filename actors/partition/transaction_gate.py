"""Transactional batches wait here until their transaction coordinator has vouched for them (KIP-890).

The first batch of a transaction in a partition waits until the coordinator has confirmed that the partition is in that
transaction, or, for newer clients, has added it. Which batches wait for which answer, and what a marker in between
means, is in log/partition/verification.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.messages.coordinator import (
    TRANSACTIONS_TOPIC,
    CoordinateBytes,
    CoordinatedBytes,
    coordinator_address,
    partition_of,
)
from actors.messages.replica import AppendMarker, AppendRecords, AppendResult, group_name
from actors.runtime import Address, Future, Payload
from log.machines.transaction.transaction import VERSION_2
from log.partition.verification import NO_EPOCH, Verifications
from protocol.apis import ADD_PARTITIONS_TO_TXN
from protocol.error_codes import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from protocol.schema.codec import decode, encode

if TYPE_CHECKING:
    from actors.partition.actions import AskActor
    from actors.raft.context import BrokerContext
    from log.partition.admission import Admitted
    from log.partition.partition_log import PartitionLog
    from protocol.records.batches import BatchHeader

ASK_SECONDS = 5.0
ADDS_VERSION, VERIFIES_VERSION = 5, 4
CLIENT_ID = "replica"
_AGAIN = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # the coordinator's broker does not know the partition yet
    }
)
"""Errors of the coordinator that a producer does not know: it gets NOT_ENOUGH_REPLICAS and retries, as in Kafka."""
_COMES_AGAIN = frozenset({ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CONCURRENT_TRANSACTIONS})

Parked = tuple[AppendRecords, "Admitted", Future[AppendResult]]


class TransactionGate:
    """The transactional batches of one replica that wait for a coordinator."""

    __slots__ = ("_append", "_ask", "_context", "_log", "_partition", "_refused_for_now", "_verifications")

    def __init__(
        self,
        partition: tuple[str, int],
        log: PartitionLog,
        context: BrokerContext,
        ask: AskActor,
        append: Callable[[AppendRecords, Admitted, Future[AppendResult], int], None],
        refused_for_now: Callable[[AppendRecords], None],
    ) -> None:
        """`append` is called with each vouched batch, `refused_for_now` with a batch that is to be sent again."""
        self._partition = partition
        self._log = log
        self._context = context
        self._ask = ask
        self._append = append
        self._refused_for_now = refused_for_now
        self._verifications: Verifications[Parked] = Verifications()

    def must_wait(self, header: BatchHeader) -> bool:
        return self._verifications.must_wait(header, self._log.producers)

    def park(self, request: AppendRecords, admitted: Admitted, reply: Future[AppendResult]) -> None:
        """Let this append wait for the coordinator, and ask it unless that is under way."""
        header = admitted.batches.headers[0]
        fenced = self._verifications.fence(header)
        _refuse(fenced, ErrorCode.INVALID_PRODUCER_EPOCH, f"its producer has come with epoch {header.producer_epoch}")
        guard = self._verifications.park(header, (request, admitted, reply))
        if guard is None:
            return
        ask_to_vouch(
            self._ask, self._context, request.transactional_id, header.producer_id, header.producer_epoch,
            *self._partition, partial(self._vouched, header.producer_id, guard), adds=request.adds,
        )  # fmt: skip

    def check(self, header: BatchHeader, guard: int) -> None:
        self._verifications.check(header, guard, self._log.producers)

    def began(self, producer_id: int) -> None:
        self._verifications.began(producer_id)

    def ended(self, marker: AppendMarker) -> None:
        """A marker has come: the waiting batches belong to the ended transaction, unless they have the next epoch."""
        next_epoch = marker.producer_epoch if marker.transaction_version >= VERSION_2 else NO_EPOCH
        refused = self._verifications.end(marker.producer_id, next_epoch)
        _refuse(refused, ErrorCode.INVALID_TXN_STATE, "its transaction has ended")

    def clear(self) -> None:
        """Another replica leads."""
        parked = self._verifications.clear()
        for request, _, _ in parked:
            self._refused_for_now(request)
        _refuse(parked, ErrorCode.NOT_LEADER_OR_FOLLOWER, "another replica leads now")

    def _vouched(self, producer_id: int, guard: int, error: ErrorCode) -> None:
        for request, admitted, reply in self._verifications.answered(producer_id, guard):
            if reply.done:
                continue
            if error != ErrorCode.NONE:
                refusal = _for_producers(error, adds=request.adds)
                if refusal in _COMES_AGAIN:
                    self._refused_for_now(request)
                reply.set(AppendResult(refusal, -1, -1, f"the coordinator says {error.name}"))
                continue
            self._append(request, admitted, reply, guard)


def ask_to_vouch(
    ask: AskActor,
    context: BrokerContext,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    topic: str,
    number: int,
    then: Callable[[ErrorCode], None],
    *,
    adds: bool,
) -> None:
    """Is this partition in the producer's open transaction? `adds`: add it. `then` gets an error, NONE if it is."""
    address = coordinator_led(context, transactional_id)
    if address is None:
        then(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return
    version = ADDS_VERSION if adds else VERIFIES_VERSION
    request = AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=transactional_id,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                verify_only=not adds,
                topics=[AddPartitionsToTxnTopic(name=topic, partitions=[number])],
            )
        ]
    )
    body = Payload(memoryview(b"".join(map(bytes, encode(request, version)))))

    def answered(future: Future[Any]) -> None:
        then(ErrorCode.COORDINATOR_NOT_AVAILABLE if future.exception is not None else _error_in(future.get(), version))

    message = CoordinateBytes(ADD_PARTITIONS_TO_TXN.key, version, CLIENT_ID, "", body)
    ask(address, message, answered, timeout=ASK_SECONDS)


def coordinator_led(context: BrokerContext, transactional_id: str) -> Address | None:
    """The address of the coordinator of a transactional id, as far as it is known here."""
    topic = context.metadata.topic(TRANSACTIONS_TOPIC)
    if topic is None or not topic.partitions:
        return None
    number = partition_of(transactional_id, len(topic.partitions))
    led = context.leadership.of(group_name(topic.name, number, topic.id))
    return None if led is None or led.broker is None else coordinator_address(TRANSACTIONS_TOPIC, number, led.broker)


def _error_in(answer: CoordinatedBytes, version: int) -> ErrorCode:
    if answer.error != ErrorCode.NONE:
        return ErrorCode(answer.error)
    response: AddPartitionsToTxnResponse
    response, _ = decode(AddPartitionsToTxnResponse, version, memoryview(answer.response))
    if response.error_code != ErrorCode.NONE:
        return ErrorCode(response.error_code)
    results = [
        one.partition_error_code
        for transaction in response.results_by_transaction
        for topic in transaction.topic_results
        for one in topic.results_by_partition
    ]
    return ErrorCode(results[0]) if results else ErrorCode.INVALID_TXN_STATE


def _for_producers(error: ErrorCode, *, adds: bool) -> ErrorCode:
    """The error in the words of Produce."""
    if error in _AGAIN or (error == ErrorCode.CONCURRENT_TRANSACTIONS and not adds):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if error == ErrorCode.TRANSACTION_ABORTABLE and not adds:
        return ErrorCode.INVALID_TXN_STATE
    if error == ErrorCode.PRODUCER_FENCED:  # which would end the producer; it may abort and go on
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def _refuse(parked: list[Parked], error: ErrorCode, text: str) -> None:
    for _, _, reply in parked:
        if not reply.done:
            reply.set(AppendResult(error, -1, -1, text))
