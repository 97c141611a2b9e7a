"""When an append with acks=all is answered, and what a leader says that has lost the others."""

from __future__ import annotations

from typing import Any

from attrs import evolve, frozen

from actors.replica import Replica
from actors.replica_messages import ALL, AppendRecords, AppendResult, replica_address
from actors.runtime import Actor, Address, Future, Payload, handles
from protocol.error_codes import ErrorCode
from protocol.records import Record, build_batch
from tools.simulator.report import TraceKeeper
from tools.simulator.settings import choose
from tools.simulator.settled import unsettled
from tools.simulator.world import CLIENT_NODES, World

LAG_SECONDS = 1.0


@frozen(slots=True)
class _Ask:
    address: Address
    request: object


class Asker(Actor):
    """Keeps the answers, in the order in which they come."""

    restart = None

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[Any] = []

    @handles(_Ask)
    def put(self, message: _Ask) -> None:
        def answered(future: Future[Any]) -> None:
            self.answers.append(future.exception or future.get())

        self.ask(message.address, message.request, answered, timeout=60.0)


class Partition:
    """One partition with three replicas, and somebody who writes to it and reads it when told to."""

    def __init__(self, *, min_insync_replicas: int) -> None:
        settings = choose(1, faults=(), brokers=3, partitions=1, admins=0, groups=(), transactions=False, seconds=5.0)
        defaults = {**dict(settings.topic_defaults), "min.insync.replicas": str(min_insync_replicas)}
        raft = evolve(settings.raft, lag_s_max=LAG_SECONDS)
        self.world = World(
            evolve(settings, writers=0, readers=0, raft=raft, topic_defaults=tuple(defaults.items())), TraceKeeper()
        )
        self.run(1.0)
        assert self.world.form()
        self.run(1.0)
        assert unsettled(self.world) is None
        node = self.world.sim.nodes[CLIENT_NODES[0]]
        actor = node.spawn(Asker, address=Address("asker", "", node.broker))._actor_weakref()
        assert isinstance(actor, Asker)
        self.asker = actor
        (self.group,) = self.world.groups
        leader = self.world.leader(self.group)
        assert leader is not None
        self.leader = leader
        self.followers = [broker for broker in self.world.brokers if broker != leader]

    def run(self, seconds: float) -> None:
        self.world.sim.run(seconds=seconds)
        assert not self.world.history.violations, self.world.history.violations[0]

    @property
    def replica(self) -> Replica:
        replica = self.world.replica(self.group, self.leader)
        assert isinstance(replica, Replica)
        return replica

    def ask(self, request: object) -> None:
        message = _Ask(replica_address(self.group, self.leader), request)
        self.world.sim.nodes[self.asker.address.broker].tell_local(self.asker.address, message)

    def append(self, *, timeout_ms: int = 30_000) -> None:
        batch = build_batch([Record(0, 1, None, b"value", ())])
        self.ask(AppendRecords(ALL, timeout_ms, Payload(memoryview(batch))))

    def silence(self, broker: int) -> None:
        """Nothing from this follower arrives, and the leader is not told: its link stands."""
        self.world.sim.blocked.add((broker, self.leader))

    def unsilence(self, broker: int) -> None:
        self.world.sim.blocked.discard((broker, self.leader))

    @property
    def errors(self) -> list[ErrorCode]:
        assert all(isinstance(answer, AppendResult) for answer in self.asker.answers), self.asker.answers
        return [ErrorCode(answer.error) for answer in self.asker.answers]


def test_acks_all_waits_until_so_many_replicas_hold_it_however_many_are_in_sync() -> None:
    partition = Partition(min_insync_replicas=3)
    partition.silence(partition.followers[0])
    partition.append()
    partition.run(0.3)
    assert partition.replica._member.node.watermark == partition.replica._member.log.end_offset
    assert partition.replica._in_sync_count() == 3, "it was in sync a moment ago"
    assert partition.errors == [], "two of three hold it"
    partition.unsilence(partition.followers[0])
    partition.run(1.5)
    assert partition.errors == [ErrorCode.NONE], "the third has said that it does, though nothing more was committed"


def test_what_is_committed_is_refused_at_once_if_too_few_are_in_sync_then() -> None:
    partition = Partition(min_insync_replicas=3)
    partition.silence(partition.followers[0])
    partition.append()
    partition.run(0.3)
    assert partition.errors == []
    partition.unsilence(partition.followers[0])
    partition.world.kill(partition.followers[0])
    partition.run(0.2)
    assert partition.errors == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]


def test_an_append_whose_time_is_up_is_judged_by_what_is_so_then() -> None:
    partition = Partition(min_insync_replicas=3)
    partition.silence(partition.followers[0])
    partition.append(timeout_ms=400)
    partition.run(0.6)
    assert partition.errors == [ErrorCode.REQUEST_TIMED_OUT]
