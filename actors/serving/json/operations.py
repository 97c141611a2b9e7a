"""What a client may ask in newline JSON about topics and brokers: a table of operations and of the fields of each.

    {"op":"create_topic","name":"orders","partitions":6}
    {"op":"move","topic":"orders","partition":0,"replicas":[1,2,4]}

Each becomes one request to this broker's controller. Any of them may carry a `request_id`: one that is sent again with
the same (its answer was lost) is answered again and done once. An answer is the facts, or what is wrong, as `error`.
Partitions that are made are answered when this broker can name their leaders, or when the time is up: they exist then.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from actors.messages.controller import DescribeCluster, ElectLeaders, Outcome
from log.machines.metadata.plans import (
    AlterConfigs,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    DrainBroker,
    MoveReplicas,
    RecoverPartition,
)
from protocol.error_codes import ErrorCode
from protocol.json.fields import (
    BadField,
    Field,
    Fields,
    assignment,
    brokers,
    config_changes,
    configs,
    flag,
    whole,
    word,
)
from protocol.json.lines import Facts, quoted, refusal
from protocol.late_attrs import frozen

if TYPE_CHECKING:
    from actors.serving.json.connection import JsonCall

ANSWER_SECONDS = 15.0
"""It is longer than a controller waits for another one."""
REQUEST_ID_CHARS_MAX = 100


@frozen(slots=True)
class Operation:
    """`request(request_id, field, …)`, in the order of its fields, is what the controller is asked."""

    request: Callable[..., Any]
    fields: Fields
    facts: Callable[[Facts], Facts] = dict
    """The part of the controller's answer that the client gets."""

    def begin(self, call: JsonCall, given: Facts) -> None:
        """Let this broker's controller do it, and answer when it has."""
        *values, request_id = self.fields.read(given)
        asked = self.request(request_id or f"json {uuid.uuid4()}", *values)

        controller, deadline = call.connection.controller, call.connection.now + ANSWER_SECONDS

        def settled(outcome: Outcome) -> None:
            call.answer(self.answer(outcome))

        def done(outcome: Outcome) -> None:  # without a controller, the client asks another broker
            controller.settle(asked, outcome, deadline - call.connection.now, settled)

        controller.ask(asked, ANSWER_SECONDS, done)

    def answer(self, outcome: Outcome) -> Facts:
        """The answer to the client once the controller has answered, or has not."""
        if outcome.error == ErrorCode.NONE:
            return self.facts({"warnings": outcome.warnings, **outcome.facts})
        message = outcome.message
        if outcome.error == ErrorCode.REQUEST_TIMED_OUT:
            message += "; ask again with the same request_id"
        return refusal(outcome.error, message)


def request_id(path: str, given: Any) -> str:
    """The id as the controllers keep it. Requests of brokers have other ids, so none is mistaken for a client's."""
    if not isinstance(given, str) or not 1 <= len(given) <= REQUEST_ID_CHARS_MAX:
        raise BadField(f"{path}: must be a string of 1 to {REQUEST_ID_CHARS_MAX} characters, not {quoted(given)}")
    return f"json {given}"


def _topics(told: Facts) -> Facts:
    return {"topics": told["topics"]}


def _brokers_told(told: Facts) -> Facts:
    """The brokers with the numbers of partitions that each leads and keeps, also of those that are moving away."""
    counted = {one["broker"]: {**one, "leads": 0, "replicas": 0} for one in told["brokers"]}
    for topic in told["topics"]:
        for partition in topic["partitions"]:
            for broker in {*partition["replicas"], *partition["moved_from"]}:
                counted[broker]["replicas"] += 1
            if partition["leader"] in counted:
                counted[partition["leader"]]["leads"] += 1
    return {"cluster_id": told["cluster_id"], "controller": told["controller"], "brokers": list(counted.values())}


def _describe(_request_id: str) -> DescribeCluster:
    return DescribeCluster()


def _cancel_move(request_id: str, topic: str, partition: int) -> MoveReplicas:
    return MoveReplicas(request_id, topic, partition, ())


def _elect_leaders(_request_id: str, topic: str) -> ElectLeaders:
    return ElectLeaders(topic)


_NAME = Field(word)
_PARTITION = Field(whole)
_ASSIGNMENT = Field(assignment, ())
_VALIDATE_ONLY = Field(flag, False)


def _fields(**known: Field) -> Fields:
    return Fields({**known, "request_id": Field(request_id, "")})


OPERATIONS: dict[str, Operation] = {
    "topics": Operation(_describe, _fields(), _topics),
    "brokers": Operation(_describe, _fields(), _brokers_told),
    "create_topic": Operation(
        CreateTopic,
        _fields(
            name=_NAME,
            partitions=Field(whole, -1),
            replication_factor=Field(whole, -1),
            assignment=_ASSIGNMENT,
            configs=Field(configs, ()),
            validate_only=_VALIDATE_ONLY,
        ),
    ),
    "delete_topic": Operation(DeleteTopic, _fields(name=_NAME)),
    "create_partitions": Operation(
        CreatePartitions, _fields(name=_NAME, count=Field(whole), assignment=_ASSIGNMENT, validate_only=_VALIDATE_ONLY)
    ),
    "alter_configs": Operation(
        AlterConfigs, _fields(name=_NAME, configs=Field(config_changes), validate_only=_VALIDATE_ONLY)
    ),
    "move": Operation(MoveReplicas, _fields(topic=_NAME, partition=_PARTITION, replicas=Field(brokers))),
    "cancel_move": Operation(_cancel_move, _fields(topic=_NAME, partition=_PARTITION)),
    "drain": Operation(DrainBroker, _fields(broker=Field(whole), draining=Field(flag, True))),
    "elect_leaders": Operation(_elect_leaders, _fields(topic=Field(word, ""))),
}
RECOVER = Operation(
    RecoverPartition,
    _fields(
        topic=_NAME,
        partition=_PARTITION,
        survivors=Field(brokers),
        generation=Field(whole),
        begun=Field(whole),
        heard=Field(whole),
    ),
)
"""Once the replicas have said what they have (json/handlers/recovery.py)."""
