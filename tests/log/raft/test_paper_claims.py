"""The claims of the Raft paper (figure 3), each by its name, on a group that is steered by hand."""

from __future__ import annotations

from log.raft.config import RaftConfig
from log.raft.follower import Follower
from log.raft.leader import Leader
from log.raft.messages import Append, Appended, VoteAnswer, VoteRequest
from protocol.records.batches import Record, build_batch, check_batches
from tests.log.raft.groups import Group


def group_of(size: int = 3, *, seed: int = 1, config: RaftConfig | None = None) -> Group:
    group = Group(seed, size, config=config)
    for a in group.brokers:
        for b in group.brokers:
            group.connect(a, b)
    return group


def pump(group: Group, *, without: frozenset[int] = frozenset()) -> None:
    """Deliver everything, and what that causes, except from and to some."""
    busy = True
    while busy:
        busy = False
        for broker in list(group.members):
            if group.saving[broker]:
                group.save_vote(broker)
                busy = True
        for a, b in list(group.channels):
            if group.channels.get((a, b)) and not {a, b} & without:
                group.deliver(a, b)
                busy = True


def elect(group: Group, broker: int) -> None:
    group.now += 1.0
    group.tick(broker)
    pump(group)
    assert isinstance(group.members[broker].node.role, Leader)


def role_of(group: Group, broker: int) -> str:
    return type(group.members[broker].node.role).__name__


def is_voter(group: Group, broker: int) -> bool:
    return group.members[broker].node.is_voter


def ends(group: Group) -> dict[int, int]:
    return {broker: member.log.end_offset for broker, member in group.members.items()}


# -- election safety: at most one leader can be elected in a given term ----------------------------------------------


def test_election_safety_a_voter_votes_once_in_a_term() -> None:
    group = group_of()
    voter = group.members[3]
    for candidate in (1, 2):
        request = VoteRequest(5, candidate, "dir-3", 0, -1, pre=False, forced=False)
        group.act(3, lambda member, request=request: member.step(request, group.now))  # type: ignore[misc]
    group.save_vote(3)
    group.save_vote(3)
    granted = [
        message.granted
        for to in (1, 2)
        for message in group.channels[3, to]
        if isinstance(message, VoteAnswer) and not message.pre
    ]
    assert voter.node.vote.voted_for == 1
    assert granted == [True, False]


def test_election_safety_a_vote_is_told_only_after_it_is_durable() -> None:
    group = group_of()
    request = VoteRequest(5, 1, "dir-3", 0, -1, pre=False, forced=False)
    group.act(3, lambda member: member.step(request, group.now))
    assert not group.channels[3, 1]
    group.save_vote(3)
    assert [message for message in group.channels[3, 1] if isinstance(message, VoteAnswer)]


def test_election_safety_the_vote_of_a_replica_that_lost_data_makes_no_majority() -> None:
    group = group_of()
    group.members[3].node.eligible = False
    group.disconnect(1, 2)
    group.now += 10
    for _ in range(5):
        group.tick(1)
        pump(group)
        group.now += 5
    assert role_of(group, 1) != "Leader"
    group.connect(1, 2)
    elect(group, 1)


def test_election_safety_replicas_that_all_lost_data_elect_the_best_log_together() -> None:
    group = group_of()
    elect(group, 1)
    group.disconnect(1, 3)
    group.propose(1)
    pump(group)
    for broker in group.brokers:
        group.kill(broker)
        group.start(broker)
        group.members[broker].node.eligible = False
    group.connect(2, 3)
    for broker in (2, 3, 2, 3):
        group.now += 5
        group.tick(broker)
        pump(group)
        assert role_of(group, broker) != "Leader"
    leader = group.settle()
    assert leader != 3
    assert all(member.node.eligible for member in group.members.values())


def test_election_safety_a_broker_with_another_directory_is_no_voter() -> None:
    group = group_of()
    request = VoteRequest(5, 1, "the disk that broke", 0, -1, pre=False, forced=False)
    group.act(3, lambda member: member.step(request, group.now))
    group.save_vote(3)
    (answer,) = group.channels[3, 1]
    assert isinstance(answer, VoteAnswer)
    assert not answer.granted


# -- leader append-only: a leader never overwrites or deletes entries in its log -------------------------------------


def test_leader_append_only_a_leader_keeps_its_tail_and_followers_give_way() -> None:
    group = group_of()
    elect(group, 1)
    group.disconnect(1, 2)
    group.disconnect(1, 3)
    for _ in range(3):
        group.propose(1)  # nobody will ever hold these
    group.now += 5
    group.tick(1)
    assert isinstance(group.members[1].node.role, Follower)
    elect(group, 2)
    end = group.members[2].log.end_offset
    group.propose(2)
    assert group.members[2].log.end_offset == end + 1
    group.connect(1, 2)
    pump(group)
    assert ends(group) == {1: end + 1, 2: end + 1, 3: end + 1}


# -- log matching: same end and epoch, same log up to there ----------------------------------------------------------


def test_log_matching_an_append_that_does_not_meet_is_refused_with_where_to_look() -> None:
    group = group_of()
    elect(group, 1)
    term = group.members[1].node.term
    append = Append(term, 1, 10, term, 0, 0, memoryview(b""))
    group.act(2, lambda member: member.step(append, group.now))
    group.save_vote(2)
    answer = group.channels[2, 1][-1]
    assert isinstance(answer, Appended)
    assert (answer.ok, answer.end) == (False, group.members[2].log.end_offset)


def test_log_matching_one_round_trip_per_divergent_epoch() -> None:
    group = group_of()
    elect(group, 1)
    for _ in range(3):
        group.propose(1)
    pump(group)
    group.disconnect(1, 2)
    group.disconnect(1, 3)
    for _ in range(50):
        group.propose(1)
    group.now += 5
    group.tick(1)
    elect(group, 2)
    for _ in range(40):
        group.propose(2)
        pump(group)
    before = len([line for line in group.trace if "Append(" in line and "2→1" in line])
    group.connect(1, 2)
    pump(group)
    appends = [line for line in group.trace if "deliver 2→1 Append(" in line]
    assert len(appends) - before <= 5
    assert group.members[1].log.end_offset == group.members[2].log.end_offset


def test_log_matching_a_longer_follower_is_not_cut_because_the_leader_is_shorter() -> None:
    group = group_of()
    elect(group, 1)
    group.propose(1)
    pump(group)
    group.disconnect(1, 3)
    group.disconnect(2, 3)
    group.propose(1)  # reaches 2 only
    pump(group)
    end = group.members[2].log.end_offset
    term = group.members[2].node.term
    probe = Append(term, 1, end - 1, term, end - 1, 0, memoryview(b""))
    group.act(2, lambda member: member.step(probe, group.now))
    assert group.members[2].log.end_offset == end


# -- leader completeness: what is committed is in the logs of all later leaders --------------------------------------


def test_leader_completeness_a_shorter_log_is_not_elected() -> None:
    group = group_of()
    elect(group, 1)
    group.disconnect(1, 3)
    group.disconnect(2, 3)
    group.propose(1)
    pump(group)
    assert group.members[1].node.watermark == group.members[1].log.end_offset
    group.kill(1)
    group.connect(2, 3)
    group.now += 1
    group.tick(3)
    pump(group)
    assert not isinstance(group.members[3].node.role, Leader)
    elect(group, 2)
    assert 0 in group.committed[0]


def test_leader_completeness_an_older_terms_batch_is_committed_only_through_a_newer_one() -> None:
    group = group_of(5)
    elect(group, 1)
    for other in (3, 4, 5):
        group.disconnect(1, other)
    group.propose(1)
    pump(group)
    uncommitted = group.members[1].log.end_offset
    group.kill(1)
    for other in (3, 4, 5):
        group.connect(2, other)
    elect(group, 2)
    leader = group.members[2]
    assert leader.log.end_offset == uncommitted + 1  # its own batch, because the watermark was not certain
    assert leader.node.watermark == leader.log.end_offset


def test_a_healthy_group_changes_leaders_without_a_hole_in_its_offsets() -> None:
    group = group_of()
    elect(group, 1)
    group.propose(1)
    pump(group)
    group.beat(1)
    pump(group)
    group.act(1, lambda member: member.transfer_to(2, group.now))
    pump(group)
    assert isinstance(group.members[2].node.role, Leader)
    assert ends(group) == {1: 1, 2: 1, 3: 1}


# -- state machine safety and what stands around the paper -----------------------------------------------------------


def test_state_machine_safety_a_follower_knows_no_more_than_it_verified() -> None:
    group = group_of()
    elect(group, 1)
    group.propose(1)
    pump(group, without=frozenset({3}))
    term = group.members[1].node.term
    probe = Append(term, 1, 0, -1, 1, 0, memoryview(b""))  # says that offset 0 is committed, but brings nothing
    group.act(3, lambda member: member.step(probe, group.now))
    assert group.members[3].node.watermark == 0


def test_a_follower_that_alone_lost_its_link_does_not_disturb_the_others() -> None:
    group = group_of()
    elect(group, 1)
    term = group.members[1].node.term
    group.disconnect(1, 3)
    group.now += 1
    group.tick(3)
    assert role_of(group, 3) == "PreCandidate"
    pump(group)
    assert role_of(group, 3) != "Leader"
    assert {member.node.term for member in group.members.values()} == {term}
    assert isinstance(group.members[1].node.role, Leader)


def test_a_leader_without_a_quorum_steps_down_and_commits_nothing() -> None:
    group = group_of()
    elect(group, 1)
    group.disconnect(1, 2)
    group.disconnect(1, 3)
    group.propose(1)
    group.now += 5
    group.tick(1)
    assert isinstance(group.members[1].node.role, Follower)
    assert group.members[1].node.watermark == 0


def test_a_far_behind_replica_begins_at_the_leaders_log_start() -> None:
    group = group_of()
    elect(group, 1)
    group.kill(3)
    for _ in range(60):
        group.propose(1)
        pump(group)
    log = group.members[1].log
    log.roll()
    log.raise_log_start(50)
    group.start(3)
    group.connect(1, 3)
    group.connect(2, 3)
    pump(group)
    follower = group.members[3].log
    assert (follower.log_start_offset, follower.end_offset) == (50, 60)
    assert list(follower.epochs) == list(log.epochs)


# -- a voter is a broker with one particular directory ----------------------------------------------------------------


def test_a_replica_with_a_new_disk_catches_up_and_then_takes_its_old_place() -> None:
    group = group_of()
    elect(group, 1)
    for _ in range(5):
        group.propose(1)
        pump(group)
    group.kill(3)
    group.replace_disk(3)
    group.start(3)
    assert not is_voter(group, 3)
    group.now += 10
    group.tick(3)
    assert role_of(group, 3) == "Follower"
    group.connect(1, 3)
    group.connect(2, 3)
    pump(group)
    group.beat(1)
    pump(group)
    assert is_voter(group, 3)
    assert group.members[1].node.membership.has(3, "dir-3'")
    group.kill(1)
    elect(group, 2)
    group.propose(2)
    pump(group)
    assert len([value for value in group.committed[0].values() if value and value.startswith(b"value")]) == 6
    group.start(1)
    group.connect(1, 2)
    pump(group)
    assert group.members[1].node.membership == group.members[2].node.membership


def test_a_replica_with_a_new_disk_does_not_count_before_it_has_caught_up() -> None:
    group = group_of()
    elect(group, 1)
    group.propose(1)
    pump(group)
    group.kill(3)
    group.replace_disk(3)
    group.start(3)
    group.connect(1, 3)
    group.disconnect(1, 2)
    pump(group)
    group.propose(1)
    pump(group)
    assert group.members[3].log.end_offset == group.members[1].log.end_offset
    assert group.members[1].node.watermark == 1


# -- replicas that are being made ------------------------------------------------------------------------------------


def test_a_replica_that_is_being_made_gets_so_many_bytes_a_second_and_voters_get_everything_at_once() -> None:
    group = Group(1, size=4, voters=3, config=RaftConfig(fetch_bytes=100, catch_up_bytes_per_s=1000))
    for a, b in ((1, 2), (1, 3), (2, 3)):
        group.connect(a, b)
    elect(group, 1)
    for _ in range(10):
        batch = check_batches(build_batch([Record(0, 1, None, bytes(200), ())]))
        group.act(1, lambda member, batch=batch: member.append(batch, group.now))  # type: ignore[misc]
        pump(group)
    size = group.members[1].log.size
    group.want(1, 2, 4)
    group.tell_wanted(1)
    group.connect(1, 4)
    pump(group)
    begun, ends = group.now, [group.members[4].log.end_offset]
    assert ends[0] < 3
    assert group.members[3].log.end_offset == group.members[1].log.end_offset
    while group.members[4].log.end_offset < group.members[1].log.end_offset:
        deadline = group.members[1].node.next_deadline
        assert deadline is not None
        group.now = max(group.now, deadline)
        group.tick(1)
        pump(group)
        ends.append(group.members[4].log.end_offset)
    assert len(ends) > 5
    assert group.now - begun >= (size - 600) / 1000
