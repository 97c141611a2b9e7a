"""One request in newline JSON, and its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from actors.serving.connection import Connection
from actors.serving.context import EVERY_CLIENT
from protocol.json.lines import Facts, quoted, refusal, write_answer, write_long_answer
from protocol.late_attrs import frozen

if TYPE_CHECKING:
    from actors.serving.answers import Slot
    from actors.serving.context import Serving
    from log.disk.slice import Slice
    from protocol.schema.declaration import Buffer

C = TypeVar("C", bound=Connection)


@frozen(slots=True)
class LineCall(Generic[C]):
    """One request. It is answered at once, or later."""

    connection: C
    id: Any
    op: str
    """Empty where the line was no request."""
    slot: Slot

    @property
    def serving(self) -> Serving:
        return self.connection.serving

    def answer(self, facts: Facts) -> None:
        """Send these facts. It is called once."""
        self._send([write_answer(self.id, facts)])

    def answer_long(self, facts: Facts, name: str, pieces: list[bytes]) -> None:
        """Send these facts and a list whose elements are written already. It is called once."""
        self._send([*write_long_answer(self.id, facts, name, pieces)])

    def refuse(self, code: int, message: str) -> None:
        self.answer(refusal(code, message))

    def _send(self, parts: list[Buffer | Slice]) -> None:
        if EVERY_CLIENT in self.serving.traced:
            self._trace(sum(map(len, parts)))
        self.connection.answers.fill(self.slot, parts)

    def _trace(self, answer_bytes: int) -> None:
        """A line about a request that is answered now. Clients that speak JSON have no ids: all are traced, or none."""
        self.connection.log.info(
            "request: op=%s id=%s from=%s bytes=%d answered=%d",
            quoted(self.op), quoted(self.id), self.connection.peer, self.slot.request_bytes, answer_bytes,
        )  # fmt: skip
