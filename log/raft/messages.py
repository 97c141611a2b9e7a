"""What the nodes of one group say to each other. Every message carries the sender's term.

`end` is always an exclusive batch end, `epoch` the epoch of the batch that ends there.
"""

from __future__ import annotations

from protocol.late_attrs import frozen


@frozen(slots=True)
class VoteRequest:
    """Vote for me: my log ends at (last_end, last_epoch), and in it you are a voter with this directory.

    Whether it is a voter, only the candidate's log has to know: one that was just added may not have heard of it.
    `pre` asks what the answer would be and changes nothing. `forced` comes from a leader that hands over: it is no
    disturbance, so a voter that hears a leader may grant it all the same. `membership` is the offset from which my
    membership holds: a voter that lost its log, and not the memberships in it, may know a later one.
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
    """Yes or no, to a request of this kind. Without `eligible` it counts only if every voter says yes.

    A voter that is not eligible may have acknowledged a later membership than the candidate's before it lost its log.
    It says so: whoever it elects must be elected by that `membership`, too.
    """

    term: int
    voter: int
    directory: str
    granted: bool
    pre: bool
    eligible: bool
    membership: bytes = b""


@frozen(slots=True)
class Append:
    """Batches that follow (prev_end, prev_epoch); none for a probe. Watermark and log start as the leader has them."""

    term: int
    leader: int
    prev_end: int
    prev_epoch: int
    watermark: int
    log_start: int
    batches: memoryview


@frozen(slots=True)
class SparseAppend(Append):
    """An append whose first batch lies behind others that were compacted away.

    `epochs` are those that began among these: from the batches nobody could tell any more.
    """

    epochs: bytes


@frozen(slots=True)
class Appended:
    """`ok`: everything up to `end` is verified to be the leader's (and durable, if that was asked for).

    Not ok: the logs do not meet at what the append claimed; (end, epoch) is where mine ends, or where the epoch in
    question ends here, for the leader to look up. `eligible` says whether this replica counts.
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
    """I am still your leader. Travels with the beats of every other group between the same two processes.

    If it is `certain`, nothing above this watermark was ever committed by those who led before.
    """

    term: int
    leader: int
    watermark: int
    certain: bool = False


@frozen(slots=True)
class BeatAnswer:
    """You are. Everything up to `end` is verified."""

    term: int
    follower: int
    directory: str
    end: int
    eligible: bool


@frozen(slots=True)
class BeginFromSnapshot:
    """What you need lies below my log's start: drop everything and begin there, with what I know of the rest.

    `snapshot` is what the log's records made, where that is kept; it may be of a later offset than the log's start.
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
    """I hand over to you, who have everything: call an election at once. All below `watermark` is committed."""

    term: int
    leader: int
    watermark: int


@frozen(slots=True)
class Recovered:
    """You have caught up with everything that was ever acknowledged: from now on you count and vote again."""

    term: int
    leader: int


@frozen(slots=True)
class Confirm:
    """Am I still your leader? Questions are numbered, and an answer is one to all before it."""

    term: int
    leader: int
    number: int


@frozen(slots=True)
class Confirmed:
    """You were when I got that question."""

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
