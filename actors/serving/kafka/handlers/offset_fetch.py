"""OffsetFetch: how far groups have read: one up to version 7, several from 8 on. Any broker answers: one that does not
coordinate the group asks the one that does."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from actors.messages.coordinator import GROUPS_TOPIC
from actors.serving.kafka.handlers.coordinators import PerKey, ask_persistently, at_coordinator
from protocol.error_codes import ErrorCode
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call

SEVERAL_FROM, ERROR_FROM = 8, 2


def handle(call: Call[OffsetFetchRequest]) -> None:
    request = call.request
    if call.version < SEVERAL_FROM:
        at_coordinator(call, GROUPS_TOPIC, request.group_id, lambda error: _refused(call, error), ask_persistently)
        return

    wanted = list({_identity(at, one): one for at, one in enumerate(request.groups)}.values())

    def refused(at: int, error: ErrorCode) -> OffsetFetchResponseGroup:
        return OffsetFetchResponseGroup(group_id=wanted[at].group_id, error_code=error)

    parts = [(one.group_id, OffsetFetchRequest(groups=[one], require_stable=request.require_stable)) for one in wanted]
    groups = attrgetter("groups")
    PerKey.one_by_one(call, GROUPS_TOPIC, parts, OffsetFetchResponse(), groups, refused, ask_persistently)


def _identity(at: int, one: OffsetFetchRequestGroup) -> object:
    """A group of which everything is asked for is answered once, however often a request names it."""
    return one.group_id if one.topics is None else at


def _refused(call: Call[OffsetFetchRequest], error: ErrorCode) -> OffsetFetchResponse:
    """Every partition has the error too, in Apache Kafka only if the version has no other field. aiokafka looks at
    nothing else: it would take a group whose coordinator is moving for one that has committed nothing."""
    return OffsetFetchResponse(
        error_code=error if call.version >= ERROR_FROM else ErrorCode.NONE,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(partition_index=number, committed_offset=-1, error_code=error)
                    for number in topic.partition_indexes
                ],
            )
            for topic in call.request.topics or ()
        ],
    )
