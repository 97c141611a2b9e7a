"""Which connections of this process lead to a cluster: of the clients that a test has not closed."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterable

Connections = dict[int, str]
"""The broker's address by the port of this process."""


def to(bootstrap: str) -> Connections:
    """The connections of this process to these servers."""
    ports = {int(server.rpartition(":")[2]): server for server in bootstrap.split(",") if server}
    found = {}
    for own, peer in _ports(map(int, os.listdir("/dev/fd"))):
        if peer in ports:
            found[own] = ports[peer]
    return found


def _ports(descriptors: Iterable[int]) -> Iterable[tuple[int, int]]:
    """The ports of both sides of each connected TCP socket among these descriptors."""
    for descriptor in descriptors:
        try:
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
            sock = socket.socket(fileno=descriptor)
        except OSError:
            continue  # another thread has closed it meanwhile
        try:
            if sock.family in (socket.AF_INET, socket.AF_INET6) and sock.type == socket.SOCK_STREAM:
                yield sock.getsockname()[1], sock.getpeername()[1]
        except OSError:
            continue  # it is not connected
        finally:
            sock.detach()
