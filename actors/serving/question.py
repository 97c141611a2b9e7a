"""A question of a connection to another actor, asked again after a pause until it is answered or its time is up.

The actor's address is soft state, so it may be out of date, and the actor may die before it answers. So a question must
be safe to repeat.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.serving.connection import Connection

PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.005, 0.1
GRACE_SECONDS = 0.5
"""The actor that is asked should be the first to say that the time is up: it knows the reason."""


class Question(ABC):
    """The pauses and the deadline of one question."""

    __slots__ = ("_connection", "_deadline", "_pause")

    def __init__(self, connection: Connection, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline
        self._pause = PAUSE_SECONDS_MIN

    @abstractmethod
    def _ask(self) -> None: ...

    @abstractmethod
    def _end(self) -> None:
        """The time is up."""

    def _ask_later(self) -> None:
        """Ask again after a pause, or end: in a turn of its own, so that a caller that asks the next question does not
        go deeper and deeper."""
        connection = self._connection
        if connection.now + self._pause >= self._deadline:
            connection.later(0.0, self._end)
        else:
            connection.later(self._pause, self._ask)
            self._pause = min(2 * self._pause, PAUSE_SECONDS_MAX)
