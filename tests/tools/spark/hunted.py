"""A driver in a process of its own that may be killed, and what its queries have done so far."""

from __future__ import annotations

import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psutil

from tests.actors.waiting import wait_until
from tests.tools.spark.conftest import kept_in
from tests.tools.spark.streams import FAILED
from tools.client.consumer import Consumer
from tools.client.offsets import EARLIEST

ROOT = Path(__file__).parents[3]
_GONE = 60.0
_JOB = """
name = "copy"
checkpoint = "{directory}/state"
trigger = "available now"
[source]
bootstrap = "{bootstrap}"
subscribe = "t"
startingOffsets = "earliest"
maxOffsetsPerTrigger = 600
[decode]
format = "text"
[transform]
sql = "SELECT value FROM batch"
[[sink]]
type = "sqlite"
path = "{directory}/records.db"
table = "records"
"""
TOPIC_SINK = """
[[sink]]
type = "topic"
topic = "{topic}"
options = {{ exactlyOnce = true }}
"""


class Driver:
    """Runs killed_driver.py in a directory, again after each death."""

    def __init__(self, directory: Path, bootstrap: str, more_sinks: str = "") -> None:
        self.directory, self._bootstrap = directory, bootstrap
        self.database, self._log = directory / "records.db", directory / "driver.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._left: list[psutil.Process] = []
        (directory / "job.toml").write_text(_JOB.format(directory=directory, bootstrap=bootstrap) + more_sinks)

    def start(self) -> None:
        script = str(Path(__file__).parent / "killed_driver.py")
        command = [sys.executable, script, self._bootstrap, str(self.directory)]
        environment = os.environ | {"PYTHONPATH": str(ROOT), **kept_in(self.directory)}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self) -> None:
        """Python and Java. The Python that Java has started finds that out by itself, as on any machine."""
        if self._process is not None:
            self._left += self._children()
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def enough(self) -> None:
        """The next process that runs the queries ends when all records are taken."""
        (self.directory / "enough").touch()

    def finish(self, seconds: float) -> None:
        """Let the queries take what is left, and the driver end."""
        self.enough()
        if self._process is None:
            self.start()
        assert self._process is not None
        assert self._process.wait(seconds) == 0, self.told()
        self._process = None

    def close(self) -> None:
        """Leave no process behind."""
        self.kill()
        try:
            wait_until(lambda: all(map(_has_ended, self._left)), lambda: f"left: {self._left}", seconds=_GONE)
        finally:
            for one in self._left:
                if not _has_ended(one):
                    one.kill()

    def kill_python(self, chance: random.Random) -> None:
        """Two of the processes that run tasks, plan and commit, and start such."""
        found = [one for one in self._children() if _is_sparks_python(one)]
        for one in chance.sample(found, min(len(found), 2)):
            try:
                self._left += one.children(recursive=True)
                one.kill()
            except psutil.NoSuchProcess:
                continue

    def _children(self) -> list[psutil.Process]:
        if self._process is None or self._process.poll() is not None:
            return []
        return psutil.Process(self._process.pid).children(recursive=True)

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def told(self) -> str:
        return self._log.read_text()[-4000:]

    def failures(self) -> list[str]:
        """Why queries have ended before their end."""
        return re.findall(rf"^{FAILED} (.*)$", self._log.read_text(), re.MULTILINE)

    def batches(self) -> int:
        """How many micro-batches both queries have committed."""
        return sum(
            max((int(one.name) + 1 for one in (self.directory / name / "commits").glob("[0-9]*")), default=0)
            for name in ("state", "copy")
        )

    def rows(self) -> list[str]:
        """What the job has written to SQLite."""
        return values_in_table(self.database)


def values_in_table(database: Path) -> list[str]:
    if not database.exists():
        return []
    with closing(sqlite3.connect(database, timeout=60)) as connection:
        tables = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'records'").fetchall()
        return [value for (value,) in connection.execute("SELECT value FROM records")] if tables else []


def values_in_topic(bootstrap: str, topic: str) -> list[str]:
    """What readers of committed records see. Nothing that is open may be left."""
    found: list[str] = []
    with (
        Consumer(bootstrap, isolation="read_committed") as consumer,
        Consumer(bootstrap, isolation="read_uncommitted") as reckless,
    ):
        wheres = consumer.partitions(topic)
        ends = consumer.end_offsets(wheres)
        assert ends == reckless.end_offsets(wheres), "a transaction is open"
        consumer.assign(dict.fromkeys(wheres, EARLIEST))
        while any(consumer.position(where) < end for where, end in ends.items()):
            for records in consumer.poll(0.5).values():
                found += [(record.value or b"").decode() for record in records]
    return found


def _has_ended(process: psutil.Process) -> bool:
    """The process is gone, or is a zombie: in a container its parent may never wait for it."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _is_sparks_python(process: psutil.Process) -> bool:
    try:
        return any(word.startswith("pyspark.") for word in process.cmdline())
    except psutil.NoSuchProcess:
        return False
