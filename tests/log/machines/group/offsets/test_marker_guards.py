"""Offsets that were vouched for before their transaction's marker are void, whatever else came meanwhile."""

from __future__ import annotations

import pytest

from log.machines.group.offsets import marker_guards
from log.machines.group.offsets.marker_guards import MarkerGuards
from protocol.error_codes import ErrorCode


def test_a_marker_in_between_makes_void_what_was_vouched_for() -> None:
    guards = MarkerGuards()
    before = guards.now
    guards.came(7, 1)
    assert guards.refusal(before, 7, 0) == ErrorCode.INVALID_TXN_STATE
    assert guards.refusal(before, 8, 0) == ErrorCode.NONE
    assert guards.refusal(guards.now, 7, 0) == ErrorCode.NONE


def test_the_transaction_that_begins_with_the_markers_epoch_is_not_concerned() -> None:
    guards = MarkerGuards()
    guards.came(7, 1)
    assert guards.refusal(0, 7, 1) == ErrorCode.NONE


@pytest.mark.parametrize("markers_before", [0, 1, 2])
def test_however_many_markers_come_none_is_taken_for_another(
    monkeypatch: pytest.MonkeyPatch, markers_before: int
) -> None:
    monkeypatch.setattr(marker_guards, "PRODUCERS_MAX", 3)
    guards = MarkerGuards()
    for _ in range(markers_before):
        guards.came(7, 1)
    before = guards.now
    guards.came(7, 1)
    for other in range(100, 110):
        assert guards.refusal(before, 7, 0) != ErrorCode.NONE
        guards.came(other, 1)
    assert guards.refusal(before, 7, 0) == ErrorCode.COORDINATOR_NOT_AVAILABLE, "nobody can tell"
    assert guards.refusal(guards.now, 7, 0) == ErrorCode.NONE, "but who asks again is served"


def test_those_that_came_last_are_known_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marker_guards, "PRODUCERS_MAX", 2)
    guards = MarkerGuards()
    for producer_id in (7, 8, 7, 9):
        guards.came(producer_id, 1)
    assert guards.refusal(2, 7, 0) == ErrorCode.INVALID_TXN_STATE
    assert guards.refusal(3, 7, 0) == ErrorCode.NONE
