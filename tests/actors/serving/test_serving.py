"""What the connections of a broker share, without a broker."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from actors.cluster_file.facts import ClusterFacts
from actors.messages.controller import OperationAnswer
from actors.runtime import Actor, Address, Future, Node, handles
from actors.runtime.simulation import Simulation
from actors.serving import context as serving_module
from actors.serving.context import MAKE_SECONDS, Serving
from actors.serving.fetch_sessions import FetchSessions
from log.machines.metadata.plans import CreateTopic, Plan

CONTROLLER = Address("controller", "", 1)


class Controller(Actor):
    """Notes which topics it is asked to make, and leaves the answers to the test."""

    def __init__(self, asked: list[tuple[str, Future[Any]]]) -> None:
        super().__init__()
        self._asked = asked

    @handles(CreateTopic)
    def create(self, request: CreateTopic) -> Any:
        self._asked.append((request.name, self.defer()))
        return None


@pytest.fixture
def sim() -> Simulation:
    return Simulation(1)


@pytest.fixture
def node(sim: Simulation) -> Node:
    return sim.add_node(1)


@pytest.fixture
def serving(node: Node) -> Serving:
    context: Any = None
    return Serving(node, context, ClusterFacts((1,), (), "host", 1), FetchSessions(random.Random(1)))


@pytest.fixture
def asked(node: Node) -> list[tuple[str, Future[Any]]]:
    made: list[tuple[str, Future[Any]]] = []
    node.spawn(Controller, made, address=CONTROLLER)
    return made


def names(asked: list[tuple[str, Future[Any]]]) -> list[str]:
    return [name for name, _ in asked]


def answered(answer: Future[Any]) -> None:
    answer.set(OperationAnswer(Plan().answer, 0))


def failed(answer: Future[Any]) -> None:
    answer.fail(ZeroDivisionError())


@pytest.mark.parametrize("ends", [answered, failed])
def test_a_topic_is_asked_for_once_at_a_time_and_again_afterwards(
    sim: Simulation, serving: Serving, asked: list[tuple[str, Future[Any]]], ends: Callable[[Future[Any]], None]
) -> None:
    for _ in range(2):
        serving.make_topic("orders")
        sim.run(seconds=0.1)
    assert names(asked) == ["orders"]
    ends(asked[0][1])
    sim.run(seconds=0.1)
    serving.make_topic("orders")
    sim.run(seconds=0.1)
    assert names(asked) == ["orders", "orders"]


def test_a_controller_that_never_answers_is_asked_again(
    sim: Simulation, serving: Serving, asked: list[tuple[str, Future[Any]]]
) -> None:
    serving.make_topic("orders")
    sim.run(seconds=MAKE_SECONDS + 1)
    serving.make_topic("orders")
    sim.run(seconds=0.1)
    assert names(asked) == ["orders", "orders"]


def test_without_a_controller_nothing_is_asked_and_nothing_remembered(
    sim: Simulation, node: Node, serving: Serving
) -> None:
    serving.make_topic("orders")
    asked: list[tuple[str, Future[Any]]] = []
    node.spawn(Controller, asked, address=CONTROLLER)
    serving.make_topic("orders")
    sim.run(seconds=0.1)
    assert names(asked) == ["orders"]


def test_the_memory_of_replicas_addresses_is_bounded(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_module, "_ADDRESSES_MAX", 2)
    topic: Any = SimpleNamespace(id="id", name="orders")
    told = [str(serving.replica(topic, number)) for number in (0, 1, 2, 0)]
    assert told == [f"replica/orders-{number}.id@1" for number in (0, 1, 2, 0)]
    assert len(serving._addresses) <= 2
