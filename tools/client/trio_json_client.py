"""The client of json_client.py for trio.

async with TrioJsonClient("127.0.0.1:9092") as client:
    await client.produce("orders", "text", key="k")
"""

from __future__ import annotations

from typing import Any, Self

import trio

from tools.client.json_conversation import (
    CONNECT_SECONDS,
    Addresses,
    AddressPair,
    Answer,
    ClientError,
    ConnectionBroken,
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

_READ_BYTES = 64 << 10


class TrioJsonClient:
    """For trio. Tasks may share it: each waits for its turn."""

    def __init__(self, bootstrap: str | list[AddressPair]) -> None:
        self._addresses = Addresses(bootstrap)
        self._conversation = Conversation(trio.current_time)
        self._stream: trio.SocketStream | None = None
        self._held = bytearray()
        self._turn = trio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            await trio.aclose_forcefully(stream)

    async def call(self, op: str, **fields: Any) -> Answer:
        """The facts that a broker answers with. Fields that are None are left out."""
        return await self._run(self._conversation.call(op, fields), answer_seconds(**fields))

    async def produce(
        self, topic: str, value: Any, *, key: Any = None, headers: Any = None, timestamp: int | None = None,
        partition: int | None = None, timeout_ms: int | None = None,
    ) -> Written:  # fmt: skip
        """Write one record, once, to a topic that exists."""
        record = record_of(value, key, headers, timestamp, partition)
        steps = self._conversation.produce(topic, record, {"timeout_ms": timeout_ms})
        answer = await self._run(steps, answer_seconds(timeout_ms=timeout_ms))
        return Written(answer["partition"], answer["offset"])

    async def _run(self, steps: Steps, seconds: float) -> Answer:
        told: bytes | ClientError | None = None
        async with self._turn:
            try:
                while True:
                    step = steps.throw(told) if isinstance(told, ClientError) else steps.send(told)
                    if isinstance(step, Pause):
                        told = None
                        await self._pause(step)
                    else:
                        told = await self._exchange(step, seconds)
            except StopIteration as end:
                answer: Answer = end.value
                return answer
            except NotABroker as error:
                raise NotABroker(f"{self._addresses.shown} {error}") from None
            finally:
                steps.close()

    async def _pause(self, step: Pause) -> None:
        await self.aclose()
        self._addresses.turn()
        await trio.sleep(step.seconds)

    async def _exchange(self, step: Exchange, seconds: float) -> bytes | ClientError:
        try:
            stream = await self._connected()
        except Unreachable as error:
            return error
        try:
            with trio.fail_after(seconds):
                await stream.send_all(step.line)
                told = await self._line(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError) as error:
            await self.aclose()
            return ConnectionBroken(f"the connection to {self._addresses.shown} broke: {error!r}")
        except BaseException:
            await self.aclose()
            raise
        if told is None:
            await self.aclose()
            return self._addresses.closed()
        return told

    async def _line(self, stream: trio.SocketStream) -> bytes | None:
        looked_at = 0
        while (end := self._held.find(b"\n", looked_at)) < 0:
            looked_at = len(self._held)
            came = await stream.receive_some(_READ_BYTES)
            if not came:
                return None
            self._held += came
        line = bytes(self._held[: end + 1])
        del self._held[: end + 1]
        return line

    async def _connected(self) -> trio.SocketStream:
        """To the first address that lets us, beginning with the one that is in use."""
        if self._stream is not None:
            return self._stream
        reasons = []
        for _ in range(len(self._addresses)):
            host, port = self._addresses.current
            try:
                with trio.fail_after(CONNECT_SECONDS):
                    self._stream = await trio.open_tcp_stream(host, port)
            except (OSError, UnicodeError, trio.TooSlowError) as error:
                reason = reason_of(error) if isinstance(error, OSError | UnicodeError) else "no answer"
                reasons.append(f"{self._addresses.shown} ({reason})")
                self._addresses.turn()
            else:
                self._held.clear()
                return self._stream
        raise self._addresses.unreachable(reasons)
