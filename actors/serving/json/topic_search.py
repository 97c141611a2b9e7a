"""Topics by name. A broker may learn of a topic later than the client to which its creation was confirmed.

So a name that is not known here is no mistake yet: this broker first applies everything that is committed
(SyncMetadata), or has the controller make the topic and waits until it has applied that. Requests for one topic wait in
their order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.messages.controller import Outcome, SyncMetadata
from log.machines.metadata.plans import CreateTopic, topic_name_problem
from protocol.error_codes import ErrorCode
from protocol.json.lines import Facts, refusal
from protocol.late_attrs import frozen

if TYPE_CHECKING:
    from actors.serving.connection import Connection
    from actors.serving.json.call import LineCall
    from log.machines.metadata.metadata import Topic

RETRY_SECONDS = 0.01

Found = Callable[["Topic"], None]


@frozen(slots=True)
class _Waiting:
    call: LineCall[Any]
    deadline: float
    then: Found
    makes: bool


class TopicSearch:
    """The searches of one connection."""

    __slots__ = ("_connection", "_names")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._names: dict[str, list[_Waiting]] = {}

    def find(self, call: LineCall[Any], name: str, timeout_ms: int, then: Found) -> None:
        """Go on with the topic of this name, or refuse the call."""
        self._find(call, name, timeout_ms, then, makes=False)

    def find_or_make(self, call: LineCall[Any], name: str, timeout_ms: int, then: Found) -> None:
        """The same; a topic that is nowhere is made, if such topics are made here."""
        self._find(call, name, timeout_ms, then, makes=call.serving.facts.auto_create_topics)

    def _find(self, call: LineCall[Any], name: str, timeout_ms: int, then: Found, *, makes: bool) -> None:
        waiting = self._names.get(name)
        topic = None if waiting else call.serving.metadata.topic(name)
        if topic is not None:
            then(topic)
            return
        problem = topic_name_problem(name)
        if problem is not None:
            call.refuse(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
            return
        one = _Waiting(call, self._connection.now + timeout_ms / 1000, then, makes)
        if waiting:
            waiting.append(one)
        else:
            self._names[name] = [one]
            self._ask(name)

    def _ask(self, name: str) -> None:
        """Have the topic made, or have this broker apply everything that is committed."""
        first = self._names[name][0]
        message = CreateTopic("", name) if first.makes else SyncMetadata()
        then = partial(self._asked, name, makes=first.makes)
        self._connection.controller.ask(message, self._left(first), then)

    def _left(self, one: _Waiting) -> float:
        return max(one.deadline - self._connection.now, RETRY_SECONDS)

    def _asked(self, name: str, outcome: Outcome, *, makes: bool) -> None:
        if makes:
            self._connection.serving.log_made(name, outcome)
        error, text = outcome.error, outcome.message
        if outcome.offset < 0:
            error, text = ErrorCode.NOT_CONTROLLER, "no controller answers"
        if error in (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT):
            self._expire(name, refusal(error, text))
            if name in self._names:
                self._connection.later(RETRY_SECONDS, partial(self._ask, name))
        elif not makes:
            self._look(name, self._without_makers)
        elif error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            left = self._left(self._names[name][0])
            applied = partial(self._look, name, self._not_heard_of)
            self._connection.controller.await_applied(outcome, left, applied)
        else:
            self._refuse(name, refusal(error, text))

    def _look(self, name: str, otherwise: Callable[[str], None]) -> None:
        """Go on with the topic if this broker knows it now."""
        topic = self._connection.serving.metadata.topic(name)
        if topic is None:
            otherwise(name)
            return
        for one in self._names.pop(name):
            one.then(topic)

    def _not_heard_of(self, name: str) -> None:
        """The time is up, or the topic was deleted meanwhile."""
        text = f"this broker has not heard of topic {name!r} yet; try again, or ask another"
        self._expire(name, refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text))
        if name in self._names:
            self._connection.later(RETRY_SECONDS, partial(self._ask, name))

    def _without_makers(self, name: str) -> None:
        """The topic does not exist: refuse the requests that would not make it, up to the first one that would."""
        waiting = self._names[name]
        first_maker = next((at for at, one in enumerate(waiting) if one.makes), len(waiting))
        unknown = refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
        refused, kept = waiting[:first_maker], waiting[first_maker:]
        self._keep(name, kept)
        for one in refused:
            one.call.answer(unknown)
        if kept:
            self._ask(name)

    def _expire(self, name: str, facts: Facts) -> None:
        now, waiting = self._connection.now, self._names[name]
        self._keep(name, [one for one in waiting if one.deadline > now])
        for one in waiting:
            if one.deadline <= now:
                one.call.answer(facts)

    def _refuse(self, name: str, facts: Facts) -> None:
        for one in self._names.pop(name):
            one.call.answer(facts)

    def _keep(self, name: str, waiting: list[_Waiting]) -> None:
        if waiting:
            self._names[name] = waiting
        else:
            del self._names[name]
