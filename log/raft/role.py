"""What a role is: how a node takes part in its Raft group at the moment.

Each event reaches the role of the node. A role overrides the events that mean something to it; to all others it does
what stands here, which is nothing. Which role may follow on which is listed in node.py (TRANSITIONS).
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import ClassVar

from log.raft.messages import (
    Append,
    Appended,
    Beat,
    BeatAnswer,
    BeginFromSnapshot,
    Confirm,
    Confirmed,
    Recovered,
    TimeoutNow,
    VoteAnswer,
)
from log.raft.ready import ReadForFollower
from log.raft.state import RaftState

LeaderMessage = Append | Beat | BeginFromSnapshot | TimeoutNow | Recovered | Confirm
"""What the leader of the current term sends to its followers."""


class Role(abc.ABC):
    """Follower, PreCandidate, Candidate or Leader."""

    __slots__ = ("state",)
    leads: ClassVar[bool] = False
    follows: ClassVar[bool] = False
    is_electing: ClassVar[bool] = False
    """Does this role ask for votes?"""
    leader: int | None = None
    """The leader of this term, as far as is known here."""
    certain: bool = False
    """Is the watermark known, by a leader, to cover everything that was ever committed?"""
    certain_watermark: int | None = None
    """A leader has sent that nothing above this was committed by earlier leaders."""
    alone: bool = False
    """Does this replica lead without any other voter? See Leader.alone."""
    successor: int | None = None
    """The broker to which this leader transfers its leadership."""

    def __init__(self, state: RaftState) -> None:
        self.state = state

    # -- facts -----------------------------------------------------------------------------------------------

    @property
    def awaits_votes(self) -> bool:
        """Is a voter that can be reached still to answer?"""
        return False

    @property
    def is_idle(self) -> bool:
        """Does this replica follow no leader, and has it begun no election?"""
        return False

    def hears_leader(self, now: float) -> bool:
        """Is there a leader that an election would disturb?"""
        return False

    def wants_election(self, now: float) -> bool:
        """Would `tick` begin an election now, or try it again?"""
        return False

    def next_deadline(self) -> float | None:
        """When `tick` has something to do, at the latest."""
        return None

    def has_quorum(self, now: float) -> bool:
        """May this replica answer as the leader? See Leader.has_quorum."""
        return False

    def in_sync(self, now: float) -> set[int]:
        """The in-sync replicas, as a leader knows them."""
        return set()

    def holders(self, end: int) -> int:
        """How many voters hold everything up to `end`, as a leader knows."""
        return 0

    def confirmed(self) -> int:
        """The number of the last question to which a majority has confirmed the leadership. See read_index.py."""
        return 0

    @property
    def replicates(self) -> bool:
        """Is this a leader that has followers?"""
        return False

    @property
    def known_watermark(self) -> int:
        """The highest watermark of which this replica has heard; its log may not reach it yet."""
        return self.state.watermark

    def position(self) -> tuple[int, int]:
        """What a follower has verified and acknowledged, so that it can go back to that."""
        return 0, 0

    @abc.abstractmethod
    def check_invariants(self) -> None:
        """What holds between any two events as long as the node has this role."""

    # -- events ----------------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Time has passed."""

    def peer_up(self, broker: int, now: float) -> None:
        """A link to this broker is up."""

    def peer_down(self, broker: int, now: float, *, had_quorum: bool) -> None:
        """The link to this broker is down; `had_quorum` says what `has_quorum` said before that."""

    def leader_gone(self, now: float) -> None:
        """The leader has stepped down, or cannot be heard."""

    def vote_saved(self, now: float) -> None:
        """The vote is durable, and the messages that waited for that are on their way."""

    def yields_to(self, until: float, *, is_better: bool, insists: bool) -> bool:
        """Another candidate asks for a pre-vote: does this replica let it try, and wait itself until `until`?

        `is_better`: this replica is preferred to the candidate. `insists`: and its election has not taken long yet.
        """
        return True

    def vote_granted(self, now: float) -> None:
        """This replica has voted for another one; the vote is not durable yet."""

    def flushed(self, now: float) -> None:
        """More of the log is durable (its `flushed_offset` says how much)."""

    def follow_membership(self, now: float) -> None:
        """The voters, or the brokers with a copy, have changed, or change with the batch that is appended next."""

    def wanted_changed(self, now: float) -> None:
        """The brokers that have to be voters, or to have a copy, have changed."""

    def on_read(self, read: ReadForFollower, data: memoryview, end: int, now: float, epochs: bytes) -> None:
        """The log was read for a follower, up to `end`; `epochs` began before that, in batches that are gone."""

    def begins_inside(self, read: ReadForFollower, now: float) -> None:
        """A follower's log ends inside of a batch of this log: it is empty, and starts where records were deleted."""

    def cannot_read(self, follower: int, now: float) -> None:
        """What was to be read for this follower is damaged here."""

    def retire(self, now: float) -> bool:
        """This replica is about to stop. True if it has begun to transfer its leadership."""
        return False

    def transfer_to(self, broker: int, now: float) -> bool:
        """Transfer leadership to this broker. False if that cannot be done, or would take long."""
        return False

    def give_way(self, among: Sequence[int], now: float) -> bool:
        """Transfer leadership to one of these brokers that is in sync. False if none is."""
        return False

    def go_back_to(self, position: tuple[int, int]) -> None:
        """The last append could not be written: it is as if it had not come."""

    # -- messages --------------------------------------------------------------------------------------------

    def on_answer(self, answer: Appended | BeatAnswer, now: float) -> None:
        """A follower says how far its log is verified."""

    def on_confirmed(self, answer: Confirmed) -> None:
        """A voter confirms that this replica led when it asked."""

    def on_vote_answer(self, answer: VoteAnswer, now: float) -> None:
        """A voter has granted or refused its vote."""

    def on_leader_message(self, message: LeaderMessage, now: float) -> None:
        """The leader of this term has something to say. The node makes this replica its follower first."""
        raise AssertionError(f"{type(self).__name__} got {message!r:.100} in term {self.state.term}")

    # -- what a leader alone is asked for ------------------------------------------------------------------------

    def appended(self, base: int, data: memoryview, prev_epoch: int, now: float) -> None:
        """The own log has grown from `base` by these batches; the batch before them is of `prev_epoch`."""
        raise AssertionError(f"only a leader appends, and this is a {type(self).__name__}")

    def confirm(self, now: float) -> int:
        """Ask the voters to confirm the leadership. See read_index.py."""
        raise AssertionError(f"only a leader asks for a confirmation, and this is a {type(self).__name__}")

    def beats(self) -> list[tuple[int, Beat]]:
        """The heartbeats of a leader."""
        return []
