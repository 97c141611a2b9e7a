"""Checks of the machine, which may be unfit though the cluster file is right: directories, the host and its ports.

Problems are reported before any process is started, in the same form as mistakes in the file: a line that names the key
is worth more than the stack trace of a worker. The checks promise nothing: a port that is free now may be taken a
moment later, so the code that opens it must still handle the failure. They leave nothing behind: in place of a missing
directory they make and remove another one beside it, and every port that they try is closed again.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import tempfile
from typing import TYPE_CHECKING, Any

from actors.broker.directory_lock import DirectoryInUse, owner_of
from actors.cluster_file.config import ClusterConfig, problem
from log.settings.kinds import shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Address = tuple[socket.AddressFamily, tuple[Any, ...]]  # the family, and what bind takes in it


def check_machine(config: ClusterConfig) -> tuple[str, ...]:
    """The problems, one line each; none when the cluster can start here."""
    complaints = (*_directories(config), *(tuple(_owner(config)) or _ports(config)))
    return tuple(problem(config.file, key, complaint) for key, complaint in complaints)


def _owner(config: ClusterConfig) -> Iterator[tuple[str, str]]:
    """A running cluster also holds the ports; so only the running cluster is reported."""
    owner = owner_of(config.data_dir)
    if owner is not None:
        yield "cluster.data_dir", str(DirectoryInUse(config.data_dir, owner))


def _directories(config: ClusterConfig) -> Iterator[tuple[str, str]]:
    """One obstacle for many brokers is reported once, at the first key that meets it."""
    places = [("cluster.data_dir", config.data_dir)]
    places += [(f"broker[{place}].data_dir", broker.data_dir) for place, broker in enumerate(config.brokers, start=1)]
    reported = set()
    for key, directory in places:
        complaint = _obstacle(directory)
        if complaint is not None and complaint not in reported:
            reported.add(complaint)
            yield key, complaint


def _obstacle(directory: Path) -> str | None:
    """Why the directory cannot be made or written to, from the nearest existing one of it and its parents."""
    for path in (directory, *directory.parents):
        try:
            mode = path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            return f"{shown(str(path))} cannot be used ({error.strerror}); choose another directory"
        if not stat.S_ISDIR(mode):
            return f"{shown(str(path))} is not a directory; move it away or choose another directory"
        if not os.access(path, os.W_OK | os.X_OK):
            return f"{shown(str(path))} is not writable; allow it or choose another directory"
        return None if path == directory else _refused_child(path)
    return None


def _refused_child(path: Path) -> str | None:
    """Why no directory can be made in this one: a permission is no promise, as in /proc."""
    try:
        os.rmdir(tempfile.mkdtemp(prefix=".barnabas-", dir=path))
    except OSError as error:
        return f"{shown(str(path))} takes no new directory ({error.strerror}); choose another directory"
    return None


def _ports(config: ClusterConfig) -> Iterator[tuple[str, str]]:
    """Try the ports on addresses that can be bound: without IPv6, localhost may still name ::1."""
    host = shown(config.host)
    remedy = "give an address of this machine"
    try:
        addresses = _addresses(config.host)
    except (OSError, UnicodeError) as error:
        yield "cluster.host", f"{host} cannot be resolved ({_reason(error)}); {remedy}"
        return
    refusals = [_refusal(address, 0) for address in addresses]
    usable = [address for address, refusal in zip(addresses, refusals, strict=True) if refusal is None]
    if not usable:
        yield "cluster.host", f"{host} cannot be bound ({_reason(refusals[0])}); {remedy}"
        return
    for place, broker in enumerate(config.brokers, start=1):
        refusal = next(filter(None, (_refusal(address, broker.port) for address in usable)), None)
        if refusal is not None and refusal.errno == errno.EADDRINUSE:
            complaint = f"{broker.port} is in use on {config.host}; stop what uses it or give another port"
            yield f"broker[{place}].port", complaint
        elif refusal is not None:
            complaint = f"{broker.port} cannot be bound on {config.host} ({_reason(refusal)}); give another port"
            yield f"broker[{place}].port", complaint


def _addresses(host: str) -> list[Address]:
    infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return [(family, address) for family, _, _, _, address in infos]


def _refusal(address: Address, port: int) -> OSError | None:
    """Bind as a listener would, and close. For port 0 this only checks that the address is of this machine."""
    family, (host, _, *rest) = address
    try:
        with socket.socket(family, socket.SOCK_STREAM) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                trial.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            trial.bind((host, port, *rest))
    except OSError as error:
        return error
    return None


def _reason(error: Exception | None) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
