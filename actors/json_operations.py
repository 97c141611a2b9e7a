"""What a client may ask in newline JSON about topics and brokers: a table of operations and of the fields of each.

    {"op":"create_topic","name":"orders","partitions":6}
    {"op":"move","topic":"orders","partition":0,"replicas":[1,2,4]}

Each becomes one request to this broker's controller. Any of them may carry a `request_id`: one that is sent again with
the same (its answer was lost) is answered again and done once. An answer is the facts, or what is wrong, as `error`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import orjson
import pykka
from attrs import frozen

from actors.controller_messages import DescribeCluster, ElectLeaders, OperationAnswer
from actors.runtime import Future, MailboxFull
from log.machines.plans import (
    AlterConfigs,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    DrainBroker,
    MoveReplicas,
)
from protocol.error_codes import ErrorCode

ANSWER_SECONDS = 15.0
"""Longer than a controller waits for another one."""
STRING_CHARS_MAX = 32767  # as in Kafka's protocol
REQUEST_ID_CHARS_MAX = 100
_INT32_MAX = (1 << 31) - 1
_QUOTED_CHARS_MAX = 100
_COMMON = frozenset({"op", "id", "request_id"})
_REQUIRED = object()

Facts = dict[str, Any]


class BadField(ValueError):
    """A field of a request is missing, unknown, or not what it has to be."""


# -- fields ------------------------------------------------------------------------------------------------------


def _word(path: str, value: Any) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= STRING_CHARS_MAX:
        raise BadField(f"{path}: must be a string of 1 to {STRING_CHARS_MAX} characters, not {_quoted(value)}")
    return value


def _whole(path: str, value: Any) -> int:
    if type(value) is not int or not -_INT32_MAX <= value <= _INT32_MAX:
        raise BadField(f"{path}: must be a whole number of 32 bits, not {_quoted(value)}")
    return value


def _flag(path: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadField(f"{path}: must be true or false, not {_quoted(value)}")
    return value


def _brokers(path: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not value:
        raise BadField(f"{path}: must be a list of broker ids, such as [1,2,3], not {_quoted(value)}")
    return tuple(_whole(f"{path}[{at}]", one) for at, one in enumerate(value))


def _assignment(path: str, value: Any) -> tuple[tuple[int, ...], ...]:
    if not isinstance(value, list) or not value:
        text = f"{path}: must be a list of broker ids for each partition, such as [[1,2],[2,3]], not {_quoted(value)}"
        raise BadField(text)
    return tuple(_brokers(f"{path}[{at}]", one) for at, one in enumerate(value))


def _configs(path: str, value: Any) -> tuple[tuple[str, ...], ...]:
    return tuple((name, _word(f"{path}.{_short(name)}", text)) for name, text in _members(path, value))


def _config_changes(path: str, value: Any) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (name,) if text is None else (name, _word(f"{path}.{_short(name)}", text))
        for name, text in _members(path, value)
    )


def _members(path: str, value: Any) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise BadField(f'{path}: must be an object, such as {{"retention.ms":"60000"}}, not {_quoted(value)}')
    return list(value.items())


def _quoted(value: Any) -> str:
    """A value as it came, in few characters."""
    if isinstance(value, dict | list):
        return ("an object" if isinstance(value, dict) else "a list") if value else ("{}" if value == {} else "[]")
    return _short(orjson.dumps(value).decode())


def _short(text: str) -> str:
    return text if len(text) <= _QUOTED_CHARS_MAX else f"{text[:_QUOTED_CHARS_MAX]}…"


@frozen(slots=True)
class Field:
    """Reads a value, or says what is wrong with it."""

    read: Callable[[str, Any], Any]
    default: Any = _REQUIRED


# -- operations --------------------------------------------------------------------------------------------------


@frozen(slots=True)
class Operation:
    """`request(request_id, field, …)`, in the order of its fields, is what the controller is asked."""

    request: Callable[..., Any]
    fields: dict[str, Field]
    facts: Callable[[Facts], Facts] = dict
    """What of the controller's answer is told."""

    def read(self, given: Facts) -> Any:
        """The request in these words; BadField if they are no request."""
        for name in given:
            if name not in self.fields and name not in _COMMON:
                raise BadField(f"{_short(name)}: unknown field; known: {', '.join(self.fields) or 'none'}")
        values = []
        for name, field in self.fields.items():
            value = given.get(name)
            if value is not None:
                values.append(field.read(name, value))
            elif field.default is _REQUIRED:
                raise BadField(f"{name}: is missing")
            else:
                values.append(field.default)
        return self.request(_request_id(given.get("request_id")), *values)

    def answer(self, future: Future[OperationAnswer]) -> Facts:
        """What the client is told once the controller has answered, or has not."""
        error = future.exception
        if error is not None:
            return _failure(error)
        told: Facts = orjson.loads(future.get().answer)
        code, message = ErrorCode(told.pop("error")), told.pop("message")
        return self.facts(told) if code is ErrorCode.NONE else refusal(code, message)


def refusal(code: ErrorCode, message: str) -> Facts:
    return {"error": {"code": code, "name": code.name, "message": message}}


def _failure(error: BaseException) -> Facts:
    if isinstance(error, pykka.Timeout):
        text = f"{error}; it may still be done: ask again with the same request_id"
        return refusal(ErrorCode.REQUEST_TIMED_OUT, text)
    if isinstance(error, pykka.ActorDeadError | MailboxFull):
        return refusal(ErrorCode.NOT_CONTROLLER, f"{error}; try again, or ask another broker")
    return refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller failed: {error!r}")


def _request_id(given: Any) -> str:
    """As the controllers keep it. Brokers have requests of their own, with which a client's is never mistaken."""
    if given is None:
        return f"json {uuid.uuid4()}"
    if not isinstance(given, str) or not 1 <= len(given) <= REQUEST_ID_CHARS_MAX:
        text = f"request_id: must be a string of 1 to {REQUEST_ID_CHARS_MAX} characters, not {_quoted(given)}"
        raise BadField(text)
    return f"json {given}"


def _topics(told: Facts) -> Facts:
    return {"topics": told["topics"]}


def _brokers_told(told: Facts) -> Facts:
    """The brokers, and what each has to do: `replicas` counts those that it keeps, while they move away too."""
    brokers = {one["broker"]: {**one, "leads": 0, "replicas": 0} for one in told["brokers"]}
    for topic in told["topics"]:
        for partition in topic["partitions"]:
            for broker in {*partition["replicas"], *partition["moved_from"]}:
                brokers[broker]["replicas"] += 1
            if partition["leader"] in brokers:
                brokers[partition["leader"]]["leads"] += 1
    return {"cluster_id": told["cluster_id"], "controller": told["controller"], "brokers": list(brokers.values())}


def _describe(_request_id: str) -> DescribeCluster:
    return DescribeCluster()


def _cancel_move(request_id: str, topic: str, partition: int) -> MoveReplicas:
    return MoveReplicas(request_id, topic, partition, ())


def _elect_leaders(_request_id: str, topic: str) -> ElectLeaders:
    return ElectLeaders(topic)


_NAME = Field(_word)
_PARTITION = Field(_whole)
_ASSIGNMENT = Field(_assignment, ())
_VALIDATE_ONLY = Field(_flag, False)

OPERATIONS: dict[str, Operation] = {
    "topics": Operation(_describe, {}, _topics),
    "brokers": Operation(_describe, {}, _brokers_told),
    "create_topic": Operation(
        CreateTopic,
        {
            "name": _NAME,
            "partitions": Field(_whole, -1),
            "replication_factor": Field(_whole, -1),
            "assignment": _ASSIGNMENT,
            "configs": Field(_configs, ()),
            "validate_only": _VALIDATE_ONLY,
        },
    ),
    "delete_topic": Operation(DeleteTopic, {"name": _NAME}),
    "create_partitions": Operation(
        CreatePartitions,
        {"name": _NAME, "count": Field(_whole), "assignment": _ASSIGNMENT, "validate_only": _VALIDATE_ONLY},
    ),
    "alter_configs": Operation(
        AlterConfigs, {"name": _NAME, "configs": Field(_config_changes), "validate_only": _VALIDATE_ONLY}
    ),
    "move": Operation(MoveReplicas, {"topic": _NAME, "partition": _PARTITION, "replicas": Field(_brokers)}),
    "cancel_move": Operation(_cancel_move, {"topic": _NAME, "partition": _PARTITION}),
    "drain": Operation(DrainBroker, {"broker": Field(_whole), "draining": Field(_flag, True)}),
    "elect_leaders": Operation(_elect_leaders, {"topic": Field(_word, "")}),
}
