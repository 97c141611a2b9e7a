"""Faults that wait for a certain moment, or bring it about: chance alone reaches it too seldom.

They draw from a generator of their own: a seed without them is the run that it was before they existed.
"""

from __future__ import annotations

import contextlib
import random
from functools import partial

from actors.cluster_file.facts import GROUP as METADATA
from actors.partition.cleaner import CleanNow
from actors.runtime import Address
from log.errors import LogError
from log.machines.metadata.plans import EndMove, MoveReplicas, Request
from log.partition.partition_log import PartitionLog
from protocol.records.batches import HEADER
from tools.simulator.faults.plan import FaultPlan
from tools.simulator.faults.stale_messages import StaleMessages
from tools.simulator.settings.faults import DIRECTED_FAULTS
from tools.simulator.settings.layout import TOPIC

SLOWNESS = (20.0, 100.0)


class DirectedFaults:
    """Done beside all the others."""

    def __init__(self, faults: FaultPlan) -> None:
        self.cluster = faults.cluster
        self.rng = random.Random(f"directed faults {self.cluster.settings.seed}")
        self._faults = faults
        self._chosen = [kind for kind in DIRECTED_FAULTS if kind in self.cluster.settings.faults]
        self._works = {
            "clean": self._clean, "slow-sync": self._slow_sync, "late-word": self._late_word,
            "bit-flip": self._flip_a_bit,
        }  # fmt: skip
        self._moves = 0

    def begin(self) -> None:
        if "cut-again" in self._chosen:
            self.cluster.invariants.on_cut = self._cut
        if "move-ended" in self._chosen:
            self.cluster.invariants.cluster.on_move_ended = self._move_ended
        if any(kind in self._works for kind in self._chosen):
            self._plan()
        if "slow-sync" in self._chosen:
            self._faults.on_usurped = self._usurped
        if "old-word" in self._chosen:
            StaleMessages(self._faults).begin()

    def _plan(self) -> None:
        self._faults.later(self.rng.expovariate(1 / self.cluster.settings.fault_interval_s), self._strike)

    def _strike(self) -> None:
        kind = self.rng.choice([kind for kind in self._chosen if kind in self._works])
        if self.cluster.living and self._works[kind](self.rng.choice(self.cluster.living)):
            self._faults.counts[kind] += 1
        self._plan()

    # -- the kinds ---------------------------------------------------------------------------------------------

    def _clean(self, broker: int) -> bool:
        """The cleaner runs early: every log writes its checkpoint, and deletes old segments."""
        self.cluster.note(f"clean {broker}")
        self.cluster.sim.nodes[broker].tell_local(Address("cleaner", "", broker), CleanNow())
        return True

    def _slow_sync(self, broker: int) -> bool:
        """The disk is busy for a while: much may happen between the beginning of a sync and its end."""
        self._slow_down(broker, self.rng.choice(SLOWNESS), self.rng.choice((0.3, 1.0, 3.0)))
        return True

    def _usurped(self, group: str, leader: int, apart_s: float) -> None:
        """This leader is isolated for so long. Its log is truncated afterwards: let a sync be under way then."""
        if not self.cluster.settings.flushes and self.rng.random() < 0.7:
            self._faults.later(apart_s, lambda: self._sync_before_cut(group, leader, 150))

    def _sync_before_cut(self, group: str, broker: int, tries: int) -> None:
        """Begin a flush once it follows, with its vote saved, and before its leader has compared logs with it."""
        replica = self.cluster.replica(group, broker)
        if replica is None or tries == 0:
            return
        member, log = replica.member, replica.member.log
        follows = member.node.follows and member.unsaved_vote is None
        if follows and log.flushed_offset < log.end_offset and not replica.is_flushing and log.online:
            self._slow_down(broker, self.rng.uniform(0.1, 1) / self.cluster.sync_s_max, 0.01)
            with contextlib.suppress(LogError):
                replica.sync_soon()
        else:
            self._faults.later(0.002, lambda: self._sync_before_cut(group, broker, tries - 1))

    def _slow_down(self, broker: int, times: float, seconds: float) -> None:
        slowness = self.cluster.slowness
        slowness[broker] = max(times, 1.0)
        self.cluster.note(f"slow down the syncs of {broker} {slowness[broker]:.0f} times")
        self._faults.later(seconds, lambda: slowness.pop(broker, None))

    def _late_word(self, _broker: int) -> bool:
        """A partition moves away and back, and a stale message arrives late that says its first move has ended.

        It repeats what the leader did send then: the number of an earlier move to the same brokers.
        """
        metadata = self.cluster.metadata()
        topic = None if metadata is None else metadata.topic(TOPIC)
        if topic is None:  # the brokers that live have only just started
            return False
        number = self.rng.randrange(len(topic.partitions))
        partition = topic.partitions[number]
        others = [broker for broker in self.cluster.brokers if broker not in partition.keepers]
        if partition.moved_from or not others:
            return False
        elsewhere = (*partition.replicas[:-1], self.rng.choice(others))
        away_s = self.rng.choice((0.05, 0.2, 0.5))
        back = [MoveReplicas(self._new_id(), TOPIC, number, partition.replicas)]
        late = EndMove("", topic.id, number, partition.moves, partition.replicas)
        self._ask(MoveReplicas(self._new_id(), TOPIC, number, elsewhere))
        self._faults.later(away_s, lambda: self._ask(*back, *([late] if partition.moves else [])))
        return True

    def _cut(self, group: str, broker: int) -> None:
        """A log was truncated. Soon, when it has grown again, it is synced, and its process dies."""
        if group != METADATA and self.rng.random() < 0.5:
            self._faults.later(self.rng.uniform(0.02, 0.5), lambda: self._end_after_cut(group, broker))

    def _end_after_cut(self, group: str, broker: int) -> None:
        cluster = self.cluster
        replica = cluster.replica(group, broker)
        if replica is None or broker in cluster.sim.paused:
            return
        cluster.note(f"sync {replica.address} after a cut, and end its process")
        with contextlib.suppress(LogError):  # the replica would have found out by itself
            log = replica.member.log
            log.flush()
            log.checkpoint()
        if cluster.brokers[broker].disk.down:
            return
        self._faults.counts["cut-again"] += 1
        cluster.kill(broker)
        self._faults.later(self.rng.choice((0.001, 0.05)), lambda: self._faults.restart(broker))

    def _move_ended(self) -> None:
        """A move is over, as one broker has just learned. All brokers die before they know that for sure."""
        if self.rng.random() < 0.5:
            self._faults.later(self.rng.choice((0.0, 0.002, 0.02)), self._end_all)

    def _end_all(self) -> None:
        self._faults.counts["move-ended"] += 1
        for broker in self.cluster.living:
            self.cluster.kill(broker)
            self._faults.later(self.rng.uniform(0.001, 0.02), partial(self._faults.restart, broker))

    def _flip_a_bit(self, _broker: int) -> bool:
        """A bit flips on a leader's disk, and another broker is to get a copy of the whole log.

        On one disk at a time, in a batch that another voter has too, and among its records: what a log makes of its
        headers it reads again whenever it is opened.
        """
        cluster = self.cluster
        group = self.rng.choice(cluster.groups)
        leader = cluster.leader(group)
        replica = None if leader is None else cluster.replica(group, leader)
        if leader is None or replica is None or any(broker.damaged for broker in cluster.brokers.values()):
            return False
        log = replica.member.log
        if cluster.brokers[leader].disk.down or not log.online or not self._is_held_elsewhere(group, leader):
            return False
        with contextlib.suppress(LogError):  # the replica finds out by itself
            log.roll()
            log.flush()
            log.checkpoint()
        places = _cold_batches(log)
        if not places:
            return False
        path, position, size = self.rng.choice(places)
        at = position + self.rng.randrange(HEADER.size, size)
        cluster.note(f"flip a bit of {path} at {at} on broker {leader}")
        cluster.brokers[leader].damage(path, at, 1 << self.rng.randrange(8))
        keepers, number = cluster.keepers(group), cluster.groups.index(group)
        others = [broker for broker in cluster.brokers if broker not in keepers]
        if others and leader in keepers:
            stays = [broker for broker in keepers if broker != leader][:-1]
            self._ask(MoveReplicas(self._new_id(), TOPIC, number, (leader, *stays, self.rng.choice(others))))
        return True

    def _is_held_elsewhere(self, group: str, leader: int) -> bool:
        """Does another voter have everything that is committed, and know that it counts?"""
        replica = self.cluster.replica(group, leader)
        assert replica is not None
        node = replica.member.node
        for voter in node.membership.voters:
            other = self.cluster.replica(group, voter.broker)
            if voter.broker != leader and other is not None and other.context.directory_id == voter.directory:
                its = other.member.node
                if its.eligible and its.watermark >= node.watermark:
                    return True
        return False

    # -- inside ------------------------------------------------------------------------------------------------

    def _new_id(self) -> str:
        self._moves += 1
        return f"directed {self._moves}"

    def _ask(self, *requests: Request) -> None:
        controller = self.cluster.leader(METADATA)
        if controller is not None and controller not in self.cluster.sim.paused:
            for request in requests:
                self.cluster.sim.nodes[controller].tell_local(Address("controller", "", controller), request)


def _cold_batches(log: PartitionLog) -> list[tuple[str, int, int]]:
    """File, position and size of every batch with records that is committed and below the recovery point."""
    saved = log.saved_offsets
    below = 0 if saved is None or not log.online else min(saved.recovery_point, log.high_watermark)
    return [
        (segment.path, position, header.size)
        for segment in log.segments[:-1]
        for position, header in segment.walk(0, segment.size)
        if header.next_offset <= below and not header.is_control
    ]
