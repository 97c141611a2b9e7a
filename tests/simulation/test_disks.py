"""What one failing disk does to a cluster, case by case."""

from __future__ import annotations

import errno

from log.disk.memory_filesystem import Fault
from log.raft.ready import Vote
from log.replica.vote_journal import VoteJournal
from tools.simulator.record.report import TraceKeeper
from tools.simulator.settings.layout import DATA, JOURNAL
from tools.simulator.settings.seed import choose
from tools.simulator.world import World


def world_at_work(seed: int = 1) -> tuple[World, str]:
    """A cluster that serves, and the group of its only partition."""
    world = World(choose(seed, faults=(), partitions=1, admins=0, groups=(), transactions=False), TraceKeeper())
    world.sim.run(seconds=1.0)
    assert world.form()
    world.sim.run(seconds=2.0)
    (group,) = world.groups
    assert world.leader(group) is not None
    return world, group


def acknowledged(world: World) -> int:
    return sum(1 for operation in world.history.operations if operation.outcome == "ok")


def test_a_leader_whose_disk_fails_on_an_append_ends_and_comes_back() -> None:
    world, group = world_at_work()
    leader = world.leader(group)
    assert leader is not None
    before, count = world.replica(group, leader), acknowledged(world)
    world.brokers[leader].disk.faults.append(Fault("write", errno.EIO, f"{DATA}/{group}/*.log"))
    world.sim.run(seconds=5.0)
    after = world.replica(group, leader)
    assert after is not None
    assert after is not before
    assert acknowledged(world) > count
    assert not world.history.violations


def test_a_disk_that_was_full_for_long_serves_again_when_it_has_room() -> None:
    """After a few failures nobody tried any more, until the broker was started again."""
    world, group = world_at_work()
    for broker in world.brokers.values():
        broker.disk.faults.append(Fault("write", errno.ENOSPC, f"{DATA}/{group}/*", times=None))
    world.sim.run(seconds=60.0)
    count = acknowledged(world)
    for broker in world.brokers.values():
        broker.disk.faults.clear()
    world.sim.run(seconds=10.0)
    assert acknowledged(world) > count
    assert all(world.replica(group, number) is not None for number in world.keepers(group))
    assert not world.history.violations


def test_votes_that_cannot_be_saved_are_saved_later_and_told_only_then() -> None:
    world, group = world_at_work(2)
    leader = world.leader(group)
    assert leader is not None
    for number, broker in world.brokers.items():
        if number != leader:
            broker.disk.faults.append(Fault("sync", errno.EIO, JOURNAL, times=2))
    world.kill(leader)
    world.sim.run(seconds=8.0)
    assert world.leader(group) not in (None, leader)
    assert not world.history.violations


def test_a_vote_counts_only_when_it_is_on_disk() -> None:
    world, group = world_at_work(3)
    for number in world.keepers(group):
        replica = world.replica(group, number)
        assert replica is not None
        told = replica.member.node.vote
        disk = world.brokers[number].disk.copy()
        disk.crash()
        assert VoteJournal(disk, JOURNAL).get(group) == told != Vote()


def test_a_replica_whose_files_are_gone_does_not_count_though_its_broker_voted() -> None:
    """It was moved away, and its broker has not replayed that yet: those who do not know either would count it."""
    trace = TraceKeeper()
    world = World(choose(4, faults=(), partitions=1, admins=0, groups=(), transactions=False), trace)
    world.sim.run(seconds=1.0)
    assert world.form()
    world.sim.run(seconds=1.0)
    (group,) = world.groups
    follower = next(broker for broker in world.keepers(group) if broker != world.leader(group))
    world.kill(follower)
    world.brokers[follower].disk.remove_tree(f"{DATA}/{group}")
    world.start(follower)
    world.sim.run(seconds=1.0)
    opened = [line for line in trace.lines if f"opened replica/{group}@{follower} " in line]
    assert "eligible False" in opened[-1]
    world.sim.run(seconds=8.0)
    replica = world.replica(group, follower)
    assert replica is not None
    assert replica.member.node.eligible, "a leader has brought it everything"
