"""Actors on one scheduler per process, spread over processes.

address      names that mean the same everywhere: replica/orders-3@2
actor        the actor: a pykka.Actor whose turns the scheduler runs
mailbox      bounded queues, and what happens when one is full
ref          references: tell and ask
future       the answer to an ask; Gather: the answers of many
scheduler    one loop over ready actors
clock        where time comes from, real or virtual
timers       timers on the scheduler's clock
node         the place where some actors live: directory, links, watches
supervision  restarts with back-off and giving up; watchers of actors and brokers
pykka_hooks  what the runtime takes from the inside of pykka
errors       what can go wrong between actors
links        links between nodes, over AF_UNIX
loop         the scheduler on trio: sockets, turns, garbage
simulation   the same actors on a virtual clock and a seeded, lossy network
"""

from actors.runtime.actor import Actor, handles
from actors.runtime.address import LAUNCHER_ID, Address
from actors.runtime.clock import Clock, SystemClock, VirtualClock
from actors.runtime.errors import BlockingCall, CodecError, LinkLost, MailboxFull, RemoteFailure, RuntimeFault
from actors.runtime.future import Future, Gather
from actors.runtime.links.codec import Payload, wire
from actors.runtime.mailbox import Overflow
from actors.runtime.node import AnyRef, Node
from actors.runtime.ref import Ref, RemoteRef
from actors.runtime.scheduler import Scheduler
from actors.runtime.supervision import PeerDown, PeerUp, Restart, Terminated

__all__ = [
    "LAUNCHER_ID",
    "Actor",
    "Address",
    "AnyRef",
    "BlockingCall",
    "Clock",
    "CodecError",
    "Future",
    "Gather",
    "LinkLost",
    "MailboxFull",
    "Node",
    "Overflow",
    "Payload",
    "PeerDown",
    "PeerUp",
    "Ref",
    "RemoteFailure",
    "RemoteRef",
    "Restart",
    "RuntimeFault",
    "Scheduler",
    "SystemClock",
    "Terminated",
    "VirtualClock",
    "handles",
    "wire",
]
