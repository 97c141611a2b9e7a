"""A question to the leader of a partition, on any broker, asked again until it is answered or its time is up.

It must be safe to repeat: batches have sequences (lanes.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from actors.messages.replica import group_name, replica_address
from actors.runtime import Future, MailboxFull
from actors.serving.question import GRACE_SECONDS, Question
from protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from actors.serving.connection import Connection
    from log.machines.metadata.metadata import Topic

RETRIABLE = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)


class AtLeader(Question):
    """Calls `then(self)` once it has a `result`, or an error that is not retriable, or no time."""

    __slots__ = (
        "_group", "_message_for", "_number", "_then", "_topic", "error", "in_doubt", "message", "result",
    )  # fmt: skip

    def __init__(
        self,
        connection: Connection,
        topic: Topic,
        number: int,
        deadline: float,
        message_for: Callable[[int], Any],
        then: Callable[[AtLeader], None],
    ) -> None:
        """`message_for(milliseconds that are left)` is what is asked. An answer has an `error`, Kafka's code."""
        super().__init__(connection, deadline)
        self._topic, self._number = topic, number
        self._group = group_name(topic.name, number, topic.id)
        self._message_for = message_for
        self._then = then
        self.result: Any = None
        """The last answer."""
        self.error: int = ErrorCode.LEADER_NOT_AVAILABLE
        self.message = f"nobody leads {topic.name}-{number}"
        self.in_doubt = False
        """May it have taken effect though no answer says so?"""
        self._ask()

    def _ask(self) -> None:
        connection = self._connection
        if self._topic.id not in connection.serving.metadata.topics:
            self.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            self.message = f"topic {self._topic.name!r} was deleted"
            connection.later(0.0, self._end)
            return
        led = connection.serving.led(self._topic, self._number)
        if led is None or led.broker is None:
            self._ask_later()
            return
        left = max(self._deadline - connection.now, 0.001)
        connection.ask(
            replica_address(self._group, led.broker),
            self._message_for(max(int(left * 1000), 1)),
            self._answered,
            timeout=left + GRACE_SECONDS,
        )

    def _answered(self, future: Future[Any]) -> None:
        failure = future.exception
        if failure is not None:
            self.result = None
            self.error, self.message = ErrorCode.NOT_LEADER_OR_FOLLOWER, str(failure)
            self.in_doubt = self.in_doubt or not isinstance(failure, MailboxFull)
            self._ask_later()
            return
        self.result = future.get()
        self.error = self.result.error
        self.message = getattr(self.result, "message", "")
        if getattr(self.result, "base_offset", -1) >= 0:  # it is in a log that may yet turn out to be the wrong one
            self.in_doubt = True
        if self.error in RETRIABLE:
            self._ask_later()
        else:
            self._then(self)

    def _end(self) -> None:
        self._then(self)
