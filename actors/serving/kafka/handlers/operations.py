"""What several handlers of admin requests share.

Kafka's protocol has no ids of requests that would outlive a connection, so every operation gets one here. If it is
asked again because its answer was lost, or because another broker leads the controllers now, it is done once
(actors/control/client.py).
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from actors.messages.controller import Outcome
    from actors.runtime import Gather

SECONDS = 15.0
"""The time-out of requests that have none. It is longer than a controller waits for another one."""
_SAID_CHARS_MAX = 300


class Result(Protocol):
    """What a response says of one topic, partition or resource."""

    error_code: int
    error_message: str | None


def note_outcome(gather: Gather, result: Result, outcome: Outcome) -> None:
    """Put the outcome of an operation into its result."""
    result.error_code, result.error_message = outcome.error, outcome.error_message
    gather.done()


def said(name: str) -> str:
    """A name from a client, cut to a length that suits a message: it may have 32 KiB."""
    return name[:_SAID_CHARS_MAX]


def new_id() -> str:
    """The id of an operation in the controllers' memory. Ids of other askers begin with other words."""
    return f"kafka {uuid.uuid4()}"
