"""The cluster that all tests of a session share: it is started by the test that first asks, in a process of its own.

With xdist several processes may ask at once. One of them starts the cluster, under a lock in the directory that they
have in common, and writes down where it is; the others read that. The cluster ends with the session, and by itself if
the main process of the session is killed.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from tools.testing.control import SharedBackend
from tools.testing.kafka import KafkaFixtureError

__tracebackhide__ = True
START_SECONDS = 60.0
_LAST_LINES = 3


def join(directory: Path, owner: int, brokers: int, settings: Mapping[str, object]) -> SharedBackend:
    """The cluster of the session that has this directory, which is started if there is none yet."""
    place, log = directory / "kafka.json", directory / "kafka.log"
    with (directory / "kafka.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            place.write_text(_start(owner, brokers, settings, log))
    told = json.loads(place.read_text())
    return SharedBackend(told["path"], told["bootstrap"], str(log), told["pid"])


def _start(owner: int, brokers: int, settings: Mapping[str, object], log: Path) -> str:
    """Start the process, and wait for the line that says where its cluster is."""
    read, write = os.pipe()
    with open(read, "rb") as told:
        given = json.dumps({"owner": owner, "brokers": brokers, "settings": settings})
        try:
            pid = os.posix_spawn(  # a subprocess.Popen would warn in a worker, which ends before the cluster
                sys.executable, [sys.executable, "-P", "-m", f"{__package__}.server", given], _environment(),
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, write, 1),
                    (os.POSIX_SPAWN_OPEN, 2, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
                ],
            )  # fmt: skip
        finally:
            os.close(write)
        readable, _, _ = select.select([told], [], [], START_SECONDS)
        line = told.readline().decode() if readable else ""
    if not line:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        last = "\n".join(log.read_text(errors="replace").splitlines()[-_LAST_LINES:])
        raise KafkaFixtureError(f"the shared cluster did not start: {last or f'no word in {START_SECONDS:g} s'}")
    return line


def _environment() -> dict[str, str]:
    """This process's, in which the packages of this one are found first, and warnings are no errors."""
    root = str(Path(__file__).parents[__name__.count(".")])
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
    return environment | {"PYTHONPATH": os.pathsep.join(paths)}
