"""Topics that a broker has not heard of yet: what the controller says of them, and who waits how long."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pykka

from actors.control.client import ControllerClient
from actors.messages.controller import AwaitApplied, OperationAnswer, SyncMetadata
from actors.runtime import Address, Future
from actors.serving.json.topic_search import TopicSearch
from log.machines.metadata.plans import CreateTopic, Plan
from protocol.error_codes import ErrorCode


class Search:
    """A search whose controller says what a test says."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, Callable[[Any], None]]] = []
        self.later: list[Callable[[], None]] = []
        self.topics: dict[str, object] = {}
        serving = SimpleNamespace(
            metadata=SimpleNamespace(topic=self.topics.get),
            facts=SimpleNamespace(auto_create_topics=True),
            log_made=lambda *_: None,
        )
        self.connection: Any = SimpleNamespace(
            now=0.0,
            serving=serving,
            later=lambda _seconds, then: self.later.append(then),
            ask=lambda _address, message, then, **_: self.asked.append((message, then)),
        )
        self.connection.controller = ControllerClient(self.connection, Address("controller", "", 1))
        self.search = TopicSearch(cast("Any", self.connection))
        self.found: list[object] = []
        self.refused: list[str] = []

    def find(self, *, timeout_ms: int = 1000, makes: bool = True) -> None:
        call = SimpleNamespace(
            serving=self.connection.serving, answer=lambda facts: self.refused.append(facts["error"]["name"])
        )
        find = self.search.find_or_make if makes else self.search.find
        find(cast("Any", call), "orders", timeout_ms, self.found.append)

    def answer(self, error: ErrorCode | None) -> object:
        """The controller answers the next question, or (None) it does not."""
        message, then = self.asked.pop(0)
        future: Future[Any] = Future()
        if error is None:
            future.fail(pykka.Timeout("1 s"))
        else:
            future.set(OperationAnswer(Plan(error, "it says").answer, 7))
        then(future)
        return message

    def apply(self, *, in_time: bool = True) -> None:
        """This broker has applied what the controller answered of, or (not in time) it has not."""
        message, then = self.asked.pop(0)
        assert message == AwaitApplied(7)
        future: Future[Any] = Future()
        if in_time:
            future.set(True)
        else:
            future.fail(pykka.Timeout("1 s"))
        then(future)

    def wait(self, seconds: float) -> None:
        self.connection.now += seconds
        later, self.later = self.later, []
        for one in later:
            one()


def test_a_controller_that_is_not_found_is_looked_for_until_the_time_is_up() -> None:
    search = Search()
    search.find(timeout_ms=1000)
    search.find(timeout_ms=3000)
    search.answer(ErrorCode.NOT_CONTROLLER)
    assert search.refused == []
    search.wait(2.0)
    search.answer(None)
    assert search.refused == ["NOT_CONTROLLER"]
    search.wait(0.5)
    search.topics["orders"] = "the topic"
    search.answer(ErrorCode.TOPIC_ALREADY_EXISTS)
    search.apply()
    assert (search.found, search.refused) == (["the topic"], ["NOT_CONTROLLER"])


def test_a_topic_that_cannot_be_made_is_refused_to_all_that_wait_for_it() -> None:
    search = Search()
    search.find()
    search.find()
    assert isinstance(search.answer(ErrorCode.POLICY_VIOLATION), CreateTopic)
    assert (search.found, search.refused) == ([], ["POLICY_VIOLATION"] * 2)


def test_a_topic_of_which_this_broker_does_not_hear_in_time_is_unknown_here() -> None:
    search = Search()
    search.find(timeout_ms=1000)
    search.answer(ErrorCode.NONE)
    assert (search.found, search.refused) == ([], [])
    search.connection.now = 1.0
    search.apply(in_time=False)
    assert search.refused == ["UNKNOWN_TOPIC_OR_PARTITION"]


def test_a_topic_that_was_deleted_before_this_broker_heard_of_it_is_made_again() -> None:
    search = Search()
    search.find(timeout_ms=1000)
    search.answer(ErrorCode.TOPIC_ALREADY_EXISTS)
    search.apply()
    search.wait(0.1)
    assert isinstance(search.answer(ErrorCode.NONE), CreateTopic)


def test_a_topic_that_is_not_to_be_made_is_unknown_once_this_broker_knows_everything() -> None:
    search = Search()
    search.find(makes=False)
    search.find(makes=False)
    assert search.answer(ErrorCode.NONE) == SyncMetadata()
    assert search.refused == ["UNKNOWN_TOPIC_OR_PARTITION"] * 2


def test_a_topic_that_is_there_is_found_once_this_broker_has_heard_of_it() -> None:
    search = Search()
    search.find(makes=False)
    search.topics["orders"] = "the topic"
    search.answer(ErrorCode.NONE)
    assert search.found == ["the topic"]
