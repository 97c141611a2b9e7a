"""The roles of a node, what each of them knows, and which may become which.

    Follower ──► PreCandidate ──► Candidate ──► Leader
       ▲  ▲            │              │            │
       │  └────────────┴──────────────┴────────────┘   a newer term, a leader's append, a lost quorum,
       │                                               a later generation
       └─ Follower of another leader

A pre-candidate asks whether it would win before it disturbs anybody with a new term. A leader that hands over lets its
successor skip that.
"""

from __future__ import annotations

from log.raft.membership import Membership
from log.raft.progress import Progress


class Follower:
    """Follows `leader`, or nobody yet. `verified` is how far our log is known to be the leader's, in this term."""

    __slots__ = ("acknowledged", "campaign_at", "certain_watermark", "leader", "leader_watermark", "verified")

    def __init__(self, leader: int | None, campaign_at: float | None) -> None:
        self.leader = leader
        self.campaign_at = campaign_at
        self.verified = 0
        self.acknowledged = 0
        self.leader_watermark = 0
        self.certain_watermark: int | None = None
        """Below this is all that was committed before, says the leader."""


class PreCandidate:
    """Asks whether it would be elected. `sure` are the votes of those that lost nothing.

    `later` are memberships that voters know who lost their logs: it must be elected by each of them, too.
    """

    __slots__ = ("granted", "later", "refused", "retry_at", "sure")

    def __init__(self, retry_at: float) -> None:
        self.granted: set[int] = set()
        self.sure: set[int] = set()
        self.refused: set[int] = set()
        self.later: list[Membership] = []
        self.retry_at = retry_at


class Candidate:
    """Asks to be elected in its term. `relinked` are those to whom there is a new link since; the rest is as above."""

    __slots__ = ("asked_at", "forced", "granted", "later", "refused", "relinked", "retry_at", "sure")

    def __init__(self, asked_at: float, retry_at: float, *, forced: bool) -> None:
        self.asked_at = asked_at
        self.granted: set[int] = set()
        self.sure: set[int] = set()
        self.refused: set[int] = set()
        self.later: list[Membership] = []
        self.relinked: set[int] = set()
        self.retry_at = retry_at
        self.forced = forced


class Leader:
    """Leads its term. `certain` once the watermark is known to cover everything that was ever committed.

    `alone`: it had its quorum until the links to all other voters closed, and none of them has answered since. Nobody
    is left whom it could keep from electing another, so it goes on as a leader, for those who read
    (RaftConfig.leads_alone).
    """

    __slots__ = (
        "alone", "asked_at", "certain", "confirmed", "passed_over", "progress", "question", "successor",
        "successor_until", "term_start",
    )  # fmt: skip

    def __init__(self, term_start: int, *, certain: bool) -> None:
        self.progress: dict[int, Progress] = {}
        self.term_start = term_start
        self.certain = certain
        self.alone = False
        self.successor: int | None = None
        self.successor_until = 0.0
        self.passed_over: set[int] = set()
        """Those who were to take over and did not: others are asked first."""
        self.question = 0
        """How often the others were asked whether it leads, and when last."""
        self.asked_at = 0.0
        self.confirmed: dict[int, int] = {}
        """The last question that each of them has answered."""


Role = Follower | PreCandidate | Candidate | Leader

TRANSITIONS: dict[type, tuple[type, ...]] = {
    Follower: (Follower, PreCandidate, Candidate),
    PreCandidate: (Follower, PreCandidate, Candidate),
    Candidate: (Follower, PreCandidate, Leader),
    Leader: (Follower,),
}
