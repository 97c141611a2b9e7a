"""A client's connection, as an actor. It speaks newline JSON: `{"op":"status"}`, and what json_operations.py lists.

The listener hands over a line once the one before it is answered, so answers come in the order of their requests.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import orjson
from attrs import frozen

from actors.json_operations import ANSWER_SECONDS, OPERATIONS, BadField, Operation, refusal
from actors.runtime import LAUNCHER_ID, Actor, Address, Future, handles
from protocol.error_codes import ErrorCode

LINE_BYTES_MAX = 1 << 20
_QUOTED_CHARS_MAX = 100


@frozen(slots=True)
class Line:
    """One line that the client sent, without its end."""

    data: bytes


class Connection(Actor):
    """`connection/17@1`."""

    restart = None  # it lives and dies with its socket

    @handles(Line)
    def line(self, message: Line) -> bytes | None:
        try:
            request = orjson.loads(message.data)
        except orjson.JSONDecodeError as error:
            return _error(None, f"not JSON: {error}")
        if not isinstance(request, dict):
            return _error(None, 'a request is a JSON object, such as {"op":"status"}')
        own_id = request.get("id")
        if isinstance(own_id, dict | list):  # may be nested deeper than can be sent back
            return _error(None, "an id is a word or a number")
        op = request.get("op")
        if isinstance(op, dict | list):
            return _error(own_id, "an op is a word")
        if op == "status":
            return _line(own_id, self._status())
        operation = OPERATIONS.get(op) if isinstance(op, str) else None
        if operation is None:
            known = ", ".join(["status", *OPERATIONS])
            return _error(own_id, f"unknown op {repr(op)[:_QUOTED_CHARS_MAX]}; known: {known}")
        return self._operate(own_id, operation, request)

    def _status(self) -> dict[str, Any]:
        peers = sorted(peer for peer in self.node.links if peer != LAUNCHER_ID)
        return {"broker": self.node.broker, "pid": os.getpid(), "linked": peers, "actors": len(self.node.addresses)}

    def _operate(self, own_id: Any, operation: Operation, request: dict[str, Any]) -> bytes | None:
        """Let this broker's controller do it, and answer when it has."""
        try:
            asked = operation.read(request)
        except BadField as error:
            return _error(own_id, str(error))
        controller = Address("controller", "", self.node.broker)
        reply: Future[bytes] = self.defer()
        self.ask(controller, asked, partial(_answer, reply, own_id, operation), timeout=ANSWER_SECONDS)
        return None


def _answer(reply: Future[bytes], own_id: Any, operation: Operation, future: Future[Any]) -> None:
    reply.set(_line(own_id, operation.answer(future)))


def _error(own_id: Any, text: str) -> bytes:
    return _line(own_id, refusal(ErrorCode.INVALID_REQUEST, text))


def _line(own_id: Any, answer: dict[str, Any]) -> bytes:
    return orjson.dumps(_with_id(own_id, answer), option=orjson.OPT_APPEND_NEWLINE)


def _with_id(own_id: Any, answer: dict[str, Any]) -> dict[str, Any]:
    return answer if own_id is None else {"id": own_id, **answer}
