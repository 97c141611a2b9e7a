"""Brokers that somebody else has started: killed, stopped, and dead before anybody has killed them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.actors.test_cluster_command import Command, written
from tests.actors.waiting import wait_until
from tools.chaos.__main__ import main
from tools.chaos.brokers import RunningBrokers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def die(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)

    def is_gone() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False

    wait_until(is_gone, lambda: f"process {pid} lives")


@contextmanager
def started(directory: Path, brokers: int) -> Iterator[str]:
    """A cluster as users start it, whose launcher starts again what dies; gives its addresses."""
    command = Command(directory / "output", written(directory, brokers=brokers))
    try:
        yield command.ready()
    finally:
        command.end_everything()


def test_a_broker_comes_back_however_it_died(tmp_path: Path) -> None:
    with started(tmp_path, 1) as bootstrap:
        running = RunningBrokers(bootstrap)
        die(running.pids[1])
        running.kill(1)
        assert running.alive == ()
        running.restart(1)
        running.pause(1)
        dead = running.pids[1]
        die(dead)
        running.resume(1)  # nobody is there to go on, so the next one is waited for
        assert running.pids[1] != dead
        assert running.alive == running.brokers


@pytest.mark.long
def test_brokers_that_somebody_else_has_started_keep_their_promises_under_faults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with started(tmp_path, 3) as bootstrap:
        assert main(["--bootstrap", bootstrap, "--cluster", "--minutes", "0.2"]) == 0
    assert "faults: " in capsys.readouterr().out
