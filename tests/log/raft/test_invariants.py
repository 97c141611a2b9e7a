"""What holds of a replica between any two events is checked there, and breaks when it does not hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from log.raft.candidate import PreCandidate
from log.raft.follower import Follower
from log.raft.node import RaftNode
from log.raft.progress import Progress
from log.raft.ready import Vote
from tests.log.raft.groups import Group
from tests.log.raft.steps import append_many, leader_of
from tests.log.raft.test_paper_claims import elect, group_of


def led() -> Group:
    """Broker 1 leads, and the others have everything."""
    group = group_of()
    elect(group, 1)
    append_many(group, 1, 3)
    return group


def follower_of(node: RaftNode) -> Follower:
    assert isinstance(node.role, Follower)
    return node.role


def never_voted(group: Group) -> None:
    group.members[1].node.vote = Vote(group.members[1].node.term)


def older_term(group: Group) -> None:
    group.members[2].node.vote = Vote()


def watermark_above_the_log(group: Group) -> None:
    group.members[2].node.watermark = 4


def unknown_progress(group: Group) -> None:
    del leader_of(group, 1).progress[3]


def match_above_next(group: Group) -> None:
    leader_of(group, 1).progress[3].next = 1


def sent_beyond_the_end(group: Group) -> None:
    leader_of(group, 1).progress[3].next = 4


def ineligible_leader(group: Group) -> None:
    group.members[1].node.eligible = False


def leader_without_a_vote(group: Group) -> None:
    group.members[1].node.directory = "another"


def unasked_confirmation(group: Group) -> None:
    leader_of(group, 1).read_index.confirmed[3] = 1


def acknowledged_unverified(group: Group) -> None:
    follower_of(group.members[3].node).verified = 2


def verified_nothing_that_is_here(group: Group) -> None:
    follower_of(group.members[3].node).verified = 4


def follower_that_stands_for_election(group: Group) -> None:
    follower_of(group.members[3].node).campaign_at = 1.0


def votes_of_nobody(group: Group) -> None:
    group.members[3].node.role = PreCandidate(group.members[3].node, 1.0)


def membership_that_is_not_in_the_log(group: Group) -> None:
    node = group.members[3].node
    node.history.add(3, node.membership.without(2))


def message_that_waits_for_no_vote(group: Group) -> None:
    member = group.members[3]
    member._parked = [(1, beat) for _, beat in group.members[1].node.beats()]


@pytest.mark.parametrize(
    ("spoil", "broker", "text"),
    [
        (never_voted, 1, "a leader has voted for"),
        (older_term, 2, "term 0, and the log is of epoch 1"),
        (watermark_above_the_log, 2, "watermark 4 above the log end 3"),
        (unknown_progress, 1, r"\[2\] of {1, 2, 3}"),
        (match_above_next, 1, "broker 3: match 3, next 1"),
        (sent_beyond_the_end, 1, "broker 3: next 4, log end 3"),
        (ineligible_leader, 1, "a leader has everything that is left, and is eligible"),
        (leader_without_a_vote, 1, "it is not one of"),
        (unasked_confirmation, 1, "broker 3 confirmed question 1 of 0"),
        (acknowledged_unverified, 3, "acknowledged 3 of 2"),
        (verified_nothing_that_is_here, 3, "verified 4 of 3"),
        (follower_that_stands_for_election, 3, "it follows 1 and stands for election"),
        (votes_of_nobody, 3, "it has not voted for itself"),
        (membership_that_is_not_in_the_log, 3, "of 3, end 3"),
        (message_that_waits_for_no_vote, 3, "messages wait for no vote"),
    ],
)
def test_a_state_that_must_not_be_is_found(spoil: Callable[[Group], None], broker: int, text: str) -> None:
    group = led()
    group.members[broker].check_invariants()
    spoil(group)
    with pytest.raises(AssertionError, match=text):
        group.members[broker].check_invariants()


def test_a_window_that_is_not_freed_is_found_by_the_invariants_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else shows it until a window is full, which takes 16 MiB."""
    probe_from = Progress.probe_from

    def probe_and_keep(progress: Progress, end: int) -> None:
        in_flight_bytes = progress.in_flight_bytes
        probe_from(progress, end)
        progress.in_flight_bytes = in_flight_bytes

    def append_twice_without_an_answer() -> Group:
        group = led()
        for _ in range(2):
            group.propose(1)
        group.channels[1, 3].clear()
        group.now += group.config.append_timeout_s
        group.tick(1)
        return group

    append_twice_without_an_answer()
    monkeypatch.setattr(Progress, "probe_from", probe_and_keep)
    with pytest.raises(AssertionError, match="bytes in flight, not 0"):
        append_twice_without_an_answer()
    monkeypatch.setattr(Progress, "check_invariants", lambda *_: None)
    group = append_twice_without_an_answer()
    group.check_acknowledged(group.settle())
