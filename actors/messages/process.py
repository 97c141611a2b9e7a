"""What the launcher and its brokers tell each other."""

from __future__ import annotations

from actors.runtime import LAUNCHER_ID, Address, wire
from protocol.late_attrs import frozen

LAUNCHER = Address("launcher", "", LAUNCHER_ID)


def broker_address(broker: int) -> Address:
    return Address("broker", "", broker)


@wire(0x0100)
@frozen(slots=True)
class BrokerStatus:
    """A broker's own account of itself, sent when it listens and whenever one of its links comes or goes.

    `settled`: it knows a leader for every partition of every topic of the cluster file. `balanced`: since its start all
    partitions had their preferred leaders once, as far as it knows, or that took too long.
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
    """End cleanly; with `hand_over`, let the others lead first. Without it, all brokers are to end."""

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
    """A broker that was told to end has so many actors left. Sent now and then: a broker that gets on is not killed."""

    broker: int
    actors: int
