"""Where a broker runs: in an OS process of its own, or as a task of this one. A broker cannot tell the difference.

Processes are spawned, not forked by a fork server: a fork server starts them faster, but every broker would be its
child, and after one `kill -9` of it the launcher could not see any broker's end. Spawned brokers are the launcher's own
children.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import resource
import signal
import sys
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from typing import Protocol

import trio

from actors.broker.broker import BrokerSpec, Ending, run_broker
from actors.broker.directory_lock import DirectoryInUse
from actors.broker.identity import IdentityError
from actors.broker.instruments import Instruments
from actors.process import logs
from actors.runtime import Scheduler, SystemClock
from actors.runtime.loop.garbage import collect_garbage
from actors.runtime.loop.trio_loop import run_scheduler
from log.errors import LogError

DESCRIPTORS_WANTED = 1 << 16
_log = logging.getLogger("barnabas.broker")
_main_module = threading.Lock()


class Life(Protocol):
    """One life of a broker, from its start to its end."""

    @property
    def pid(self) -> int: ...

    async def ended(self) -> str:
        """Wait for its end; gives how it ended."""

    def end(self) -> None:
        """Ask it to end cleanly, without a link to ask over."""

    def kill(self) -> None:
        """End it at once, as by `kill -9`."""


class Host(Protocol):
    """A way to run brokers."""

    def start(self, spec: BrokerSpec) -> Life: ...


class ProcessHost:
    """Every broker in an OS process of its own."""

    def start(self, spec: BrokerSpec) -> Life:
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=run_broker_process, args=(spec,), name=f"broker-{spec.id}", daemon=True)
        resource_tracker.ensure_running()  # else `start` would do it, and unblock SIGINT
        with _no_main_module(), _sigint_blocked():
            process.start()
        return _ProcessLife(process)


class _ProcessLife:
    def __init__(self, process: multiprocessing.context.SpawnProcess) -> None:
        assert process.pid is not None
        self._process = process
        self.pid: int = process.pid

    async def ended(self) -> str:
        await trio.lowlevel.wait_readable(self._process.sentinel)
        self._process.join()
        code = self._process.exitcode
        self._process.close()
        if code is not None and code < 0:
            return f"killed by {_signal_name(-code)}"
        return "stopped" if code == 0 else f"exit code {code}"

    def end(self) -> None:
        with suppress(ValueError):  # closed: it has ended and was waited for
            self._process.terminate()

    def kill(self) -> None:
        with suppress(ValueError):
            self._process.kill()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has no name
        return f"signal {number}"


class LocalHost:
    """Every broker as a task of this process, with the scheduler and the instruments that a test gives it."""

    def __init__(self, nursery: trio.Nursery, equip: Callable[[int], tuple[Scheduler, Instruments]]) -> None:
        self._nursery = nursery
        self._equip = equip

    def start(self, spec: BrokerSpec) -> Life:
        life = _LocalLife(spec, *self._equip(spec.id))
        self._nursery.start_soon(life.run)
        return life


class _LocalLife:
    def __init__(self, spec: BrokerSpec, scheduler: Scheduler, instruments: Instruments) -> None:
        self._instruments = instruments
        self.pid = os.getpid()
        self._spec = spec
        self._scheduler = scheduler
        self._ending = Ending()
        self._scope = trio.CancelScope()
        self._ended = trio.Event()
        self._how = "stopped"

    async def run(self) -> None:
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    await nursery.start(run_scheduler, self._scheduler)
                    await run_broker(self._spec, self._scheduler, self._ending, self._instruments)
                    nursery.cancel_scope.cancel()
            if self._scope.cancelled_caught:
                self._how = "killed"
        except* Exception as failed:  # noqa: BLE001  a broker may fail in any way; the launcher goes on
            self._how = f"failed: {failed.exceptions[0]!r}"
            for error in failed.exceptions:
                _log_failure(self._spec.id, error)
        finally:
            self._ended.set()

    async def ended(self) -> str:
        await self._ended.wait()
        return self._how

    def end(self) -> None:
        self._ending.tell(hand_over=True)

    def kill(self) -> None:
        self._scope.cancel()


def run_broker_process(spec: BrokerSpec) -> None:
    """The main function of a broker's process."""
    for number in (signal.SIGINT, signal.SIGHUP):  # a terminal sends them to all processes; the launcher acts on them
        signal.signal(number, signal.SIG_IGN)
    _allow_descriptors()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    logs.configure(spec.log_level, form=spec.log_format)
    gc.freeze()  # imported objects stay alive: leave them out of collections
    try:
        trio.run(_run_until_signalled, spec)
    except* Exception as failed:  # noqa: BLE001  they are logged, and the process ends
        for error in failed.exceptions:
            _log_failure(spec.id, error)
        sys.exit(1)
    finally:
        logs.drain()


def _allow_descriptors() -> None:
    """Connections, links and segments need more descriptors than the usual soft limit of 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_WANTED)
    while soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # macOS has a bound of its own (kern.maxfilesperproc), below the hard limit
            wanted //= 2
        else:
            return


async def _run_until_signalled(spec: BrokerSpec) -> None:
    scheduler = Scheduler(SystemClock())
    ending = Ending()
    async with trio.open_nursery() as nursery:
        await nursery.start(run_scheduler, scheduler)
        nursery.start_soon(collect_garbage)
        await nursery.start(_end_on_sigterm, ending)
        nursery.start_soon(_end_without_launcher, spec, ending)
        await run_broker(spec, scheduler, ending)
        nursery.cancel_scope.cancel()


async def _end_on_sigterm(ending: Ending, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        task_status.started()
        async for _ in signals:
            ending.tell(hand_over=True)


async def _end_without_launcher(spec: BrokerSpec, ending: Ending) -> None:
    """End the broker when the launcher dies, also before their first link: the launcher's end of a pipe closes."""
    launcher = multiprocessing.parent_process()
    assert launcher is not None, "a broker's process is started by a launcher"
    await trio.lowlevel.wait_readable(launcher.sentinel)
    if not ending.is_told:
        _log.warning("broker: the launcher is gone; ending", extra={"broker": spec.id})
        ending.tell(hand_over=False)


def _log_failure(broker: int, error: Exception) -> None:
    """Log an error that the user can mend in one line, and any other error with its traceback."""
    mendable = isinstance(error, DirectoryInUse | IdentityError | LogError | OSError)
    _log.error("broker: %s", error, exc_info=None if mendable else error, extra={"broker": broker})


@contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Start processes in this block: they have SIGINT blocked until they ignore it."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@contextmanager
def _no_main_module() -> Iterator[None]:
    """Keep a spawned process from running the user's script again.

    multiprocessing imports the parent's __main__ in the child, so a plain script without an `if __name__` guard would
    start a cluster in every broker. A broker needs nothing from it. The lock keeps two clusters that start on two
    threads from taking each other's stand-in for the real module.
    """
    with _main_module:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = types.ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main
