"""One coordinator beside a replica that says what it is told to say, on a virtual clock."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, cast

import pytest

from actors.coordination.coordinator import Coordinator
from actors.messages.coordinator import GROUPS_TOPIC, LeadershipChanged
from actors.messages.replica import (
    EARLIEST,
    AppendMarker,
    AppendRecords,
    AppendResult,
    ConfirmLeadership,
    DescribeReplica,
    FindOffset,
    LeadershipAnswer,
    OffsetFound,
    ReadRecords,
    ReadResult,
    ReplicaFacts,
    group_name,
    replica_address,
)
from actors.raft.calendar import Calendar
from actors.raft.context import BrokerContext
from actors.runtime import Actor, Address, Future, Payload, handles
from actors.runtime.simulation import Simulation
from log.machines.group.config import GroupConfig
from protocol.error_codes import ErrorCode
from protocol.records.batches import Record, build_batch
from tests.log.machines.group.coordinator import new_world


class Context:
    """What a coordinator looks at of its broker."""

    def __init__(self) -> None:
        self.metadata = new_world(orders=1).metadata
        self.groups = GroupConfig()
        self.calendar = Calendar(lambda: 0.0, lambda: 1_700_000_000.0, pytest.fail)
        self.topic_defaults: dict[str, str] = {}
        self.rng = random.Random(1)


class LeadingReplica(Actor):
    """Leads, with one record or none, which the first `hidden` reads do not find. Takes everything."""

    def __init__(self, records: int, hidden: int) -> None:
        super().__init__()
        self._records = records
        self._hidden = hidden
        self._batch = build_batch([Record(0, 0, b"key", b"value", ())])
        self.refuses: list[ErrorCode] = []
        """What the next appends are answered with, the first one first. The others are taken."""
        self.refuses_all = ErrorCode.NONE
        self.loads = 0
        """How often the coordinator asked where the log begins."""
        self.reads: list[ErrorCode] = []
        """What the next reads are answered with, the first one first. The others find the record."""
        self.before: dict[str, Callable[[], None]] = {}
        """What is done once before a question of this kind is answered."""

    @handles(DescribeReplica)
    def describe(self, _message: DescribeReplica) -> ReplicaFacts:
        return ReplicaFacts(1, 0, "Leader", self._records, 0, self._records, (1,), 0)

    @handles(FindOffset)
    def find(self, message: FindOffset) -> OffsetFound:
        self.loads += message.timestamp == EARLIEST
        self._begin("earliest" if message.timestamp == EARLIEST else "latest")
        return OffsetFound(0, 0 if message.timestamp == EARLIEST else self._records, -1, 0)

    @handles(ConfirmLeadership)
    def confirm(self, _message: ConfirmLeadership) -> LeadershipAnswer:
        self._begin("confirm")
        return LeadershipAnswer(0)

    @handles(ReadRecords)
    def read(self, _message: ReadRecords) -> ReadResult:
        self._begin("read")
        if self.reads:
            return ReadResult(self.reads.pop(0), -1, -1, -1, Payload(memoryview(b"")))
        self._hidden -= 1
        return ReadResult(0, 1, 0, 0, Payload(memoryview(b"" if self._hidden >= 0 else self._batch)))

    @handles(AppendRecords)
    def append(self, _message: AppendRecords) -> AppendResult:
        return self._told()

    @handles(AppendMarker)
    def mark(self, _message: AppendMarker) -> AppendResult:
        return self._told()

    def _begin(self, question: str) -> None:
        self.before.pop(question, lambda: None)()

    def _told(self) -> AppendResult:
        self._begin("append")
        return AppendResult(self.refuses.pop(0) if self.refuses else self.refuses_all, self._records, 0, "")


class LoneCoordinator:
    """Of the first partition of __consumer_offsets."""

    def __init__(self, kind: type[Coordinator], *more: object, records: int = 0, hidden: int = 0) -> None:
        self._simulation = Simulation(seed=1)
        node = self._simulation.add_node(1)
        address = replica_address(group_name(GROUPS_TOPIC, 0, ""), 1)
        self.replica = cast("Any", node.spawn(LeadingReplica, records, hidden, address=address)._actor_weakref())
        context = cast("BrokerContext", Context())
        self.ref = node.spawn(kind, GROUPS_TOPIC, 0, context, *more, address=Address("group_coordinator", "0", 1))

    def ask(self, message: object) -> Future[Any]:
        asked: Future[Any] = self.ref.ask(message, block=False)
        return asked

    def answer(self, message: object) -> Any:
        asked = self.ask(message)
        self.wait(0.01)
        return asked.get()

    def change_leadership(self, epoch: int) -> None:
        """The replica leads in this epoch, or (-1) no more."""
        self.ref.tell(LeadershipChanged(group_name(GROUPS_TOPIC, 0, ""), epoch))

    def wait(self, seconds: float) -> None:
        self._simulation.run(seconds=seconds)
