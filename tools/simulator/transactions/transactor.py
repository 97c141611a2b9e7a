"""The steps of a transaction, as clients take them: partitions are added, batches written, and then it ends."""

from __future__ import annotations

import random
from collections import defaultdict

from attrs import define, frozen

from protocol.apis import ADD_PARTITIONS_TO_TXN, END_TXN, PRODUCE
from protocol.error_codes import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from protocol.records.batches import Record, build_batch
from tools.checker.history import FAILED, OK, TRANSACTIONAL, UNKNOWN, Send, TransactionBegun, TransactionEnded
from tools.simulator.settings.transactions import TransactionalMember
from tools.simulator.transactions.client import (
    AGAIN,
    TRANSACTION,
    AskAll,
    AskBroker,
    IdentifiedClient,
    Script,
    TransactionServices,
    outcome_of,
)

NEVER = float("inf")
TOPIC_IDS_FROM = 13
"""The version of Produce that names topics by their ids."""
_PRODUCE_MS = 500
_VANISH_AT_END_SHARE = 0.02


@define(slots=True, eq=False)
class SentBatch:
    """One, until it is known what became of it."""

    partition: int
    sequence: int
    values: tuple[str, ...]
    places: tuple[int, ...]
    """Of its sends in the history."""
    unsure: bool = False
    """Is the outcome of some attempt unknown?"""
    error: ErrorCode | None = None
    offset: int = -1
    topic: str | None = None
    topic_id: bytes = b""
    """Of a topic that comes and goes."""

    @property
    def outcome(self) -> str:
        if self.error == ErrorCode.NONE:
            return OK
        return UNKNOWN if self.unsure or self.error is None else FAILED


@frozen(slots=True)
class LastEnd:
    """How the last transaction was ended."""

    transaction: str
    request: EndTxnRequest
    producer: str


class TransactionSteps(IdentifiedClient):
    """See the module's docstring."""

    def __init__(self, services: TransactionServices, rng: random.Random, member: TransactionalMember) -> None:
        super().__init__(services, rng, member)
        self._produce_version = rng.choice((12, 13)) if member.is_new else rng.choice((9, 11))
        self._sequences: dict[int, int] = defaultdict(int)
        self._transactions = 0
        self._last_end: LastEnd | None = None
        self._last_batches: dict[int, SentBatch] = {}
        """By partition, what was acknowledged last in this epoch."""

    def initialise(self) -> Script:
        yield from super().initialise()
        self._begin_epoch()
        self._last_end = None

    def _begin_epoch(self) -> None:
        self._sequences.clear()
        self._last_batches.clear()

    def begin(self) -> str:
        """A new transaction."""
        self._transactions += 1
        name = f"{self.producer}.{self._transactions}"
        self.record(TransactionBegun(self.producer, name, self.now, self.now))
        return name

    # -- partitions ------------------------------------------------------------------------------------------------

    def add(self, partitions: list[int]) -> Script:
        """Tell the coordinator that these are in it. Are they?"""
        topic = AddPartitionsToTxnTopic(name=self.services.topic, partitions=partitions)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.member.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[topic],
        )
        while True:
            response = yield from self.at_coordinator(
                TRANSACTION, self.member.transactional_id, ADD_PARTITIONS_TO_TXN, request, 3
            )
            error = None
            if response is not None:
                told = response.results_by_topic_v3_and_below[0].results_by_partition
                error = ErrorCode(max(one.partition_error_code for one in told))
            if error == ErrorCode.NONE:
                places = {(self.services.topic, number) for number in partitions}
                self.view.added(self.member.transactional_id, self.producer_id, self.epoch, places)
                return True
            if error is not None and not self.has_moved(TRANSACTION, error) and error not in AGAIN:
                return False
            yield self.rest()

    # -- batches ---------------------------------------------------------------------------------------------------

    def batch(self, transaction: str, partition: int, values: tuple[str, ...]) -> SentBatch:
        """Its next batch for this partition."""
        places = tuple(
            self.record(
                Send(
                    self.producer, f"{self.services.topic}-{partition}", value, UNKNOWN, self.now, NEVER,
                    kind=TRANSACTIONAL, transaction=transaction,
                )
            )
            for value in values
        )  # fmt: skip
        made = SentBatch(partition, self._sequences[partition], values, places)
        self._sequences[partition] += len(values)
        return made

    def produce(self, batches: list[SentBatch], *, attempts_max: int) -> Script:
        """Send these, in order, again while an outcome is unknown. Are they all written?"""
        waiting = list(batches)
        for _ in range(attempts_max):
            yield from self._produce_once(waiting)
            waiting = [one for one in waiting if one.error != ErrorCode.NONE]
            if not waiting or any(one.error is not None for one in waiting):
                break
            yield self.rest()
        for one in batches:
            for delta, place in enumerate(one.places):
                self.amend(place, one.outcome, offset=one.offset + delta if one.offset >= 0 else -1)
            if one.error == ErrorCode.NONE:
                self._last_batches[one.partition] = one
        return not waiting

    def _produce_once(self, batches: list[SentBatch]) -> Script:
        leaders = yield from self.leaders(self.services.topic, [one.partition for one in batches])
        asks = tuple(self.asking(one, leader) for one, leader in zip(batches, leaders, strict=True))
        responses = yield AskAll(asks)
        missing: set[int] = set()
        for one, response in zip(batches, responses, strict=True):
            one.error, one.offset = told(response)
            is_behind = one.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and one.partition in missing
            if one.error is None or one.error in AGAIN:
                one.unsure = True
                self.forget_leader(self.services.topic, one.partition)
            if one.error is None or one.error in AGAIN or is_behind:
                one.error = None
                missing.add(one.partition)

    def asking(self, batch: SentBatch, leader: int) -> AskBroker:
        made = [Record(at, 1 + at, None, value.encode(), ()) for at, value in enumerate(batch.values)]
        data = build_batch(
            made, producer_id=self.producer_id, producer_epoch=self.epoch, base_sequence=batch.sequence,
            transactional=True,
        )  # fmt: skip
        version, topic = self._produce_version, batch.topic or self.services.topic
        topic_id = batch.topic_id or self.services.topic_ids.get(topic)
        place = {"topic_id": topic_id} if version >= TOPIC_IDS_FROM else {"name": topic}
        partition = PartitionProduceData(index=batch.partition, records=memoryview(data))
        request = ProduceRequest(
            transactional_id=self.member.transactional_id, acks=-1, timeout_ms=_PRODUCE_MS,
            topic_data=[TopicProduceData(**place, partition_data=[partition])],
        )  # fmt: skip
        return AskBroker(leader, "leaders", PRODUCE, request, version)

    # -- the end ---------------------------------------------------------------------------------------------------

    def end(self, transaction: str, *, commit: bool) -> Script:
        """Commit or abort it, however long that takes. Did it end so?"""
        request = EndTxnRequest(**self.who, committed=commit)
        while True:
            error = yield from self.end_once(transaction, request, self.producer)
            if error == ErrorCode.NONE:
                self._last_end = LastEnd(transaction, request, self.producer)
                return True
            if error is not None and not self.has_moved(TRANSACTION, error) and error not in AGAIN:
                return False
            if self.rng.random() < _VANISH_AT_END_SHARE and not self.finishing:
                self.vanish()
            yield self.rest()

    def end_once(self, transaction: str, request: EndTxnRequest, producer: str) -> Script:
        """One attempt; gives what was answered."""
        version = 5 if self.member.is_new else 3
        place = self.record(TransactionEnded(producer, transaction, request.committed, UNKNOWN, self.now, NEVER))
        response = yield from self.at_coordinator(TRANSACTION, self.member.transactional_id, END_TXN, request, version)
        error = None if response is None else ErrorCode(response.error_code)
        self.amend(place, outcome_of(error))
        if error == ErrorCode.NONE:
            self.view.ended(request, is_new=self.member.is_new)
            if self.member.is_new and (request.producer_id, request.producer_epoch) == (self.producer_id, self.epoch):
                self.producer_id, self.epoch = response.producer_id, response.producer_epoch
                self._begin_epoch()
        return error


def told(response: ProduceResponse | None) -> tuple[ErrorCode | None, int]:
    if response is None:
        return None, -1
    one = response.responses[0].partition_responses[0]
    return ErrorCode(one.error_code), one.base_offset
