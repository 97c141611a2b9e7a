"""What watchers are told."""

from __future__ import annotations

from actors.runtime.address import Address
from protocol.late_attrs import frozen


@frozen(slots=True)
class Terminated:
    """A watched actor has ended, was never there, or can no longer be seen (its link is gone)."""

    address: Address
    reason: str


@frozen(slots=True)
class PeerUp:
    """The link to a broker stands. `incarnation` differs for each life of its process."""

    broker: int
    incarnation: int


@frozen(slots=True)
class PeerDown:
    """The link to a broker is gone: its process died, fell silent, or was cut off."""

    broker: int
    reason: str
