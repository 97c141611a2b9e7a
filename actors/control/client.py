"""Asks this broker's controller on behalf of an actor: the one way from requests of clients to the metadata.

    client.ask(DescribeQuorum(), seconds, then)         once
    client.operate(DeleteTopic(…), seconds, then)       again while there is no controller; then `settle`
    client.settle(operation, outcome, seconds, then)    wait until this broker has applied the operation

`then` is given an `Outcome`, in a turn of the actor. An operation that carries an id is asked again under that id, and
done once, though its answer may have been lost. It is answered when this broker has applied it too (`AwaitApplied`), so
a client that asks the same broker next finds the result. New partitions are answered when this broker can name their
leaders, or when the time is up: they exist then.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from actors.messages.controller import AwaitApplied, AwaitLeaders, Outcome, PartitionsCreated, creates_partitions
from actors.runtime import Address, Future
from protocol.error_codes import ErrorCode
from protocol.late_attrs import frozen

RETRY_SECONDS = 0.05
APPLIED_SECONDS_MAX = 1.0
"""How long a finished operation waits until this broker has applied it. After that the broker answers anyway."""
_SLACK_SECONDS = 1.0
"""Added to a time-out, for the controller's own answer that the time is up."""

Then = Callable[[Outcome], None]


class Asker(Protocol):
    """An actor, such as a connection. Answers are handled in its turns."""

    @property
    def now(self) -> float: ...

    def ask(
        self, address: Address, message: Any, then: Callable[[Future[Any]], None], *, timeout: float | None = None
    ) -> object: ...

    def later(self, seconds: float, function: Callable[[], None]) -> object: ...


@frozen(slots=True)
class ControllerClient:
    """See the module's docstring."""

    asker: Asker
    controller: Address
    """The controller of this broker. It passes on what only the active controller can do."""

    def ask(self, message: object, seconds: float, then: Then) -> None:
        """Ask once. If no controller answers, the outcome has an error."""
        self.asker.ask(self.controller, message, lambda future: then(Outcome.of(future)), timeout=max(seconds, 0.0))

    def operate(self, operation: object, seconds: float, then: Then) -> None:
        """Have the operation done within so many seconds, and applied by this broker."""
        _Operating(self, operation, self.asker.now + seconds, then).begin()

    def settle(self, operation: object, outcome: Outcome, seconds: float, then: Then) -> None:
        """Call `then` once this broker has applied the operation and knows the leaders of new partitions."""
        then_told = partial(then, outcome)
        if outcome.error:
            then_told()
        elif creates_partitions(operation) and outcome.has(PartitionsCreated) and seconds > 0.0:
            created = outcome.facts_as(PartitionsCreated)
            self.await_leaders(created.topic_id, created.first, created.partitions, seconds, then_told)
        else:
            self.await_applied(outcome, APPLIED_SECONDS_MAX, then_told)

    def await_applied(self, outcome: Outcome, seconds: float, then: Callable[[], None]) -> None:
        """Call `then` once this broker has applied the metadata up to the answer's offset, or after so many seconds."""
        self.asker.ask(self.controller, AwaitApplied(outcome.offset), lambda _future: then(), timeout=seconds)

    def await_leaders(self, topic_id: str, first: int, end: int, seconds: float, then: Callable[[], None]) -> None:
        """Call `then` once this broker can name a leader for each of these partitions, or after so many seconds."""
        wait = AwaitLeaders(topic_id, first, end, seconds)
        self.asker.ask(self.controller, wait, lambda _future: then(), timeout=seconds + _SLACK_SECONDS)


@frozen(slots=True)
class _Operating:
    """One operation until it is done. A class, since functions that refer to each other form a reference cycle."""

    client: ControllerClient
    operation: object
    deadline: float
    then: Then

    def begin(self) -> None:
        self.client.ask(self.operation, self._left, self._answered)

    @property
    def _left(self) -> float:
        return self.deadline - self.client.asker.now

    def _answered(self, outcome: Outcome) -> None:
        if outcome.error == ErrorCode.NOT_CONTROLLER and self._left > RETRY_SECONDS:
            self.client.asker.later(RETRY_SECONDS, self.begin)
        else:
            self.client.settle(self.operation, outcome, self._left, self.then)
