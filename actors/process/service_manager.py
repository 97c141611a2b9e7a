"""Messages of a cluster to systemd, or a service manager like it: `READY=1` and `STOPPING=1` (sd_notify).

The environment says where: NOTIFY_SOCKET, a path, or the name of an abstract socket after an "@". Without it nobody
wants to know.
"""

from __future__ import annotations

import logging
import os
import socket

READY, STOPPING = "READY=1", "STOPPING=1"
VARIABLE = "NOTIFY_SOCKET"
_log = logging.getLogger("barnabas.launcher")


def notify(state: str, status: str) -> None:
    """Tell a state, and in words what it is."""
    name = os.environ.get(VARIABLE)
    if not name:
        return
    address = f"\0{name[1:]}" if name.startswith("@") else name
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to_manager:
            to_manager.setblocking(False)
            to_manager.connect(address)
            to_manager.send(f"{state}\nSTATUS={status}".encode())
    except OSError as error:
        _log.warning("launcher: %s=%s was not told of %s: %s", VARIABLE, name, state, error)
