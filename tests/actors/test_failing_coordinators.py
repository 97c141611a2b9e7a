"""A machine that raises: what each caller is answered, and what becomes of its coordinator. On a virtual clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import define, field

from actors.coordination import coordinator
from actors.coordination.coordinator import RETRY_SECONDS, RETRY_SECONDS_MAX, Coordinator
from actors.messages.controller import MetadataChanged
from actors.messages.coordinator import Coordinate, CoordinateBytes
from actors.raft.context import BrokerContext
from actors.runtime import Payload
from log.machines.coordination import Caller, Effects, Moment
from protocol.apis import HEARTBEAT
from protocol.error_codes import ErrorCode
from tests.actors.lone_coordinator import LoneCoordinator

TICK_SECONDS = 5.0
GOOD, SLOW, POISON = "good", "slow", "poison"


@define
class Script:
    """On which occasions machines raise, and when they were asked what."""

    raises: set[str]
    replays: list[float] = field(factory=list)
    loads: list[float] = field(factory=list)


class Machine:
    """Answers, never answers, or raises, as asked; raises by itself where `Script` says so."""

    def __init__(self, script: Script, now: Callable[[], float]) -> None:
        self._script = script
        self._now = now
        self._effects = Effects()
        self.next_deadline: float | None = None

    def replay(self, _key: bytes, _value: bytes | None) -> None:
        self._script.replays.append(self._now())
        self.fail_on("replay")

    def loaded(self, moment: Moment) -> None:
        self._script.loads.append(moment.now)
        self.next_deadline = moment.now + TICK_SECONDS
        self.fail_on("loaded")

    def handle(self, request: object, caller: Caller, _moment: Moment) -> None:
        if request == POISON:
            raise ValueError("poison")
        if request == GOOD:
            self._effects.reply(caller, "answer")

    def tick(self, moment: Moment) -> None:
        self.next_deadline = moment.now + TICK_SECONDS
        self.fail_on("tick")

    def take_effects(self) -> Effects:
        taken, self._effects = self._effects, Effects()
        return taken

    def fail_on(self, occasion: str) -> None:
        if occasion in self._script.raises:
            raise ValueError(occasion)


class Scripted(Coordinator):
    """A coordinator of such machines."""

    def __init__(self, topic: str, number: int, context: BrokerContext, script: Script) -> None:
        super().__init__(topic, number, context)
        self._script = script

    def machine(self, _epoch: int) -> Machine:
        return Machine(self._script, self.node.scheduler.clock.now)

    def topics_changed(self, machine: Any) -> None:
        machine.fail_on("topics")


class Broker(LoneCoordinator):
    """With such a coordinator, and a record in its log."""

    def __init__(self, *raises: str, hidden: int = 0) -> None:
        self.script = Script(set(raises))
        super().__init__(Scripted, self.script, records=1, hidden=hidden)

    def change_topics(self) -> None:
        self.ref.tell(MetadataChanged(frozenset(), complete=True))


def request(what: str) -> Coordinate:
    return Coordinate(what, 0, "client", "host")


def test_only_who_sent_what_failed_is_told_so() -> None:
    broker = Broker()
    broker.wait(1.0)
    slow = broker.ask(request(SLOW))
    broker.wait(0.01)
    assert broker.answer(request(POISON)) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert slow.get() == ErrorCode.NOT_COORDINATOR
    broker.wait(2 * RETRY_SECONDS)
    assert broker.answer(request(GOOD)) == "answer"
    assert len(broker.script.loads) == 2


@pytest.mark.parametrize("occasion", ["tick", "topics"])
def test_who_waits_while_a_coordinator_fails_by_itself_shall_ask_again(occasion: str) -> None:
    broker = Broker()
    broker.wait(1.0)
    slow = broker.ask(request(SLOW))
    broker.wait(0.01)
    broker.script.raises.add(occasion)
    broker.change_topics()
    broker.wait(TICK_SECONDS)
    assert slow.get() == ErrorCode.NOT_COORDINATOR
    broker.script.raises.clear()
    broker.wait(RETRY_SECONDS_MAX)
    assert broker.answer(request(GOOD)) == "answer"


@pytest.mark.parametrize("occasion", ["replay", "loaded", "topics"])
def test_a_coordinator_that_cannot_load_says_so_and_tries_less_and_less_often(occasion: str) -> None:
    broker = Broker(occasion)
    broker.wait(120.0)
    tries = broker.script.replays
    assert 10 < len(tries) < 25
    assert RETRY_SECONDS_MAX <= tries[-1] - tries[-2] < RETRY_SECONDS_MAX + 0.1
    assert broker.answer(request(GOOD)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    broker.script.raises.clear()
    broker.wait(RETRY_SECONDS_MAX)
    assert broker.answer(request(GOOD)) == "answer"


def test_once_time_passes_without_a_failure_a_coordinator_is_quick_to_begin_anew() -> None:
    broker = Broker("loaded")
    broker.wait(60.0)
    broker.script.raises.clear()
    broker.wait(RETRY_SECONDS_MAX + 2 * TICK_SECONDS)
    broker.script.raises.add("topics")
    broker.change_topics()
    broker.wait(0.001)
    broker.script.raises.clear()
    broker.wait(2 * RETRY_SECONDS)
    assert broker.answer(request(GOOD)) == "answer"


def test_a_read_that_finds_nothing_before_the_end_is_done_again() -> None:
    broker = Broker(hidden=2)
    broker.wait(1.0)
    assert len(broker.script.loads) == len(broker.script.replays) == 1
    assert broker.answer(request(GOOD)) == "answer"


@pytest.mark.parametrize("question", ["earliest", "latest", "read"])
def test_what_a_replica_answers_late_is_not_replayed_into_the_next_machine(question: str) -> None:
    broker = Broker()
    broker.replica.before[question] = lambda: broker.change_leadership(1)
    broker.wait(1.0)
    assert broker.replica.loads == 2
    assert len(broker.script.replays) == len(broker.script.loads) == 1
    assert broker.answer(request(GOOD)) == "answer"


def test_a_flight_that_comes_home_after_the_leadership_changed_answers_nobody() -> None:
    broker = Broker()
    broker.wait(1.0)
    broker.replica.before["confirm"] = lambda: broker.change_leadership(1)
    assert broker.answer(request(GOOD)) == ErrorCode.NOT_COORDINATOR
    broker.wait(1.0)
    assert broker.answer(request(GOOD)) == "answer"


@pytest.mark.parametrize("error", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_a_coordinator_whose_log_cannot_be_read_for_now_loads_again(error: ErrorCode) -> None:
    broker = Broker()
    broker.replica.reads = [error]
    broker.wait(10.0)
    assert (broker.replica.loads, len(broker.script.loads)) == (2, 1)
    assert broker.answer(request(GOOD)) == "answer"


def test_a_coordinator_has_so_many_requests_under_way_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "OPEN_MAX", 2)
    broker = Broker()
    broker.wait(1.0)
    slow = [broker.ask(request(SLOW)) for _ in range(2)]
    assert broker.answer(request(GOOD)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not any(one.done for one in slow)


def test_a_request_that_another_broker_passed_on_and_that_cannot_be_read_is_refused() -> None:
    broker = Broker()
    broker.wait(1.0)
    told = broker.answer(CoordinateBytes(HEARTBEAT.key, 4, "client", "host", Payload(memoryview(b"\0"))))
    assert told.error == ErrorCode.INVALID_REQUEST
