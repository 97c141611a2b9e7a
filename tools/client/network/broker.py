"""One broker, over one connection after another, with a pause between them that grows while connections fail."""

from __future__ import annotations

import random

from attrs import frozen

from tools.client.addresses import Address
from tools.client.errors import ClientError
from tools.client.network.connection import Ask, Connection, State
from tools.client.network.loop import Loop, Timer


@frozen
class Patience:
    """The time-outs and pauses of a client, in seconds."""

    connect: float = 10.0
    request: float = 30.0
    """For an answer, in addition to the wait that the request itself allows the broker."""
    retry: float = 0.05
    """The first pause before a retry; it doubles with each failure, up to `retry_max`."""
    retry_max: float = 1.0
    metadata_age: float = 300.0

    def pause(self, failures: int) -> float:
        """The pause after so many failures, with a random part so that clients do not retry together."""
        longest = min(self.retry * (1 << min(failures, 16)), self.retry_max)
        return longest * random.uniform(0.8, 1.2)


class Broker:
    """Requests go to the current connection, or wait for the next one. On the loop's thread."""

    def __init__(self, loop: Loop, address: Address, client_id: str, patience: Patience) -> None:
        self.address = address
        self._loop = loop
        self._client_id = client_id
        self._patience = patience
        self._connection: Connection | None = None
        self._failures = 0
        self._retry_at = 0.0
        self._waiting: list[Ask] = []
        self._timer: Timer | None = None
        self._closed: ClientError | None = None

    @property
    def is_ready(self) -> bool:
        return self._connection is not None and self._connection.state is State.READY

    @property
    def is_failing(self) -> bool:
        """Did the last connection end, and no other begin since?"""
        return self._connection is None and self._failures > 0

    def ask(self, ask: Ask) -> None:
        if self._closed is not None:
            ask.then(self._closed)
        elif self._connection is not None:
            self._connection.ask(ask)
        elif self._loop.now() >= self._retry_at:
            self._connect().ask(ask)
        else:
            self._waiting.append(ask)
            if self._timer is None:
                self._timer = self._loop.after(self._retry_at - self._loop.now(), self._retry)

    def hang_up(self, error: ClientError) -> None:
        """Close the connection with its requests. The next request makes another one at once."""
        if self._connection is not None:
            self._connection.close(error)
            self._failures, self._retry_at = 0, 0.0

    def close(self, error: ClientError) -> None:
        """Close the connection for good; requests fail from now on."""
        self._closed = error
        if self._timer is not None:
            self._timer.cancel()
        if self._connection is not None:
            self._connection.close(error)
        waiting, self._waiting = self._waiting, []
        for ask in waiting:
            ask.then(error)

    def _connect(self) -> Connection:
        self._connection = Connection(self._loop, self.address, self._client_id, self._patience.connect, self._ended)
        return self._connection

    def _retry(self) -> None:
        self._timer = None
        waiting, self._waiting = self._waiting, []
        for ask in waiting:
            self.ask(ask)

    def _ended(self, connection: Connection) -> None:
        assert connection is self._connection, "one at a time"
        self._connection = None
        if connection.was_ready:
            self._failures = 0
        self._retry_at = self._loop.now() + self._patience.pause(self._failures)
        self._failures += 1
