"""A node: the place where some actors live.

A broker is a node; so is the launcher. A process holds one node or several (the harness puts a whole cluster into
one). One scheduler runs the actors of a node. A node keeps the directory of its actors, the links to its peers, the
table of watchers, and the supervisor.

Between two nodes messages always go through a link, also inside one process: what works there works across processes.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, cast

import pykka

from actors.runtime.address import Address, in_order, name_of
from actors.runtime.errors import MailboxFull
from actors.runtime.pykka_hooks import ActorStop, Envelope
from actors.runtime.ref import Exits, Ref, RemoteRef
from actors.runtime.supervision import PeerDown, PeerUp, Recipe, Restart, Supervisor, Terminated, Watches

if TYPE_CHECKING:
    from actors.runtime.mailbox import Mailbox
    from actors.runtime.scheduler import Scheduler

A = TypeVar("A", bound=pykka.Actor)
AnyRef = Ref[Any] | RemoteRef
_REMOTE_REFS_MAX = 16_384


class PeerLink(Protocol):
    """The link to a peer, as its node sees it."""

    peer: int
    incarnation: int

    def send(self, address: Address, envelope: Envelope[Any]) -> None: ...

    def tell(self, address: Address, message: Any) -> None: ...

    def send_watch(self, target: Address) -> None: ...

    def send_unwatch(self, target: Address) -> None: ...

    def send_terminated(self, target: Address, reason: str) -> None: ...

    def lose(self, reason: str) -> None: ...


class Resident(Protocol):
    """An actor, as the node where it lives sees it."""

    node: Node
    address: Address
    actor_inbox: Mailbox
    restart: ClassVar[Restart | None]
    urgent: ClassVar[bool]

    @property
    def ref(self) -> Ref[Any]: ...

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]: ...

    def run_batch(self, limit: int, stop_at: float = math.inf) -> None: ...

    def crash(self) -> None: ...

    def activate(self) -> None: ...


class Node:
    """The actors of one broker."""

    def __init__(self, broker: int, scheduler: Scheduler, *, incarnation: int) -> None:
        self.broker = broker
        self.scheduler = scheduler
        self.incarnation = incarnation
        self.links: dict[int, PeerLink] = {}
        self.log = logging.LoggerAdapter(logging.getLogger("barnabas"), {"broker": broker})
        self.supervisor = Supervisor(scheduler, self.log, self._respawn)
        self._exits = Exits(scheduler, self.links, self.log)
        self._actors: dict[bytes, Ref[Any]] = {}
        self._alive: dict[Address, Any] = {}
        self._remote_refs: dict[Address, RemoteRef] = {}
        self._watches = Watches()
        self._peer_watchers: set[Address] = set()
        self._ended = False

    # -- actors ----------------------------------------------------------------------------------------------

    def spawn(self, actor_class: type[A], *args: Any, address: Address, **kwargs: Any) -> Ref[A]:
        """Make an actor here. It is supervised as its class says (`restart`)."""
        if address.broker != self.broker:
            raise ValueError(f"{address} cannot live on broker {self.broker}")
        if address.encoded in self._actors:
            raise ValueError(f"{address} is taken by a living actor")
        recipe = Recipe(actor_class, args, kwargs)
        self.supervisor.forget(address)  # a failed actor that waits there for its restart is replaced
        ref: Ref[A] = self._respawn(address, recipe)
        policy = cast("type[Resident]", actor_class).restart
        if policy is not None:
            self.supervisor.adopt(address, recipe, policy)
        return ref

    def ref(self, address: Address) -> AnyRef:
        """A reference to the actor at `address`. Raises ActorDeadError for a local address without an actor."""
        if address.broker == self.broker:
            ref = self._actors.get(address.encoded)
            if ref is None:
                raise pykka.ActorDeadError(f"{address} not found")
            return ref
        remote = self._remote_refs.get(address)
        if remote is None:
            if len(self._remote_refs) >= _REMOTE_REFS_MAX:
                self._remote_refs.clear()  # only a cache: refs that are in use live on with their users
            remote = self._remote_refs[address] = RemoteRef(self._exits, address)
        return remote

    def tell(self, address: Address, message: Any) -> None:
        """As `ref(address).tell(message)`, without a reference: the short way to a peer with many messages."""
        if address.broker == self.broker:
            self.ref(address).tell(message)
            return
        link = self.links.get(address.broker)
        if link is None:
            raise pykka.ActorDeadError(f"{address} not found: no link to broker {address.broker}")
        link.tell(address, message)

    def actor(self, address: Address) -> Any:
        """The actor at this address of this node, or None. For the simulator and tests."""
        return self._alive.get(address)

    @property
    def ending(self) -> bool:
        """Are all actors of this node being stopped?"""
        return self._ended

    @property
    def addresses(self) -> list[Address]:
        """Every actor that lives here."""
        return in_order(self._alive)

    def stop_all(self) -> None:
        """Ask every actor here to stop, the youngest first, and restart none of them."""
        self._ended = True
        self.supervisor.forget_all()
        for actor in reversed(self._alive.values()):
            actor.actor_inbox.put_own(Envelope(ActorStop()))

    def crash(self, how: str = "crashed") -> None:
        """Drop every actor that is left and every link at once, as `kill -9` would."""
        self._ended = True
        self.supervisor.forget_all()
        actors = list(self._alive.values())
        self._alive.clear()
        self._actors.clear()
        for actor in actors:
            actor.crash()
        for link in list(self.links.values()):
            link.lose(how)

    def actor_ended(self, actor: Resident, reason: str) -> None:
        """An actor stopped on purpose."""
        self.supervisor.forget(actor.address)
        self._gone(actor, reason)

    def actor_failed(self, actor: Resident, error: BaseException) -> None:
        """A handler failed: the actor is dead, and its supervisor decides whether to restart it."""
        self._gone(actor, f"failed: {error!r}")
        if not self._ended:
            self.supervisor.failed(actor.address, error)

    # -- watching --------------------------------------------------------------------------------------------

    def watch(self, watcher: Address, target: Address) -> None:
        """Tell `watcher`, an actor here, Terminated once `target` has ended or the link to it is lost."""
        if target.broker == self.broker:
            if target.encoded in self._actors:
                self._watches.add(watcher, target)
            else:
                self.tell_local(watcher, Terminated(target, "not found"))
            return
        link = self.links.get(target.broker)
        if link is None:
            self.tell_local(watcher, Terminated(target, f"no link to broker {target.broker}"))
        elif self._watches.add(watcher, target):
            link.send_watch(target)

    def unwatch(self, watcher: Address, target: Address) -> None:
        if self._watches.remove(watcher, target) and target.broker != self.broker:
            link = self.links.get(target.broker)
            if link is not None:
                link.send_unwatch(target)

    def watch_peers(self, watcher: Address) -> None:
        """Tell `watcher` PeerUp for each link that stands or comes up, and PeerDown for each one that is lost."""
        self._peer_watchers.add(watcher)
        for link in self.links.values():
            self.tell_local(watcher, PeerUp(link.peer, link.incarnation))

    def watched_by_peer(self, peer: int, target: bytes) -> None:
        """A peer watches an actor here."""
        ref = self._actors.get(target)
        if ref is not None:
            self._watches.add(peer, ref.address)
        else:
            self.links[peer].send_terminated(Address.parse(target.decode()), "not found")

    def unwatched_by_peer(self, peer: int, target: bytes) -> None:
        self._watches.remove(peer, Address.parse(target.decode()))

    def remote_terminated(self, address: Address, reason: str) -> None:
        """A peer says that an actor which is watched here has ended."""
        for watcher in self._watches.target_gone(address):
            self.tell_local(watcher, Terminated(address, reason))

    # -- links -----------------------------------------------------------------------------------------------

    def link_up(self, link: PeerLink) -> None:
        """Add a new link. An older link to the same peer that still stands is lost, with everything it held."""
        old = self.links.get(link.peer)
        if old is not None:
            old.lose("replaced by a new connection")
        self.links[link.peer] = link
        self.log.info("link: %s is up", name_of(link.peer))
        self._tell_peer_watchers(PeerUp(link.peer, link.incarnation))

    def link_down(self, link: PeerLink, reason: str) -> None:
        """A link is lost: tell Terminated to all watchers of actors behind it, and PeerDown to watchers of peers."""
        if self.links.get(link.peer) is not link:
            return
        del self.links[link.peer]
        peer = link.peer
        self.log.info("link: %s is down: %s", name_of(peer), reason)
        self._watches.watcher_gone(peer)
        for target in self._watches.targets():
            if target.broker == peer:
                self.remote_terminated(target, f"link lost: {reason}")
        self._tell_peer_watchers(PeerDown(peer, reason))

    def _tell_peer_watchers(self, message: PeerUp | PeerDown) -> None:
        """Tell all of them in this turn, since a failover waits for it. They act in turns of their own."""
        for watcher in in_order(self._peer_watchers):
            self.tell_local(watcher, message)

    def tell_local(self, address: Address, message: Any) -> None:
        """Tell an actor here a message that must not be lost and is not repeated. Its mailbox bound does not apply.

        For messages that the actor ordered itself, or that are few: never for what clients or other brokers send.
        """
        ref = self._actors.get(address.encoded)
        if ref is not None:
            ref.actor_inbox.put_own(Envelope(message))

    def deliver(self, target: bytes, envelope: Envelope[Any]) -> None:
        """Hand a message from a link to its actor. Raises ActorDeadError or MailboxFull."""
        ref = self._actors.get(target)
        if ref is None:
            raise pykka.ActorDeadError(f"{target.decode(errors='replace')} not found")
        try:
            ref.actor_inbox.put(envelope)
        except MailboxFull:
            self.scheduler.make_room(self._alive[ref.address])
            ref.actor_inbox.put(envelope)

    # -- inside ----------------------------------------------------------------------------------------------

    def _respawn(self, address: Address, recipe: Recipe) -> Ref[Any]:
        actor: Any = object.__new__(recipe.actor_class)
        actor.node, actor.address = self, address
        actor.__init__(*recipe.args, **recipe.kwargs)
        ref: Ref[Any] = actor.ref
        self._actors[address.encoded] = ref
        self._alive[address] = actor
        actor.activate()
        return ref

    def _gone(self, actor: Resident, reason: str) -> None:
        address = actor.address
        if self._alive.get(address) is not actor:
            return
        del self._alive[address]
        del self._actors[address.encoded]
        self._peer_watchers.discard(address)
        for target in self._watches.watcher_gone(address):
            if target.broker in self.links:
                self.links[target.broker].send_unwatch(target)
        for watcher in self._watches.target_gone(address):
            if isinstance(watcher, Address):
                self.tell_local(watcher, Terminated(address, reason))
            elif watcher in self.links:
                self.links[watcher].send_terminated(address, reason)
