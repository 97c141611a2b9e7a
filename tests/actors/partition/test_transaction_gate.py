"""What a replica does with batches that wait for a coordinator's word, when something else comes first."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from actors.messages.coordinator import CoordinatedBytes
from actors.messages.replica import AppendMarker, AppendRecords, AppendResult
from actors.partition import transaction_gate
from actors.partition.transaction_gate import VERIFIES_VERSION, TransactionGate, _error_in
from actors.runtime import Future, Payload
from actors.runtime.simulation import Simulation
from log.partition.admission import Admitted
from log.segment.producer_state import ProducerStates
from protocol.error_codes import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from protocol.records.batches import check_batches
from protocol.schema.codec import encode
from tests.log.log_model import batch


class Gate:
    """Of a replica that appends whatever it is let."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.vouches: list[Callable[[ErrorCode], None]] = []
        self.appended: list[Future[AppendResult]] = []
        monkeypatch.setattr(transaction_gate, "ask_to_vouch", lambda *asked, **_adds: self.vouches.append(asked[-1]))
        log: Any = SimpleNamespace(producers=ProducerStates())
        unused: Any = None
        self.gate = TransactionGate(("orders", 0), log, unused, unused, self._append, unused)
        self._scheduler = Simulation(seed=1).scheduler

    def park(self, epoch: int) -> Future[AppendResult]:
        data = batch(producer=(5, epoch, 0), transactional=True)
        reply: Future[AppendResult] = Future(self._scheduler)
        request = AppendRecords(-1, 1000, Payload(memoryview(data)), transactional_id="t")
        self.gate.park(request, Admitted(check_batches(data), -1), reply)
        return reply

    def _append(self, _request: Any, _admitted: Any, reply: Future[AppendResult], _guard: int) -> None:
        self.appended.append(reply)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch)


def test_a_newer_epoch_goes_on_and_what_waits_of_an_older_one_is_refused(gate: Gate) -> None:
    old, new = gate.park(0), gate.park(1)
    assert old.get().error == ErrorCode.INVALID_PRODUCER_EPOCH
    for vouch in gate.vouches:
        vouch(ErrorCode.NONE)
    assert gate.appended == [new]


def test_what_was_vouched_for_before_a_marker_came_begins_nothing(gate: Gate) -> None:
    parked = gate.park(0)
    gate.gate.ended(AppendMarker(5, 0, commit=False, coordinator_epoch=0, transaction_version=1))
    assert parked.get().error == ErrorCode.INVALID_TXN_STATE
    (vouch,) = gate.vouches
    vouch(ErrorCode.NONE)
    assert gate.appended == []


def test_what_was_answered_while_it_waited_is_not_appended(gate: Gate) -> None:
    parked = gate.park(0)
    parked.set(AppendResult(ErrorCode.REQUEST_TIMED_OUT, -1, -1, ""))
    (vouch,) = gate.vouches
    vouch(ErrorCode.NONE)
    assert gate.appended == []


def test_what_a_coordinator_says_of_the_transactional_id_is_passed_on(gate: Gate) -> None:
    parked = gate.park(0)
    (vouch,) = gate.vouches
    vouch(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    assert parked.get().error == ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED), "CLUSTER_AUTHORIZATION_FAILED"),
        (AddPartitionsToTxnResponse(), "INVALID_TXN_STATE"),
    ],
)
def test_an_answer_that_vouches_for_no_partition_is_a_refusal(response: AddPartitionsToTxnResponse, error: str) -> None:
    told = CoordinatedBytes(0, Payload(memoryview(b"".join(encode(response, VERIFIES_VERSION)))))
    assert _error_in(told, VERIFIES_VERSION).name == error
