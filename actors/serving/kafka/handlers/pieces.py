"""Requests about very many partitions of one group, put to its coordinator in pieces.

A coordinator decides on a whole request in one turn, which takes it about 10 µs for a partition. A piece is decided on
and written as a request of its own: if one fails, its partitions get the error.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

from actors.messages.coordinator import GROUPS_TOPIC
from actors.serving.kafka.handlers.coordinators import PerKey, at_coordinator
from protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call

PIECE_PARTITIONS = 500


def at_group(call: Call[Any], refused: Callable[[Any, ErrorCode], Any]) -> None:
    """Put a request with `group_id`, and `topics` with `partitions`, to the group's coordinator.

    `refused` makes the response to a piece that could not be put to it.
    """
    request = call.request
    if sum(len(topic.partitions) for topic in request.topics) <= PIECE_PARTITIONS:
        at_coordinator(call, GROUPS_TOPIC, request.group_id, lambda error: refused(request, error))
        return
    pieces = list(_pieces_of(request))

    def respond(answers: list[Any]) -> Generator[None, None, object]:
        whole = None
        for piece, answer in zip(pieces, answers, strict=True):
            response = refused(piece, answer) if isinstance(answer, ErrorCode) else answer
            if whole is None:
                whole = response
            else:
                _join(whole.topics, response.topics)
            yield
        return whole

    PerKey(call, GROUPS_TOPIC, [(request.group_id, piece) for piece in pieces], respond)


def _pieces_of(request: Any) -> Iterator[Any]:
    topics: list[Any] = []
    room = PIECE_PARTITIONS
    for topic in request.topics:
        at = 0
        while at < len(topic.partitions):
            part = copy.copy(topic)
            part.partitions = topic.partitions[at : at + room]
            topics.append(part)
            at += len(part.partitions)
            room -= len(part.partitions)
            if not room:
                yield _with(request, topics)
                topics, room = [], PIECE_PARTITIONS
    if topics:
        yield _with(request, topics)


def _with(request: Any, topics: list[Any]) -> Any:
    piece = copy.copy(request)
    piece.topics = topics
    return piece


def _join(told: list[Any], more: list[Any]) -> None:
    """Append the topics of the next answer. A topic that was split over two pieces is joined."""
    if told and more and told[-1].name == more[0].name and _id_of(told[-1]) == _id_of(more[0]):
        told[-1].partitions += more[0].partitions
        more = more[1:]
    told += more


def _id_of(topic: Any) -> object:
    return getattr(topic, "topic_id", None)
