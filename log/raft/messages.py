"""What the nodes of one Raft group send to each other. Every message carries the sender's term.

`end` is always an exclusive batch end, `epoch` the epoch of the batch that ends there.
"""

from __future__ import annotations

from protocol.late_attrs import frozen


@frozen(slots=True)
class VoteRequest:
    """A candidate asks for a vote; its log ends at (last_end, last_epoch).

    In the candidate's log the receiver is a voter with `voter_directory`. Only that log decides it: a voter that was
    just added may not have received the membership yet. `pre` marks a pre-vote: it asks what the answer would be and
    changes nothing. `forced` marks the successor to which a leader transfers its leadership: a voter that hears a
    leader may grant its vote all the same. `membership` is the offset from which the candidate's membership holds: a
    voter that lost its log, and not the memberships in it, may know a later one.
    """

    term: int
    candidate: int
    voter_directory: str
    last_end: int
    last_epoch: int
    pre: bool
    forced: bool
    membership: int = -1


@frozen(slots=True)
class VoteAnswer:
    """The vote is granted or refused. The vote of an ineligible voter counts only if all voters grant theirs.

    An ineligible voter may have acknowledged a later membership than the candidate's before it lost its log. It names
    that `membership`: the candidate must be elected by its voters, too. `is_lost`: the log of this voter lacks it.
    """

    term: int
    voter: int
    directory: str
    granted: bool
    pre: bool
    eligible: bool
    membership: bytes = b""
    is_lost: bool = False


@frozen(slots=True)
class Append:
    """Batches that follow on (prev_end, prev_epoch), or none: a probe. `watermark` and `log_start` are the leader's."""

    term: int
    leader: int
    prev_end: int
    prev_epoch: int
    watermark: int
    log_start: int
    batches: memoryview


@frozen(slots=True)
class SparseAppend(Append):
    """An append whose first batch comes after batches that were compacted away.

    `epochs` are those that began in the batches that are gone: no other batch shows them any more.
    """

    epochs: bytes


@frozen(slots=True)
class Appended:
    """`ok`: everything up to `end` is verified to be the leader's, and durable if that is required.

    Not ok: the logs do not meet where the append begins; (end, epoch) is where the follower's log ends, or where the
    epoch in question ends there, for the leader to look up. `eligible`: is the follower counted in quorums?
    """

    term: int
    follower: int
    directory: str
    ok: bool
    end: int
    epoch: int
    eligible: bool


@frozen(slots=True)
class Beat:
    """A leader's heartbeat. It is sent with those of all other Raft groups between the same two processes.

    If the watermark is `certain`, no earlier leader committed anything above it.
    """

    term: int
    leader: int
    watermark: int
    certain: bool = False


@frozen(slots=True)
class BeatAnswer:
    """The answer to a heartbeat, or to a message of an older term. Everything up to `end` is verified."""

    term: int
    follower: int
    directory: str
    end: int
    eligible: bool


@frozen(slots=True)
class BeginFromSnapshot:
    """What a follower needs lies below the leader's log start: it drops its log and begins there.

    The rest of the message says what the deleted records amount to. `snapshot` is the state of the state machine, where
    one is kept; it may be of a later offset than the log start.
    """

    term: int
    leader: int
    log_start: int
    epochs: bytes
    producers: bytes
    membership: bytes
    snapshot: bytes


@frozen(slots=True)
class TimeoutNow:
    """A leader transfers its leadership: the receiver has the whole log, and stands for election at once.

    Everything below `watermark` is committed.
    """

    term: int
    leader: int
    watermark: int


@frozen(slots=True)
class Recovered:
    """An ineligible follower has been caught up with everything that is left: it is eligible from now on."""

    term: int
    leader: int


@frozen(slots=True)
class Confirm:
    """Read index: a leader asks for a confirmation that it leads. An answer confirms all earlier questions, too."""

    term: int
    leader: int
    number: int


@frozen(slots=True)
class Confirmed:
    """Read index: the sender led when its question `number` arrived."""

    term: int
    follower: int
    directory: str
    number: int
    eligible: bool


Message = (
    VoteRequest
    | VoteAnswer
    | Append
    | SparseAppend
    | Appended
    | Beat
    | BeatAnswer
    | BeginFromSnapshot
    | TimeoutNow
    | Recovered
    | Confirm
    | Confirmed
)
