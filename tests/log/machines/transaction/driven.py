"""A transaction machine with a log under it, driven as its actor drives it: records, then answers and markers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from log.machines.coordination import Caller, Moment
from log.machines.transaction.config import TransactionConfig
from log.machines.transaction.effects import Markers, TransactionEffects
from log.machines.transaction.machine import TransactionMachine
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from protocol.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

WAITS = -100
"""Instead of an error: there is no answer yet."""


class Driven:
    """Everything that is written is committed at once, unless somebody looks at `machine` directly."""

    def __init__(self, config: TransactionConfig | None = None, ids: int = 100) -> None:
        self.config = TransactionConfig() if config is None else config
        self.log: list[tuple[bytes, bytes | None]] = []
        self.markers: list[Markers] = []
        self.answers: dict[object, Any] = {}
        self.now, self.wall_ms, self.epoch = 0.0, 1_000_000, 0
        self.is_sure = True
        """Can the wall clock be believed?"""
        self.next_id, self._ids, self._token = 1000, ids, 0
        self.wants_ids = 0
        self.unknown: set[tuple[str, int]] = set()
        self.machine = self._load()

    @property
    def moment(self) -> Moment:
        return Moment(self.now, self.wall_ms, self.is_sure)

    def fail_over(self) -> None:
        """Another broker takes over, with what is committed."""
        self.epoch += 1
        self.markers.clear()
        self.machine = self._load()

    def _load(self) -> TransactionMachine:
        machine = self.new_machine()
        for key, value in self.log:
            machine.replay(key, value)
        machine.loaded(self.moment)
        self.machine = machine
        self.give_ids(self._ids)
        return machine

    def new_machine(self) -> TransactionMachine:
        return TransactionMachine(
            self.config, self.epoch, lambda group: len(group) % 50, lambda place: place not in self.unknown
        )

    def give_ids(self, count: int) -> None:
        self.machine.give_producer_ids(range(self.next_id, self.next_id + count), self.moment)
        self.next_id += count
        self.take()

    def take(self) -> TransactionEffects:
        effects = self.machine.take_effects()
        self.log += effects.records
        self.markers += effects.markers
        self.answers.update(effects.replies)
        self.wants_ids += effects.wants_producer_ids
        return effects

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.wall_ms += int(seconds * 1000)
        self.machine.tick(self.moment)
        self.take()

    def ask(self, request: object, version: int) -> Any:
        self._token += 1
        self.machine.handle(request, Caller(self._token, version, "client", "host"), self.moment)
        self.take()
        return self.answers.pop(self._token, None)

    def write_markers(self, accept: Callable[[tuple[str, int]], bool] = lambda _: True) -> None:
        for markers in list(self.markers):
            written = [partition for partition in markers.partitions if accept(partition)]
            self.machine.markers_written(markers, written, self.moment)
            self.take()
        if accept(("", -1)):
            self.markers.clear()

    # -- requests ------------------------------------------------------------------------------------------------

    def init(
        self,
        name: str = "t",
        producer: tuple[int, int] = (-1, -1),
        *,
        timeout_ms: int = 60_000,
        version: int = 5,
        two_phase: bool = False,
        keep: bool = False,
    ) -> InitProducerIdResponse:
        request = InitProducerIdRequest(
            transactional_id=name, transaction_timeout_ms=timeout_ms, producer_id=producer[0],
            producer_epoch=producer[1], enable2_pc=two_phase, keep_prepared_txn=keep,
        )  # fmt: skip
        answer: InitProducerIdResponse = self.ask(request, version)
        return answer

    def begin(self, name: str = "t", **kw: Any) -> tuple[int, int]:
        answer = self.init(name, **kw)
        assert answer.error_code == 0
        return answer.producer_id, answer.producer_epoch

    def add(
        self, producer: tuple[int, int], *partitions: int, name: str = "t", topic: str = "a", version: int = 3
    ) -> int:
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))]
        if version < 4:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name, v3_and_below_producer_id=producer[0],
                v3_and_below_producer_epoch=producer[1], v3_and_below_topics=topics,
            )  # fmt: skip
            answer = self.ask(request, version)
            result = None if answer is None else answer.results_by_topic_v3_and_below[0]
        else:
            result = self._add_batched(producer, topics, name, version, verify_only=False)
        if result is None:
            return WAITS
        (error,) = {one.partition_error_code for one in result.results_by_partition}
        return int(error)

    def verify(self, producer: tuple[int, int], *partitions: int, name: str = "t", topic: str = "a") -> list[int]:
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))]
        result = self._add_batched(producer, topics, name, 4, verify_only=True)
        return [one.partition_error_code for one in result.results_by_partition]

    def _add_batched(
        self, producer: tuple[int, int], topics: list[AddPartitionsToTxnTopic], name: str, version: int, *,
        verify_only: bool,
    ) -> Any:  # fmt: skip
        one = AddPartitionsToTxnTransaction(
            transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], verify_only=verify_only,
            topics=topics,
        )  # fmt: skip
        response = self.ask(AddPartitionsToTxnRequest(transactions=[one]), version)
        if response is None:
            return None
        (answer,) = response.results_by_transaction
        assert answer.transactional_id == name
        (result,) = answer.topic_results
        return result

    def end(
        self, producer: tuple[int, int], *, commit: bool = True, name: str = "t", version: int = 3
    ) -> EndTxnResponse:
        request = EndTxnRequest(
            transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], committed=commit
        )
        answer: EndTxnResponse = self.ask(request, version)
        return answer

    def end2(self, producer: tuple[int, int], *, commit: bool = True, name: str = "t") -> tuple[int, tuple[int, int]]:
        answer = self.end(producer, commit=commit, name=name, version=5)
        return answer.error_code, (answer.producer_id, answer.producer_epoch)

    def describe(self, name: str = "t") -> TransactionState:
        (state,) = self.ask(DescribeTransactionsRequest(transactional_ids=[name]), 0).transaction_states
        assert isinstance(state, TransactionState)
        return state

    @property
    def state(self) -> str:
        return self.describe().transaction_state
