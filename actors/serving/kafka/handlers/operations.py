"""What a request asks of the controllers, and how it waits for all of that.

The wire has no ids of requests that would outlive a connection, so every operation gets one here: asked again because
its answer was lost, or because another broker has become the controller, it is done once. An operation is answered when
this broker knows of it too, so that a client that asks the same broker next finds what it did. New partitions are
answered when this broker can name their leaders, or when the request's time is up: they exist then.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
import pykka

from actors.messages.controller import AwaitLeaders, makes_partitions
from actors.runtime import MailboxFull
from protocol.error_codes import ErrorCode
from protocol.late_attrs import frozen

if TYPE_CHECKING:
    from actors.runtime import Future
    from actors.serving.kafka.connection import Call, KafkaConnection
    from log.machines.metadata.plans import CreatePartitions, CreateTopic

SECONDS = 15.0
"""For requests that do not say how long they wait. Longer than a controller waits for another one."""
RETRY_SECONDS = 0.05
SEEN_SECONDS_MAX = 1.0
_SLACK_SECONDS = 1.0  # for a controller that is late to say that the time is up
LOOK_SECONDS, LOOK_SECONDS_MAX = 0.005, 0.1
_SAID_CHARS_MAX = 300

Facts = dict[str, Any]


@frozen(slots=True)
class Outcome:
    """What became of an operation."""

    error: ErrorCode
    message: str
    facts: Facts

    @property
    def error_message(self) -> str | None:
        """As it travels: null where nothing is wrong."""
        return self.message if self.error else None


class Together:
    """The answer to a request that begins several things: it goes out when all of them are done."""

    __slots__ = ("_call", "_open", "_response")

    def __init__(self, call: Call[Any], response: object) -> None:
        self._call = call
        self._response = response
        self._open = 1  # ours, until everything is begun

    def begin(self) -> None:
        self._open += 1

    def done(self) -> None:
        """One of them is, or everything is begun."""
        self._open -= 1
        if not self._open:
            self._call.answer(self._response)


def said(name: str) -> str:
    """A name as it came, short enough for a message: it may be as long as a string can be."""
    return name[:_SAID_CHARS_MAX]


def new_id() -> str:
    """Of an operation, in the controllers' memory. Those of other askers begin with other words."""
    return f"kafka {uuid.uuid4()}"


def operate(
    call: Call[Any],
    operation: object,
    seconds: float,
    then: Callable[[Outcome], None],
    *,
    seen: Callable[[Facts], bool] | None = None,
) -> None:
    """Have this done within so many seconds. `seen(facts)` says whether this broker knows of it."""
    _Operating(call, operation, call.connection.now + seconds, then, seen).ask()


@frozen(slots=True)
class _Operating:
    """One operation until it is done. A class, since functions that refer to each other are garbage in a cycle."""

    call: Call[Any]
    operation: object
    deadline: float
    then: Callable[[Outcome], None]
    seen: Callable[[Facts], bool] | None

    def ask(self) -> None:
        connection = self.call.connection
        timeout = max(self.deadline - connection.now, 0.0)
        connection.ask(self.call.serving.controller, self.operation, self._answered, timeout=timeout)

    def _answered(self, future: Future[Any]) -> None:
        outcome, connection = _outcome(future), self.call.connection
        if outcome.error == ErrorCode.NOT_CONTROLLER and connection.now + RETRY_SECONDS < self.deadline:
            connection.later(RETRY_SECONDS, self.ask)
        elif outcome.error or self.seen is None:
            self.then(outcome)
        else:
            look_until(connection, partial(self.seen, outcome.facts), SEEN_SECONDS_MAX, partial(self.then, outcome))


def make_partitions(
    call: Call[Any], operation: CreateTopic | CreatePartitions, seconds: float, then: Callable[[Outcome], None]
) -> None:
    """Have these made, and wait for what is left of the time until this broker can name a leader for each."""
    clock = call.serving.node.scheduler.clock
    deadline = clock.now() + seconds

    def made(outcome: Outcome) -> None:
        left = deadline - clock.now()
        if outcome.error or left <= 0.0 or not makes_partitions(operation):
            then(outcome)
        else:
            wait = AwaitLeaders.after(outcome.facts, left)
            call.connection.ask(
                call.serving.controller, wait, lambda _led: then(outcome), timeout=left + _SLACK_SECONDS
            )

    operate(call, operation, seconds, made)


def look_until(
    connection: KafkaConnection, condition: Callable[[], bool], seconds: float, then: Callable[[], None]
) -> None:
    """Go on once this holds, or after so many seconds. Looks less and less often: many may wait for the same."""
    _look(connection, condition, connection.now + seconds, then, LOOK_SECONDS)


def _look(
    connection: KafkaConnection,
    condition: Callable[[], bool],
    until: float,
    then: Callable[[], None],
    pause: float,
) -> None:
    if condition() or connection.now >= until:
        then()
    else:
        longer = min(2 * pause, LOOK_SECONDS_MAX)
        connection.later(pause, partial(_look, connection, condition, until, then, longer))


def _outcome(future: Future[Any]) -> Outcome:
    error = future.exception
    if error is None:
        facts = orjson.loads(future.get().answer)
        return Outcome(ErrorCode(facts["error"]), facts["message"], facts)
    if isinstance(error, pykka.Timeout):
        return Outcome(ErrorCode.REQUEST_TIMED_OUT, "no controller answered in time; it may still be done", {})
    if isinstance(error, pykka.ActorDeadError | MailboxFull):
        return Outcome(ErrorCode.NOT_CONTROLLER, f"no controller can be asked: {error}", {})
    return Outcome(ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller failed: {error!r}", {})
