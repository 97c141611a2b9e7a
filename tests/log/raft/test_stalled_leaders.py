"""A leader that commits nothing for long gives way to a follower that may reach more voters."""

from __future__ import annotations

from log.disk.memory_filesystem import MemoryFilesystem
from log.raft.messages import TimeoutNow
from protocol.records.batches import Record, build_batch, check_batches
from tests.log.raft.groups import Group
from tests.log.raft.steps import append_many, leader_of
from tests.log.raft.test_paper_claims import elect, group_of, pump, role_of

LAGS = frozenset({3})


def half_apart(*cut_off: int) -> Group:
    """1 leads five voters, of which 3 is slow; the links from 1 to some others are cut."""
    group = group_of(5)
    elect(group, 1)
    append_many(group, 1, 3)
    for broker in cut_off:
        group.disconnect(1, broker)
    pump(group)
    return group


def append_without_the_slow_one(group: Group) -> None:
    batch = build_batch([Record(0, 1, None, b"waits", ())])
    group.act(1, lambda member: member.append(check_batches(batch), group.now))
    pump(group, without=LAGS)


def let_time_pass(group: Group, seconds: float) -> None:
    end = group.now + seconds
    while group.now < end:
        group.now += 0.1
        for broker in group.brokers:
            due = group.members[broker].node.next_deadline
            if due is not None and due <= group.now:
                group.tick(broker)
        group.beat(1)
        pump(group, without=LAGS)


def test_a_leader_that_needs_a_slow_voter_gives_way_to_one_that_does_not() -> None:
    group = half_apart(4, 5)
    append_without_the_slow_one(group)
    assert group.members[1].node.watermark < group.members[1].log.end_offset
    let_time_pass(group, 3.5)
    assert role_of(group, 2) == "Leader"
    assert group.members[2].node.watermark == group.members[2].log.end_offset
    assert b"waits" in group.contents(group.members[2], group.members[2].node.watermark).values()


def test_a_leader_with_links_to_all_voters_stays_however_slow_they_are() -> None:
    group = half_apart()
    for broker in (2, 4, 5):
        group.channels[1, broker].clear()
    batch = build_batch([Record(0, 1, None, b"waits", ())])
    group.act(1, lambda member: member.append(check_batches(batch), group.now))
    slow = frozenset({3, 4, 5})
    pump(group, without=slow)
    for _ in range(50):
        group.now += 0.1
        group.tick(1)
        group.beat(1)
        pump(group, without=slow)
    assert group.members[1].node.watermark < group.members[1].log.end_offset
    assert role_of(group, 1) == "Leader"


def test_a_leader_that_commits_keeps_its_role_while_voters_are_away() -> None:
    group = half_apart(5)
    for _ in range(40):
        append_without_the_slow_one(group)
        let_time_pass(group, 0.2)
    assert role_of(group, 1) == "Leader"
    leader = leader_of(group, 1)
    assert leader.stalled_at == -1
    assert group.members[1].node.watermark == group.members[1].log.end_offset


def test_a_successor_that_was_made_again_is_filled_though_the_leader_has_not_heard_of_that() -> None:
    group = group_of(3)
    elect(group, 1)
    append_many(group, 1, 3)
    group.members.pop(2)
    group.disks[2] = MemoryFilesystem()
    group.start(2, lost=True)  # its link stays up, so the leader is not told
    group.act(1, lambda member: member.transfer_to(2, group.now))
    assert any(isinstance(message, TimeoutNow) for message in group.channels[1, 2])
    pump(group)
    for _ in range(30):
        group.now += 0.1
        group.tick(1)
        pump(group)
    assert group.members[2].node.eligible
    assert group.members[2].log.end_offset == group.members[1].log.end_offset
