"""A client's connection, as an actor. It speaks newline JSON and knows one request: `{"op":"status"}`."""

from __future__ import annotations

import os
from typing import Any

import orjson
from attrs import frozen

from actors.runtime import LAUNCHER_ID, Actor, handles

LINE_BYTES_MAX = 1 << 20
INVALID_REQUEST = 42  # Kafka's error code


@frozen(slots=True)
class Line:
    """One line that the client sent, without its end."""

    data: bytes


class Connection(Actor):
    """`connection/17@1`."""

    restart = None  # it lives and dies with its socket

    @handles(Line)
    def line(self, message: Line) -> bytes:
        try:
            request = orjson.loads(message.data)
        except orjson.JSONDecodeError as error:
            return _error(None, f"not JSON: {error}")
        if not isinstance(request, dict):
            return _error(None, 'a request is a JSON object, such as {"op":"status"}')
        request_id = request.get("id")
        if isinstance(request_id, dict | list):  # may be nested deeper than can be sent back
            return _error(None, "an id is a word or a number")
        op = request.get("op")
        if op != "status":
            return _error(
                request_id, "an op is a word" if isinstance(op, dict | list) else f"unknown op {op!r}; known: status"
            )
        peers = sorted(peer for peer in self.node.links if peer != LAUNCHER_ID)
        answer = {"broker": self.node.broker, "pid": os.getpid(), "linked": peers, "actors": len(self.node.addresses)}
        return orjson.dumps(_with_id(request_id, answer), option=orjson.OPT_APPEND_NEWLINE)


def _error(request_id: Any, text: str) -> bytes:
    error = {"code": INVALID_REQUEST, "name": "INVALID_REQUEST", "message": text}
    return orjson.dumps(_with_id(request_id, {"error": error}), option=orjson.OPT_APPEND_NEWLINE)


def _with_id(request_id: Any, answer: dict[str, Any]) -> dict[str, Any]:
    return answer if request_id is None else {"id": request_id, **answer}
