"""What must hold after every event of what brokers know of the cluster: its metadata, and who leads what."""

from __future__ import annotations

from collections.abc import Callable

from actors.controller import GROUP as METADATA
from actors.controller import Controller
from actors.heartbeats import Heartbeats
from actors.leadership import Leadership
from actors.partitions import Partitions
from actors.runtime import Actor
from tools.simulator.report import Violation


class ClusterInvariants:
    """Looks at controllers and heartbeats as they run."""

    def __init__(self, report: Callable[[Violation], None], committed_end: Callable[[], int]) -> None:
        self._report = report
        self._committed_end = committed_end
        self._applied: dict[int, int] = {}
        self._states: dict[int, tuple[bytes, int]] = {}
        """What the metadata was at an offset, and who was there first."""
        self._epochs: dict[int, tuple[Leadership, dict[str, int]]] = {}
        """Per broker: the table of its process, and the newest epoch in it of each group."""

    def look(self, actor: Actor) -> None:
        """This actor has handled a message."""
        if isinstance(actor, Heartbeats):
            self._look_at_leadership(actor.address.broker, actor._leadership)
        elif isinstance(actor, Partitions):  # which forgets groups
            self._look_at_leadership(actor.address.broker, actor._services.leadership)
        elif isinstance(actor, Controller) and hasattr(actor, "_member"):
            self._look_at_metadata(actor.address.broker, actor)

    def _look_at_metadata(self, broker: int, controller: Controller) -> None:
        metadata = controller.metadata
        if metadata.applied == self._applied.get(broker):
            return
        self._applied[broker] = metadata.applied
        committed = max(self._committed_end(), controller._member.node.watermark)
        if metadata.applied > committed:
            text = f"broker {broker} applied {metadata.applied} of {committed}"
            self._report(Violation("only what is committed is applied", METADATA, text))
        state = metadata.encode()
        known, knows = self._states.setdefault(metadata.applied, (state, broker))
        if known != state:
            text = f"at {metadata.applied} broker {knows} knows {known!r:.2000} and broker {broker} {state!r:.2000}"
            self._report(Violation("whoever applied the same knows the same", METADATA, text))

    def _look_at_leadership(self, broker: int, leadership: Leadership) -> None:
        known = self._epochs.get(broker)
        if known is None or known[0] is not leadership:
            known = (leadership, {})
        epochs = {group: led.epoch for group, led in leadership._groups.items()}
        for group, epoch in known[1].items():
            if epochs.get(group, epoch) < epoch:
                text = f"broker {broker} heard of {epoch}, and then takes {leadership.of(group)} for the newest"
                self._report(Violation("what is known of leaders never gets older", group, text))
        self._epochs[broker] = (leadership, epochs)
