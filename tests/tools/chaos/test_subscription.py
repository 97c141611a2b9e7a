"""Records that a rebalance overtakes are left to the next owner of their partition."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from attrs import define
from confluent_kafka import KafkaError, TopicPartition

from tools.chaos import subscription
from tools.chaos.subscription import Subscription


@define
class Record:
    at: tuple[int, int]
    failure: KafkaError | None = None

    def topic(self) -> str:
        return "orders"

    def partition(self) -> int:
        return self.at[0]

    def error(self) -> KafkaError | None:
        return self.failure


class Scripted:
    """A consumer whose polls do what the test says, one thing each."""

    script: Iterator[Callable[[Scripted], Record | None]]

    def __init__(self, _config: object) -> None:
        pass

    def subscribe(self, _topics: list[str], **callbacks: Any) -> None:
        self.callbacks = callbacks

    def unsubscribe(self) -> None:
        self.calls = ["unsubscribe"]

    def close(self) -> None:
        self.calls.append("close")

    def poll(self, _seconds: float) -> Record | None:
        return next(self.script)(self)


def gives(partition: int, offset: int) -> Callable[[Scripted], Record | None]:
    return lambda _: Record((partition, offset))


def tells(callback: str, *partitions: int) -> Callable[[Scripted], None]:
    def call(consumer: Scripted) -> None:
        consumer.callbacks[callback](consumer, [TopicPartition("orders", one) for one in partitions])

    return call


def then(*steps: Callable[[Scripted], Record | None]) -> Callable[[Scripted], Record | None]:
    """Several of them in one poll."""
    return lambda consumer: [step(consumer) for step in steps][-1]


def nothing(_consumer: Scripted) -> None:
    return None


@pytest.fixture
def subscribed(monkeypatch: pytest.MonkeyPatch) -> Subscription:
    monkeypatch.setattr(subscription, "Consumer", Scripted)
    return Subscription({}, ["orders"])


def polled(subscribed: Subscription, *script: Callable[[Scripted], Record | None]) -> list[tuple[int, int]]:
    Scripted.script = iter(script)
    failures: list[KafkaError] = []
    found: Any = subscribed.poll(10, 0.1, failures.append)
    return [one.at for one in found]


@pytest.mark.parametrize("callback", ["on_revoke", "on_lost"])
def test_what_is_taken_away_in_the_middle_is_not_given(subscribed: Subscription, callback: str) -> None:
    polls = (
        then(tells("on_assign", 0, 1), gives(0, 5)),
        gives(1, 7),
        then(tells(callback, 0), tells("on_assign", 0), gives(0, 9)),
        nothing,
    )
    assert polled(subscribed, *polls) == [(1, 7), (0, 9)]
    assert subscribed.assignment("orders", 0) == "2"
    assert subscribed.assignment("orders", 1) == "1"


def test_errors_are_told_and_not_given(subscribed: Subscription) -> None:
    failure = KafkaError(KafkaError.LEADER_NOT_AVAILABLE)
    assert polled(subscribed, lambda _: Record((0, 1), failure), gives(0, 1), nothing) == [(0, 1)]


def test_no_more_than_wanted_is_asked_for(subscribed: Subscription) -> None:
    assert len(polled(subscribed, *(gives(0, at) for at in range(10)))) == 10


def test_partitions_are_given_back_before_it_is_closed(subscribed: Subscription) -> None:
    """librdkafka can wait for ever, with Python's lock, for a rebalance that it tells of while it closes."""
    polled(subscribed, then(tells("on_assign", 0, 1, 2), nothing))

    def taken_last(consumer: Scripted) -> None:
        tells("on_lost", 2)(consumer)
        consumer.calls.append("given back")

    Scripted.script = iter([gives(0, 5), tells("on_revoke", 0, 1), taken_last])
    subscribed.close()
    consumer: Any = subscribed.consumer
    assert consumer.calls == ["unsubscribe", "given back", "close"]


def test_one_that_cannot_give_back_is_closed_nevertheless(
    subscribed: Subscription, monkeypatch: pytest.MonkeyPatch
) -> None:
    polled(subscribed, then(tells("on_assign", 0), nothing))
    monkeypatch.setattr(subscription, "GIVING_BACK_SECONDS", 0.01)
    Scripted.script = itertools.repeat(nothing)
    subscribed.close()
    consumer: Any = subscribed.consumer
    assert consumer.calls == ["unsubscribe", "close"]
