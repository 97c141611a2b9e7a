"""FindCoordinator: the broker that coordinates a group or a transactional id.

The internal topic is made when the first coordinator is looked for. The answer waits, for a few seconds at most, until
somebody leads.

Left out: share groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.coordinator_messages import GROUPS_TOPIC, TRANSACTIONS_TOPIC, partition_of
from actors.handlers.leaders import endpoints
from actors.handlers.operations import Outcome, look_until, new_id, operate
from actors.internal_topics import making_of
from protocol.error_codes import ErrorCode
from protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from actors.kafka_connection import Call

SECONDS = 5.0
SEVERAL_FROM = 4
_TOPICS = {0: GROUPS_TOPIC, 1: TRANSACTIONS_TOPIC}


def handle(call: Call[FindCoordinatorRequest]) -> None:
    request, serving = call.request, call.serving
    topic = _TOPICS.get(request.key_type)
    keys = request.coordinator_keys if call.version >= SEVERAL_FROM else [request.key]
    if topic is None:
        _answer(
            call,
            [
                _refused(key, ErrorCode.INVALID_REQUEST, "only groups and transactions are coordinated here")
                for key in keys
            ],
        )
        return

    def is_led() -> bool:
        return all(_leader(call, topic, key) is not None for key in keys)

    def found() -> None:
        _answer(call, [_found(call, topic, key) for key in keys])

    def made(outcome: Outcome) -> None:
        if outcome.error == ErrorCode.INVALID_REPLICATION_FACTOR:
            text = f"{topic} cannot be made: {outcome.message}"
            _answer(call, [_refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, text) for key in keys])
        else:  # whether this request made it or another one did, the metadata tells
            look_until(call.connection, is_led, SECONDS, found)

    if is_led():
        found()
    elif serving.metadata.topic(topic) is not None:
        look_until(call.connection, is_led, SECONDS, found)
    else:
        operate(call, making_of(serving.facts, topic, new_id()), SECONDS, made)


def _leader(call: Call[FindCoordinatorRequest], topic: str, key: str) -> int | None:
    serving = call.serving
    known = serving.metadata.topic(topic)
    if known is None or not known.partitions:
        return None
    led = serving.led(known, partition_of(key, len(known.partitions)))
    return led.broker if led is not None and led.broker in serving.metadata.brokers else None


def _found(call: Call[FindCoordinatorRequest], topic: str, key: str) -> Coordinator:
    leader = _leader(call, topic, key)
    at = endpoints(call.serving, {leader} if leader is not None else set())
    if not at:
        text = f"nobody leads the partition of {topic} that coordinates {key[:300]!r}"
        return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, text)
    return Coordinator(key=key, node_id=at[0].broker, host=at[0].host, port=at[0].port, error_message=None)


def _refused(key: str, error: ErrorCode, text: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=text)


def _answer(call: Call[FindCoordinatorRequest], coordinators: list[Coordinator]) -> None:
    if call.version >= SEVERAL_FROM:
        call.answer(FindCoordinatorResponse(coordinators=coordinators))
        return
    one = coordinators[0]
    call.answer(
        FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=one.error_message,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )
    )
