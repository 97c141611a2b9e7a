"""A connection that speaks newline JSON: one object per line in, one per line out, in the order of the requests.

Any broker takes any request and asks the broker that can carry it out. Requests do not wait for each other, but records
that go to one partition keep their order (lanes.py). What each operation does is in handlers/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from actors.serving.connection import Connection
from actors.serving.json.call import LineCall
from actors.serving.json.fetch_gate import FetchGate
from actors.serving.json.lanes import Lanes
from actors.serving.json.topic_search import TopicSearch
from protocol.error_codes import ErrorCode
from protocol.json.fields import BadField
from protocol.json.lines import BadRequest, Facts, quoted, read_request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.serving.answers import Answers
    from actors.serving.context import Serving
    from actors.serving.json.group_reader import GroupReader
    from protocol.json.fields import Fields


class JsonConnection(Connection):
    """`connection/17@1`."""

    def __init__(self, answers: Answers, serving: Serving, peer: str, operations: Mapping[str, Served]) -> None:
        """`operations`: the operations of the dialect, by name."""
        super().__init__(answers, serving, peer)
        self._operations = operations
        self.lanes = Lanes(self)
        self.fetch_gate = FetchGate(self)
        self.topic_search = TopicSearch(self)
        self.group: GroupReader | None = None
        """Its membership in a group, if it has subscribed."""

    def on_stop(self) -> None:
        super().on_stop()
        if self.group is not None:
            self.group.membership.abandon()

    def begin(self, request: memoryview) -> None:
        slot = self.answers.begin(len(request))
        try:
            read = read_request(request)
        except BadRequest as error:
            LineCall(self, error.own_id, "", slot).refuse(ErrorCode.INVALID_REQUEST, str(error))
            return
        call = LineCall(self, read.id, read.op, slot)
        operation = self._operations.get(read.op)
        if operation is None:
            text = f"unknown op {quoted(read.op)}; known: {', '.join(self._operations)}"
            call.refuse(ErrorCode.INVALID_REQUEST, text)
            return
        try:
            operation.begin(call, read.fields)
        except BadField as error:
            call.refuse(ErrorCode.INVALID_REQUEST, str(error))

    def begin_unfinished(self, size_bytes: int) -> None:
        text = f"the last line has no end after {size_bytes} bytes and was not served; end each request with a newline"
        LineCall(self, None, "", self.answers.begin(size_bytes)).refuse(ErrorCode.INVALID_REQUEST, text)


JsonCall = LineCall[JsonConnection]


class Served(Protocol):
    """An operation, as far as a connection needs it."""

    @property
    def fields(self) -> Fields: ...

    def begin(self, call: JsonCall, given: Facts, /) -> None:
        """Answer the call, now or later. BadField if a field is missing, unknown or wrong."""
