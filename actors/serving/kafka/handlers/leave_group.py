"""LeaveGroup: members go, by their own will or by an administrator's; very many of them in pieces."""

from __future__ import annotations

import copy
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from actors.messages.coordinator import GROUPS_TOPIC
from actors.serving.kafka.handlers.coordinators import PerKey, at_coordinator
from protocol.error_codes import ErrorCode
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call

PIECE_MEMBERS = 2000


def handle(call: Call[LeaveGroupRequest]) -> None:
    request = call.request
    if len(request.members) <= PIECE_MEMBERS:
        at_coordinator(call, GROUPS_TOPIC, request.group_id, lambda error: LeaveGroupResponse(error_code=error))
        return
    pieces = [_piece(request, at) for at in range(0, len(request.members), PIECE_MEMBERS)]
    PerKey(call, GROUPS_TOPIC, [(request.group_id, piece) for piece in pieces], _joined)


def _piece(request: LeaveGroupRequest, at: int) -> LeaveGroupRequest:
    piece = copy.copy(request)
    piece.members = request.members[at : at + PIECE_MEMBERS]
    return piece


def _joined(answers: list[Any]) -> Generator[None, None, object]:
    """One response of all. The error of a piece is that of the request; repeated, it removes the rest."""
    whole = LeaveGroupResponse()
    for answer in answers:
        yield
        error = answer if isinstance(answer, ErrorCode) else ErrorCode(answer.error_code)
        if error:
            return LeaveGroupResponse(error_code=error)
        whole.members += answer.members
    return whole
