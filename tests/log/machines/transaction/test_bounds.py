"""What clients make a transaction coordinator write has a bound, and can always be loaded."""

from __future__ import annotations

import pytest

from log.machines.transaction import machine
from log.machines.transaction.config import TransactionConfig
from log.machines.transaction.machine import TransactionMachine
from protocol.error_codes import ErrorCode
from protocol.messages.transaction_records import TransactionLogValue
from protocol.schema.codec import decode_versioned, encode_versioned, version_of
from tests.log.machines.transaction.driven import Driven

BYTES_MAX = 2_000


class Small(Driven):
    """A coordinator whose records may have BYTES_MAX bytes."""

    def new_machine(self) -> TransactionMachine:
        return TransactionMachine(
            self.config, self.epoch, lambda group: len(group) % 50, lambda _: True, lambda: BYTES_MAX
        )


@pytest.mark.parametrize(("version", "error"), [(3, ErrorCode.MESSAGE_TOO_LARGE), (5, ErrorCode.TRANSACTION_ABORTABLE)])
def test_a_transaction_has_as_many_partitions_as_fit_its_record_and_ends_after_a_failover(
    version: int, error: ErrorCode
) -> None:
    driven = Small()
    producer = driven.begin()
    added = 0
    while driven.add(producer, added, added + 1, version=version) == ErrorCode.NONE:
        added += 2
    assert driven.add(producer, added, version=version) in (ErrorCode.NONE, error)
    assert driven.add(producer, *range(added, added + 10), version=version) == error
    assert driven.add(producer, 0, topic="b" * BYTES_MAX, version=version) == error
    assert 300 <= added <= BYTES_MAX // 4
    assert max(len(value or b"") for _, value in driven.log) <= BYTES_MAX
    driven.fail_over()
    assert driven.add(producer, 0, version=version) == ErrorCode.NONE, "it is in the transaction already"
    assert driven.end(producer).error_code == ErrorCode.NONE
    (markers,) = driven.markers
    assert len(markers.partitions) >= added


def test_a_partition_has_at_most_so_many_transactional_ids_and_those_that_exist_go_on() -> None:
    driven = Driven(TransactionConfig(transaction_state_log_max_ids_per_partition=2))
    first = driven.begin("a")
    driven.begin("b")
    assert driven.init("c").error_code == ErrorCode.POLICY_VIOLATION
    assert driven.init("a").error_code == ErrorCode.NONE
    driven.fail_over()
    assert driven.init("c").error_code == ErrorCode.POLICY_VIOLATION
    assert driven.init("a").producer_id == first[0]


def test_so_many_requests_wait_for_producer_ids_and_more_are_told_to_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "WAITING_MAX", 2)
    driven = Driven(ids=0)
    assert [driven.init(name) for name in "ab"] == [None, None]
    assert driven.init("c").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    driven.give_ids(3)
    assert sorted(answer.producer_id for answer in driven.answers.values()) == [1000, 1001]
    assert driven.init("c").error_code == ErrorCode.NONE


def test_to_end_a_transaction_without_an_id_is_refused() -> None:
    assert Driven().end((1, 0), name="").error_code == ErrorCode.INVALID_REQUEST


def test_a_transaction_that_ends_and_has_no_partitions_left_is_completed_by_the_next_coordinator() -> None:
    driven = Driven()
    producer = driven.begin()
    driven.add(producer, 0)
    driven.end(producer)
    key, value = driven.log[-1]
    assert value is not None
    prepared = decode_versioned(TransactionLogValue, value)
    prepared.transaction_partitions = []
    driven.log[-1] = (key, encode_versioned(prepared, version_of(value)))
    driven.fail_over()
    assert (driven.state, driven.markers) == ("CompleteCommit", [])
