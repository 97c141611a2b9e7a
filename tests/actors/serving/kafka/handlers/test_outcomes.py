"""What clients are told when a part of the cluster could not be asked, without a cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pykka
import pytest

from actors.messages.controller import Outcome
from actors.runtime.errors import MailboxFull
from actors.serving.kafka.handlers import (
    describe_log_dirs,
    describe_quorum,
    elect_leaders,
    list_groups,
    list_transactions,
)
from protocol.error_codes import ErrorCode
from protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from protocol.messages.list_transactions import ListTransactionsResponse


def answered(handler: Any, monkeypatch: pytest.MonkeyPatch, answers: list[object]) -> Any:
    """What this handler responds when the coordinators of all partitions have answered."""
    asked: list[Any] = []
    monkeypatch.setattr(handler.PerKey, "everywhere", lambda *arguments: asked.append(arguments[-1]))
    handler.handle(SimpleNamespace(request=None, version=1))
    slices = asked[0](answers)
    while True:
        try:
            next(slices)
        except StopIteration as done:
            return done.value


def test_groups_are_listed_beside_the_error_of_a_partition_that_cannot_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    here = ListGroupsResponse(groups=[ListedGroup(group_id="g")])
    answers = [here, ErrorCode.NOT_COORDINATOR]
    told = answered(list_groups, monkeypatch, answers)
    assert (told.error_code, [one.group_id for one in told.groups]) == (ErrorCode.NONE, ["g"])
    told = answered(list_groups, monkeypatch, [*answers, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
    assert (told.error_code, len(told.groups)) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 1)


def test_transactions_are_listed_beside_the_error_of_a_partition_that_cannot_tell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = [ListTransactionsResponse(), ErrorCode.NOT_COORDINATOR]
    assert answered(list_transactions, monkeypatch, answers).error_code == ErrorCode.NONE
    told = answered(list_transactions, monkeypatch, [*answers, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
    assert told.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT),
    ],
)
def test_a_quorum_that_nobody_describes_has_no_leader(error: ErrorCode, told: ErrorCode) -> None:
    responses: list[Any] = []
    call: Any = SimpleNamespace(answer=responses.append, version=2)
    describe_quorum._described(call, Outcome(error, "nobody leads"))
    (partition,) = responses[0].topics[0].partitions
    assert (partition.error_code, partition.leader_id, partition.error_message) == (told, -1, "nobody leads")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (pykka.Timeout("1 s"), ErrorCode.REQUEST_TIMED_OUT),
        (pykka.ActorDeadError("gone"), ErrorCode.NOT_CONTROLLER),
        (MailboxFull("full"), ErrorCode.NOT_CONTROLLER),
        (ValueError("a bug"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_an_operation_whose_controller_does_not_answer_has_an_error_of_its_own(
    error: Exception, told: ErrorCode
) -> None:
    future: Any = SimpleNamespace(exception=error)
    assert Outcome.of(future).error == told


def test_the_room_of_a_disk_that_cannot_be_asked_is_unknown() -> None:
    assert describe_log_dirs._room("/no/such/directory") == (-1, -1)


@pytest.mark.parametrize(
    ("in_sync", "told"),
    [((1, 2), ErrorCode.REQUEST_TIMED_OUT), ((2,), ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)],
)
def test_a_preferred_leader_that_does_not_lead_in_time_is_told(in_sync: tuple[int, ...], told: ErrorCode) -> None:
    responses: list[Any] = []
    topic = SimpleNamespace(id="id", name="orders", partitions=[SimpleNamespace(replicas=(1, 2))])
    serving = SimpleNamespace(
        node=SimpleNamespace(scheduler=SimpleNamespace(clock=SimpleNamespace(now=lambda: 5.0))),
        metadata=SimpleNamespace(topic=lambda _name: topic),
        led=lambda _topic, _number: SimpleNamespace(broker=2, in_sync=in_sync),
    )
    wanted = [TopicPartitions(topic="orders", partitions=[0])]
    request = ElectLeadersRequest(election_type=0, timeout_ms=0, topic_partitions=wanted)
    call: Any = SimpleNamespace(request=request, serving=serving, answer=responses.append)
    for _ in elect_leaders.handle(call):
        pass
    (result,) = responses[0].replica_election_results[0].partition_result
    assert result.error_code == told
