"""The messages between the launcher and its brokers."""

from __future__ import annotations

from actors.runtime import LAUNCHER_ID, Address, wire
from protocol.late_attrs import frozen

LAUNCHER = Address("launcher", "", LAUNCHER_ID)


def broker_address(broker: int) -> Address:
    return Address("broker", "", broker)


@wire(0x0100)
@frozen(slots=True)
class BrokerStatus:
    """The state of a broker, sent when it listens and whenever one of its links comes or goes.

    `settled`: it knows a leader for every partition of every topic of the cluster file. `balanced`: since its start it
    has seen the preferred leaders lead all partitions once, or has stopped waiting for that.
    """

    broker: int
    pid: int
    port: int
    linked: tuple[int, ...]
    settled: bool
    balanced: bool


@wire(0x0101)
@frozen(slots=True)
class StopBroker:
    """End cleanly. With `hand_over`, other brokers lead first; without it, all brokers are being stopped."""

    hand_over: bool


@wire(0x0102)
@frozen(slots=True)
class CutLink:
    """Break the link to a peer and keep it broken."""

    peer: int


@wire(0x0103)
@frozen(slots=True)
class HealLinks:
    """Mend every link that was cut."""


@wire(0x0104)
@frozen(slots=True)
class BrokerStopping:
    """A broker that is stopping has this many actors left. Sent now and then, so that the launcher does not kill it."""

    broker: int
    actors: int
