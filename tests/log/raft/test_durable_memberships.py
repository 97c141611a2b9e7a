"""A membership is committed once a majority has it on disk, although records need not be synced.

When a move has ended, brokers remove the replicas that are voters no longer. If its membership was in memory only, a
loss of power would make voters of them again.
"""

from __future__ import annotations

from tests.log.raft.groups import Group
from tests.log.raft.test_paper_claims import elect, pump


def joined_by_a_third() -> tuple[Group, int]:
    """Of two voters, 1 leads; it has appended the membership in which 3 votes. Gives its offset, too."""
    group = Group(1, 3, voters=2)
    group.syncs_late = True
    for a, b in ((1, 2), (1, 3), (2, 3)):
        group.connect(a, b)
    elect(group, 1)
    for _ in range(3):
        group.propose(1)
        pump(group)
    group.want(1, 2, 3)
    for broker in group.brokers:
        group.tell_wanted(broker)
    pump(group)
    history = group.members[1].node.history
    assert history.latest.brokers == (1, 2, 3)
    return group, history.latest_offset


def test_a_membership_waits_for_the_disks_of_a_majority_and_records_do_not() -> None:
    group, at = joined_by_a_third()
    leader = group.members[1].node
    assert leader.watermark == at, "what was before it is committed, and on no disk"
    assert group.members[1].log.flushed_offset < at
    group.sync(1)
    pump(group)
    assert leader.watermark == at
    group.sync(2)
    pump(group)
    assert leader.watermark == at + 1


def test_a_replica_with_a_membership_that_is_not_on_disk_asks_for_a_sync() -> None:
    group, _ = joined_by_a_third()
    for member in group.members.values():
        assert member.node.owes_sync
    for broker in group.brokers:
        group.sync(broker)
        assert not group.members[broker].node.owes_sync


def test_records_behind_a_membership_wait_with_it() -> None:
    group, at = joined_by_a_third()
    group.propose(1)
    pump(group)
    assert group.members[1].node.watermark == at
    for broker in (1, 3):
        group.sync(broker)
    pump(group)
    assert group.members[1].node.watermark == at + 2


def test_a_committed_membership_survives_a_loss_of_power_everywhere() -> None:
    group, at = joined_by_a_third()
    for broker in (2, 3):
        group.sync(broker)
    pump(group)
    assert group.members[1].node.watermark == at + 1
    for broker in group.brokers:
        group.kill(broker)
        group.disks[broker].crash(mode="lose_all")
        group.start(broker, lost=True)
    ends = {broker: member.log.end_offset for broker, member in group.members.items()}
    assert ends == {1: 0, 2: at + 1, 3: at + 1}
