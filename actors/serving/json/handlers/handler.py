"""An operation of the dialect: which fields its requests have, and what is done with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from protocol.json.fields import Field, Fields, one_of, within
from protocol.json.lines import Facts
from protocol.late_attrs import frozen

if TYPE_CHECKING:
    from actors.serving.json.connection import JsonCall

TIMEOUT_MS_DEFAULT = 10_000
WAIT_MS_MAX = 600_000
TIMEOUT_MS = Field(within(1, WAIT_MS_MAX), TIMEOUT_MS_DEFAULT)
ISOLATION = Field(one_of({"read_uncommitted": False, "read_committed": True}), False)
"""Does the reader want committed records only?"""


@frozen(slots=True)
class Handler:
    """`handle(call, field, …)`, in the order of its fields, answers."""

    fields: Fields
    handle: Callable[..., None]

    def begin(self, call: JsonCall, given: Facts) -> None:
        self.handle(call, *self.fields.read(given))
