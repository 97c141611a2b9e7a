"""One broker: a node, its links, its port and its directory. The same whether it has a process to itself or not.

It lives until a message or a signal stops it, until its launcher is gone (nothing would restart or stop it any more),
or until it is killed. It reports its state to the launcher (BrokerStatus).
"""

from __future__ import annotations

import importlib
import math
import os
import random
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import trio
from attrs import evolve
from pykka import ActorDeadError

from actors.broker.directory_lock import DirectoryLock
from actors.broker.identity import DirectoryIdentity
from actors.broker.instruments import Instruments
from actors.broker.readiness import is_balanced, is_settled
from actors.broker.start import on_disk
from actors.broker.stop import Shutdown
from actors.cluster_file.facts import ClusterFacts
from actors.messages.process import (
    LAUNCHER,
    BrokerStatus,
    BrokerStopping,
    CutLink,
    HealLinks,
    StopBroker,
    broker_address,
)
from actors.partition.hosting import Balance
from actors.raft.context import BrokerContext
from actors.runtime import LAUNCHER_ID, Actor, Address, MailboxFull, Node, PeerDown, PeerUp, handles
from actors.runtime.links.peering import Peering
from actors.runtime.loop.trio_loop import drained
from actors.serving.context import Serving, traced_clients
from actors.serving.fetch_sessions import FetchSessions
from actors.serving.listener import serve_port
from log.errors import LogError
from protocol.late_attrs import frozen

if TYPE_CHECKING:
    from actors.runtime import Scheduler

STOP_SECONDS = 5.0
"""When no actor has stopped for this long, the rest are dropped."""
STOP_REPORT_SECONDS = 1.0
HAND_OVER_SECONDS = 3.0
SETTLE_SECONDS = 0.01
BALANCE_LOOK_SECONDS = 0.05
BALANCE_SECONDS_MAX = 2.0
"""How long a starting cluster waits for its preferred leaders, so that first clients see no change of leaders."""
_HANDS_NOTHING_OVER = (OSError, LogError, ActorDeadError, MailboxFull)
"""Its disk failed, it has ended, or it is overloaded: the other brokers notice later that this broker is gone."""
_FOUND_PORTS = range(16_384, 32_768)


@frozen(slots=True)
class ExtraActor:
    """An actor that every broker starts besides its own: `package.module:Class`, reached as `kind@broker`."""

    path: str
    kind: str

    def load(self) -> type[Actor]:
        module, _, name = self.path.partition(":")
        actor_class = getattr(importlib.import_module(module), name)
        if not (isinstance(actor_class, type) and issubclass(actor_class, Actor)):
            raise TypeError(f"{self.path} is no actor class")
        return actor_class


@frozen(slots=True)
class BrokerSpec:
    """Everything that a broker needs to start, in any process."""

    id: int
    cluster: str
    host: str
    port: int
    data_dir: Path
    socket_dir: Path
    facts: ClusterFacts
    extra_actors: tuple[ExtraActor, ...] = ()
    log_level: str = "info"
    log_format: str = "text"
    trace: tuple[str, ...] = ()
    """Ids of clients whose every request is logged."""
    cut_off: tuple[int, ...] = ()
    """Peers without a link to this broker until HealLinks comes."""
    advertised: tuple[str, int] | None = None
    """The address that clients are given, if it is not the one on which the broker listens."""


class Ending:
    """The order to a broker to end, and whether it hands over first."""

    def __init__(self) -> None:
        self._told = trio.Event()
        self.hand_over = False

    @property
    def is_told(self) -> bool:
        return self._told.is_set()

    def tell(self, *, hand_over: bool) -> None:
        self.hand_over = hand_over if not self._told.is_set() else self.hand_over and hand_over
        self._told.set()

    async def wait(self) -> None:
        await self._told.wait()


@frozen(slots=True)
class _LookAgain:
    pass


class Broker(Actor):
    """`broker@N`: the broker's own actor. It reports to the launcher and handles the launcher's messages."""

    def __init__(
        self, facts: ClusterFacts, port: int, context: BrokerContext, peering: Peering, ending: Ending
    ) -> None:
        super().__init__()
        self._facts = facts
        self._port = port
        self._context = context
        self._peering = peering
        self._ending = ending
        self._settled = False
        self._balanced = False
        self._balance_until = math.inf

    def on_start(self) -> None:
        self.node.watch_peers(self.address)
        self.after(0.0, _LookAgain())

    @handles(_LookAgain)
    def look_again(self, _message: _LookAgain) -> None:
        """Until all topics of the cluster file exist and have leaders, and then until preferred leaders lead."""
        if not self._settled:
            self._settle()
        if self._settled:
            self._balance()

    def _settle(self) -> None:
        self._settled = is_settled(self._context, self._facts)
        if self._settled:
            self._balance_until = self.now + BALANCE_SECONDS_MAX
            self._report()
        else:
            self.after(SETTLE_SECONDS, _LookAgain())

    def _balance(self) -> None:
        self._balanced = is_balanced(self._context) or self.now >= self._balance_until
        if self._balanced:
            self._report()
        else:
            self.send(Address("partitions", "", self.node.broker), Balance())
            self.after(BALANCE_LOOK_SECONDS, _LookAgain())

    @handles(PeerUp)
    def peer_up(self, _message: PeerUp) -> None:
        self._report()

    @handles(PeerDown)
    def peer_down(self, message: PeerDown) -> None:
        if message.broker == LAUNCHER_ID:
            self.log.warning("broker: the launcher is gone; ending")
            self._ending.tell(hand_over=False)
        else:
            self._report()

    @handles(StopBroker)
    def stop_broker(self, message: StopBroker) -> None:
        self._ending.tell(hand_over=message.hand_over)

    @handles(CutLink)
    def cut_link(self, message: CutLink) -> None:
        self._peering.cut(message.peer)

    @handles(HealLinks)
    def heal_links(self, _message: HealLinks) -> None:
        self._peering.heal()

    def _report(self) -> None:
        linked = tuple(sorted(peer for peer in self.node.links if peer != LAUNCHER_ID))
        status = BrokerStatus(self.node.broker, os.getpid(), self._port, linked, self._settled, self._balanced)
        self.send(LAUNCHER, status)


async def run_broker(
    spec: BrokerSpec, scheduler: Scheduler, ending: Ending, instruments: Instruments | None = None
) -> None:
    """Run this broker until `ending`. Cancelling it is a crash: no peer gets a message."""
    instruments = instruments or Instruments()
    with DirectoryLock(spec.data_dir), ExitStack() as partitions:
        identity = DirectoryIdentity.of(spec.data_dir, spec.id)
        with bind(spec.host, spec.port, identity.port) as listener:
            port = listener.getsockname()[1]
            identity.with_port(port, spec.data_dir)
            node = Node(spec.id, scheduler, incarnation=random.SystemRandom().getrandbits(63))
            peering = Peering(node, spec.cluster, spec.socket_dir, (LAUNCHER_ID, *spec.facts.brokers))
            for peer in spec.cut_off:
                peering.cut(peer)
            how = "this broker has crashed"
            try:
                # All actors are spawned before the first link: so a peer's first messages find their receivers.
                told_host, told_port = spec.advertised or (dialled(spec.host), port)
                facts = evolve(spec.facts, host=told_host, port=told_port)
                context = partitions.enter_context(
                    on_disk(node, str(spec.data_dir), str(identity.directory_id), facts, instruments)
                )
                node.spawn(Broker, facts, port, context, peering, ending, address=broker_address(spec.id))
                for extra in spec.extra_actors:
                    node.spawn(extra.load(), address=Address(extra.kind, "", spec.id))
                await drained(scheduler)
                async with trio.open_nursery() as nursery:
                    await nursery.start(peering.run)
                    serving = Serving(node, context, facts, FetchSessions(context.rng), traced_clients(spec.trace))
                    nursery.start_soon(serve_port, serving, listener, instruments.apis)
                    await ending.wait()
                    stop = Shutdown(node, context.last_syncs)
                    if ending.hand_over:
                        await _hand_over(stop)
                    await _stop_actors(stop)
                    how = "this broker has stopped"
                    nursery.cancel_scope.cancel()
            finally:
                node.crash(how)


def dialled(host: str) -> str:
    """The host that a client on this machine dials: nothing connects to a wildcard."""
    if host in ("0.0.0.0", "::"):  # noqa: S104  compared, not bound
        return "127.0.0.1" if host == "0.0.0.0" else "::1"  # noqa: S104
    return host


def bind(host: str, port: int, kept_port: int) -> socket.socket:
    """A listening socket: on `port`, or where that is 0 on the port found last time, or on any free one.

    A found port lies below the range of outgoing connections: otherwise one of those could take the port of a broker
    that is down, and the broker would come back on another port.
    """
    found = (*random.SystemRandom().sample(_FOUND_PORTS, 20), 0)
    for candidate in (port,) if port else (kept_port, *found) if kept_port else found:
        try:
            return _listening(host, candidate)
        except OSError as error:
            if candidate in (port, 0):
                raise OSError(error.errno, f"cannot listen on {host}:{candidate}: {error.strerror}") from error
    raise AssertionError("one of the candidates was bound or raised")


def _listening(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setblocking(False)
        listener.bind((host, port))
        listener.listen(1024)
    except OSError:
        listener.close()
        raise
    return listener


async def _hand_over(stop: Shutdown) -> None:
    """Wait for a limited time until others lead what is led here.

    A member that fails to hand over stops neither the other members nor the clean stop of this broker.
    """
    with trio.move_on_after(HAND_OVER_SECONDS):
        for member, answer in stop.hand_over():
            try:
                await answer
            except _HANDS_NOTHING_OVER as error:
                stop.node.log.warning("broker: %s hands nothing over: %s", member, error)
            except Exception:
                stop.node.log.exception("broker: %s failed to hand over", member)


async def _stop_actors(stop: Shutdown) -> None:
    """Let every actor handle its messages and stop. Wait as long as some actors stop within STOP_SECONDS.

    A broker with thousands of replicas syncs files for each of them; meanwhile it reports to the launcher.
    """
    node, last_syncs = stop.node, stop.last_syncs
    node.scheduler.turn(stop.stop_actors)
    left, stuck_s = stop.left, 0.0
    while stuck_s < STOP_SECONDS:
        with trio.move_on_after(STOP_REPORT_SECONDS) as slice_of_it:
            await drained(node.scheduler)
            if last_syncs is not None:
                await last_syncs.wait()
        if not slice_of_it.cancelled_caught:
            break
        now_left = stop.left
        stuck_s = 0.0 if now_left < left else stuck_s + STOP_REPORT_SECONDS
        left = now_left
        if LAUNCHER_ID in node.links:
            node.ref(LAUNCHER).tell(BrokerStopping(node.broker, left))
    if node.addresses:
        text = "broker: %d actors did not stop within %g s, among them %s"
        node.log.error(text, len(node.addresses), STOP_SECONDS, node.addresses[0])
