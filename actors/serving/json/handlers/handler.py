"""An operation of the dialect: which fields its requests have, and what is done with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from protocol.json.fields import Field, Fields, one_of, within
from protocol.json.lines import Facts
from protocol.late_attrs import frozen

if TYPE_CHECKING:
    from actors.serving.json.connection import Call

TIMEOUT_MS_DEFAULT = 10_000
WAIT_MS_MAX = 600_000
TIMEOUT_MS = Field(within(1, WAIT_MS_MAX), TIMEOUT_MS_DEFAULT)
ISOLATION = Field(one_of({"read_uncommitted": False, "read_committed": True}), False)
"""Is only what was committed wanted?"""


class Served(Protocol):
    """What a connection needs to know of an operation."""

    @property
    def fields(self) -> Fields: ...

    def begin(self, call: Call, given: Facts, /) -> None:
        """Answer the call, now or later; BadField if these fields are no request."""


@frozen(slots=True)
class Handler:
    """`handle(call, field, …)`, in the order of its fields, answers."""

    fields: Fields
    handle: Callable[..., None]

    def begin(self, call: Call, given: Facts) -> None:
        self.handle(call, *self.fields.read(given))
