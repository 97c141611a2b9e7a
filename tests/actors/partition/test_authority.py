"""Whether a replica may answer, show records or append, and what it says if it may not."""

from __future__ import annotations

import pytest

from actors.messages.replica import ALL
from actors.partition.authority import Authority, Objection
from actors.raft.leadership import Leadership
from actors.raft.pulse import BEAT_SECONDS, LATE_SECONDS, Pulse
from actors.raft.replication import Replication
from log.raft.config import RaftConfig
from tests.log.raft.groups import Group
from tests.log.raft.test_paper_claims import elect, group_of, pump

NAME = "orders-0"


class Replica:
    """Of a partition that broker 1 leads and all three brokers hold; each was heard a moment ago."""

    def __init__(self, broker: int = 1, *, min_in_sync: int = 1) -> None:
        self.group: Group = group_of(config=RaftConfig(leads_alone=True))
        elect(self.group, 1)
        self.group.propose(1)
        pump(self.group)
        self.later = 0.0
        """Seconds since then."""
        self.superseded = False
        self.member = self.group.members[broker]
        self.leadership, self.pulse = Leadership(), Pulse()
        self.authority = Authority(
            NAME, self.member.node, Replication(self.member.node, self.now, min_in_sync), self.leadership, self.pulse,
            now=self.now, is_superseded=lambda: self.superseded,
        )  # fmt: skip

    def now(self) -> float:
        return self.group.now + self.later

    @property
    def epoch(self) -> int:
        return self.member.node.term

    def lose(self, *brokers: int) -> None:
        """The links to these brokers close."""
        for broker in brokers:
            self.group.disconnect(1, broker)

    def answers(self) -> dict[str, str]:
        """What it says to each kind of request from a client that names no epoch."""
        asked = {
            "answer": self.authority.to_answer(-1),
            "read": self.authority.to_read(-1),
            "append": self.authority.to_append(ALL, -1),
            "append at once": self.authority.to_append(1, -1),
        }
        return {name: "" if objection is None else objection.error.name for name, objection in asked.items()}


NOT_LEADER = dict.fromkeys(("answer", "read", "append", "append at once"), "NOT_LEADER_OR_FOLLOWER")
YES = dict.fromkeys(NOT_LEADER, "")


def test_a_leader_that_a_majority_was_heard_for_may_do_everything() -> None:
    replica = Replica()
    assert replica.answers() == YES
    replica.lose(2)
    assert replica.answers() == YES


def test_a_follower_names_the_leader() -> None:
    replica = Replica(2)
    assert replica.answers() == NOT_LEADER
    objection = replica.authority.to_append(ALL, -1)
    assert objection is not None
    assert objection.reason == "the leader is broker 1"


def test_a_leader_that_heard_no_majority_in_time_may_do_nothing() -> None:
    replica = Replica()
    replica.later = 2.0
    assert replica.answers() == NOT_LEADER


def test_a_leader_whose_process_was_asleep_takes_what_its_followers_answer() -> None:
    replica = Replica()
    replica.pulse.beat(replica.now())
    replica.later = max(2.0, BEAT_SECONDS + LATE_SECONDS + 0.1)
    assert replica.answers() == {**NOT_LEADER, "append": ""}


def test_a_replica_of_an_earlier_generation_may_do_nothing() -> None:
    replica = Replica()
    replica.superseded = True
    assert replica.answers() == NOT_LEADER


def test_a_leader_that_hands_over_appends_no_more() -> None:
    replica = Replica()
    assert replica.member.transfer_to(2, replica.now())
    assert replica.answers() == {**YES, "append": "NOT_LEADER_OR_FOLLOWER", "append at once": "NOT_LEADER_OR_FOLLOWER"}


def test_a_leader_that_lost_all_others_shows_what_is_committed_until_it_hears_of_a_later_leader() -> None:
    replica = Replica()
    replica.lose(2, 3)
    refused = "NOT_ENOUGH_REPLICAS"
    assert replica.answers() == {**NOT_LEADER, "read": "", "append": refused, "append at once": refused}
    end = replica.member.log.end_offset
    for offset, last_epoch in ((end + 1, -1), (end, replica.epoch + 1)):
        objection = replica.authority.to_read(-1, offset, last_epoch)
        assert objection is not None, "the client has read this from a later leader"
        assert objection.error.name == "NOT_LEADER_OR_FOLLOWER"
    replica.leadership.announced(NAME, 2, replica.epoch + 1, (2, 3))
    assert replica.answers() == NOT_LEADER


@pytest.mark.parametrize(("newer", "error"), [(0, ""), (-1, "FENCED_LEADER_EPOCH"), (1, "UNKNOWN_LEADER_EPOCH")])
def test_the_epoch_that_a_client_names_must_be_the_leaders(newer: int, error: str) -> None:
    replica = Replica()
    authority, epoch = replica.authority, replica.epoch + newer
    for objection in (authority.to_answer(epoch), authority.to_read(epoch), authority.to_append(ALL, epoch)):
        assert ("" if objection is None else objection.error.name) == error
        assert objection is None or objection.reason == f"the leader's epoch is {replica.epoch}"


def test_acks_all_needs_min_insync_replicas() -> None:
    replica = Replica(min_in_sync=3)
    assert replica.answers() == YES
    replica.lose(3)
    assert replica.answers() == {**YES, "append": "NOT_ENOUGH_REPLICAS"}
    objection = replica.authority.to_append(ALL, -1)
    assert isinstance(objection, Objection)
    assert objection.reason == "2 in sync, 3 needed"
