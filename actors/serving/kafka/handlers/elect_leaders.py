"""ElectLeaders: transfers the leadership of a partition to its preferred replica, if that one is in sync.

Left out: unclean elections. A partition whose majority is gone waits for it, because a replica that leads without it
could lose what was acknowledged. They are answered with ELIGIBLE_LEADERS_NOT_AVAILABLE, or, where a replica leads, with
ELECTION_NOT_NEEDED.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.messages.replica import TransferLeadership, group_name, replica_address
from actors.runtime import Gather
from actors.serving.kafka.handlers.operations import said
from log.settings import unclean
from protocol.error_codes import ErrorCode
from protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from actors.runtime import Future
    from actors.serving.kafka.connection import Call, KafkaConnection
    from log.machines.metadata.metadata import Topic

TRY_SECONDS = 2.0
"""After which a leader that has not handed over is asked once more."""
LOOK_SECONDS, LOOK_SECONDS_MAX = 0.005, 0.1
_PREFERRED, _UNCLEAN = 0, 1
_NO_UNCLEAN = f"unclean elections are refused: {unclean.REFUSAL}; {unclean.REMEDY}"


def handle(call: Call[ElectLeadersRequest]) -> Generator[None, None, ElectLeadersResponse | None]:
    request = call.request
    if request.election_type not in (_PREFERRED, _UNCLEAN):
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
    yield from _ElectLeaders(call).begin()
    return None


class _ElectLeaders:
    """One request until every partition has its leader, or cannot have it."""

    __slots__ = ("_call", "_deadline", "_gather", "_response")

    def __init__(self, call: Call[ElectLeadersRequest]) -> None:
        self._call = call
        self._deadline = self._now + call.request.timeout_ms / 1000
        self._response = ElectLeadersResponse()
        self._gather = Gather(partial(call.answer, self._response))

    def begin(self) -> Generator[None, None, None]:
        for name, numbers in self._wanted():
            told = ReplicaElectionResult(topic=name)
            for number in numbers:
                yield
                result = PartitionResult(partition_id=number, error_message=None)
                self._begin(name, result)
                if (
                    self._call.request.topic_partitions is not None
                    or result.error_code != ErrorCode.ELECTION_NOT_NEEDED
                ):
                    told.partition_result.append(result)
            if told.partition_result:
                self._response.replica_election_results.append(told)
        self._gather.done()

    @property
    def _now(self) -> float:
        return self._call.serving.node.scheduler.clock.now()

    def _wanted(self) -> Iterator[tuple[str, list[int]]]:
        given = self._call.request.topic_partitions
        if given is not None:
            yield from ((one.topic, one.partitions) for one in given)
        else:
            topics = list(self._call.serving.metadata.topics.values())
            yield from ((topic.name, list(range(len(topic.partitions)))) for topic in topics)

    def _begin(self, name: str, result: PartitionResult) -> None:
        serving = self._call.serving
        topic, number = serving.metadata.topic(name), result.partition_id
        if topic is None or not 0 <= number < len(topic.partitions):
            _refuse(result, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {said(name)}-{number}")
            return
        led = serving.led(topic, number)
        leader = None if led is None else led.broker
        if self._call.request.election_type == _PREFERRED:
            preferred = topic.partitions[number].replicas[0]
            if leader == preferred:
                _refuse(result, ErrorCode.ELECTION_NOT_NEEDED, f"broker {preferred} leads it already")
            else:
                self._gather.begin()
                self._try(topic, preferred, result)
        elif leader is None:
            _refuse(result, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, _NO_UNCLEAN)
        else:
            _refuse(result, ErrorCode.ELECTION_NOT_NEEDED, f"broker {leader} leads it")

    def _try(self, topic: Topic, preferred: int, result: PartitionResult) -> None:
        """Look at the present leader: has the transfer succeeded, and if not, can it be tried (again)?"""
        led, left = self._call.serving.led(topic, result.partition_id), self._deadline - self._now
        if led is not None and led.broker == preferred:
            self._gather.done()
        elif led is None or led.broker is None or preferred not in led.in_sync:
            text = f"broker {preferred} is preferred, and is not in sync"
            _refuse(result, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, text)
            self._gather.done()
        elif left <= 0.0:
            _refuse(result, ErrorCode.REQUEST_TIMED_OUT, f"broker {preferred} does not lead it yet")
            self._gather.done()
        else:
            address = replica_address(group_name(topic.name, result.partition_id, topic.id), led.broker)
            then = partial(self._asked, topic, preferred, result)
            self._call.connection.ask(address, TransferLeadership(preferred), then, timeout=left)

    def _asked(self, topic: Topic, preferred: int, result: PartitionResult, _future: Future[Any]) -> None:
        def elected() -> bool:
            led = self._call.serving.led(topic, result.partition_id)
            return led is not None and led.broker == preferred

        seconds = min(self._deadline - self._now, TRY_SECONDS)
        _look_until(self._call.connection, elected, seconds, partial(self._try, topic, preferred, result))


def _refuse(result: PartitionResult, error: ErrorCode, text: str) -> None:
    result.error_code, result.error_message = error, text


def _look_until(
    connection: KafkaConnection, condition: Callable[[], bool], seconds: float, then: Callable[[], None]
) -> None:
    """Go on once the condition holds, or after so many seconds. The pauses double, since many may wait at once."""
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
