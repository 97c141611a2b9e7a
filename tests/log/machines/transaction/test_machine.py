"""What a transaction coordinator answers, writes, and asks for."""

from __future__ import annotations

from typing import Any

import pytest

from log.machines.transaction import machine
from log.machines.transaction.config import TransactionConfig
from log.machines.transaction.effects import Markers
from log.machines.transaction.machine import BEHIND_MAX
from log.machines.transaction.transaction import Transaction
from protocol.error_codes import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnTopic
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.transaction_records import TransactionLogKey, TransactionLogValue
from protocol.schema.codec import decode_versioned
from tests.log.machines.transaction.driven import WAITS, Driven

LAST_EPOCH = 32766
FENCED, CONCURRENT = ErrorCode.PRODUCER_FENCED, ErrorCode.CONCURRENT_TRANSACTIONS
MAPPING, WRONG_STATE = ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_TXN_STATE


def at_last_epoch(driven: Driven) -> tuple[int, int]:
    """The producer of `t` has used up its epochs."""
    first = driven.begin()
    value = decode_versioned(TransactionLogValue, driven.log[-1][1] or b"")
    transaction = Transaction.of("t", value)
    transaction.producer_epoch = LAST_EPOCH
    driven.log.append(transaction.record())
    driven.fail_over()
    return first[0], LAST_EPOCH


# -- InitProducerId ------------------------------------------------------------------------------------------------


def test_every_new_producer_of_a_transactional_id_gets_the_next_epoch() -> None:
    driven = Driven()
    assert driven.begin() == (1000, 0)
    assert driven.begin() == (1000, 1)
    assert driven.begin("u") == (1001, 0)
    driven.fail_over()
    assert driven.begin() == (1000, 2)
    assert decode_versioned(TransactionLogKey, driven.log[-1][0]).transactional_id == "t"


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_has_to_be_possible(timeout_ms: int) -> None:
    driven = Driven()
    assert driven.init(timeout_ms=timeout_ms).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert driven.log == []


def test_what_is_no_request_is_refused() -> None:
    driven = Driven()
    assert driven.init("").error_code == ErrorCode.INVALID_REQUEST
    assert driven.init(producer=(5, -1)).error_code == ErrorCode.INVALID_REQUEST
    assert driven.init(two_phase=True, version=6).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert driven.init(keep=True, version=6).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_an_open_transaction_is_aborted_before_another_producer_begins() -> None:
    driven = Driven()
    first = driven.begin()
    assert driven.add(first, 0, 1) == 0
    assert driven.init().error_code == CONCURRENT
    assert driven.markers == [Markers("t", 1000, 1, False, 0, 2, (("a", 0), ("a", 1)))]
    assert driven.add(first, 2) == FENCED
    assert driven.end(first).error_code == FENCED
    assert driven.init().error_code == CONCURRENT
    driven.write_markers()
    assert driven.state == "CompleteAbort"
    assert driven.begin() == (1000, 2)


def test_a_producer_that_names_its_epoch_goes_on_unless_another_came_in_between() -> None:
    driven = Driven()
    first = driven.begin()
    second = driven.begin(producer=first)
    assert second == (1000, 1)
    assert driven.begin(producer=first) == second, "a retry"
    assert driven.begin() == (1000, 2)
    assert driven.init(producer=second).error_code == FENCED
    assert driven.init(producer=second, version=3).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert driven.init(producer=(77, 0)).error_code == FENCED


def test_a_retry_gets_what_it_got_before_from_another_coordinator_too() -> None:
    driven = Driven()
    first = driven.begin()
    second = driven.begin(producer=first)
    driven.fail_over()
    assert driven.begin(producer=first, version=4) == second
    third = driven.begin(producer=second)
    driven.fail_over()
    assert driven.init(producer=first).error_code == FENCED, "only the last one may be a retry"
    assert driven.begin(producer=second) == third
    driven.begin()
    driven.fail_over()
    assert driven.init(producer=second).error_code == FENCED, "another came in between"
    assert driven.init(producer=third).error_code == FENCED


def test_a_producer_goes_on_at_another_coordinator_once_its_open_transaction_is_aborted() -> None:
    driven = Driven()
    first = driven.begin()
    driven.add(first, 0)
    assert driven.init(producer=first).error_code == CONCURRENT
    driven.fail_over()
    assert driven.init(producer=first).error_code == CONCURRENT
    driven.write_markers()
    driven.fail_over()
    assert driven.begin(producer=first) == (1000, 1)


def test_a_fenced_producer_cannot_abort_its_successors_transaction_by_naming_its_old_epoch() -> None:
    driven = Driven()
    first, second = driven.begin(), driven.begin()
    driven.add(second, 0)
    assert driven.init(producer=first).error_code == FENCED
    assert driven.state == "Ongoing"


def test_after_the_last_epoch_there_is_a_new_producer_id() -> None:
    driven = Driven()
    last = at_last_epoch(driven)
    second = driven.begin(producer=last)
    assert second == (1100, 0)
    assert driven.begin(producer=last) == second, "a retry"
    assert driven.begin() == (1100, 1)


def test_a_retry_gets_the_new_producer_id_from_another_coordinator_too() -> None:
    driven = Driven()
    last = at_last_epoch(driven)
    second = driven.begin(producer=last)
    driven.fail_over()
    assert driven.begin(producer=last) == second
    driven.begin()
    driven.fail_over()
    assert driven.init(producer=last).error_code == FENCED


# -- partitions ----------------------------------------------------------------------------------------------------


def test_partitions_are_written_once() -> None:
    driven = Driven()
    producer = driven.begin()
    assert driven.add(producer, 0) == 0
    size = len(driven.log)
    assert driven.add(producer, 0) == 0
    assert len(driven.log) == size
    assert driven.add(producer, 0, 1) == 0
    assert driven.describe().topics[0].partitions == [0, 1]


@pytest.mark.parametrize("version", [3, 5])
def test_partitions_that_are_not_known_are_not_added(version: int) -> None:
    """Nobody could tell later whether they are gone, and need no marker, or are not known yet."""
    driven = Driven()
    producer = driven.begin()
    driven.unknown = {("a", 7)}
    written = len(driven.log)
    assert driven.add(producer, 7, version=version) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topics = [AddPartitionsToTxnTopic(name="a", partitions=[0, 7])]
    result = driven._add_batched(producer, topics, "t", 5, verify_only=False)
    assert [one.partition_error_code for one in result.results_by_partition] == [
        ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]  # fmt: skip
    assert len(driven.log) == written
    driven.unknown = set()
    assert driven.add(producer, 7, version=version) == 0


def test_only_its_producer_adds_to_a_transaction() -> None:
    driven = Driven()
    producer = driven.begin()
    assert driven.add((7, 0), 0) == MAPPING
    assert driven.add((producer[0], 5), 0) == FENCED
    assert driven.add((producer[0], 5), 0, version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert driven.add(producer, 0, name="u") == MAPPING
    assert driven.add(producer, 0, name="") == ErrorCode.INVALID_REQUEST


def test_a_broker_learns_which_partitions_are_in_a_transaction() -> None:
    driven = Driven()
    producer = driven.begin()
    assert driven.verify(producer, 0) == [ErrorCode.TRANSACTION_ABORTABLE]
    assert driven.add(producer, 0, version=5) == 0
    assert driven.verify(producer, 0, 1) == [0, ErrorCode.TRANSACTION_ABORTABLE]
    assert driven.verify((producer[0], 4), 0) == [FENCED]
    driven.end(producer)
    assert driven.verify(producer, 0) == [CONCURRENT]
    driven.write_markers()
    assert driven.verify(producer, 0) == [ErrorCode.TRANSACTION_ABORTABLE]


def test_a_groups_offsets_are_a_partition_too() -> None:
    driven = Driven()
    producer = driven.begin()
    request = AddOffsetsToTxnRequest(
        transactional_id="t", producer_id=producer[0], producer_epoch=producer[1], group_id="five5"
    )
    assert driven.ask(request, 3).error_code == 0
    assert [(one.topic, one.partitions) for one in driven.describe().topics] == [("__consumer_offsets", [5])]
    request.group_id = ""
    assert driven.ask(request, 3).error_code == ErrorCode.INVALID_GROUP_ID


# -- EndTxn --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_classic_end(commit: bool) -> None:
    driven = Driven()
    producer = driven.begin()
    assert driven.end(producer, commit=commit).error_code == WRONG_STATE
    driven.add(producer, 0, 1)
    assert driven.end(producer, commit=commit).error_code == 0
    assert driven.markers == [Markers("t", 1000, 0, commit, 0, 0, (("a", 0), ("a", 1)))]
    assert driven.end(producer, commit=commit).error_code == CONCURRENT
    assert driven.end(producer, commit=not commit).error_code == WRONG_STATE
    driven.write_markers(lambda partition: partition == ("a", 0))
    assert driven.state == ("PrepareCommit" if commit else "PrepareAbort")
    driven.write_markers()
    assert driven.state == ("CompleteCommit" if commit else "CompleteAbort")
    assert driven.end(producer, commit=commit).error_code == 0
    assert driven.end(producer, commit=not commit).error_code == WRONG_STATE
    assert driven.end((producer[0], 9), commit=commit, version=1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert driven.add(producer, 3) == 0
    assert driven.describe().topics[0].partitions == [3]


@pytest.mark.parametrize("version", [3, 5])
def test_what_is_added_while_markers_are_written_waits_for_them(version: int) -> None:
    driven = Driven()
    producer = driven.begin()
    driven.add(producer, 0, version=version)
    answer = driven.end(producer, version=version)
    following = producer if version == 3 else (answer.producer_id, answer.producer_epoch)
    waiting = [driven.add(following, number, version=version) for number in range(BEHIND_MAX)]
    assert waiting == [WAITS] * BEHIND_MAX
    assert driven.add(following, 0, version=version) == CONCURRENT
    assert driven.state == "PrepareCommit"
    driven.write_markers()
    assert len(driven.answers) == BEHIND_MAX
    assert driven.describe().topics[0].partitions == list(range(BEHIND_MAX))


def test_an_abort_that_overtakes_what_waits_for_markers_is_told_to_come_again() -> None:
    """It was told INVALID_TXN_STATE, as if it would undo the commit, and librdkafka's producer was lost by that."""
    driven = Driven()
    producer = driven.begin()
    driven.add(producer, 0)
    driven.end(producer)
    assert driven.end(producer, commit=False).error_code == WRONG_STATE, "nothing else is begun yet"
    assert driven.add(producer, 1) == WAITS
    assert driven.end(producer, commit=False).error_code == CONCURRENT
    assert driven.end((producer[0], 9), commit=False, version=2).error_code == FENCED
    driven.write_markers()
    assert driven.state == "Ongoing"
    assert driven.end(producer, commit=False).error_code == 0
    driven.write_markers()
    assert driven.state == "CompleteAbort"


@pytest.mark.parametrize("commit", [True, False])
def test_with_transactions_v2_every_end_has_a_new_epoch(commit: bool) -> None:
    driven = Driven()
    first = driven.begin()
    driven.add(first, 0, version=5)
    assert driven.end2(first, commit=commit) == (0, (1000, 1))
    assert driven.markers == [Markers("t", 1000, 1, commit, 0, 2, (("a", 0),))]
    second = (1000, 1)
    assert driven.end2(first, commit=commit)[0] == CONCURRENT
    assert driven.end2(first, commit=not commit)[0] == WRONG_STATE
    assert driven.end2(second, commit=commit)[0] == CONCURRENT
    driven.write_markers()
    assert driven.end2(first, commit=commit) == (0, second)
    assert driven.end2(first, commit=not commit)[0] == WRONG_STATE
    assert driven.end2(second, commit=True)[0] == WRONG_STATE


def test_a_late_end_never_hits_the_next_transaction() -> None:
    driven = Driven()
    first = driven.begin()
    driven.add(first, 0, version=5)
    _, second = driven.end2(first, commit=False)
    driven.write_markers()
    driven.add(second, 0, version=5)
    for commit in (True, False):
        assert driven.end2(first, commit=commit)[0] == FENCED
    assert driven.state == "Ongoing"


def test_a_fenced_producer_of_transactions_v2_does_not_get_the_epoch_of_a_classic_successor() -> None:
    """Whose transactions end without a new epoch: the one before is not that of a retry."""
    driven = Driven()
    first = driven.begin()
    driven.add(first, 0, version=5)
    _, zombie = driven.end2(first)
    driven.write_markers()
    successor = driven.begin(version=3)
    assert successor == (zombie[0], zombie[1] + 1)
    driven.add(successor, 0)
    assert driven.end(successor, commit=False).error_code == 0
    driven.write_markers()
    for _ in range(2):
        for commit in (False, True):
            assert driven.end2(zombie, commit=commit)[0] == FENCED
        driven.fail_over()


def test_with_transactions_v2_nothing_can_be_aborted_but_not_committed() -> None:
    driven = Driven()
    first = driven.begin()
    assert driven.end2(first, commit=True)[0] == WRONG_STATE
    assert driven.end2(first, commit=False) == (0, (1000, 1))
    assert driven.state == "CompleteAbort"
    assert driven.markers == []
    assert driven.end2(first, commit=False) == (0, (1000, 1)), "a retry"
    assert driven.end2((1000, 1), commit=False) == (0, (1000, 2))
    assert driven.end2(first, commit=False)[0] == FENCED


@pytest.mark.parametrize("commit", [True, False])
def test_after_the_last_epoch_a_transaction_ends_with_a_new_producer_id(commit: bool) -> None:
    driven = Driven()
    last = at_last_epoch(driven)
    driven.add(last, 0, version=5)
    error, following = driven.end2(last, commit=commit)
    assert (error, following) == (0, (1100, 0))
    assert driven.markers == [Markers("t", 1000, 32767, commit, 1, 2, (("a", 0),))]
    assert driven.end2(last, commit=commit)[0] == CONCURRENT
    assert driven.add(following, 0, version=5) == WAITS
    driven.fail_over()
    assert driven.end2(last, commit=commit)[0] == CONCURRENT
    driven.write_markers()
    assert driven.end2(last, commit=commit) == (0, following)
    assert driven.add(following, 0, version=5) == 0
    assert driven.end2(last, commit=commit)[0] == MAPPING


def test_whoever_needs_a_producer_id_waits_for_it() -> None:
    driven = Driven(ids=0)
    assert driven.init() is None
    assert driven.init("u") is None
    assert driven.wants_ids == 2
    assert driven.log == []
    driven.give_ids(1)
    assert {token: answer.producer_id for token, answer in driven.answers.items()} == {1: 1000}
    driven.machine.refuse_producer_ids(driven.moment)
    driven.take()
    assert driven.answers[2].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


# -- time ----------------------------------------------------------------------------------------------------------


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced() -> None:
    driven = Driven()
    producer = driven.begin(timeout_ms=10_000)
    driven.add(producer, 0)
    assert driven.machine.next_deadline == 10.0
    driven.pass_time(9.9)
    driven.add(producer, 1)
    driven.pass_time(0.1)
    assert driven.markers == [Markers("t", 1000, 1, False, 0, 2, (("a", 0), ("a", 1)))]
    assert driven.end(producer).error_code == FENCED
    assert driven.add(producer, 1) == FENCED
    driven.write_markers()
    assert driven.state == "CompleteAbort"


def test_with_transactions_v2_the_producer_of_a_transaction_that_timed_out_can_go_on() -> None:
    driven = Driven()
    producer = driven.begin(timeout_ms=10_000)
    driven.add(producer, 0, version=5)
    driven.pass_time(10.0)
    driven.write_markers()
    assert driven.end2(producer, commit=True)[0] == WRONG_STATE
    assert driven.end2(producer, commit=False) == (0, (1000, 1))


def test_the_next_transaction_has_all_its_time() -> None:
    driven = Driven()
    producer = driven.begin(timeout_ms=10_000)
    driven.add(producer, 0)
    driven.pass_time(8)
    driven.end(producer)
    driven.write_markers()
    driven.add(producer, 0)
    assert driven.machine.next_deadline == 18.0
    driven.pass_time(9)
    assert driven.state == "Ongoing"
    driven.pass_time(1)
    assert driven.state == "PrepareAbort"


def test_transactions_that_time_out_all_at_once_are_aborted_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "TIMED_OUT_AT_ONCE", 10)
    driven = Driven()
    for number in range(7):
        driven.add(driven.begin(f"t{number}"), 0, 1, 2, name=f"t{number}")
    driven.pass_time(60)
    assert len(driven.markers) == 3, "each counts as four: itself and its partitions"
    assert driven.machine.next_deadline == driven.now
    driven.pass_time(0)
    driven.pass_time(0)
    assert len(driven.markers) == 7


def test_time_goes_on_over_a_failover() -> None:
    driven = Driven()
    driven.add(driven.begin(timeout_ms=10_000), 0)
    driven.pass_time(7)
    driven.fail_over()
    assert driven.machine.next_deadline == 10.0
    driven.wall_ms -= 100_000
    driven.fail_over()
    assert driven.machine.next_deadline == 17.0, "a clock that went back gives no more than its timeout"


def test_what_times_out_without_a_producer_id_at_hand_is_aborted_once_there_is_one() -> None:
    driven = Driven()
    last = at_last_epoch(driven)
    driven._ids = 0
    driven.fail_over()
    driven.add(last, 0)
    driven.pass_time(60)
    assert (driven.state, driven.wants_ids) == ("Ongoing", 1)
    driven.machine.refuse_producer_ids(driven.moment)
    assert driven.machine.next_deadline == driven.now + 1
    driven.pass_time(1)
    assert (driven.state, driven.wants_ids) == ("Ongoing", 2)
    driven.give_ids(1)
    assert driven.markers[0].producer_epoch == 32767
    driven.write_markers()
    assert driven.describe().producer_epoch == 0


def test_idle_transactional_ids_are_forgotten_and_others_are_not() -> None:
    driven = Driven(TransactionConfig(transactional_id_expiration_ms=5000))
    driven.begin("idle")
    driven.add(driven.begin("busy", timeout_ms=900_000), 0, name="busy")
    driven.wall_ms += 5000
    driven.machine.tick(driven.moment)
    assert driven.take().records == [], "it is looked at once an hour"
    driven.now = 3600
    driven.wall_ms += 10_000
    driven.machine.tick(driven.moment)
    assert [record for record in driven.take().records if record[1] is None] == [(driven.log[0][0], None)]
    assert driven.describe("idle").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert driven.describe("busy").error_code == 0
    driven.fail_over()
    assert len(driven.machine) == 1
    assert driven.begin("idle") == (1100, 0)


def test_no_transactional_id_is_forgotten_while_the_wall_clock_is_not_to_be_believed() -> None:
    driven = Driven(TransactionConfig(transactional_id_expiration_ms=5000))
    driven.begin("idle")
    driven.is_sure = False
    driven.wall_ms += 8 * 86_400_000
    driven.pass_time(3600)
    assert driven.describe("idle").error_code == 0
    driven.is_sure = True
    driven.pass_time(3600)
    assert driven.describe("idle").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


# -- failovers -----------------------------------------------------------------------------------------------------


def test_markers_of_prepared_transactions_are_asked_for_again_with_the_new_coordinators_epoch() -> None:
    driven = Driven()
    producer = driven.begin()
    driven.add(producer, 0, 1)
    driven.end(producer)
    (old,) = driven.markers
    driven.write_markers(lambda partition: partition == ("a", 1))
    driven.fail_over()
    assert driven.markers == [Markers("t", 1000, 0, True, 1, 0, (("a", 0), ("a", 1)))]
    driven.write_markers()
    assert driven.state == "CompleteCommit"
    size = len(driven.log)
    driven.machine.markers_written(old, old.partitions, driven.moment)
    assert driven.take().records == []
    assert len(driven.log) == size


def test_a_report_of_old_markers_does_not_complete_the_next_transaction() -> None:
    driven = Driven()
    first = driven.begin()
    driven.add(first, 0, version=5)
    _, second = driven.end2(first)
    (old,) = driven.markers
    driven.write_markers()
    driven.add(second, 0, version=5)
    driven.end2(second)
    driven.machine.markers_written(old, old.partitions, driven.moment)
    driven.take()
    assert driven.state == "PrepareCommit"


# -- two-phase commit ----------------------------------------------------------------------------------------------

TWO_PHASE = TransactionConfig(transaction_two_phase_commit_enable=True)


def test_a_two_phase_transaction_never_times_out() -> None:
    driven = Driven(TWO_PHASE)
    driven.add(driven.begin(two_phase=True, version=6), 0, version=5)
    driven.pass_time(10_000_000)
    assert driven.state == "Ongoing"
    driven.fail_over()
    driven.pass_time(10_000_000)
    assert driven.state == "Ongoing"


@pytest.mark.parametrize("commit", [True, False])
def test_a_prepared_transaction_is_kept_for_its_producers_successor(commit: bool) -> None:
    driven = Driven(TWO_PHASE)
    first = driven.begin(two_phase=True, version=6)
    driven.add(first, 0, version=5)
    for number in (1, 2):  # the second successor fences the first
        answer = driven.init(two_phase=True, keep=True, version=6)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 1000, number)
        assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == first
        driven.fail_over()
    assert driven.state == "Ongoing"
    assert driven.end2(first, commit=commit)[0] == FENCED
    assert driven.end2((1000, 1), commit=commit)[0] == FENCED
    assert driven.add(first, 1, version=5) == FENCED
    assert driven.add((1000, 2), 1, version=5) == WRONG_STATE
    assert driven.end2((1000, 2), commit=commit) == (0, (1000, 3))
    assert driven.markers == [Markers("t", 1000, 3, commit, 2, 2, (("a", 0),))]
    driven.write_markers()
    assert driven.end2((1000, 2), commit=commit) == (0, (1000, 3)), "a retry"
    assert driven.add((1000, 3), 1, version=5) == 0


def test_a_kept_transaction_has_the_timeout_of_its_producers_successor() -> None:
    driven = Driven(TWO_PHASE)
    driven.add(driven.begin(two_phase=True, version=6), 0, version=5)
    driven.pass_time(10_000)
    assert driven.init(keep=True, timeout_ms=60_000, version=6).error_code == 0
    driven.pass_time(20)
    driven.fail_over()
    driven.pass_time(39)
    assert driven.state == "Ongoing"
    driven.pass_time(2)
    assert driven.state == "PrepareAbort"


def test_a_kept_transaction_survives_that_epochs_are_used_up() -> None:
    driven = Driven(TWO_PHASE)
    last = at_last_epoch(driven)
    driven.add(last, 0, version=5)
    answer = driven.init(two_phase=True, keep=True, version=6)
    successor = (answer.producer_id, answer.producer_epoch)
    assert successor == (1100, 0)
    assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == last
    driven.fail_over()
    assert driven.end2(successor) == (0, (1100, 1))
    assert driven.markers == [Markers("t", 1000, 32767, True, 2, 2, (("a", 0),))]
    driven.fail_over()
    driven.write_markers()
    assert driven.end2(successor) == (0, (1100, 1))


def test_without_keeping_it_a_prepared_transaction_is_aborted() -> None:
    driven = Driven(TWO_PHASE)
    driven.add(driven.begin(two_phase=True, version=6), 0, version=5)
    driven.init(two_phase=True, keep=True, version=6)
    assert driven.init(two_phase=True, version=6).error_code == CONCURRENT
    assert driven.markers == [Markers("t", 1000, 2, False, 0, 2, (("a", 0),))]
    driven.write_markers()
    assert driven.begin(two_phase=True, version=6) == (1000, 3)


# -- looking -------------------------------------------------------------------------------------------------------


def names(driven: Driven, **filters: Any) -> list[str]:
    response = driven.ask(ListTransactionsRequest(**filters), 2)
    assert response.error_code == 0
    return [one.transactional_id for one in response.transaction_states]


def test_transactions_are_listed_by_state_producer_duration_and_pattern() -> None:
    driven = Driven()
    driven.begin("idle")
    driven.add(driven.begin("old"), 0, name="old")
    driven.wall_ms += 5000
    driven.add(driven.begin("young"), 0, name="young")
    assert names(driven) == ["idle", "old", "young"]
    assert names(driven, state_filters=["Ongoing"]) == ["old", "young"]
    assert names(driven, state_filters=["Ongoing"], duration_filter=4999) == ["old"]
    assert names(driven, producer_id_filters=[1001]) == ["old"]
    assert names(driven, transactional_id_pattern="o.*|y") == ["old"]
    assert names(driven, state_filters=["Sleeping"]) == []
    response = driven.ask(ListTransactionsRequest(state_filters=["Sleeping", "Empty"]), 2)
    assert response.unknown_state_filters == ["Sleeping"]
    wrong = driven.ask(ListTransactionsRequest(transactional_id_pattern="("), 2)
    assert wrong.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_no_pattern_keeps_a_coordinator_from_its_work() -> None:
    driven = Driven()
    driven.begin("a" * 200)
    driven.begin("größe/🦉")
    assert names(driven, transactional_id_pattern="(a|a)*b|(.*)*c") == []
    assert names(driven, transactional_id_pattern="gr.*[^a-z]") == ["größe/🦉"]


def test_describing() -> None:
    driven = Driven()
    producer = driven.begin(timeout_ms=7000)
    driven.add(producer, 2, 1)
    state = driven.describe()
    assert (state.transaction_state, state.transaction_timeout_ms, state.transaction_start_time_ms) == (
        "Ongoing", 7000, driven.wall_ms,
    )  # fmt: skip
    assert (state.producer_id, state.producer_epoch) == producer
    assert driven.describe("").error_code == ErrorCode.INVALID_REQUEST
