"""FindCoordinator: the broker that coordinates a group or a transactional id.

The internal topic is created when the first coordinator is looked for. The answer waits, for a few seconds at most,
until its partition has a leader.

Left out: share groups.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING

from actors.control.internal_topics import making_of
from actors.messages.controller import Outcome
from actors.messages.coordinator import GROUPS_TOPIC, TRANSACTIONS_TOPIC, partition_of
from actors.runtime import Gather
from actors.serving.kafka.handlers.leaders import endpoints
from actors.serving.kafka.handlers.operations import new_id
from protocol.error_codes import ErrorCode
from protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call
    from log.machines.metadata.metadata import Topic

SECONDS = 5.0
SEVERAL_FROM = 4
_TOPICS = {0: GROUPS_TOPIC, 1: TRANSACTIONS_TOPIC}


def handle(call: Call[FindCoordinatorRequest]) -> None:
    request, serving = call.request, call.serving
    topic = _TOPICS.get(request.key_type)
    keys = list(dict.fromkeys(request.coordinator_keys)) if call.version >= SEVERAL_FROM else [request.key]
    if topic is None:
        text = "only groups and transactions are coordinated here"
        call.go_on(_answer(call, (_refused(key, ErrorCode.INVALID_REQUEST, text) for key in keys)))
        return

    def look() -> None:
        _when_led(call, topic, keys, lambda: call.go_on(_answer(call, (_found(call, topic, key) for key in keys))))

    def made(outcome: Outcome) -> None:
        if outcome.error == ErrorCode.INVALID_REPLICATION_FACTOR:
            text = f"{topic} cannot be made: {outcome.message}"
            call.go_on(_answer(call, (_refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, text) for key in keys)))
        else:  # this request or another one made it: the metadata has it
            call.connection.controller.await_applied(outcome, SECONDS, look)

    if serving.metadata.topic(topic) is not None:
        look()
    else:
        call.connection.controller.operate(making_of(serving.facts, topic, new_id()), SECONDS, made)


def _when_led(call: Call[FindCoordinatorRequest], topic: str, keys: list[str], then: Callable[[], None]) -> None:
    """Go on once each partition that coordinates one of these has a leader, or after a few seconds.

    Many keys are taken for keys of all partitions.
    """
    known = call.serving.metadata.topic(topic)
    if known is None:
        then()
        return
    count = len(known.partitions)
    numbers = range(count) if len(keys) > count else sorted({partition_of(key, count) for key in keys})
    gather = Gather(then)
    for number in numbers:
        if _leader(call, known, number) is None:
            gather.begin()
            call.connection.controller.await_leaders(known.id, number, number + 1, SECONDS, gather.done)
    gather.done()


def _leader(call: Call[FindCoordinatorRequest], topic: Topic, number: int) -> int | None:
    led = call.serving.led(topic, number)
    return led.broker if led is not None and led.broker in call.serving.metadata.brokers else None


def _found(call: Call[FindCoordinatorRequest], topic: str, key: str) -> Coordinator:
    known = call.serving.metadata.topic(topic)
    leader = None if known is None else _leader(call, known, partition_of(key, len(known.partitions)))
    at = endpoints(call.serving, {leader} if leader is not None else set())
    if not at:
        text = f"nobody leads the partition of {topic} that coordinates {key[:300]!r}"
        return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, text)
    return Coordinator(key=key, node_id=at[0].broker, host=at[0].host, port=at[0].port, error_message=None)


def _refused(key: str, error: ErrorCode, text: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=text)


def _answer(
    call: Call[FindCoordinatorRequest], coordinators: Iterable[Coordinator]
) -> Generator[None, None, FindCoordinatorResponse]:
    response = FindCoordinatorResponse()
    for one in coordinators:
        if call.version >= SEVERAL_FROM:
            response.coordinators.append(one)
        else:
            response.error_code, response.error_message = one.error_code, one.error_message
            response.node_id, response.host, response.port = one.node_id, one.host, one.port
        yield
    return response
