"""The answer to a request that is refused whole, made from the declarations of the messages alone.

As in Kafka's getErrorResponse: the error stands at the highest level that has a field for it. Where that is an element
of an array, the answer has an element for each element of the request. Two APIs differ. The error of a Fetch stands in
its partitions, and the answer closes the fetch session, so the client names all partitions again. Metadata is answered
as usual, brokers included, with the error in its topics (protocol_faults.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from actors.serving.fetch_sessions import partitions_of
from log.machines.metadata.topic_ids import id_text
from protocol.apis import FETCH
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from protocol.schema.declaration import Array, MessageField, Struct, Text, struct_of

if TYPE_CHECKING:
    from actors.serving.fetch_sessions import Wanted
    from actors.serving.kafka.connection import Call

TOPIC_RESOURCE = 2
_ERRORS = ("error_code", "partition_error_code")
_TEXT_NAMES = ("key", "group_id", "transactional_id", "name")
_NUMBER_NAMES = ("partition_index", "partition_id")
_TOPIC_NAMES = ("name", "topic", "topic_name")


def topics_of(call: Call[Any]) -> Iterator[str]:
    """The topics that a request names, by itself or by its fetch session."""
    if call.head.api is FETCH:
        for wanted in _fetched(call):
            yield wanted.topic or _name_of(call, wanted.topic_id)
    else:
        yield from _topics_in(call, call.request)


def refusal(call: Call[Any], error: ErrorCode) -> object:
    """The answer that has this error wherever the request can be refused."""
    if call.head.api is FETCH:
        return _fetch_refusal(call, error)
    response = call.head.api.response()
    kind: type = call.head.api.response
    _refuse(struct_of(kind), response, call.request, call.version, error)
    return response


def _refuse(target: Struct, made: Any, asked: Any, version: int, error: ErrorCode) -> None:
    fields = {field.name: field for field in target.fields if version in field.versions}
    own = next((name for name in _ERRORS if name in fields), None)
    if own is not None:
        setattr(made, own, error)
        return
    for field in fields.values():
        if isinstance(field.type, Array) and isinstance(field.type.element, Struct) and _has_error(field.type.element):
            setattr(
                made, field.name, [_element(field.type.element, one, version, error) for one in _asked(asked, version)]
            )


def _fields_of(value: object) -> tuple[MessageField, ...]:
    kind: type = type(value)
    return struct_of(kind).fields


def _has_error(target: Struct) -> bool:
    nested = (field.type.element for field in target.fields if isinstance(field.type, Array))
    return any(field.name in _ERRORS for field in target.fields) or any(
        _has_error(one) for one in nested if isinstance(one, Struct)
    )


def _asked(asked: Any, version: int) -> list[Any]:
    """The elements of the one array of a request, or of an element of it, that the answer follows."""
    arrays = [field.name for field in _fields_of(asked) if _is_array(field, version)]
    return list(getattr(asked, arrays[0]) or ()) if arrays else []


def _is_array(field: MessageField, version: int) -> bool:
    return version in field.versions and isinstance(field.type, Array)


def _element(target: Struct, asked: Any, version: int, error: ErrorCode) -> object:
    """The element of an answer for one of a request: what names it is the same."""
    made = target.cls()
    names = {field.name: field for field in target.fields if version in field.versions}
    if isinstance(asked, str | int):
        wanted = _TEXT_NAMES if isinstance(asked, str) else _NUMBER_NAMES
        setattr(made, next(name for name in wanted if name in names), asked)
    else:
        for field in _fields_of(asked):
            if field.name in names and not isinstance(field.type, Array | Struct):
                setattr(made, field.name, getattr(asked, field.name))
    _refuse(target, made, asked, version, error)
    return made


# -- topics ----------------------------------------------------------------------------------------------------


def _topics_in(call: Call[Any], value: Any) -> Iterator[str]:
    for field in _fields_of(value):
        if isinstance(field.type, Array) and isinstance(field.type.element, Struct | Text):
            for one in getattr(value, field.name) or ():
                if "topic" in field.name:
                    yield one if isinstance(one, str) else _topic(call, one)
                elif getattr(one, "resource_type", None) == TOPIC_RESOURCE:
                    yield one.resource_name
                elif not isinstance(one, str):
                    yield from _topics_in(call, one)


def _topic(call: Call[Any], one: Any) -> str:
    name = next((found for field in _TOPIC_NAMES if (found := getattr(one, field, None))), None)
    return _name_of(call, getattr(one, "topic_id", b"")) if name is None else str(name)


def _name_of(call: Call[Any], topic_id: bytes) -> str:
    topic = call.serving.metadata.topics.get(id_text(topic_id)) if any(topic_id) else None
    return "" if topic is None else topic.name


# -- fetch -----------------------------------------------------------------------------------------------------


def _fetched(call: Call[Any]) -> list[Wanted]:
    return [*call.serving.sessions.partitions_in(call.request.session_id), *partitions_of(call.request)]


def _fetch_refusal(call: Call[Any], error: ErrorCode) -> FetchResponse:
    topics: dict[tuple[str, bytes], set[int]] = {}
    for wanted in _fetched(call):
        topics.setdefault((wanted.topic, wanted.topic_id), set()).add(wanted.partition.partition)
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=name,
                topic_id=topic_id,
                partitions=[
                    PartitionData(partition_index=number, error_code=error, high_watermark=-1)
                    for number in sorted(numbers)
                ],
            )
            for (name, topic_id), numbers in topics.items()
        ]
    )
