"""The attacked cluster: started as a user starts it, and observed from outside."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from actors import cluster

START_SECONDS = 30.0
STOP_SECONDS = 20.0
SOCKETS = "sockets"
_FILE = """
[cluster]
name = "fuzz"
[config]
"auto.create.topics.enable" = false
[[broker]]
id = 1
port = 0
[[broker]]
id = 2
port = 0
[[broker]]
id = 3
port = 0
"""
HELD_MS_MAX = 50
"""The most processor time of one turn of a broker."""
WAITED_MS_MAX = 1000
"""The most wall time of one turn: one that waits for a disk uses no processor time. A shorter turn may only have waited
for a processor."""
_WRONG = re.compile(r"^Traceback|\bCRITICAL\b|\bERROR\b", re.MULTILINE)
_HELD = re.compile(r"^.*held the loop for (\d+) ms, (\d+) of processor time.*$", re.MULTILINE)
_ABOUT_CLIENTS = re.compile(r" (?:connection|request): ")
_AROUND_SECONDS = 5.0
_AROUND_LINES_MAX = 60
Address = tuple[str, int]


class Victim:
    """A cluster of three brokers in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "cluster.toml"
        self._log = directory / "log"
        self._begun = 0
        self.addresses: list[Address] = []
        self.pids: list[int] = []

    def __enter__(self) -> Self:
        self._file.write_text(_FILE)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603  it is our own
                [sys.executable, "-m", cluster.__name__, str(self._file)], stdout=subprocess.PIPE, stderr=log
            )
        assert self._process.stdout is not None
        ready = self._process.stdout.readline().decode()
        self.addresses = [(host, int(port)) for host, port in re.findall(r"([^\s,:]+):(\d+)", ready)]
        if not self.addresses:
            self._process.wait()
            raise RuntimeError(f"the cluster did not start: {self.log_text}")
        self.pids = [self.ask({"op": "status"}, address)["pid"] for address in self.addresses]
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def ask(self, request: dict[str, Any], address: Address | None = None) -> Any:
        """Ask the broker at this address, else the first one."""
        target = address or self.addresses[0]
        with socket.create_connection(target, timeout=START_SECONDS) as client, client.makefile("rwb", 0) as line:
            line.write(json.dumps(request).encode() + b"\n")
            return json.loads(line.readline())

    def begin(self) -> None:
        """Count long turns from now on: a broker that starts has much work and no clients."""
        self._begun = len(self.log_text)

    @property
    def memory_bytes(self) -> int:
        """The resident memory of all brokers."""
        pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self.pids)
        return pages * os.sysconf("SC_PAGE_SIZE")

    @property
    def descriptors(self) -> Counter[str]:
        """The open descriptors of all brokers, by name. All sockets count under one name."""
        found: Counter[str] = Counter()
        for pid in self.pids:
            for number in os.listdir(f"/proc/{pid}/fd"):
                with suppress(FileNotFoundError):  # closed since it was listed
                    name = os.readlink(f"/proc/{pid}/fd/{number}")
                    is_shared = name.startswith(("socket:", "pipe:", "anon_inode:", "/dev/"))
                    found[SOCKETS if name.startswith("socket:") else f"{pid} {name}" if is_shared else name] += 1
        return found

    @property
    def log_text(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def complaints(self) -> list[str]:
        """Errors and long turns in the log, each error with a few lines that follow it."""
        text = self.log_text
        wrong = ["\n".join(text[found.start() :].splitlines()[:30]) for found in _WRONG.finditer(text)]
        return wrong + [
            held[0]
            for held in _HELD.finditer(text[self._begun :])
            if int(held[1]) >= WAITED_MS_MAX or int(held[2]) > HELD_MS_MAX
        ]

    def log_around(self, moment: float) -> list[str]:
        """What the brokers logged in the seconds before and after this time, other than about connections."""
        lines = [line for line in self.log_text.splitlines() if not _ABOUT_CLIENTS.search(line)]
        near = [line for line in lines if abs(_logged_at(line) - moment) < _AROUND_SECONDS]
        left_out = len(near) - _AROUND_LINES_MAX
        return near if left_out <= 0 else [*near[:_AROUND_LINES_MAX], f"… and {left_out} lines more"]

    @property
    def is_the_same(self) -> bool:
        with suppress(OSError, ValueError, KeyError):
            return [self.ask({"op": "status"}, address)["pid"] for address in self.addresses] == self.pids
        return False


def _logged_at(line: str) -> float:
    """When this line was logged, or 0 if it does not begin with a time."""
    try:
        return datetime.strptime(line[:24], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0
