"""Actors on one scheduler per process, spread over processes.

address.py            names that mean the same everywhere: replica/orders-3@2
actor.py              the actor: a pykka.Actor whose turns the scheduler runs
mailbox.py            bounded queues, and what happens when one is full
ref.py future.py      tell, ask, and the answer
scheduler.py          one loop over ready actors; timers.py, clock.py: its time
loop.py               the trio task that keeps a scheduler going
node.py               a place where actors live: directory, links, watches
supervision.py        restarts with back-off, and giving up; watches.py, events.py: who is told
codec.py frames.py    messages as bytes, and bytes as frames
link.py               what two nodes say to each other, without saying how it travels
socket_transport.py   … over AF_UNIX; peering.py: who dials whom
simulation.py         … over a virtual clock and a seeded, lossy network
"""

from actors.runtime.actor import Actor, handles
from actors.runtime.address import LAUNCHER_ID, Address
from actors.runtime.clock import Clock, SystemClock, VirtualClock
from actors.runtime.errors import BlockingCall, CodecError, LinkLost, MailboxFull, RemoteFailure, RuntimeFault
from actors.runtime.events import PeerDown, PeerUp, Terminated
from actors.runtime.future import Future
from actors.runtime.links.codec import Payload, wire
from actors.runtime.mailbox import Overflow
from actors.runtime.node import AnyRef, Node
from actors.runtime.ref import Ref, RemoteRef
from actors.runtime.scheduler import Scheduler
from actors.runtime.supervision import Restart

__all__ = [
    "LAUNCHER_ID",
    "Actor",
    "Address",
    "AnyRef",
    "BlockingCall",
    "Clock",
    "CodecError",
    "Future",
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
