"""How many connections a broker takes, in all and from one address.

As in Apache Kafka: while `max.connections` are open, new ones wait in the kernel until one is closed; one more than
`max.connections.per.ip` from one address is closed at once. Never are there so many that files and links would find no
descriptor: a broker that leads partitions and cannot write them is worse than one client that waits.
"""

from __future__ import annotations

import resource
from collections import Counter

import trio

from actors.runtime.loop.trio_loop import Parking
from actors.serving.seldom import Seldom
from log.disk.handles import LENT_MAX
from log.disk.handles import LIMIT as FILES_MAX

OTHERS_MAX = 128
"""Descriptors for links, journals, files that are written and renamed, and what waits to be closed."""
RESERVED_DESCRIPTORS = FILES_MAX + OTHERS_MAX
CONNECTIONS_MIN = 16
FILES_MIN = 16


def connections_for(descriptors: int) -> int:
    """How many connections leave enough descriptors for the rest of a broker."""
    if descriptors == resource.RLIM_INFINITY:
        return 1 << 30
    return max(descriptors - RESERVED_DESCRIPTORS - 2 * lent_for(descriptors), CONNECTIONS_MIN)


def files_for(descriptors: int) -> int:
    """How many files of logs may be kept open, so that the fewest connections find a descriptor too."""
    if descriptors == resource.RLIM_INFINITY:
        return FILES_MAX
    left = descriptors - OTHERS_MAX - 2 * lent_for(descriptors) - CONNECTIONS_MIN
    return min(max(left, FILES_MIN), FILES_MAX)


def lent_for(descriptors: int) -> int:
    """How many files slices may hold that are on their way to clients, beside those that are kept open anyway.

    When those kept open are replaced by others, as many more may be held for a while.
    """
    return LENT_MAX if descriptors == resource.RLIM_INFINITY else min(descriptors // 16, LENT_MAX)


class Doorkeeper(trio.abc.Listener[trio.SocketStream]):
    """A listener that accepts only as long as there is room."""

    def __init__(self, listener: trio.SocketListener, wanted_max: int, per_ip_max: int, says: Seldom) -> None:
        self._listener = listener
        self._per_ip_max = per_ip_max
        self._says = says
        self._open = 0
        self._by_ip: Counter[str] = Counter()
        self._room = Parking()
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.connections_max = min(wanted_max, connections_for(descriptors))
        if self.connections_max < wanted_max:
            says.warn(
                "clamped",
                "listener: this process may have %d descriptors, so it takes %d connections instead of %d "
                "(max.connections); raise the limit with ulimit -n",
                descriptors, self.connections_max, wanted_max,
            )  # fmt: skip

    async def accept(self) -> trio.SocketStream:
        while self._open >= self.connections_max:
            self._says.warn(
                "full", "listener: %d connections are open (max.connections); new ones wait until one is closed",
                self._open,
            )  # fmt: skip
            await self._room.wait()
        stream = await self._listener.accept()
        self._open += 1
        return stream

    def admit(self, ip: str) -> bool:
        """May this address have one more? In either case `left` is called when the connection is closed."""
        self._by_ip[ip] += 1
        if self._by_ip[ip] <= self._per_ip_max:
            return True
        self._says.warn(
            "per ip", "listener: %s has %d connections (max.connections.per.ip); one more is closed",
            ip, self._per_ip_max,
        )  # fmt: skip
        return False

    def left(self, ip: str) -> None:
        """A connection that was accepted is closed."""
        self._open -= 1
        self._by_ip[ip] -= 1
        if not self._by_ip[ip]:
            del self._by_ip[ip]
        self._room.wake_if_waiting()

    async def aclose(self) -> None:
        await self._listener.aclose()
