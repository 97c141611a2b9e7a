"""The groups of a run: their members, what is known of them, and when they are done."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from actors.cluster_file.facts import TopicWanted
from actors.messages.coordinator import GROUPS_TOPIC
from actors.runtime import Address, Node
from tools.simulator.clients.client import ClientServices, Finish
from tools.simulator.cluster.cluster import SimulatedCluster
from tools.simulator.groups.classic_consumer import ClassicConsumer
from tools.simulator.groups.member import ConsumerServices, SimulatedConsumer, Vanish
from tools.simulator.groups.new_consumer import NewConsumer
from tools.simulator.groups.view import GroupView
from tools.simulator.settings.groups import CONSUMER, ConsumerGroupSettings

_VANISH_SHARE = 0.4


class GroupWorld:
    """Everything of groups that there is in one run."""

    def __init__(self, settings: ConsumerGroupSettings, seed: int, view: GroupView) -> None:
        self.settings = settings
        self.view = view
        self.members: list[SimulatedConsumer] = []
        self._seed = seed
        view.holders = self._holders

    def internal_topics(self, replication_factor: int) -> tuple[TopicWanted, ...]:
        return (TopicWanted(GROUPS_TOPIC, self.settings.offsets_partitions, replication_factor),)

    def is_ready(self, cluster: SimulatedCluster) -> bool:
        """Is the topic of the coordinators there and led, if the run makes it before its first use?"""
        if not self.settings.made_before:
            return True
        groups = cluster.groups_of(GROUPS_TOPIC)
        if not groups:
            cluster.ask_for_internal_topic(GROUPS_TOPIC, "the simulator's")
        return bool(groups) and cluster.are_led(groups)

    def start(self, nodes: Sequence[Node], clients: ClientServices, topic: str, topic_id: bytes) -> None:
        """Start the members."""
        services = ConsumerServices(clients, self.view, self.settings, topic, topic_id)
        for at, member in enumerate(self.settings.members):
            node = nodes[at % len(nodes)]
            kind = NewConsumer if member.kind == CONSUMER else ClassicConsumer
            rng = random.Random(f"{member.name} {self._seed}")
            address = Address("consumer", member.name, node.broker)
            node.spawn(kind, services, rng, member, address=address)
            actor = node.actor(address)
            assert isinstance(actor, SimulatedConsumer)
            self.members.append(actor)

    def _holders(self, group: str) -> list[tuple[str, list[int]]]:
        return [(one.member_id, list(one.owned)) for one in self.members if one.group == group]

    def finish(self) -> None:
        """Let them read to the end; of some groups, without one of their members."""
        rng = random.Random(f"finish {self._seed}")
        for group in sorted({member.group for member in self.members}):
            members = [one for one in self.members if one.group == group and not one.member.is_double]
            if rng.random() < _VANISH_SHARE:
                members.pop(rng.randrange(len(members))).ref.tell(Vanish())
            for member in members:
                member.ref.tell(Finish())
        for member in self.members:
            if member.member.is_double:
                member.ref.tell(Vanish())

    def unfinished(self, ends: Callable[[int], int]) -> str | None:
        """What is still to be done: all partitions are owned, read and committed."""
        count = len(self.members[0].services.clients.groups)
        for group in sorted({member.group for member in self.members}):
            members = [member for member in self.members if member.group == group and not member.gone]
            for member in members:
                if member.away or member.paused or not member.stable:
                    return f"{member.address} is not settled in its group"
            if len({member.epoch for member in members}) > 1:
                return f"group {group}: {[(str(one.address), one.epoch) for one in members]}"
            owners = [number for member in members for number in member.owned]
            if sorted(owners) != list(range(count)):
                return f"group {group} has {sorted(owners)} of {count} partitions"
            state = self.view.groups[group]
            for member in members:
                for number, owned in member.owned.items():
                    end = ends(number)
                    if owned.position != end:
                        return f"{member.address} is at {owned.position} of {end} in partition {number}"
                    committed = state.offsets.get(number, (0, ""))[0]
                    if committed != end:
                        return f"group {group} has committed {committed} of {end} in partition {number}"
        return None
