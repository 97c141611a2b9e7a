"""A cluster as it is at one moment, asked of every broker by Kafka's protocol.

What a broker does not answer is missing, and the reason is noted: a cluster that is ill is shown as far as it tells.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from attrs import Factory, define

from tools.cli.output import CLIENT_ID
from tools.client.addresses import Address
from tools.client.admin import Admin
from tools.client.administration.brokers import BrokerDisks
from tools.client.administration.groups import ListedGroup
from tools.client.errors import ClientError
from tools.client.metadata import Partition, Topic, TopicPartition
from tools.client.network.broker import Patience

T = TypeVar("T")
GROUPS_MAX = 200
"""The groups whose lag is asked for; a cluster may have thousands."""
_CONNECT_SECONDS, _ANSWER_SECONDS, _SECONDS = 2.0, 3.0, 12.0
UNLED, BEHIND = "without leader", "under-replicated"


@define
class Observation:
    """What was found out."""

    at: float
    """On the monotonic clock."""
    cluster_id: str
    controller: int | None
    brokers: Mapping[int, Address]
    """Those that are alive."""
    topics: Mapping[str, Topic]
    ends: dict[TopicPartition, int] = Factory(dict)
    disks: dict[int, BrokerDisks] = Factory(dict)
    groups: dict[str, ListedGroup] = Factory(dict)
    committed: dict[str, dict[TopicPartition, int]] = Factory(dict)
    """The committed offsets of each group that was asked for."""
    unknown: dict[str, str] = Factory(dict)
    """What could not be found out, and why."""

    @property
    def partitions(self) -> list[tuple[TopicPartition, Partition]]:
        return [
            (TopicPartition(topic.name, number), one)
            for topic in self.topics.values()
            for number, one in enumerate(topic.partitions)
            if one is not None
        ]

    @property
    def known_brokers(self) -> list[int]:
        """The brokers that are alive, and those that have replicas."""
        return sorted({*self.brokers, *(broker for _, one in self.partitions for broker in one.replicas)})

    def problem(self, one: Partition) -> str | None:
        """What is wrong with a partition. Replicas that are on their way to it are no problem."""
        if one.leader is None or one.leader not in self.brokers:
            return UNLED
        return BEHIND if not {*one.replicas} <= {*one.isr} else None

    def lag(self, group: str) -> int | None:
        """How many records a group has still to read, of partitions whose end is known."""
        offsets = self.committed.get(group)
        if offsets is None:
            return None
        return sum(max(self.ends[where] - offset, 0) for where, offset in offsets.items() if where in self.ends)


def observer(bootstrap: Sequence[Address]) -> Admin:
    """An Admin that soon gives up a broker that is silent, and asks another one."""
    patience = Patience(connect=_CONNECT_SECONDS, request=_ANSWER_SECONDS)
    return Admin(bootstrap, seconds=_SECONDS, client_id=CLIENT_ID, patience=patience)


def observe(admin: Admin) -> Observation:
    """Ask every broker. ClientError if none answers."""
    cluster = admin.describe_cluster()
    found = Observation(time.monotonic(), cluster.cluster_id, cluster.controller, cluster.brokers, admin.list_topics())
    for broker in sorted(found.brokers):
        led = [where for where, one in found.partitions if one.leader == broker]
        ends = _noted(found, f"broker {broker}", partial(admin.brokers.offsets, broker, led))
        if ends is None:
            continue  # it does not answer; asking it again would only take time
        found.ends |= {where: one.offset for where, one in ends.items()}
        disks = _noted(found, f"the disks of broker {broker}", partial(admin.brokers.disks, broker))
        if disks is not None:
            found.disks[broker] = disks
    groups = _noted(found, "groups", admin.groups.list)
    for group in groups or ():
        found.groups[group.group_id] = group
    for name in list(found.groups)[:GROUPS_MAX]:
        offsets = _noted(found, f"group {name}", partial(admin.groups.offsets, name))
        if offsets is None:
            break  # its coordinator does not answer; those of other groups may not either
        found.committed[name] = {where: one.offset for where, one in offsets.items()}
    if len(found.groups) > GROUPS_MAX:
        found.unknown["groups"] = f"there are {len(found.groups)}, and the lag of {GROUPS_MAX} was asked for"
    return found


def _noted(found: Observation, what: str, ask: Callable[[], T]) -> T | None:
    """The answer, or None and a note of the reason."""
    try:
        return ask()
    except ClientError as error:
        found.unknown[what] = " ".join(str(error).split())
        return None
