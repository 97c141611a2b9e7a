"""What must hold after every event of the metadata and the leaders that brokers know."""

from __future__ import annotations

from collections.abc import Callable

from actors.cluster_file.facts import GROUP as METADATA
from actors.control.controller import Controller
from actors.control.metadata_snapshots import FILE_NAME
from actors.messages.replica import group_name
from actors.partition.hosting import Partitions
from actors.raft.heartbeats import Heartbeats
from actors.raft.leadership import Leadership
from actors.runtime import Actor
from log.machines.metadata.metadata import Metadata
from log.raft.membership import Membership
from log.recovery import checkpoint
from tools.simulator.record.report import Violation


class ClusterInvariants:
    """Looks at controllers and heartbeats as they run."""

    def __init__(
        self, report: Callable[[Violation], None], committed_end: Callable[[], int],
        voters: Callable[[str], Membership | None],
    ) -> None:  # fmt: skip
        self._report = report
        self._committed_end = committed_end
        self._voters = voters
        self.on_move_ended: Callable[[], None] | None = None
        self._moving: dict[int, set[tuple[str, int]]] = {}
        """Per broker: the partitions that move, as far as it knows."""
        self._applied: dict[int, tuple[Metadata, int]] = {}
        """Per broker: the metadata of its process, and up to where that was applied."""
        self.furthest = 0
        """The highest offset that any broker has applied."""
        self._states: dict[int, tuple[bytes, int]] = {}
        """By offset: the encoded metadata, and the broker that first applied up to there."""
        self._epochs: dict[int, tuple[Leadership, dict[str, int]]] = {}
        """Per broker: the table of its process, and the newest epoch in it of each group."""

    def look(self, actor: Actor) -> None:
        """This actor has handled a message. Its type is compared: to ask an abstract class costs many times as much."""
        if type(actor) is Heartbeats:
            self._look_at_leadership(actor.address.broker, actor.leadership)
        elif type(actor) is Partitions:  # which forgets groups
            self._look_at_leadership(actor.address.broker, actor.context.leadership)
        elif type(actor) is Controller and actor.is_open:
            self._look_at_metadata(actor.address.broker, actor)

    def _look_at_metadata(self, broker: int, controller: Controller) -> None:
        metadata = controller.metadata
        known, applied = self._applied.get(broker, (metadata, -1))
        if known is metadata and metadata.applied == applied:
            return
        if known is metadata and metadata.applied < applied:
            text = f"broker {broker} knew the metadata up to {applied}, and then up to {metadata.applied}"
            self._report(Violation("what a process knows of the cluster never gets older", METADATA, text))
        self._applied[broker] = metadata, metadata.applied
        committed = max(self._committed_end(), controller.member.node.watermark)
        if metadata.applied > committed:
            text = f"broker {broker} applied {metadata.applied} of {committed}"
            self._report(Violation("only what is committed is applied", METADATA, text))
        if metadata.applied > controller.member.log.flushed_offset and metadata.applied > _kept(controller):
            text = (
                f"broker {broker} applied {metadata.applied}, with {controller.member.log.flushed_offset} on its disk"
            )
            self._report(Violation("only what is on the disk is applied", METADATA, text))
        self._look_at_moves(broker, metadata)
        state = metadata.encode()
        same, knows = self._states.setdefault(metadata.applied, (state, broker))
        if same != state:
            text = f"at {metadata.applied} broker {knows} knows {same!r:.2000} and broker {broker} {state!r:.2000}"
            self._report(Violation("brokers that applied the same records know the same metadata", METADATA, text))

    def _look_at_moves(self, broker: int, metadata: Metadata) -> None:
        """A move ends when all voters are among the wanted replicas: from then on the other replicas' files may go."""
        before = self._moving.get(broker, set())
        moving = {(topic.id, number) for topic, number, partition in metadata.partitions() if partition.moved_from}
        self._moving[broker] = moving
        if metadata.applied <= self.furthest:
            return  # another broker applied it before, and the voters may have changed since
        self.furthest = metadata.applied
        if before - moving and self.on_move_ended is not None:
            self.on_move_ended()
        for topic_id, number in before - moving:
            topic = metadata.topics.get(topic_id)
            voters = None if topic is None else self._voters(group_name(topic.name, number, topic_id))
            if topic is None or voters is None:
                continue
            partition = topic.partitions[number]
            if not set(voters.brokers) <= set(partition.replicas):
                text = f"move {partition.moves} ended; {partition.replicas} are to vote, and {voters.brokers} vote"
                self._report(Violation("a move ends when it is done", group_name(topic.name, number, topic_id), text))

    def _look_at_leadership(self, broker: int, leadership: Leadership) -> None:
        known = self._epochs.get(broker)
        if known is None or known[0] is not leadership:
            known = (leadership, {})
        epochs = leadership.epochs()
        for group, epoch in known[1].items():
            if epochs.get(group, epoch) < epoch:
                text = f"broker {broker} heard of {epoch}, and then takes {leadership.of(group)} for the newest"
                self._report(Violation("what is known of leaders never gets older", group, text))
        self._epochs[broker] = (leadership, epochs)


def _kept(controller: Controller) -> int:
    """Up to where the metadata's snapshot goes."""
    data = checkpoint.read_snapshot(controller.context.handles.filesystem, f"{controller.context.data_dir}/{FILE_NAME}")
    snapshot = Metadata()
    if data is not None:
        snapshot.restore(data)
    return snapshot.applied
