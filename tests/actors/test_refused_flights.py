"""What a group coordinator does when its replica refuses to write: it keeps its machine, or takes one decision back.

The log is read again only when another replica may have led. On a virtual clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from actors.coordination import groups as group_coordinator
from actors.coordination.groups import GroupCoordinator
from actors.messages.coordinator import Coordinate, EndTransaction
from actors.messages.replica import AppendMarker
from protocol.error_codes import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.actors.lone_coordinator import LoneCoordinator
from tests.log.machines.group.coordinator import GROUP, commit_request, join_request

PRODUCER = 7


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoneCoordinator]:
    """A coordinator that has loaded, where every transaction is vouched for at once. It must not load again."""
    monkeypatch.setattr(group_coordinator, "ask_to_vouch", lambda *given, **_: given[-1](ErrorCode.NONE))
    made = LoneCoordinator(GroupCoordinator)
    made.wait(1.0)
    assert made.replica.loads == 1
    yield made
    assert made.replica.loads == 1, "the log was read again"


def ask(broker: LoneCoordinator, request: Any, version: int) -> Any:
    return broker.answer(Coordinate(request, version, "client", "/127.0.0.1"))


def commit(broker: LoneCoordinator, offset: int) -> Any:
    told = ask(broker, commit_request(offset), 8)
    return told if isinstance(told, ErrorCode) else told.topics[0].partitions[0].error_code


def commit_in_transaction(broker: LoneCoordinator, offset: int) -> Any:
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = TxnOffsetCommitRequest(
        transactional_id="t", group_id=GROUP, producer_id=PRODUCER, producer_epoch=0,
        topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[partition])],
    )  # fmt: skip
    told = ask(broker, request, 3)
    return told if isinstance(told, ErrorCode) else told.topics[0].partitions[0].error_code


def end(broker: LoneCoordinator, *, committed: bool = True) -> ErrorCode:
    marker = AppendMarker(PRODUCER, 0, commit=committed, coordinator_epoch=0, transaction_version=1)
    return ErrorCode(broker.answer(EndTransaction(marker)).error)


def offset(broker: LoneCoordinator) -> tuple[int, ErrorCode]:
    """What the group has committed, if nothing of it is in an open transaction."""
    topics = [OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=topics)], require_stable=True)
    found = ask(broker, request, 9).groups[0].topics[0].partitions[0]
    return found.committed_offset, ErrorCode(found.error_code)


@pytest.mark.parametrize("error", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT])
def test_what_is_refused_for_now_is_written_later(broker: LoneCoordinator, error: ErrorCode) -> None:
    broker.replica.refuses_all = error
    assert commit(broker, 5) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    broker.wait(60.0)
    assert commit(broker, 6) == ErrorCode.COORDINATOR_NOT_AVAILABLE, "nothing is decided that cannot be written"
    broker.replica.refuses_all = ErrorCode.NONE
    broker.wait(1.0)
    assert offset(broker) == (5, ErrorCode.NONE)
    assert commit(broker, 7) == ErrorCode.NONE
    assert offset(broker) == (7, ErrorCode.NONE)


def test_no_session_ends_while_nothing_can_be_written_and_it_ends_in_its_time_afterwards(
    broker: LoneCoordinator,
) -> None:
    joined = ask(broker, join_request(), 3)
    assert joined.error_code == ErrorCode.NONE
    broker.wait(4.0)
    broker.replica.refuses_all = ErrorCode.NOT_ENOUGH_REPLICAS
    assert commit_in_transaction(broker, 1) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    broker.wait(60.0)
    broker.replica.refuses_all = ErrorCode.NONE
    broker.wait(1.0)
    beat = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=joined.member_id)
    assert ask(broker, beat, 4).error_code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
    broker.wait(10.1)
    assert ask(broker, beat, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_what_too_few_replicas_hold_is_in_the_log_and_its_client_asks_again(broker: LoneCoordinator) -> None:
    broker.replica.refuses = [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
    assert commit(broker, 5) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert offset(broker) == (5, ErrorCode.NONE)


@pytest.mark.parametrize("error", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE])
def test_offsets_of_a_transaction_that_the_log_refuses_are_taken_back(
    broker: LoneCoordinator, error: ErrorCode
) -> None:
    broker.replica.refuses = [error]
    assert commit_in_transaction(broker, 1) == error
    assert offset(broker) == (-1, ErrorCode.NONE), "nothing is open"
    assert commit_in_transaction(broker, 2) == ErrorCode.NONE
    broker.replica.refuses = [error]
    assert commit_in_transaction(broker, 3) == error
    assert offset(broker) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert end(broker) == ErrorCode.NONE
    assert offset(broker) == (2, ErrorCode.NONE)


@pytest.mark.parametrize("error", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED])
def test_a_marker_that_the_log_refuses_ends_nothing(broker: LoneCoordinator, error: ErrorCode) -> None:
    assert commit_in_transaction(broker, 4) == ErrorCode.NONE
    broker.replica.refuses = [error]
    assert end(broker) == error
    assert offset(broker) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert end(broker, committed=False) == ErrorCode.NONE
    assert offset(broker) == (-1, ErrorCode.NONE)


def test_offsets_of_the_next_transaction_wait_for_the_marker_of_the_last(broker: LoneCoordinator) -> None:
    assert commit_in_transaction(broker, 4) == ErrorCode.NONE
    marker = AppendMarker(PRODUCER, 0, commit=True, coordinator_epoch=0, transaction_version=2)
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=9)
    request = TxnOffsetCommitRequest(
        transactional_id="t", group_id=GROUP, producer_id=PRODUCER, producer_epoch=1,
        topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[partition])],
    )  # fmt: skip
    ended = broker.ask(EndTransaction(marker))
    early = broker.ask(Coordinate(request, 3, "client", "/127.0.0.1"))
    broker.wait(0.01)
    assert ended.get().error == ErrorCode.NONE
    assert early.get() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert offset(broker) == (4, ErrorCode.NONE)
    late = broker.answer(Coordinate(request, 3, "client", "/127.0.0.1"))
    assert late.topics[0].partitions[0].error_code == ErrorCode.NONE
