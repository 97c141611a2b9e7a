"""What clients did and saw. Every operation ran from `begin` to `end`, by one clock, in seconds.

An outcome is `ok`, `failed` (it surely had no effect) or `unknown`. Values are unique: a value is one send.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

OK, FAILED, UNKNOWN = "ok", "failed", "unknown"
OUTCOMES = (OK, FAILED, UNKNOWN)
PLAIN, IDEMPOTENT, TRANSACTIONAL = "plain", "idempotent", "transactional"
READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"


@frozen(slots=True)
class Send:
    """A record. `producer` is one running client: the next one with the same transactional id is another."""

    producer: str
    partition: str
    value: str
    outcome: str
    begin: float
    end: float
    offset: int = -1
    kind: str = PLAIN
    transaction: str | None = None


@frozen(slots=True)
class Init:
    """A transactional producer began: all others with this id are fenced."""

    producer: str
    transactional_id: str
    outcome: str
    begin: float
    end: float


@frozen(slots=True)
class TransactionBegun:
    producer: str
    transaction: str
    begin: float
    end: float


@frozen(slots=True)
class TransactionEnded:
    """An attempt to commit or to abort. There may be several."""

    producer: str
    transaction: str
    commit: bool
    outcome: str
    begin: float
    end: float


@frozen(slots=True)
class Poll:
    """What a consumer read of one partition, going from `position` to `next_position` (-1 if unknown)."""

    consumer: str
    assignment: str
    partition: str
    records: tuple[tuple[int, str], ...]
    begin: float
    end: float
    position: int = -1
    next_position: int = -1
    isolation: str = READ_COMMITTED
    transaction: str | None = None
    """The transaction that writes the results of these records."""

    @property
    def first(self) -> int:
        """The first offset that the poll covers."""
        return self.position if self.position >= 0 or not self.records else self.records[0][0]

    @property
    def after(self) -> int:
        """The end of the offsets that the poll covers."""
        return self.next_position if self.next_position >= 0 or not self.records else self.records[-1][0] + 1


@frozen(slots=True)
class OffsetCommit:
    """How far a group has read; in a transaction, that holds if the transaction commits."""

    group: str
    partition: str
    offset: int
    outcome: str
    begin: float
    end: float
    member: str = ""
    generation: int = -1
    transaction: str | None = None


@frozen(slots=True)
class OffsetRead:
    """A committed offset as a client read it; -1 if there was none. `stable`: open transactions were waited for."""

    group: str
    partition: str
    offset: int
    begin: float
    end: float
    stable: bool = True


@frozen(slots=True)
class Joined:
    """A member learned its generation. In classic groups a new generation ends the one before for all members."""

    group: str
    member: str
    generation: int
    begin: float
    end: float
    classic: bool = True


@frozen(slots=True)
class Expelled:
    """A member left, or is known to be expelled."""

    group: str
    member: str
    begin: float
    end: float


@frozen(slots=True)
class Deleted:
    """Records below an offset were deleted: no reader has to see them any more."""

    partition: str
    below: int
    begin: float
    end: float


@frozen(slots=True)
class Settled:
    """Everything healed, and then readers had time to read everything: a record that no reader saw by now is unseen."""

    begin: float
    end: float


Operation = (
    Send | Init | TransactionBegun | TransactionEnded | Poll | OffsetCommit | OffsetRead | Joined | Expelled
    | Deleted | Settled
)  # fmt: skip

OPERATIONS: dict[str, type[Operation]] = {
    "send": Send,
    "init": Init,
    "begin": TransactionBegun,
    "end": TransactionEnded,
    "poll": Poll,
    "offset_commit": OffsetCommit,
    "offset_read": OffsetRead,
    "joined": Joined,
    "expelled": Expelled,
    "deleted": Deleted,
    "settled": Settled,
}
"""By the name of the operation in a file."""

History = Sequence[Operation]
"""The operations, in any order."""
