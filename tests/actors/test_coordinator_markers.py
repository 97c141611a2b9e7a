"""Markers of transactions that a group's coordinator finds in its log, or gets while it ceases to be one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from actors.coordination import groups as group_coordinator
from actors.coordination.groups import GroupCoordinator
from actors.harness import Cluster
from actors.messages.coordinator import (
    GROUPS_TOPIC,
    Coordinate,
    EndTransaction,
    LeadershipChanged,
    TellRebalances,
    coordinator_address,
)
from actors.messages.replica import AppendMarker, AppendResult, group_name
from log.machines.group.machine import GroupMachine
from protocol.error_codes import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.records.batches import ControlType, end_txn_marker, read_header
from tests.actors.lone_coordinator import LoneCoordinator
from tests.actors.serving.kafka.handlers.wire_client import WireClient
from tests.actors.topics import leader_of
from tests.actors.waiting import wait_until
from tests.log.machines.group.coordinator import Coordinator


def test_who_brings_a_marker_is_answered_as_a_replica_answers() -> None:
    """It comes from another actor, perhaps of another process, which knows no other answer."""
    with Cluster(3, log_level="error") as cluster:
        with WireClient(cluster, 1) as client:
            wait_until(lambda: _found(client), lambda: "no coordinator is found")
        leader = leader_of(cluster, GROUPS_TOPIC, 0)
        coordinator = cluster.ref(coordinator_address(GROUPS_TOPIC, 0, leader))
        marker = EndTransaction(AppendMarker(4711, 0, commit=True, coordinator_epoch=0, transaction_version=1))
        wait_until(lambda: coordinator.ask(marker, timeout=10).error == ErrorCode.NONE, lambda: "it is not loaded")
        for other in cluster.brokers:
            if other != leader:
                cluster.cut(leader, other)  # so that nothing is committed there
        answer: Any = coordinator.ask(marker, block=False)
        (topic,) = [one for one in cluster.admin.describe()["topics"] if one["name"] == GROUPS_TOPIC]
        coordinator.tell(LeadershipChanged(group_name(GROUPS_TOPIC, 0, topic["topic_id"]), -1))
        told = answer.get(timeout=10)
        assert isinstance(told, AppendResult)
        assert told.error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_marker_that_others_have_emptied_ends_its_transaction() -> None:
    kafka = Coordinator()
    assert kafka.commit(7) == ErrorCode.NONE
    ((key, value),) = kafka.written
    machine = GroupMachine(kafka.world.metadata, kafka.config, str)
    machine.replay(key, value, 4711)
    emptied = read_header(end_txn_marker(ControlType.COMMIT, 0, 4711, 0, 1000))
    GroupCoordinator.replay_batch(cast("GroupCoordinator", None), machine, emptied, [])
    machine.loaded(kafka.moment)
    kafka.machine = machine
    assert kafka.committed(require_stable=True) == (7, ErrorCode.NONE)


@pytest.mark.parametrize(
    ("marked", "epoch", "error"),
    [(7, 0, ErrorCode.INVALID_TXN_STATE), (8, 0, ErrorCode.NONE), (7, 1, ErrorCode.NONE)],
    ids=["its own", "another producer's", "the one before"],
)
def test_offsets_that_were_vouched_for_before_a_marker_came_are_void(
    monkeypatch: pytest.MonkeyPatch, marked: int, epoch: int, error: ErrorCode
) -> None:
    """The transaction's coordinator, or the one before it, answered before it ended the transaction, and is late."""
    vouches: list[Callable[[ErrorCode], None]] = []
    monkeypatch.setattr(group_coordinator, "ask_to_vouch", lambda *arguments, **_adds: vouches.append(arguments[-1]))
    broker = LoneCoordinator(GroupCoordinator)
    broker.wait(1.0)
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    request = TxnOffsetCommitRequest(
        transactional_id="t", group_id="g", producer_id=7, producer_epoch=epoch,
        topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[partition])],
    )  # fmt: skip
    asked = broker.ask(Coordinate(request, 3, "client", "host"))
    broker.wait(0.01)
    marker = AppendMarker(marked, 0, commit=False, coordinator_epoch=0, transaction_version=1)
    assert broker.answer(EndTransaction(marker)).error == ErrorCode.NONE
    (vouch,) = vouches
    vouch(ErrorCode.NONE)
    broker.wait(0.01)
    told = asked.get()
    assert (told if isinstance(told, ErrorCode) else told.topics[0].partitions[0].error_code) == error


def test_offsets_that_are_vouched_for_after_the_leadership_changed_are_not_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vouches: list[Callable[[ErrorCode], None]] = []
    monkeypatch.setattr(group_coordinator, "ask_to_vouch", lambda *arguments, **_adds: vouches.append(arguments[-1]))
    broker = LoneCoordinator(GroupCoordinator)
    broker.wait(1.0)
    request = TxnOffsetCommitRequest(transactional_id="t", group_id="g", producer_id=7, producer_epoch=0)
    asked = broker.ask(Coordinate(request, 3, "client", "host"))
    broker.wait(0.01)
    broker.change_leadership(-1)
    broker.wait(0.01)
    assert asked.get() == ErrorCode.NOT_COORDINATOR
    (vouch,) = vouches
    broker.replica.before["append"] = pytest.fail
    vouch(ErrorCode.NONE)
    broker.wait(1.0)


def test_a_marker_that_is_under_way_when_the_leadership_changes_is_told_to_come_again() -> None:
    broker = LoneCoordinator(GroupCoordinator)
    broker.wait(1.0)
    broker.replica.before["append"] = lambda: broker.change_leadership(-1)
    marker = AppendMarker(7, 0, commit=True, coordinator_epoch=0, transaction_version=1)
    told = broker.answer(EndTransaction(marker))
    assert isinstance(told, AppendResult)
    assert told.error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_rebalances_are_told_by_the_coordinator_alone() -> None:
    broker = LoneCoordinator(GroupCoordinator)
    broker.wait(1.0)
    assert broker.answer(TellRebalances("g")).error == ErrorCode.GROUP_ID_NOT_FOUND
    broker.change_leadership(-1)
    assert broker.answer(TellRebalances("g")).error == ErrorCode.NOT_COORDINATOR


def _found(client: WireClient) -> bool:
    told = client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["group"]))
    return bool(told.coordinators[0].error_code == ErrorCode.NONE)
