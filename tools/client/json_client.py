"""A blocking client of a broker's newline JSON. What it says, and when it says it again, is in json_conversation.py.

    with JsonClient("127.0.0.1:9092,127.0.0.1:9093") as client:
        client.call("create_topic", name="orders", partitions=6)
        client.produce("orders", {"total": 5}, key="k")
        client.call("fetch", topic="orders", partition=0, offset="earliest")

It has one connection at a time, made when it is needed and made again, perhaps elsewhere, when it breaks.
"""

from __future__ import annotations

import socket
import time
from typing import Any, BinaryIO, Self

from tools.client.json_conversation import (
    CONNECT_SECONDS,
    Addresses,
    AddressPair,
    Answer,
    ClientError,
    Conversation,
    Exchange,
    NotABroker,
    Pause,
    Steps,
    Unreachable,
    Written,
    answer_seconds,
    reason_of,
    record_of,
)


class JsonClient:
    """Blocks."""

    def __init__(self, bootstrap: str | list[AddressPair]) -> None:
        self._addresses = Addresses(bootstrap)
        self._conversation = Conversation(time.monotonic)
        self._socket: socket.socket | None = None
        self._lines: BinaryIO

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._socket is not None:
            self._lines.close()
            self._socket.close()
            self._socket = None

    def call(self, op: str, **fields: Any) -> Answer:
        """The facts that a broker answers with. Fields that are None are left out."""
        return self._run(self._conversation.call(op, fields), answer_seconds(**fields))

    def produce(
        self, topic: str, value: Any, *, key: Any = None, headers: Any = None, timestamp: int | None = None,
        partition: int | None = None, timeout_ms: int | None = None,
    ) -> Written:  # fmt: skip
        """Write one record, once, to a topic that exists."""
        record = record_of(value, key, headers, timestamp, partition)
        steps = self._conversation.produce(topic, record, {"timeout_ms": timeout_ms})
        answer = self._run(steps, answer_seconds(timeout_ms=timeout_ms))
        return Written(answer["partition"], answer["offset"])

    def _run(self, steps: Steps, seconds: float) -> Answer:
        told: bytes | ClientError | None = None
        try:
            while True:
                step = steps.throw(told) if isinstance(told, ClientError) else steps.send(told)
                if isinstance(step, Pause):
                    told = None
                    self._pause(step)
                else:
                    told = self._exchange(step, seconds)
        except StopIteration as end:
            answer: Answer = end.value
            return answer
        except NotABroker as error:
            raise NotABroker(f"{self._addresses.shown} {error}") from None
        finally:
            steps.close()

    def _pause(self, step: Pause) -> None:
        self.close()
        self._addresses.turn()
        time.sleep(step.seconds)

    def _exchange(self, step: Exchange, seconds: float) -> bytes | ClientError:
        try:
            connected = self._connected()
        except Unreachable as error:
            return error
        try:
            connected.settimeout(seconds)
            connected.sendall(step.line)
            told = self._lines.readline()
        except OSError as error:
            self.close()
            return self._addresses.broke(error)
        except BaseException:
            self.close()  # an answer that comes yet would be taken for the next one's
            raise
        if not told.endswith(b"\n"):
            self.close()
            return self._addresses.closed()
        return told

    def _connected(self) -> socket.socket:
        """To the first address that lets us, beginning with the one that is in use."""
        if self._socket is not None:
            return self._socket
        reasons = []
        for _ in range(len(self._addresses)):
            try:
                self._socket = socket.create_connection(self._addresses.current, timeout=CONNECT_SECONDS)
            except (OSError, UnicodeError) as error:
                reasons.append(f"{self._addresses.shown} ({reason_of(error)})")
                self._addresses.turn()
            else:
                self._lines = self._socket.makefile("rb")
                return self._socket
        raise self._addresses.unreachable(reasons)
