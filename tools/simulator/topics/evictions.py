"""Producers that a partition forgets: because there are too many of them, or because they were silent for too long.

A topic with one partition is there for it. One client writes to it in the name of many producers, one after the other,
comes back to earlier ones, and sends what they sent last once more. In some seeds the bound on producers is small in
the whole cluster, so that the partitions of transactions forget producers, too; it is as large as the number of
idempotent producers of other topics. In the others single replicas forget producers of this topic as if
producer.id.expiration.ms had passed for them.

- All replicas know the same producers, those that follow from the log alone (`producer_model.py`); of those with a
  transaction open none is forgotten. Where time counts, a replica knows no more than these.
- A batch of a forgotten producer is accepted with any sequence.
- What it sends once more is known as long as the partition knows the producer, and is written again only after that.

All that draws from generators of its own: a seed without it is the run that it was before there were any.
"""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from typing import Any

from attrs import define, frozen

from actors.messages.replica import AppendRecords, AppendResult, replica_address
from actors.runtime import Future, Payload, handles
from log.machines.metadata.plans import CreateTopic
from log.segment import producer_state
from protocol.error_codes import ErrorCode
from protocol.records.batches import Record, build_batch
from tools.simulator.clients.client import ClientServices, Finish, SimulatedClient
from tools.simulator.cluster.cluster import SimulatedCluster
from tools.simulator.faults.plan import FaultPlan
from tools.simulator.record.report import Violation
from tools.simulator.settings.replacing import Patch

KIND = "evictions"
TOPIC = "e"
WRITERS = 2
"""So many idempotent producers write to other topics, beside one with several batches under way in some seeds."""
_FIRST_PRODUCER_ID = 5_000
_ASK_SECONDS = 0.8
_EXPIRE_MS = 200
_BY_TIME_SHARE = 0.3
_RETURN_SHARE, _REPEAT_SHARE = 0.35, 0.15
_NEVER = frozenset(
    (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.CORRUPT_MESSAGE)
)


@define(slots=True, eq=False)
class _Producer:
    id: int
    sequence: int = 0
    """Of its next batch."""
    last: bytes = b""
    last_offset: int = -1


@frozen(slots=True)
class _Next:
    pass


@frozen(slots=True)
class _Again:
    producer: _Producer
    repeats: bool


class Evictions:
    """Those of a run."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._rng = random.Random(f"evictions {cluster.settings.seed}")
        self.by_time = self._rng.random() < _BY_TIME_SHARE
        self.group = ""
        self.counts: Counter[str] = Counter()
        self.expired: set[tuple[str, int]] = set()
        """By group and producer id: which single replicas have forgotten at some time."""
        self._client: PasserBy | None = None

    def bound(self) -> list[Patch]:
        """A small bound on producers, unless time counts."""
        small = WRITERS + self._cluster.settings.pipelined
        return [] if self.by_time else [(producer_state, "PRODUCERS_MAX", small)]

    @property
    def producers_max(self) -> int:
        return producer_state.PRODUCERS_MAX

    def is_ready(self) -> bool:
        """Does every broker know the topic, and has its partition a leader?"""
        cluster = self._cluster
        if not cluster.is_known(TOPIC):
            factor = cluster.settings.replication_factor
            cluster.ask_for_topic(CreateTopic("the simulator's evictions", TOPIC, 1, factor))
            return False
        (self.group,) = cluster.groups_of(TOPIC)
        return cluster.leader(self.group) is not None

    def start(self, client: SimulatedClient) -> None:
        assert isinstance(client, PasserBy)
        self._client = client

    def begin(self, faults: FaultPlan) -> None:
        """Where time counts: one replica after the other forgets producers that were silent for long."""
        if self.by_time:
            faults.later(self._rng.expovariate(3.0), lambda: self._expire(faults))

    def _expire(self, faults: FaultPlan) -> None:
        self.begin(faults)
        cluster = self._cluster
        broker = self._rng.choice(list(cluster.brokers))
        replica = cluster.replica(self.group, broker)
        if replica is None or broker in cluster.sim.paused:
            return
        producers = replica.member.log.producers
        before = {producer.id for producer in producers}
        producers.expire(cluster.now, _EXPIRE_MS)
        forgotten = before - {producer.id for producer in producers}
        self.expired.update((self.group, producer_id) for producer_id in forgotten)
        self.counts[KIND] += len(forgotten)
        cluster.note(f"expire {sorted(forgotten)} of {self.group} on broker {broker}")

    # -- the end -----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Everything has healed: what was acknowledged is there, and what is there twice was forgotten in between."""
        cluster, group = self._cluster, self.group
        if not self.by_time:
            self.counts[KIND] += sum(model.evictions for model in cluster.invariants.models.values())
        assert self._client is not None
        there = cluster.invariants.values_of(group)
        for offset, value in self._client.acknowledged:
            if there.get(offset) != value:
                text = f"{value!r} was acknowledged at {offset}, where {there.get(offset)!r} is"
                cluster.report(Violation("lost write", group, text))
        places: dict[bytes, list[int]] = {}
        for offset, value in there.items():
            places.setdefault(value, []).append(offset)
        twice = {value: offsets for value, offsets in places.items() if len(offsets) > 1}
        self.counts["written-again"] += len(twice)
        for value, offsets in twice.items():
            producer_id = int(value.split(b"|")[0])
            if self.by_time and (group, producer_id) not in self.expired:
                cluster.report(Violation("duplicate", group, f"{value!r} is at {offsets}, and was never forgotten"))


class PasserBy(SimulatedClient):
    """Writes in the name of many producers, one batch after the other."""

    role = "passerby"

    def __init__(self, services: ClientServices, rng: random.Random, evictions: Evictions) -> None:
        super().__init__(services, rng)
        self._evictions = evictions
        self._group = services.groups[0]
        self._producers: list[_Producer] = []
        self._finishing = False
        self.acknowledged: list[tuple[int, bytes]] = []

    def on_start(self) -> None:
        self._think()

    @handles(Finish)
    def finish(self, _message: Finish) -> None:
        self._finishing = True

    @handles(_Next)
    def next(self, _message: _Next) -> None:
        if self._finishing:
            self.finished = True
            return
        chance = self.rng.random()
        if self._producers and chance < _RETURN_SHARE:
            self._send(self.rng.choice(self._producers), repeats=False)
        elif self._producers and chance < _RETURN_SHARE + _REPEAT_SHARE:
            self._send(self.rng.choice(self._producers), repeats=True)
        else:
            self._producers.append(_Producer(_FIRST_PRODUCER_ID + len(self._producers)))
            self._send(self._producers[-1], repeats=False)

    @handles(_Again)
    def again(self, message: _Again) -> None:
        self._send(message.producer, repeats=message.repeats)

    def _send(self, producer: _Producer, *, repeats: bool) -> None:
        """Its next batch, or the last one once more."""
        sequence = producer.sequence - 1 if repeats else producer.sequence
        value = producer.last if repeats else b"%d|%d" % (producer.id, sequence)
        batch = build_batch(
            [Record(0, 1, value, value, ())], producer_id=producer.id, producer_epoch=0, base_sequence=sequence
        )
        broker = self.leader(self._group)
        request = AppendRecords(-1, int(_ASK_SECONDS * 1000), Payload(memoryview(batch)))
        answered = partial(self._answered, producer, value, broker, repeats)
        self.ask(replica_address(self._group, broker), request, answered, timeout=_ASK_SECONDS + 0.3)

    def _answered(self, producer: _Producer, value: bytes, broker: int, repeats: bool, future: Future[Any]) -> None:  # noqa: FBT001
        if future.exception is not None:
            self.complain(self._group, future.exception, broker)
            self._later(producer, repeats=repeats)
            return
        result: AppendResult = future.get()
        if result.error != ErrorCode.NONE:
            followed = self.services.was_followed(self._group, result.leader_epoch, self.now)
            if result.error in _NEVER and not followed:
                text = f"{value!r}: {result.message}"
                self.history.violate("what a forgotten producer sends is taken", self._group, text)
            self._later(producer, repeats=repeats)
            return
        self.acknowledged.append((result.base_offset, value))
        if not repeats:
            producer.sequence += 1
            producer.last, producer.last_offset = value, result.base_offset
        self._think()

    def _later(self, producer: _Producer, *, repeats: bool) -> None:
        self.look_elsewhere(self._group)
        self.after(self.rng.uniform(0.005, 0.1), _Again(producer, repeats))

    def _think(self) -> None:
        self.after(self.rng.expovariate(1 / self.services.think_s), _Next())
