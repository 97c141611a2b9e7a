"""A connection that speaks newline JSON: one object per line in, one per line out, in the order of the requests.

Any broker takes any request and hands it to whoever can do it. Requests do not wait for each other, but records that go
to one partition keep their order (json_handlers/lanes.py). What each operation does is in json_handlers/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.serving.connection import Connection
from actors.serving.context import EVERY_CLIENT
from actors.serving.json.handlers import HANDLERS
from actors.serving.json.handlers.fetch_gate import FetchGate
from actors.serving.json.handlers.lanes import Lanes
from actors.serving.json.handlers.topic_search import TopicSearch
from protocol.error_codes import ErrorCode
from protocol.json.fields import BadField
from protocol.json.lines import BadRequest, Facts, quoted, read_request, refusal, write_answer
from protocol.late_attrs import frozen

if TYPE_CHECKING:
    from actors.serving.answers import Answers, Slot
    from actors.serving.context import Serving
    from actors.serving.json.handlers.group_reader import GroupReader


@frozen(slots=True)
class Call:
    """One request, for whoever answers it: at once, or later."""

    connection: JsonConnection
    id: Any
    op: str
    """Nothing, where the line was no request."""
    slot: Slot

    @property
    def serving(self) -> Serving:
        return self.connection.serving

    def answer(self, facts: Facts) -> None:
        """Send this. Once."""
        line = write_answer(self.id, facts)
        if EVERY_CLIENT in self.serving.traced:
            self.connection.trace(self, len(line))
        self.connection.answers.fill(self.slot, [line])

    def refuse(self, code: int, message: str) -> None:
        self.answer(refusal(code, message))


class JsonConnection(Connection):
    """`connection/17@1`."""

    def __init__(self, answers: Answers, serving: Serving, peer: str) -> None:
        super().__init__(answers, serving, peer)
        self.lanes = Lanes(self)
        self.fetch_gate = FetchGate(self)
        self.topic_search = TopicSearch(self)
        self.group: GroupReader | None = None
        """Its membership in a group, if it has subscribed."""

    def on_stop(self) -> None:
        if self.group is not None:
            self.group.membership.abandon()

    def trace(self, call: Call, answer_bytes: int) -> None:
        """A line about a request that is answered now. Clients that speak JSON have no ids: all are traced, or none."""
        self.log.info(
            "request: op=%s id=%s from=%s bytes=%d answered=%d",
            quoted(call.op), quoted(call.id), self.peer, call.slot.request_bytes, answer_bytes,
        )  # fmt: skip

    def begin(self, request: memoryview) -> None:
        slot = self.answers.begin(len(request))
        try:
            read = read_request(request)
        except BadRequest as error:
            Call(self, error.own_id, "", slot).refuse(ErrorCode.INVALID_REQUEST, str(error))
            return
        call = Call(self, read.id, read.op, slot)
        handler = HANDLERS.get(read.op)
        if handler is None:
            text = f"unknown op {quoted(read.op)}; known: {', '.join(HANDLERS)}"
            call.refuse(ErrorCode.INVALID_REQUEST, text)
            return
        try:
            handler.begin(call, read.fields)
        except BadField as error:
            call.refuse(ErrorCode.INVALID_REQUEST, str(error))
