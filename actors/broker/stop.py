"""A clean stop of a broker: the same for a process, for the harness and for the simulator.

Its order: first every replica and the controller hand over leadership, so that no partition waits for an election
time-out; then all actors stop, the youngest first, and close their logs. Only the waiting between the steps differs: a
process waits for answers and for a limited time, the simulator lets virtual time pass.
"""

from __future__ import annotations

from attrs import frozen

from actors.messages.replica import HandOver
from actors.raft.last_syncs import LastSyncs
from actors.runtime import Address, Future, Node

_RAFT_ACTORS = ("replica", "controller")
"""The kinds of actors that may lead a Raft group."""


@frozen(slots=True)
class Shutdown:
    """The steps, in their order."""

    node: Node
    last_syncs: LastSyncs | None = None
    """Syncs of closed logs that go on in the background, where the broker has a thread for them."""

    def hand_over(self) -> list[tuple[Address, Future[bool]]]:
        """Ask all members of Raft groups to hand over. Each answers once another leads, or at once if none can."""
        members = [address for address in self.node.addresses if address.kind in _RAFT_ACTORS]
        return [(member, self.node.ref(member).ask(HandOver(), block=False)) for member in members]

    def stop_actors(self) -> None:
        """Every actor handles its messages and stops; none is restarted."""
        self.node.stop_all()

    @property
    def left(self) -> int:
        """How many actors and syncs are still to end."""
        return len(self.node.addresses) + (0 if self.last_syncs is None else self.last_syncs.left)
