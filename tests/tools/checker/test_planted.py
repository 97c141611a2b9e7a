"""One planted history per anomaly, and its like in which nothing is wrong."""

from __future__ import annotations

import pytest

from tools.checker.anomalies import EXPLAINED, AnomalyKind
from tools.checker.check import check
from tools.checker.history import (
    FAILED,
    IDEMPOTENT,
    OK,
    PLAIN,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    TRANSACTIONAL,
    UNKNOWN,
    Deleted,
    Expelled,
    Init,
    Joined,
    OffsetCommit,
    OffsetRead,
    Operation,
    Poll,
    Send,
    Settled,
    TransactionBegun,
    TransactionEnded,
)


def sent(
    value: str, offset: int, at: float = 1, *, outcome: str = OK, kind: str = IDEMPOTENT, producer: str = "p",
    partition: str = "a-0", transaction: str | None = None,
) -> Send:  # fmt: skip
    return Send(producer, partition, value, outcome, at, at + 0.5, offset, kind, transaction)


def in_transaction(value: str, offset: int, transaction: str, at: float = 1, **kw: str) -> Send:
    partition, producer = kw.get("partition", "a-0"), kw.get("producer", "p")
    outcome = kw.get("outcome", OK)
    return Send(producer, partition, value, outcome, at, at + 0.5, offset, TRANSACTIONAL, transaction)


def ended(transaction: str, at: float, *, commit: bool, outcome: str = OK, producer: str = "p") -> TransactionEnded:
    return TransactionEnded(producer, transaction, commit, outcome, at, at + 0.5)


def polled(
    *records: tuple[int, str], at: float = 90, first: int = -1, after: int = -1, consumer: str = "c",
    assignment: str = "1", partition: str = "a-0", isolation: str = READ_COMMITTED, transaction: str | None = None,
) -> Poll:  # fmt: skip
    return Poll(consumer, assignment, partition, records, at, at + 0.5, first, after, isolation, transaction)


def committed(offset: int, at: float, **kw: object) -> OffsetCommit:
    made: dict[str, object] = {"member": "m", "generation": 1, "outcome": OK, **kw}
    return OffsetCommit("g", "a-0", offset, begin=at, end=at + 0.5, **made)  # type: ignore[arg-type]


def offset_read(offset: int, at: float, *, stable: bool = True) -> OffsetRead:
    return OffsetRead("g", "a-0", offset, at, at + 0.5, stable)


def kinds(*operations: Operation) -> list[AnomalyKind]:
    return [anomaly.kind for anomaly in check(operations)]


SETTLED = Settled(50, 100)


PLANTED: dict[AnomalyKind, list[list[Operation]]] = {
    AnomalyKind.LOST_WRITE: [
        [sent("x", 0), sent("y", 1, 2), sent("z", 2, 3), polled((0, "x"), (2, "z"))],
        [sent("x", 0), sent("y", 1, 2), polled((1, "y"), first=0)],
        [in_transaction("x", 0, "t"), ended("t", 2, commit=True), polled(first=0, after=2)],
        [
            in_transaction("x", 0, "t"),
            ended("t", 2, commit=True),
            polled((0, "x"), isolation=READ_UNCOMMITTED),
            polled(consumer="d", first=0, after=2),
        ],
    ],
    AnomalyKind.UNSEEN: [
        [sent("x", 0), sent("y", 1, 2), polled((0, "x")), SETTLED],
        [in_transaction("x", 0, "t"), ended("t", 2, commit=True), SETTLED],
        [sent("x", -1), sent("y", 0, 2), polled((0, "y")), SETTLED],
    ],
    AnomalyKind.DUPLICATE: [[sent("x", 0), polled((0, "x"), (1, "x"))]],
    AnomalyKind.INCONSISTENT_OFFSETS: [
        [
            sent("x", -1, outcome=UNKNOWN),
            sent("y", -1, 2, outcome=UNKNOWN),
            polled((0, "x")),
            polled((0, "y"), consumer="d"),
        ],
        [sent("x", 0), sent("y", -1, 2, outcome=UNKNOWN), polled((0, "y"))],
    ],
    AnomalyKind.REFUSED_WRITE: [[sent("x", -1, outcome=FAILED), polled((0, "x"))]],
    AnomalyKind.INVENTED_RECORD: [[polled((0, "x"))], [sent("x", 0, partition="b-0"), polled((0, "x"))]],
    AnomalyKind.ABORTED_READ: [
        [in_transaction("x", 0, "t"), ended("t", 2, commit=False), polled((0, "x"))],
        [in_transaction("x", 0, "t"), ended("t", 2, commit=True, outcome=FAILED), polled((0, "x"))],
        [committed(5, 1, transaction="t"), ended("t", 2, commit=False), offset_read(5, 9)],
    ],
    AnomalyKind.PRECOMMITTED_READ: [
        [in_transaction("x", 0, "t"), ended("t", 20, commit=True), polled((0, "x"), at=10)],
        [TransactionBegun("p", "t", 0, 0), in_transaction("x", 0, "t"), polled((0, "x"), at=10)],
    ],
    AnomalyKind.TORN_TRANSACTION: [
        [
            in_transaction("x", 0, "t"), in_transaction("y", 0, "t", partition="b-0"), ended("t", 2, commit=True),
            polled((0, "x")), polled(first=0, after=2, partition="b-0"),
        ],
        [
            in_transaction("x", 0, "t"), in_transaction("y", 0, "t", partition="b-0"),
            ended("t", 2, commit=True, outcome=UNKNOWN),
            polled((0, "x")), polled(first=0, after=2, partition="b-0"),
        ],
        [committed(3, 1), committed(5, 2, transaction="t"), ended("t", 3, commit=True), offset_read(3, 9)],
    ],
    AnomalyKind.CIRCULAR: [
        [
            in_transaction("x", 0, "t"),
            in_transaction("y", 0, "u", producer="q", partition="b-0"),
            polled((0, "y"), transaction="t", partition="b-0"),
            polled((0, "x"), transaction="u", consumer="d"),
            ended("t", 5, commit=True),
            ended("u", 5, commit=True, producer="q"),
        ]
    ],
    AnomalyKind.POLL_SKIP: [
        [
            sent("x", 0), sent("y", 1, 2), sent("z", 2, 3),
            polled((0, "x"), (1, "y"), (2, "z")),
            polled((0, "x"), consumer="d"), polled((2, "z"), consumer="d", at=91),
        ],
        [
            sent("x", 0), sent("y", 1, 2), sent("z", 2, 3),
            polled((0, "x"), (1, "y"), (2, "z")),
            polled((0, "x"), (2, "z"), consumer="d"),
        ],
    ],
    AnomalyKind.NON_MONOTONIC_POLL: [
        [sent("x", 0), sent("y", 1, 2), polled((0, "x"), (1, "y")), polled((1, "y"), at=91)],
        [sent("x", 0), sent("y", 1, 2), polled((1, "y"), (0, "x"), first=0, after=2)],
    ],
    AnomalyKind.NON_MONOTONIC_SEND: [
        [sent("x", 1), sent("y", 0, 1.2)],
        [sent("x", 1, kind=PLAIN), sent("y", 0, 2, kind=PLAIN)],
    ],
    AnomalyKind.ZOMBIE: [
        [
            Init("p", "id", OK, 0, 0.5), Init("q", "id", OK, 1, 2),
            in_transaction("x", 0, "t", 3), ended("t", 4, commit=True, outcome=FAILED),
        ],
        [Init("p", "id", OK, 0, 0.5), Init("q", "id", OK, 1, 2), ended("t", 4, commit=False)],
        [Joined("g", "m", 1, 0, 1), Joined("g", "n", 2, 2, 3), committed(5, 4)],
        [Joined("g", "m", 1, 0, 1, classic=False), Expelled("g", "m", 2, 3), committed(5, 4)],
    ],
    AnomalyKind.LATE_MARKER: [
        [
            in_transaction("x", 0, "t"), ended("t", 2, commit=True, outcome=UNKNOWN), ended("t", 3, commit=True),
            in_transaction("y", 2, "u", 4), ended("u", 6, commit=False),
            polled((0, "x"), (2, "y")),
        ],
        [
            in_transaction("x", 0, "t"), ended("t", 2, commit=False, outcome=UNKNOWN),
            in_transaction("y", 2, "u", 4), ended("u", 6, commit=True),
            polled(first=0, after=4),
        ],
    ],
    AnomalyKind.PROGRESS_LOST: [
        [committed(3, 1), committed(5, 2), offset_read(3, 9)],
        [committed(3, 1), offset_read(-1, 9)],
        [committed(3, 1), offset_read(4, 9)],
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "operations"), [(kind, operations) for kind, several in PLANTED.items() for operations in several]
)
def test_a_planted_anomaly_is_found_by_its_name(kind: AnomalyKind, operations: list[Operation]) -> None:
    (anomaly, *others) = check(operations)
    assert anomaly.kind is kind
    assert [one.kind for one in others if one.kind is not kind] == []
    assert anomaly.operations
    assert str(anomaly).startswith(kind.value)


def test_every_anomaly_is_planted_and_explained() -> None:
    assert set(PLANTED) == set(EXPLAINED) == set(AnomalyKind)


CLEAN: dict[str, list[Operation]] = {
    "nothing": [],
    "a reader that starts later does not see what was before": [
        sent("x", 0), sent("y", 1, 2), polled((0, "x"), (1, "y")), polled((1, "y"), consumer="d"), SETTLED,
    ],
    "plain retries may double": [sent("x", 0, kind=PLAIN), polled((0, "x"), (1, "x")), SETTLED],
    "an unknown send may be there or not": [
        sent("x", -1, outcome=UNKNOWN), sent("y", -1, 2, outcome=UNKNOWN), polled((0, "y")), SETTLED,
    ],
    "it is there, wherever": [sent("x", -1), sent("y", 0, 2), polled((0, "y"), (1, "x")), SETTLED],
    "markers are no records": [
        in_transaction("x", 0, "t"), ended("t", 2, commit=True), in_transaction("y", 2, "u", 3),
        ended("u", 4, commit=True), polled((0, "x"), (2, "y"), first=0, after=4), SETTLED,
    ],
    "aborted records are passed over": [
        in_transaction("x", 0, "t"), ended("t", 2, commit=False), sent("y", 2, 3, producer="q"),
        polled((2, "y"), first=0, after=3), SETTLED,
    ],
    "a reader of uncommitted records sees them": [
        in_transaction("x", 0, "t"), ended("t", 20, commit=False),
        polled((0, "x"), at=10, isolation=READ_UNCOMMITTED), SETTLED,
    ],
    "for a while a part of a transaction is visible": [
        in_transaction("x", 0, "t"), in_transaction("y", 0, "t", partition="b-0"), ended("t", 2, commit=True),
        polled((0, "x")), polled(first=0, after=0, partition="b-0"),
    ],
    "an unknown commit that did not happen": [
        in_transaction("x", 0, "t"), ended("t", 2, commit=True, outcome=UNKNOWN), polled(first=0, after=2), SETTLED,
    ],
    "skips and repeats across assignments": [
        sent("x", 0), sent("y", 1, 2), sent("z", 2, 3), polled((0, "x"), (1, "y"), (2, "z")),
        polled((0, "x"), consumer="d"), polled((2, "z"), consumer="d", assignment="2", at=91),
        polled((0, "x"), consumer="d", assignment="3", at=92), SETTLED,
    ],
    "what is deleted nobody must see": [
        sent("x", 0), sent("y", 1, 2), polled((1, "y"), first=0), Deleted("a-0", 1, 5, 6), SETTLED,
    ],
    "plain sends at the same time may be in any order": [
        sent("x", 1, kind=PLAIN), sent("y", 0, 1.2, kind=PLAIN), polled((0, "y"), (1, "x")), SETTLED,
    ],
    "a producer that begins again is fenced no more": [
        Init("p", "id", OK, 0, 0.5), Init("q", "id", OK, 1, 2), Init("p", "id", OK, 3, 4),
        in_transaction("x", 0, "t", 5), ended("t", 6, commit=True), polled((0, "x")), SETTLED,
    ],
    "a poll that found nothing, and knows only how far it came": [
        sent("x", 0), sent("y", 1, 2), polled((0, "x"), (1, "y")), polled(at=91, after=3), SETTLED,
    ],
    "a group that goes back on purpose": [
        committed(5, 1), committed(3, 2), offset_read(3, 9), committed(4, 10, outcome=UNKNOWN), offset_read(3, 12),
        offset_read(4, 13),
    ],
    "offsets while a marker is under way": [
        committed(3, 1), committed(5, 2, transaction="t"), ended("t", 3, commit=True), offset_read(3, 9, stable=False),
        offset_read(5, 10),
    ],
    "a member that joined again": [
        Joined("g", "m", 1, 0, 1, classic=False), Expelled("g", "m", 2, 3), Joined("g", "m", 2, 4, 5, classic=False),
        committed(5, 6, generation=2),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", CLEAN)
def test_what_is_normal_is_not_reported(name: str) -> None:
    assert check(CLEAN[name]) == []
