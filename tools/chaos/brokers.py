"""Brokers of ours that another process has started on this machine. Their launcher restarts killed brokers."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from tools.client.addresses import addresses
from tools.client.json_client import ClientError, JsonClient

BACK_SECONDS = 60.0
PAUSE_SECONDS = 0.1


class NotOurs(Exception):
    """These brokers cannot be killed or stopped; the message says why in one line."""


class RunningBrokers:
    """The processes of these brokers, found by the status that their ports give."""

    def __init__(self, bootstrap: str) -> None:
        self._ports: dict[int, str] = {}
        self.pids: dict[int, int] = {}
        for host, port in addresses(bootstrap):
            where = f"{host}:{port}"
            try:
                broker, pid = _ask(where)
                os.kill(pid, 0)
            except (ClientError, KeyError, OSError) as error:
                raise NotOurs(f"{where}: no broker of ours on this machine: {error}") from error
            self._ports[broker], self.pids[broker] = where, pid
        self.brokers = tuple(sorted(self._ports))

    @property
    def alive(self) -> tuple[int, ...]:
        return tuple(self.pids)

    def kill(self, broker: int) -> None:
        with suppress(ProcessLookupError):  # it died by itself, and is dead as was wanted
            os.kill(self.pids.pop(broker), signal.SIGKILL)

    def restart(self, broker: int) -> None:
        """Wait until the launcher has restarted it."""
        until = time.monotonic() + BACK_SECONDS
        while time.monotonic() < until:
            try:
                found, pid = _ask(self._ports[broker])
            except ClientError:
                time.sleep(PAUSE_SECONDS)
                continue
            assert found == broker, f"broker {found} is where broker {broker} was"
            self.pids[broker] = pid
            return
        raise NotOurs(f"broker {broker} did not come back within {BACK_SECONDS:g} s")

    def pause(self, broker: int) -> None:
        self._send(broker, signal.SIGSTOP)

    def resume(self, broker: int) -> None:
        self._send(broker, signal.SIGCONT)

    def _send(self, broker: int, number: signal.Signals) -> None:
        try:
            os.kill(self.pids[broker], number)
        except ProcessLookupError:  # it died by itself: its launcher starts another one, which runs
            self.restart(broker)


def _ask(where: str) -> tuple[int, int]:
    with JsonClient(where) as client:
        told = client.call("status")
    return told["broker"], told["pid"]
