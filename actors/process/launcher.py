"""The launcher starts the brokers, restarts a broker that dies, and ends all of them.

It holds no data and serves no client. It takes part as a node of its own (id -1): brokers report to `launcher@-1` over
the same kind of link that joins them to each other, and the end of that link tells them that the launcher died. A
broker that dies is started again, with back-off. A broker that dies several times without ever getting ready is given
up, and the cluster with it, since a restart does not mend what is wrong.
"""

from __future__ import annotations

import logging
import math
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import trio
from attrs import evolve

from actors.broker.broker import BrokerSpec, ExtraActor, dialled
from actors.broker.directory_lock import DirectoryLock
from actors.messages.process import (
    LAUNCHER,
    BrokerStatus,
    BrokerStopping,
    CutLink,
    HealLinks,
    StopBroker,
    broker_address,
)
from actors.process.errors import unusable
from actors.process.formation import facts_of
from actors.runtime import LAUNCHER_ID, Actor, Node, PeerDown, PeerUp, Scheduler, SystemClock, handles
from actors.runtime.links.peering import Peering
from actors.runtime.loop.trio_loop import run_scheduler
from log.disk.filesystem import DIRECTORY_MODE

if TYPE_CHECKING:
    from actors.cluster_file.config import ClusterConfig
    from actors.process.hosts import Host, Life

STOP_SECONDS = 10.0
BACKOFF_SECONDS = 0.05
BACKOFF_SECONDS_MAX = 5.0
STEADY_SECONDS = 10.0
UNREADY_DEATHS_MAX = 5
_SOCKET_DIR_PREFIX = "barnabas-"


class BrokerGivenUp(Exception):
    """A broker died again and again before it got ready."""


class LauncherActor(Actor):
    """`launcher@-1`: takes the brokers' reports."""

    def __init__(
        self,
        reported: Callable[[BrokerStatus], None],
        stopping: Callable[[BrokerStopping], None],
        lost: Callable[[int], None],
    ) -> None:
        super().__init__()
        self._reported = reported
        self._stopping = stopping
        self._lost = lost

    def on_start(self) -> None:
        self.node.watch_peers(self.address)

    @handles(BrokerStatus)
    def broker_status(self, status: BrokerStatus) -> None:
        self._reported(status)

    @handles(BrokerStopping)
    def broker_stopping(self, message: BrokerStopping) -> None:
        self._stopping(message)

    @handles(PeerUp)
    def peer_up(self, _message: PeerUp) -> None:
        """Nothing to do: a broker that is linked reports its status at once."""

    @handles(PeerDown)
    def peer_down(self, message: PeerDown) -> None:
        self._lost(message.broker)


class Launcher:
    """A running cluster. Use `open_launcher`."""

    def __init__(self, node: Node, host: Host, specs: Iterable[BrokerSpec], nursery: trio.Nursery) -> None:
        self._node = node
        self._host = host
        self._nursery = nursery
        self._specs = {spec.id: spec for spec in specs}
        self._lives: dict[int, Life] = {}
        self._change = trio.Event()
        self._served: set[int] = set()
        self._killed: set[int] = set()
        self._cuts: set[frozenset[int]] = set()
        self._stopping = trio.Event()
        self._left: dict[int, int] = {}
        """How many actors each stopping broker still has, by its last message."""
        self._got_on_at = -math.inf
        """When one of these numbers last fell."""
        self.aborted = False
        self.statuses: dict[int, BrokerStatus] = {}
        """The last status of each broker that serves."""
        self.ends: dict[int, str] = {}
        """How the last life of each broker ended."""
        node.spawn(LauncherActor, self._reported, self._is_stopping, self._lost, address=LAUNCHER)

    @property
    def node(self) -> Node:
        return self._node

    @property
    def pids(self) -> dict[int, int]:
        """The process of every broker that lives."""
        return {broker: life.pid for broker, life in sorted(self._lives.items())}

    @property
    def bootstrap(self) -> str:
        """The addresses of the brokers that serve, as Kafka's clients want them."""
        ports = ((self._specs[broker].host, status.port) for broker, status in sorted(self.statuses.items()))
        return ",".join(_address(host, port) for host, port in ports)

    async def keep_alive(self, broker: int) -> None:
        """Start a broker, and restart it whenever it dies, with back-off unless it lived for a while."""
        unready_deaths, backoff_s = 0, BACKOFF_SECONDS
        while not self._stopping.is_set():
            started_at = trio.current_time()
            was_ready = await self.live_once(broker)
            if self._stopping.is_set():
                return
            unready_deaths = 0 if was_ready else unready_deaths + 1
            if unready_deaths >= UNREADY_DEATHS_MAX:
                raise BrokerGivenUp(
                    f"broker {broker} died {unready_deaths} times without getting ready; its log lines above say why"
                )
            if was_ready and trio.current_time() - started_at >= STEADY_SECONDS:
                backoff_s = BACKOFF_SECONDS
            self._node.log.warning("launcher: restarting broker %d in %.2f s", broker, backoff_s)
            await trio.sleep(backoff_s)
            backoff_s = min(2 * backoff_s, BACKOFF_SECONDS_MAX)

    async def live_once(self, broker: int, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> bool:
        """Run one life of a broker. True if it got ready. As a task, it is started once the broker counts as alive."""
        self._served.discard(broker)
        cut_off = tuple(sorted(peer for pair in self._cuts if broker in pair for peer in pair - {broker}))
        life = self._lives[broker] = self._host.start(evolve(self._specs[broker], cut_off=cut_off))
        over = trio.Event()
        self._nursery.start_soon(self._see_off, broker, life, over)
        self._node.log.info("launcher: broker %d started, pid %d", broker, life.pid)
        task_status.started()
        await over.wait()
        return broker in self._served

    async def until(self, condition: Callable[[dict[int, BrokerStatus]], bool]) -> None:
        """Wait until the brokers' reports meet a condition."""
        while not condition(self.statuses):
            await self._change.wait()

    async def until_dead(self, broker: int) -> None:
        """Wait until a broker's process has ended and its link is gone."""
        while broker in self._lives or broker in self.statuses:
            await self._change.wait()

    async def until_ready(self) -> None:
        """Wait until every broker serves, is linked to all others, and is settled and balanced (BrokerStatus)."""
        all_brokers = set(self._specs)
        await self.until(
            lambda statuses: (
                all_brokers == set(statuses)
                and all(
                    status.settled and status.balanced and set(status.linked) == all_brokers - {status.broker}
                    for status in statuses.values()
                )
            )
        )

    async def stop(self) -> None:
        """End every broker cleanly; kill those that neither end in time nor have fewer and fewer actors."""
        self._stopping.set()
        for broker in list(self._lives):
            self._tell(broker, StopBroker(hand_over=False))
        with trio.move_on_after(STOP_SECONDS) as patience:
            while self._lives:
                await self._change.wait()
                patience.deadline = max(patience.deadline, self._got_on_at + STOP_SECONDS)
        for broker, life in self._lives.items():
            self._node.log.error("launcher: broker %d did not end within %g s; killing it", broker, STOP_SECONDS)
            life.kill()
        while self._lives:
            await self._change.wait()

    def kill(self, broker: int) -> None:
        """`kill -9`, or the same for a broker inside this process."""
        if broker in self._lives:
            self._killed.add(broker)
            self._lives[broker].kill()

    def end(self, broker: int) -> None:
        """End one broker cleanly; the others take over from it."""
        if broker in self._lives:
            self._killed.add(broker)
            self._tell(broker, StopBroker(hand_over=True))

    def abort(self) -> None:
        """Kill every broker and wait for none of them."""
        self.aborted = True
        self._stopping.set()
        for life in self._lives.values():
            life.kill()

    def cut(self, a: int, b: int) -> None:
        """Break the link between two brokers; it stays broken when they are restarted."""
        self._cuts.add(frozenset((a, b)))
        self._tell(a, CutLink(b))
        self._tell(b, CutLink(a))

    def heal(self) -> None:
        """Mend every link that was cut."""
        self._cuts.clear()
        for broker in self._lives:
            self._tell(broker, HealLinks())

    def _tell(self, broker: int, message: StopBroker | CutLink | HealLinks) -> None:
        if broker in self._node.links:
            self._node.ref(broker_address(broker)).tell(message)
        elif isinstance(message, StopBroker):
            self._lives[broker].end()  # it is not linked

    async def _see_off(self, broker: int, life: Life, over: trio.Event) -> None:
        """Wait for a broker's end. Nothing cancels this: `stop`, which ends every broker, relies on it."""
        try:
            with trio.CancelScope(shield=True):
                how = self.ends[broker] = await life.ended()
            if not self._stopping.is_set():
                level = logging.INFO if broker in self._killed else logging.WARNING
                self._node.log.log(level, "launcher: broker %d ended: %s", broker, how)
        finally:
            del self._lives[broker]
            self._killed.discard(broker)
            over.set()
            self._lost(broker)

    def _reported(self, status: BrokerStatus) -> None:
        self.statuses[status.broker] = status
        self._served.add(status.broker)
        self._changed()

    def _is_stopping(self, message: BrokerStopping) -> None:
        if message.actors < self._left.get(message.broker, message.actors + 1):
            self._left[message.broker] = message.actors
            self._got_on_at = trio.current_time()
            self._changed()

    def _lost(self, broker: int) -> None:
        self.statuses.pop(broker, None)
        self._changed()

    def _changed(self) -> None:
        self._change.set()
        self._change = trio.Event()


@asynccontextmanager
async def open_launcher(
    config: ClusterConfig,
    make_host: Callable[[Scheduler, trio.Nursery], Host],
    *,
    extra_actors: tuple[ExtraActor, ...] = (),
    log_level: str = "info",
    trace: tuple[str, ...] = (),
) -> AsyncIterator[Launcher]:
    """A launcher with its node running; no broker is started yet. On the way out every broker is ended."""
    try:
        config.data_dir.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise unusable(config.data_dir, error) from error
    socket_dir = Path(tempfile.mkdtemp(prefix=_SOCKET_DIR_PREFIX, dir=_short_directory()))
    try:
        with DirectoryLock(config.data_dir, note=str(socket_dir)) as lock:
            _clear_away(lock.left_behind)
            scheduler = Scheduler(SystemClock())
            node = Node(LAUNCHER_ID, scheduler, incarnation=1)
            brokers = tuple(sorted(broker.id for broker in config.brokers))
            facts = facts_of(config)
            specs = [
                BrokerSpec(
                    broker.id, config.name, config.host, broker.port, broker.data_dir, socket_dir, facts,
                    extra_actors, log_level, config.log_format, trace, advertised=broker.advertised,
                )
                for broker in config.brokers
            ]  # fmt: skip
            async with trio.open_nursery() as nursery:
                await nursery.start(run_scheduler, scheduler)
                await nursery.start(Peering(node, config.name, socket_dir, brokers).run)
                launcher = Launcher(node, make_host(scheduler, nursery), specs, nursery)
                try:
                    yield launcher
                finally:
                    with trio.CancelScope(shield=True):
                        await launcher.stop()
                    nursery.cancel_scope.cancel()
    finally:
        shutil.rmtree(socket_dir, ignore_errors=True)


def _short_directory() -> str:
    """The directory of sockets: the temporary one, unless its name leaves too little of a socket path's 103 bytes."""
    directory = tempfile.gettempdir()
    return directory if len(os.fsencode(directory)) <= 60 else "/tmp"  # noqa: S108  mkdtemp makes a private one in it


def _clear_away(socket_dir: str) -> None:
    """Remove the sockets of a cluster whose processes were all killed."""
    path = Path(socket_dir)
    if socket_dir and path.name.startswith(_SOCKET_DIR_PREFIX) and path.parent == Path(_short_directory()):
        shutil.rmtree(path, ignore_errors=True)


def _address(host: str, port: int) -> str:
    host = dialled(host)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
