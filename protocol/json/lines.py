"""The newline-JSON dialect without the connection: one JSON object per line in, one per line out.

    {"id":7,"op":"offsets","topic":"orders"}
    {"id":7,"topic":"orders","partitions":[{"partition":0,"earliest":0,"latest":42}]}
    {"id":8,"error":{"code":3,"name":"UNKNOWN_TOPIC_OR_PARTITION","message":"there is no topic 'nowhere'"}}

`id` is the client's own and comes back with the answer. Codes and names of errors are Kafka's. A line that is no
request is answered with what is wrong and where, and the next line counts again. Only a line that is too long ends it:
it is not kept, so what follows it has no meaning.

What the fields of a request may be is in fields.py, how records are written in records.py.
"""

from __future__ import annotations

from typing import Any

import orjson

from protocol.error_codes import ErrorCode
from protocol.late_attrs import frozen

LINE_BYTES_MAX = 1 << 20
DEPTH_MAX = 128
"""How deep objects and lists may be nested. Twice this depth could be read, but not written again."""
QUOTED_CHARS_MAX = 100
_END_OF_LIST = len(b"]}\n")

Facts = dict[str, Any]


class BadRequest(ValueError):
    """A line that cannot be served. `own_id` is the client's, as far as it could be read."""

    def __init__(self, text: str, own_id: Any = None) -> None:
        super().__init__(text)
        self.own_id = own_id


class LineTooLong(BadRequest):
    """What follows such a line has no meaning."""


@frozen(slots=True)
class JsonRequest:
    """One line: what to do, and with what. `fields` has neither id nor op."""

    id: Any
    op: str
    fields: Facts


class LineCutter:
    """Cuts a stream into lines. Of one that is too long only the beginning is given, and nothing after it."""

    def __init__(self) -> None:
        self._held = bytearray()
        self.space = memoryview(bytearray(64 << 10))
        self.is_lost = False
        """Came a line that was too long?"""

    @property
    def unfinished(self) -> int:
        return len(self._held)

    def received(self, count: int) -> list[memoryview]:
        """`count` bytes were put into `space`; gives every line that is now complete, without its end."""
        if self.is_lost:
            return []
        first, *others = bytes(self.space[:count]).split(b"\n")
        self._held += first
        lines: list[memoryview] = []
        for other in others:
            if len(self._held) > LINE_BYTES_MAX:
                break
            lines.append(memoryview(self._held))
            self._held = bytearray(other)
        if len(self._held) > LINE_BYTES_MAX:
            lines.append(memoryview(self._held)[: LINE_BYTES_MAX + 1])
            self._held = bytearray()
            self.is_lost = True
        return lines


def read_request(line: bytes | bytearray | memoryview) -> JsonRequest:
    """The request on this line; BadRequest if the line is no request."""
    if len(line) > LINE_BYTES_MAX:
        raise LineTooLong(f"a line of more than {LINE_BYTES_MAX} bytes; this connection ends here")
    try:
        given = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"not JSON: {error}") from None
    if not isinstance(given, dict):
        raise BadRequest('a request is a JSON object, such as {"op":"status"}')
    own_id, op = given.pop("id", None), given.pop("op", None)
    if isinstance(own_id, dict | list):
        raise BadRequest("an id is a word or a number")
    if isinstance(op, dict | list):
        raise BadRequest("an op is a word", own_id)
    if not isinstance(op, str):
        raise BadRequest(f'unknown op {quoted(op)}; {{"op":"versions"}} tells which are known', own_id)
    for name, value in given.items():
        if isinstance(value, dict | list) and is_deeper(value, DEPTH_MAX - 1):
            raise BadRequest(f"{short(name)}: nested more than {DEPTH_MAX} deep", own_id)
    return JsonRequest(own_id, op, given)


def write_answer(own_id: Any, facts: Facts) -> bytes:
    """The line that answers the request with this id."""
    return orjson.dumps(facts if own_id is None else {"id": own_id, **facts}, option=orjson.OPT_APPEND_NEWLINE)


def write_long_answer(own_id: Any, facts: Facts, name: str, pieces: list[bytes]) -> list[bytes]:
    """The same in parts, with a list beside the facts, whose elements are written already: in pieces, each as they
    stand in it."""
    line = write_answer(own_id, {**facts, name: []})
    parts = [line[:-_END_OF_LIST]]
    for piece in pieces:
        parts += (piece, b",")
    return [*(parts[:-1] if pieces else parts), line[-_END_OF_LIST:]]


def refusal(code: int, message: str) -> Facts:
    """What is answered instead of facts, or beside those that there are."""
    known = ErrorCode(code)
    return {"error": {"code": known, "name": known.name, "message": message}}


def is_deeper(value: Any, depth_max: int) -> bool:
    """Are objects and lists nested deeper than this?"""
    level = [value]
    for _ in range(depth_max):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def quoted(value: Any) -> str:
    """A value as it came, in few characters."""
    if isinstance(value, dict | list):
        return ("an object" if isinstance(value, dict) else "a list") if value else ("{}" if value == {} else "[]")
    return short(orjson.dumps(value).decode())


def short(text: str) -> str:
    return text if len(text) <= QUOTED_CHARS_MAX else f"{text[:QUOTED_CHARS_MAX]}…"
