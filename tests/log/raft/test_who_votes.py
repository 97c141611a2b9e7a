"""What the simulator found once, of memberships, moves and who may lead, each as its own small case."""

from __future__ import annotations

import random

import pytest
from attrs import evolve

from log.config import LogConfig
from log.disk.handles import Handles
from log.disk.memory_filesystem import MemoryFilesystem, SimulatedCrash
from log.partition.partition_log import PartitionLog
from log.raft.config import RaftConfig
from log.raft.leader import Leader
from log.raft.membership import Membership, MembershipHistory, Voter
from log.raft.messages import (
    Append,
    BeatAnswer,
    Recovered,
    VoteAnswer,
    VoteRequest,
)
from log.raft.node import RaftNode
from log.raft.ready import Vote
from log.recovery import losses
from log.replica.member import MEMBERSHIP_FILE, Member
from protocol.records.batches import Record, build_batch, check_batches
from tests.log.raft.groups import DIRECTORY, Group
from tests.log.raft.steps import ALONE, BOTH, append_many
from tests.log.raft.test_paper_claims import elect, group_of, pump, role_of


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_membership_in_the_log_is_known_after_a_crash_at_any_point(share: float) -> None:
    """If the log had it and the history did not, this replica could be elected by those who voted before."""
    wanted, crashes = (1, 2, 3, 4), 0
    while True:
        group = Group(1, size=4, voters=3)
        for a, b in ((1, 2), (1, 3), (1, 4), (2, 3)):
            group.connect(a, b)
        elect(group, 1)
        append_many(group, 1, 1)
        group.want(*wanted)
        disk = group.disks[2]
        disk.crash_at, disk.crash_share = disk.operations + crashes, share
        crashed = False
        try:
            group.tell_wanted(1)
            pump(group)
        except SimulatedCrash:
            crashed = True
        group.members.pop(2)
        disk.crash_at = None
        disk.crash(mode="keep_all")
        group.links = {link for link in group.links if 2 not in link}
        group.start(2)
        member = group.members[2]
        voters = [1, 2, 3]
        for record in group.contents(member, member.log.end_offset).values():
            if record is not None and record.startswith(b'{"version"'):
                voters = sorted(Membership.decode(record).brokers)
        assert sorted(member.node.membership.brokers) == voters, f"after {crashes} operations"
        if not crashed:
            assert voters == list(wanted)
            return
        crashes += 1


def want(group: Group, broker: int, *wanted: int, move: int) -> None:
    group.act(broker, lambda member: member.want(wanted, (), group.now, move=move))
    pump(group)


def voters_at(group: Group, broker: int) -> tuple[list[int], int]:
    membership = group.members[broker].node.membership
    return sorted(membership.brokers), membership.move


def test_a_leader_that_has_heard_less_of_moves_does_not_undo_the_last_one() -> None:
    """Its process has only just begun, and has not replayed the metadata."""
    group = Group(1, 4, voters=3)
    for a in group.brokers:
        for b in group.brokers:
            group.connect(a, b)
    elect(group, 1)
    append_many(group, 1, 3)
    want(group, 1, 1, 2, 4, move=2)
    append_many(group, 1, 1)
    assert voters_at(group, 1) == ([1, 2, 4], 2)
    group.kill(1)
    want(group, 2, 1, 2, 3, move=1)
    elect(group, 2)
    append_many(group, 2, 3)
    assert voters_at(group, 2) == ([1, 2, 4], 2)
    want(group, 2, 2, 4, 3, move=3)
    append_many(group, 2, 2)
    assert voters_at(group, 2) == ([2, 3, 4], 3)


def test_a_move_for_which_nobody_comes_or_goes_is_in_the_log_too() -> None:
    group = group_of()
    elect(group, 1)
    append_many(group, 1, 1)
    want(group, 1, 3, 2, 1, move=1)
    assert voters_at(group, 1) == voters_at(group, 2) == ([1, 2, 3], 1)
    end = group.members[1].log.end_offset
    want(group, 1, 3, 2, 1, move=1)
    assert group.members[1].log.end_offset == end
    assert group.members[1].node.watermark == end


def one_that_lost_a_membership(*, end: int, known_at: int) -> Member:
    """Broker 1 was alone, and was joined by broker 2; its disk lost the log from `end` on, which had said so."""
    log = PartitionLog.open("/data/t-0", LogConfig(), Handles(MemoryFilesystem()))
    for offset in range(end):
        log.append(check_batches(build_batch([Record(0, 1, None, b"%d" % offset, ())])), epoch=1, now_ms=0)
    history = MembershipHistory([(-1, ALONE), (known_at, BOTH)])
    node = RaftNode(
        1, "dir-1", history, Vote(1, 1), log, config=RaftConfig(), rng=random.Random(1), now=0.0, eligible=False
    )
    return Member(log, node, lambda: 0)


def test_a_replica_that_lost_a_membership_does_not_lead_as_if_it_had_never_been() -> None:
    member = one_that_lost_a_membership(end=3, known_at=4)
    for now in range(1, 20):
        member.tick(float(now))
    assert member.node.membership == BOTH
    assert not isinstance(member.node.role, Leader)


@pytest.mark.parametrize(("wanted", "known", "yields"), [((2, 1), 3, False), ((2, 1), 4, True), ((1, 2), 5, True)])
def test_of_two_pre_candidates_the_one_that_knows_less_of_the_membership_yields(
    wanted: tuple[int, ...], known: int, yields: bool
) -> None:
    """Its log is as good, so both would be elected. Which of them is preferred counts only if they know the same."""
    member = one_that_lost_a_membership(end=3, known_at=4)
    member.want(wanted, (), 0.0)
    member.tick(10.0)
    assert type(member.node.role).__name__ == "PreCandidate"
    member.outbox.clear()
    member.step(VoteRequest(2, 2, "dir-1", 3, 1, pre=True, forced=False, membership=known), 10.0)
    ((_, answer),) = member.outbox
    assert isinstance(answer, VoteAnswer)
    assert answer.granted == yields


def test_what_a_leader_brings_takes_the_place_of_memberships_that_were_lost() -> None:
    member = one_that_lost_a_membership(end=3, known_at=4)
    batch = build_batch([Record(3, 1, None, b"of the leader", ())], base_offset=3, leader_epoch=1)
    member.step(Append(1, 2, 3, 1, 0, 0, memoryview(batch)), 1.0)
    assert member.node.membership == BOTH  # which comes with offset 4, or does not
    batch = build_batch([Record(4, 1, None, b"of the leader", ())], base_offset=4, leader_epoch=1)
    member.step(Append(1, 2, 4, 1, 0, 0, memoryview(batch)), 2.0)
    assert member.node.membership == ALONE


def test_whoever_all_have_elected_after_a_loss_writes_down_again_who_they_are() -> None:
    member = one_that_lost_a_membership(end=3, known_at=4)
    member.tick(1.0)
    answer = VoteAnswer(2, 2, "dir-2", granted=True, pre=True, eligible=False)
    member.step(answer, 1.1)
    member.vote_saved(Vote(2, 1), 1.2)
    member.step(evolve(answer, pre=False), 1.3)
    assert isinstance(member.node.role, Leader)
    assert member.node.membership == BOTH
    assert member.node.history.latest_offset == 3
    assert member.node.watermark < 4  # not before the other one has it


@pytest.mark.parametrize(("log_end", "is_asked_for"), [(3, False), (2, True)])
def test_only_a_membership_that_a_voter_has_lost_must_elect_the_candidate_too(
    log_end: int, *, is_asked_for: bool
) -> None:
    """One in the log of the voter, offset 2 of epoch 1, was overwritten by the leader of epoch 2; broker 3 is gone."""
    voters = Membership(tuple(Voter(broker, f"dir-{broker}") for broker in (1, 2)))
    overwritten = voters.with_voter(Voter(3, "dir-3"))
    voter = Member(*replica_of(2, [(-1, voters), (2, overwritten)], epochs=[1] * log_end, eligible=False), lambda: 0)
    candidate = Member(*replica_of(1, [(-1, voters)], epochs=[1, 2], eligible=True), lambda: 0)
    candidate.peer_up(2, 0.0)
    voter.peer_up(1, 0.0)
    candidate.tick(10.0)
    while any(member.outbox or member.unsaved_vote for member in (voter, candidate)):
        for member, other in ((candidate, voter), (voter, candidate)):
            if member.unsaved_vote is not None:
                member.vote_saved(member.unsaved_vote, 10.0)
            outbox, member.outbox = member.outbox, []
            for broker, message in outbox:
                if broker == other.node.broker:
                    other.step(message, 10.0)
        if isinstance(candidate.node.role, Leader):
            break
    assert isinstance(candidate.node.role, Leader) != is_asked_for


def replica_of(
    broker: int, memberships: list[tuple[int, Membership]], *, epochs: list[int], eligible: bool
) -> tuple[PartitionLog, RaftNode]:
    """A replica whose log has a batch of each of these epochs."""
    log = PartitionLog.open("/data/t-0", LogConfig(), Handles(MemoryFilesystem()))
    for epoch in epochs:
        log.append(check_batches(build_batch([Record(0, 1, None, b"value", ())])), epoch=epoch, now_ms=0)
    node = RaftNode(
        broker, f"dir-{broker}", MembershipHistory(memberships), Vote(2, None), log,
        config=RaftConfig(), rng=random.Random(1), now=0.0, eligible=eligible,
    )  # fmt: skip
    return log, node


def test_a_membership_that_never_was_in_the_log_is_forgotten_once_a_leader_has_brought_everything() -> None:
    member = one_that_lost_a_membership(end=3, known_at=4)
    member.step(Recovered(1, 2), 1.0)
    assert member.node.membership == ALONE


def one_that_came_back_with_nothing() -> Member:
    """Broker 1 was alone once, left, and is being filled again: its log says so far that it votes alone."""
    log = PartitionLog.open("/data/t-0", LogConfig(), Handles(MemoryFilesystem()))
    history = MembershipHistory([(-1, Membership(())), (2, ALONE)])
    for offset in range(4):
        log.append(check_batches(build_batch([Record(0, 1, None, b"%d" % offset, ())])), epoch=1, now_ms=0)
    node = RaftNode(
        1, "dir-1", history, Vote(3, None), log, config=RaftConfig(), rng=random.Random(1), now=0.0, eligible=False,
        is_new=True,
    )  # fmt: skip
    return Member(log, node, lambda: 0)


def test_a_replica_that_came_back_with_nothing_does_not_believe_who_voted_long_ago() -> None:
    member = one_that_came_back_with_nothing()
    for now in range(1, 20):
        member.tick(float(now))
    assert not isinstance(member.node.role, Leader)
    member.step(VoteRequest(9, 2, "dir-1", 4, 1, pre=False, forced=True), 20.0)
    assert member.unsaved_vote is not None
    member.vote_saved(member.unsaved_vote, 20.0)
    (answer,) = [message for _, message in member.outbox if isinstance(message, VoteAnswer)]
    assert not answer.granted
    member.step(Recovered(9, 2), 21.0)
    assert member.node.is_voter


def test_whether_a_replica_came_back_with_nothing_is_known_after_a_restart() -> None:
    files = MemoryFilesystem()
    for directory, new in (("/lost", False), ("/new", True)):
        files.make_directory(directory)
        losses.mark(files, directory, new=new)
        losses.mark(files, directory)  # as its log is found to lack something, too
        assert losses.is_marked(files, directory)
        assert losses.is_new(files, directory) == new
        losses.unmark(files, directory)
        assert not losses.is_new(files, directory)


def test_a_sole_voter_finishes_a_move_that_nobody_comes_or_goes_for() -> None:
    """Nobody's answer makes it look again once its first batch of the term is committed."""
    group = group_of(1)
    elect(group, 1)
    group.act(1, lambda member: member.want((1,), (), group.now, move=2))
    assert group.members[1].node.membership.move == 2


def test_who_does_not_take_over_is_passed_over_for_others() -> None:
    group = group_of(3)
    elect(group, 1)
    group.propose(1)
    pump(group)
    group.act(2, lambda member: member.retire(group.now))  # about to stop: it stands for no election
    group.act(1, lambda member: member.want((2, 3), (), group.now))
    pump(group)
    assert role_of(group, 1) == "Leader"
    group.now += RaftConfig().transfer_timeout_s
    group.beat(1)
    group.tick(1)
    pump(group)
    assert role_of(group, 3) == "Leader"


def test_a_broker_that_is_heard_makes_no_quorum_without_its_replica() -> None:
    """New links to brokers on which nobody answers for the group: another may have been elected there meanwhile."""
    group = group_of(3)
    elect(group, 1)
    node = group.members[1].node
    assert node.has_quorum(group.now), "those who voted for it have answered"
    for broker in (2, 3):
        node.peer_down(broker, group.now)
        node.peer_up(broker, group.now)
    assert not node.has_quorum(group.now)
    node.tick(group.now)
    assert isinstance(node.role, Leader), "they have some time to answer"
    node.step(BeatAnswer(node.term, 2, "dir-2", 0, eligible=True), group.now)
    assert node.has_quorum(group.now)
    node.peer_down(2, group.now)
    node.peer_up(2, group.now)
    asked_at = at = group.now
    while role_of(group, 1) == "Leader":
        at = node.next_deadline or 0.0
        node.heard.update({2: at, 3: at})
        node.tick(at)
    assert at == pytest.approx(asked_at + node.config.leader_timeout_s, abs=0.01)


def test_a_leader_that_is_not_heard_answers_nobody_and_steps_down_when_its_links_are_gone() -> None:
    """As long as links stand, the others follow it, and no other one could be elected: a process is only behind."""
    group = group_of(3)
    elect(group, 1)
    node = group.members[1].node
    node.peer_down(3, group.now)
    later = group.now + 10 * node.config.leader_timeout_s
    assert not node.has_quorum(later)
    node.tick(later)
    assert role_of(group, 1) == "Leader"
    node.peer_down(2, later)
    assert node.next_deadline is not None
    assert node.next_deadline <= later
    node.tick(later)
    assert role_of(group, 1) == "Follower"


def is_alone(group: Group) -> bool:
    role = group.members[1].node.role
    return isinstance(role, Leader) and role.alone


def test_a_leader_that_lost_all_the_others_is_alone_until_one_of_them_answers() -> None:
    group = group_of(3, config=RaftConfig(leads_alone=True))
    elect(group, 1)
    node = group.members[1].node
    for broker in (2, 3):
        node.peer_down(broker, group.now)
    assert is_alone(group)
    node.peer_up(2, group.now)
    assert is_alone(group), "its broker is there, and nobody has answered"
    node.step(BeatAnswer(node.term, 2, "dir-2", 0, eligible=True), group.now)
    assert not is_alone(group)
    assert node.has_quorum(group.now)


def test_who_votes_is_on_disk_though_nothing_else_of_a_young_log_is() -> None:
    """Else a replica that was the first one alone, and has lost its power, takes itself for the only one still."""
    group = Group(1, 3, voters=1)
    for a, b in ((1, 2), (1, 3), (2, 3)):
        group.connect(a, b)
    elect(group, 1)
    group.want(1, 2, 3)
    for broker in group.brokers:
        group.tell_wanted(broker)
    pump(group)
    assert group.members[1].node.membership.brokers == (1, 2, 3)
    group.disks[1].crash()
    history = MembershipHistory.decode(group.disks[1].read(f"{DIRECTORY}/{MEMBERSHIP_FILE}"))
    assert history.latest.brokers == (1, 2, 3)


def test_who_votes_alone_leads_once_its_vote_is_saved() -> None:
    """Else it could die, and another one lead in the same epoch later."""
    group = group_of(1)
    group.now += 1.0
    for _ in range(5):  # its disk takes its time, and it has nobody else to wait for
        group.tick(1)
        assert role_of(group, 1) == "Candidate"
        assert group.members[1].node.term == 1
        group.now += group.config.election_retry_s_max
    group.save_vote(1)
    assert role_of(group, 1) == "Leader"


@pytest.mark.parametrize("centre", [1, 2, 3, 4])
def test_the_only_voter_that_can_reach_a_majority_of_four_is_elected(centre: int) -> None:
    """The others reach it alone. Those of a better rank are pre-candidates, too, and never win."""
    group = Group(1, 4)
    for broker in group.brokers:
        group.connect(centre, broker)
    while not group.leaders and group.now < 10:
        group.now += 0.01
        for broker in group.brokers:
            group.tick(broker)
        pump(group)
    assert set(group.leaders.values()) == {centre}


def test_a_voter_that_lost_the_membership_in_which_it_votes_leads_if_its_log_is_the_best() -> None:
    """After a power loss, broker 1 knows of both voters. Broker 2 has the later log, in which it does not vote yet."""
    group = Group(1, size=2, voters=1)
    for broker, epochs in ((1, (1, 1, 1, 1)), (2, (1, 1, 2))):
        group.kill(broker)
        log = PartitionLog.open(DIRECTORY, group.log_config, Handles(group.disks[broker]))
        for number, epoch in enumerate(epochs):
            batch = build_batch([Record(0, 1, None, b"%d of %d" % (number, epoch), ())])
            log.append(check_batches(batch), epoch=epoch, now_ms=0)
        group.votes[broker] = Vote(2, 1)
    history = MembershipHistory([(-1, ALONE), (3, BOTH)])
    group.disks[1].write_atomically(f"{DIRECTORY}/{MEMBERSHIP_FILE}", history.encode())
    for broker in (1, 2):
        group.start(broker, lost=True)
    assert not group.members[2].node.is_voter
    group.connect(1, 2)
    for _ in range(20):
        group.now += 1.0
        group.tick(1)
        group.tick(2)
        pump(group)
    assert group.leaders == {3: 2, 4: 1}, "broker 2 brings broker 1 what it lacks, and hands over to it"
    values = group.contents(group.members[1], group.members[1].log.end_offset)
    assert [values[offset] for offset in range(3)] == [b"0 of 1", b"1 of 1", b"2 of 2"]


def single_voter_that_lost_committed_records() -> Group:
    """After a power loss, broker 1 votes alone and lost its tail; broker 2 has it, and knows that it was committed."""
    group = Group(1, size=2, voters=1)
    for broker, values in ((1, 2), (2, 4)):
        group.kill(broker)
        log = PartitionLog.open(DIRECTORY, group.log_config, Handles(group.disks[broker]))
        for number in range(values):
            log.append(check_batches(build_batch([Record(0, 1, None, b"%d" % number, ())])), epoch=1, now_ms=0)
        log.high_watermark = values
        log.flush()
        log.checkpoint()
        group.votes[broker] = Vote(1, 1)
        group.told[broker] = group.wanted = (1, 2)
        losses.mark(group.disks[broker], DIRECTORY)
    for broker in (1, 2):
        group.start(broker)
    elect(group, 1)
    group.connect(1, 2)
    return group


def test_a_learner_follows_a_voter_that_lost_committed_records() -> None:
    group = single_voter_that_lost_committed_records()
    pump(group)
    for broker in (1, 2):
        group.sync(broker)
    pump(group)
    append_many(group, 1, 1)
    logs = [group.members[broker].log for broker in (1, 2)]
    assert logs[0].end_offset == logs[1].end_offset
    assert group.contents(group.members[1], 2) == group.contents(group.members[2], 2)
    assert group.members[2].node.watermark <= logs[1].end_offset


def test_a_learner_that_was_caught_up_and_restarted_follows_a_voter_that_lost_committed_records() -> None:
    """It is eligible after the restart, and a watermark above what the voters have left would hold it for ever."""
    group = single_voter_that_lost_committed_records()
    while not group.members[2].node.eligible:
        group.save_vote(2)
        group.deliver(1, 2)
        if not group.members[2].node.eligible:
            group.deliver(2, 1)
    assert (group.members[2].node.watermark, group.members[2].log.end_offset) == (2, 4)
    group.kill(2)
    group.start(2)
    assert group.members[2].node.eligible
    assert group.members[2].node.watermark == 2
    group.connect(1, 2)
    pump(group)
    append_many(group, 1, 1)
    assert group.members[2].log.end_offset == group.members[1].log.end_offset
