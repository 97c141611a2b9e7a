"""A connection's membership in a group, without a coordinator: what it asks, and what it makes of the answers."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from actors.json_handlers import membership
from actors.json_handlers.membership import Membership
from log.machines.topic_ids import id_bytes
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


class Coordinated:
    """A membership whose requests end here."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[Any, Callable[[Any, ErrorCode], None]]] = []
        self.later: list[Callable[[], None]] = []
        monkeypatch.setattr(
            membership, "ask_coordinator", lambda *asked, client_id: self.asked.append((asked[4], asked[-1]))
        )
        topics = {TOPIC_ID: SimpleNamespace(name="orders")}
        serving = SimpleNamespace(
            services=SimpleNamespace(rng=random.Random(1)), metadata=SimpleNamespace(topics=topics)
        )
        connection = SimpleNamespace(now=0.0, serving=serving, later=lambda _seconds, then: self.later.append(then))
        self.membership = Membership(cast("Any", connection), "g", ("orders",), 300.0, lambda: None)

    def heartbeat(self) -> tuple[ConsumerGroupHeartbeatRequest, Callable[[Any, ErrorCode], None]]:
        """The next one, and how to answer it."""
        while not any(isinstance(request, ConsumerGroupHeartbeatRequest) for request, _ in self.asked):
            self.later.pop(0)()
        at = next(at for at, (one, _) in enumerate(self.asked) if isinstance(one, ConsumerGroupHeartbeatRequest))
        return self.asked.pop(at)


def assigned(*numbers: int) -> ConsumerGroupHeartbeatResponse:
    partitions = [TopicPartitions(topic_id=id_bytes(TOPIC_ID), partitions=list(numbers))]
    return ConsumerGroupHeartbeatResponse(
        member_epoch=6, heartbeat_interval_ms=5000, assignment=Assignment(topic_partitions=partitions)
    )


def test_a_member_that_missed_an_answer_says_all_so_that_it_is_told_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was assigned with the lost answer belongs to it already, and nobody else would read it."""
    coordinated = Coordinated(monkeypatch)
    _, answer = coordinated.heartbeat()
    answer(assigned(0), ErrorCode.NONE)
    _, lost = coordinated.heartbeat()
    lost(None, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    request, answer = coordinated.heartbeat()
    assert request.member_epoch == 6
    assert request.rebalance_timeout_ms > 0
    assert request.subscribed_topic_names == ["orders"]
    assert request.topic_partitions is not None
    assert [one.partitions for one in request.topic_partitions] == [[0]]
    answer(assigned(0, 1), ErrorCode.NONE)
    assert sorted(number for _, number in coordinated.membership.owned) == [0, 1]
