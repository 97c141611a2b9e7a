"""The broker that is attacked: started as a user starts it, and looked at from outside."""

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
from pathlib import Path
from typing import Any, Self

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
"""
_WRONG = re.compile(r"^Traceback|\bCRITICAL\b|\bERROR\b", re.MULTILINE)


class Victim:
    """A cluster of one broker in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "cluster.toml"
        self._log = directory / "log"
        self.address = ("", 0)
        self.pid = 0

    def __enter__(self) -> Self:
        self._file.write_text(_FILE)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603  it is our own
                [sys.executable, "-m", "actors.cluster", str(self._file)], stdout=subprocess.PIPE, stderr=log
            )
        assert self._process.stdout is not None
        ready = re.search(rb"bootstrap ([^\s,:]+):(\d+)", self._process.stdout.readline())
        if ready is None:
            self._process.wait()
            raise RuntimeError(f"the cluster did not start: {self.log_text}")
        self.address = (ready[1].decode(), int(ready[2]))
        self.pid = self.ask({"op": "status"})["pid"]
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

    def ask(self, request: dict[str, Any]) -> Any:
        with socket.create_connection(self.address, timeout=START_SECONDS) as client, client.makefile("rwb", 0) as line:
            line.write(json.dumps(request).encode() + b"\n")
            return json.loads(line.readline())

    @property
    def memory_bytes(self) -> int:
        resident = Path(f"/proc/{self.pid}/statm").read_text().split()[1]
        return int(resident) * os.sysconf("SC_PAGE_SIZE")

    @property
    def descriptors(self) -> Counter[str]:
        """What it has open. Sockets have one name in common: each is another, and which is nobody's business."""
        found: Counter[str] = Counter()
        for number in os.listdir(f"/proc/{self.pid}/fd"):
            with suppress(FileNotFoundError):  # closed since it was listed
                name = os.readlink(f"/proc/{self.pid}/fd/{number}")
                found[SOCKETS if name.startswith("socket:") else name] += 1
        return found

    @property
    def log_text(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def complaints(self) -> list[str]:
        """What its log has that it should not have, each with a few lines of what follows."""
        text = self.log_text
        return ["\n".join(text[found.start() :].splitlines()[:30]) for found in _WRONG.finditer(text)]

    @property
    def is_the_same(self) -> bool:
        with suppress(OSError, ValueError, KeyError):
            return bool(self.ask({"op": "status"})["pid"] == self.pid)
        return False
