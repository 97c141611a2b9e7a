"""What clients did and saw, and what must not be found in it."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict

from attrs import define

from tools.simulator.record.report import Violation

ALL, IDEMPOTENT, ONE = "acks=all", "idempotent", "acks=1"


@define(slots=True)
class WriteOperation:
    """One append of one writer. `outcome` is ok, failed (surely not written), unknown, or open while it runs."""

    number: int
    client: str
    kind: str
    group: str
    values: tuple[bytes, ...]
    invoked_at: float
    outcome: str = "open"
    base_offset: int = -1
    epoch: int = -1
    completed_at: float = float("inf")
    attempts: int = 0
    broker: int = -1

    def __str__(self) -> str:
        values = ",".join(value.decode().rstrip(".") for value in self.values)
        at = f" at {self.base_offset} in epoch {self.epoch}" if self.base_offset >= 0 else ""
        return (
            f"{self.number} {self.client} {self.kind} {self.group} [{values}] {self.outcome}{at}, "
            f"{self.attempts} attempts, {self.invoked_at:.6f}..{self.completed_at:.6f}, last by broker {self.broker}"
        )

    @property
    def end(self) -> int:
        return self.base_offset + len(self.values)


class History:
    """Every operation, and every record that some reader saw."""

    def __init__(self) -> None:
        self.operations: list[WriteOperation] = []
        self.violations: list[Violation] = []
        self.read: dict[str, dict[int, bytes]] = defaultdict(dict)
        """Per partition: offset → value; control batches have none and are left out."""
        self.skipped: dict[str, set[int]] = defaultdict(set)
        """Per partition: offsets that were deleted before some reader came to them."""
        self.by_value: dict[bytes, WriteOperation] = {}
        self._acknowledged: dict[str, list[tuple[float, int]]] = defaultdict(list)

    def begin(self, client: str, kind: str, group: str, values: tuple[bytes, ...], now: float) -> WriteOperation:
        operation = WriteOperation(len(self.operations), client, kind, group, values, now)
        self.operations.append(operation)
        for value in values:
            self.by_value[value] = operation
        return operation

    def end(self, operation: WriteOperation, outcome: str, now: float) -> None:
        operation.outcome, operation.completed_at = outcome, now
        if outcome == "ok" and operation.kind != ONE:
            acknowledged = self._acknowledged[operation.group]
            acknowledged.append((now, max(operation.end, acknowledged[-1][1] if acknowledged else 0)))

    def acknowledged_before(self, group: str, time: float) -> int:
        """Up to where this partition was acknowledged at that time."""
        acknowledged = self._acknowledged[group]
        at = bisect_right(acknowledged, (time, 1 << 62)) - 1
        return acknowledged[at][1] if at >= 0 else 0

    def saw(self, group: str, offset: int, value: bytes, reader: str) -> None:
        """A reader read this."""
        known = self.read[group].setdefault(offset, value)
        if known != value:
            self.violate(
                "inconsistent offsets", group, f"{reader} read {value!r} at {offset}, where {known!r} was read before",
                value, known,
            )  # fmt: skip

    def violate(self, promise: str, group: str, text: str, *values: bytes) -> None:
        operations = tuple(str(self.by_value[value]) for value in values if value in self.by_value)
        self.violations.append(Violation(promise, group, text, operations))

    # -- when everything has healed ----------------------------------------------------------------------------

    def check(self, contents: dict[str, dict[int, bytes]]) -> None:
        """`contents` is every record that was ever committed."""
        for operation in self.operations:
            self._check_operation(operation, contents[operation.group])
        for group, records in contents.items():
            self._check_places(group, records)
            self._check_order([one for one in self.operations if one.group == group])

    def _check_operation(self, operation: WriteOperation, records: dict[int, bytes]) -> None:
        group, values = operation.group, operation.values
        if operation.outcome == "ok" and operation.kind != ONE:
            for offset, value in enumerate(values, start=operation.base_offset):
                if records.get(offset) != value:
                    self.violate(
                        "lost write", group,
                        f"{value!r} was acknowledged at {offset}, where {records.get(offset)!r} is", value,
                    )  # fmt: skip
                elif self.read[group].get(offset) != value and offset not in self.skipped[group]:
                    self.violate("unseen", group, f"{value!r} at {offset} was acknowledged and never read", value)

    def _check_places(self, group: str, records: dict[int, bytes]) -> None:
        places: dict[bytes, int] = {}
        for offset, value in records.items():
            if value in places:
                self.violate("duplicate", group, f"{value!r} is at {places[value]} and at {offset}", value)
            places[value] = offset
            operation = self.by_value.get(value)
            if operation is None or operation.group != group:
                self.violate("invented record", group, f"no client wrote {value!r} here, at {offset}", value)
            elif operation.outcome == "failed":
                self.violate("refused write is there", group, f"{value!r} was refused and is at {offset}", value)
        for offset, value in self.read[group].items():
            if records.get(offset) != value:
                self.violate(
                    "read of uncommitted", group, f"{value!r} was read at {offset}, where {records.get(offset)!r} is",
                    value,
                )  # fmt: skip

    def _check_order(self, operations: list[WriteOperation]) -> None:
        """What was acknowledged before something else was begun lies before it."""
        done = sorted((one for one in operations if one.outcome == "ok" and one.kind != ONE), key=_completed_at)
        latest, at = None, 0
        for operation in sorted(done, key=_invoked_at):
            while at < len(done) and done[at].completed_at < operation.invoked_at:
                if latest is None or done[at].base_offset > latest.base_offset:
                    latest = done[at]
                at += 1
            if latest is not None and operation.base_offset < latest.end:
                self.violate(
                    "non-monotonic send", operation.group,
                    f"{operation.base_offset} was given out after {latest.base_offset} was acknowledged",
                    operation.values[0], latest.values[0],
                )  # fmt: skip


def _completed_at(operation: WriteOperation) -> float:
    return operation.completed_at


def _invoked_at(operation: WriteOperation) -> float:
    return operation.invoked_at
