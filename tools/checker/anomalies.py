"""What can be wrong with a history, and the operations that show it."""

from __future__ import annotations

import enum

from attrs import frozen

from tools.checker.history import Operation


class Kind(enum.Enum):
    LOST_WRITE = "lost write"
    UNSEEN = "unseen"
    DUPLICATE = "duplicate"
    INCONSISTENT_OFFSETS = "inconsistent offsets"
    REFUSED_WRITE = "refused write"
    INVENTED_RECORD = "invented record"
    ABORTED_READ = "aborted read (G1a)"
    PRECOMMITTED_READ = "pre-committed read"
    TORN_TRANSACTION = "torn transaction"
    CIRCULAR = "circular information flow (G1c)"
    POLL_SKIP = "poll skip"
    NON_MONOTONIC_POLL = "non-monotonic poll"
    NON_MONOTONIC_SEND = "non-monotonic send"
    ZOMBIE = "zombie"
    LATE_MARKER = "late marker"
    PROGRESS_LOST = "consumer progress lost"


EXPLAINED = {
    Kind.LOST_WRITE: "acknowledged, what came later was read, this was not",
    Kind.UNSEEN: "acknowledged, and still unread after everything healed",
    Kind.DUPLICATE: "one idempotent send at two offsets",
    Kind.INCONSISTENT_OFFSETS: "one offset showed two different records",
    Kind.REFUSED_WRITE: "a send that surely failed is there",
    Kind.INVENTED_RECORD: "nobody sent it",
    Kind.ABORTED_READ: "a reader of committed records saw a record or offset of an aborted transaction",
    Kind.PRECOMMITTED_READ: "a reader of committed records saw it before anybody asked to commit",
    Kind.TORN_TRANSACTION: "a part of a transaction is visible and the rest never",
    Kind.CIRCULAR: "transactions that each read what the other wrote",
    Kind.POLL_SKIP: "within one assignment a consumer jumped over a record",
    Kind.NON_MONOTONIC_POLL: "within one assignment a consumer jumped back",
    Kind.NON_MONOTONIC_SEND: "a producer's acknowledged sends to a partition are out of order",
    Kind.ZOMBIE: "a fenced producer or an expelled member still got something accepted",
    Kind.LATE_MARKER: "a delayed commit or abort hit a later transaction",
    Kind.PROGRESS_LOST: "a committed group offset went back or vanished",
}


@frozen(slots=True)
class Anomaly:
    kind: Kind
    text: str
    operations: tuple[Operation, ...] = ()

    def __str__(self) -> str:
        return "\n    ".join([f"{self.kind.value}: {self.text}", *(str(one) for one in self.operations)])
