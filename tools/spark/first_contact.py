"""Does anything listen at the brokers' addresses? Asked on the driver before rows are written.

Without this, each attempt of each task of a write would wait for a minute, and Spark tries a task four times.
"""

from __future__ import annotations

import socket
import threading
import time

from tools.client.addresses import addresses, shown
from tools.client.errors import TimedOut

_PAUSE, _CONNECT_SECONDS = 0.25, 5.0


def await_broker(bootstrap: str, seconds: float) -> None:
    """Return when a connection to one of these addresses succeeds. Raises TimedOut."""
    deadline = time.monotonic() + seconds
    while True:
        for address in addresses(bootstrap):
            left = min(max(deadline - time.monotonic(), _PAUSE), _CONNECT_SECONDS)
            try:
                socket.create_connection(address, timeout=left).close()
            except OSError as error:
                last = f"{shown(address)}: {error.strerror or error}"
            else:
                return
        if time.monotonic() + _PAUSE > deadline:
            raise TimedOut(no_answer(bootstrap, seconds, last))
        threading.Event().wait(_PAUSE)


def no_answer(bootstrap: str, seconds: float, why: object) -> str:
    """What a user is told."""
    return f"no broker answers at {bootstrap} within {seconds:g} s: {why}"
