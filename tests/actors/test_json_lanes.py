"""Batches on their way to a partition, while no controller gives producer ids or nobody leads."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from actors.serving.json.lanes import Batch, Lanes
from actors.serving.question import PAUSE_SECONDS_MAX
from log.slices import finish
from protocol.error_codes import ErrorCode
from protocol.records.batches import Record
from protocol.records.compression import Codec


class Written:
    """A partition of which nobody knows the leader, and what became of the batches for it."""

    def __init__(self) -> None:
        self.later: list[Callable[[], None]] = []
        self.takers: list[Callable[[int | None], None]] = []
        self.outcomes: list[tuple[int, str]] = []
        serving = SimpleNamespace(
            led=lambda _topic, _number: None, take_producer_id=lambda _controller, then: self.takers.append(then)
        )
        self.connection = SimpleNamespace(
            now=0.0,
            address=SimpleNamespace(name="0"),
            controller=None,
            serving=serving,
            later=lambda _seconds, then: self.later.append(then),
            ask=lambda *_, **__: pytest.fail("there is nobody to ask"),
            in_slices=finish,
        )
        self._lanes = Lanes(cast("Any", self.connection))

    def put(self, acks: int, seconds: float) -> None:
        topic: Any = SimpleNamespace(id="id", name="orders", partitions=[None])
        batch = Batch(
            records=[Record(0, 0, None, b"v", ())], codec=Codec.NONE, acks=acks, deadline=seconds,
            written=lambda error, message, _base: self.outcomes.append((error, message)),
        )  # fmt: skip
        self._lanes.put(topic, 0, batch)


def test_a_batch_waits_for_a_producer_id_until_its_time_is_up() -> None:
    written = Written()
    written.put(acks=-1, seconds=3 * PAUSE_SECONDS_MAX)
    written.takers.pop()(None)
    assert written.outcomes == []
    written.connection.now = 2.5 * PAUSE_SECONDS_MAX
    written.later.pop()()
    written.takers.pop()(None)
    assert written.outcomes == [(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no controller gives a producer id")]


def test_a_batch_that_nobody_confirms_is_not_kept_for_a_leader() -> None:
    written = Written()
    written.put(acks=0, seconds=10.0)
    assert written.outcomes == [(ErrorCode.LEADER_NOT_AVAILABLE, "nobody leads orders-0")]


def test_very_many_partitions_are_given_their_producer_id_in_slices() -> None:
    asked: list[Callable[[int], None]] = []
    work: list[Any] = []
    serving = SimpleNamespace(take_producer_id=lambda _controller, then: asked.append(then))
    address = SimpleNamespace(name="1")
    connection = SimpleNamespace(address=address, controller=None, serving=serving, in_slices=work.append)
    lanes, given = Lanes(cast("Any", connection)), list[int | None]()
    for _ in range(3):
        lanes.take_producer_id(given.append)
    (taken,) = asked
    taken(77)
    (slices,) = work
    assert [(pause, list(given)) for pause in slices] == [(None, [77] * count) for count in range(3)]
    assert given == [77] * 3
