"""What comes too late, or twice: a replica neither believes it nor is harmed by it."""

from __future__ import annotations

import pytest

from log.errors import DamagedFile
from log.raft.follower import Follower
from log.raft.membership import Membership, MembershipHistory
from log.raft.messages import Append, Appended, TimeoutNow
from log.raft.ready import ReadForFollower
from tests.log.raft.groups import Group
from tests.log.raft.steps import append_many, leader_of
from tests.log.raft.test_paper_claims import elect, group_of, pump


def test_batches_below_the_log_start_of_a_follower_stay_deleted_when_they_come_again() -> None:
    group = group_of()
    elect(group, 1)
    append_many(group, 1, 5)
    leader, follower = group.members[1], group.members[3]
    follower.log.raise_log_start(3)
    data = memoryview(leader.log.read(0, 1 << 20).read())
    group.act(3, lambda member: member.step(Append(leader.node.term, 1, 0, -1, 5, 0, data), group.now))
    assert (follower.log.log_start_offset, follower.log.end_offset) == (3, 5)
    answer = group.channels[3, 1].pop()
    assert isinstance(answer, Appended)
    assert (answer.ok, answer.end) == (True, 5)


@pytest.mark.parametrize("why", ["it was sent already", "its link is lost", "the replica is gone"])
def test_what_was_read_for_a_follower_is_not_sent_where_it_no_longer_fits(why: str) -> None:
    group = group_of()
    elect(group, 1)
    append_many(group, 1, 5)
    node, role = group.members[1].node, leader_of(group, 1)
    read = ReadForFollower(3, role.progress[3].next, 1, 1 << 20)
    if why == "it was sent already":
        read = ReadForFollower(3, 2, 1, 1 << 20)
    elif why == "its link is lost":
        group.disconnect(1, 3)
    else:
        del role.progress[3]
    node.role.on_read(read, memoryview(b"batch"), 6, group.now, b"")
    assert not node.take_ready().messages


def test_a_leader_that_stops_asks_another_follower_if_the_first_does_not_take_over() -> None:
    group = group_of()
    elect(group, 1)
    append_many(group, 1, 3)
    group.act(1, lambda member: member.retire(group.now))
    asked = [next(iter(told_to_lead(group)))]
    for channel in group.channels.values():
        channel.clear()
    deadline = group.members[1].node.next_deadline
    assert deadline is not None
    for broker in (2, 3):
        group.members[1].node.heard[broker] = deadline
    group.now = deadline
    group.tick(1)
    asked += told_to_lead(group)
    assert sorted(asked) == [2, 3]
    pump(group)
    assert group.members[asked[1]].node.role is leader_of(group, asked[1])


def told_to_lead(group: Group) -> set[int]:
    return {to for (_, to), channel in group.channels.items() if any(isinstance(one, TimeoutNow) for one in channel)}


def test_a_replica_that_no_longer_votes_does_not_stand_for_election() -> None:
    group = group_of()
    elect(group, 1)
    append_many(group, 1, 1)
    node = group.members[3].node
    group.act(3, lambda member: member.leader_gone(group.now))
    node.history.add(node.log.end_offset - 1, node.membership.without(3))
    group.now += 60.0
    group.act(3, lambda member: member.tick(group.now))
    assert isinstance(node.role, Follower)
    assert node.role.campaign_at is None
    assert not group.channels[3, 1]


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"version":1}', b'{"version":1,"voters":[[1]]}'])
def test_a_membership_that_is_damaged_is_called_so(data: bytes) -> None:
    with pytest.raises(DamagedFile, match="is no membership"):
        Membership.decode(data)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"version":1}', b'{"version":1,"entries":[]}'])
def test_a_history_of_memberships_that_is_damaged_is_called_so(data: bytes) -> None:
    with pytest.raises(DamagedFile, match="is no membership history"):
        MembershipHistory.decode(data)
