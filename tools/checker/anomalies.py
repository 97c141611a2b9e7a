"""What can be wrong with a history, and the operations that show it."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator, Sequence

from attrs import frozen

from tools.checker.history import Operation


class AnomalyKind(enum.Enum):
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
    AnomalyKind.LOST_WRITE: "acknowledged; later records were read, this one was not",
    AnomalyKind.UNSEEN: "acknowledged, and still unread after everything healed",
    AnomalyKind.DUPLICATE: "one idempotent send at two offsets",
    AnomalyKind.INCONSISTENT_OFFSETS: "one offset showed two different records",
    AnomalyKind.REFUSED_WRITE: "a send that surely failed is there",
    AnomalyKind.INVENTED_RECORD: "no client sent it",
    AnomalyKind.ABORTED_READ: "a reader of committed records saw a record or offset of an aborted transaction",
    AnomalyKind.PRECOMMITTED_READ: "a reader of committed records saw it before its producer asked to commit",
    AnomalyKind.TORN_TRANSACTION: "a part of a transaction is visible and the rest never",
    AnomalyKind.CIRCULAR: "transactions that each read what the other wrote",
    AnomalyKind.POLL_SKIP: "within one assignment a consumer jumped over a record",
    AnomalyKind.NON_MONOTONIC_POLL: "within one assignment a consumer jumped back",
    AnomalyKind.NON_MONOTONIC_SEND: "a producer's acknowledged sends to a partition are out of order",
    AnomalyKind.ZOMBIE: "a fenced producer or an expelled member still got something accepted",
    AnomalyKind.LATE_MARKER: "a delayed commit or abort hit a later transaction",
    AnomalyKind.PROGRESS_LOST: "a committed group offset went back or vanished",
}


@frozen(slots=True)
class Anomaly:
    kind: AnomalyKind
    text: str
    operations: tuple[Operation, ...] = ()

    def __str__(self) -> str:
        return "\n    ".join([f"{self.kind.value}: {self.text}", *(str(one) for one in self.operations)])


def summary(anomalies: Sequence[Anomaly], shown_max: int | None) -> Iterator[tuple[str, list[Anomaly]]]:
    """For each kind: a line that counts and explains it, and its first anomalies; all of them without a maximum."""
    for kind, count in Counter(anomaly.kind for anomaly in anomalies).items():
        found = [anomaly for anomaly in anomalies if anomaly.kind is kind]
        yield f"{kind.value}: {count} ({EXPLAINED[kind]})", found[:shown_max]
