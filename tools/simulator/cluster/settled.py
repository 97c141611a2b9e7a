"""What every broker must have and know once everything has healed."""

from __future__ import annotations

from actors.cluster_file.facts import GROUP as METADATA
from actors.messages.replica import group_name
from actors.partition.hosting import groups_on_disk
from log.machines.metadata.metadata import Metadata
from tools.simulator.cluster.cluster import SimulatedCluster
from tools.simulator.settings.faults import DISK_FAULTS

DATA = "/data"


def unsettled(cluster: SimulatedCluster) -> str | None:
    """Do all brokers know the same metadata, and keep the wanted replicas and no others?"""
    newest = cluster.metadata()
    assert newest is not None
    for topic, number, partition in newest.partitions():
        if partition.moved_from:
            return f"{topic.name}-{number} still moves"
    groups = [METADATA, *(group_name(topic.name, number, topic.id) for topic, number, _ in newest.partitions())]
    led = {group: cluster.leader(group) for group in groups}
    for controller in cluster.controllers():
        broker = controller.address.broker
        if controller.context.metadata.encode() != newest.encode():
            applied = controller.context.metadata.applied
            return f"broker {broker} knows the metadata up to {applied} of {newest.applied}"
        text = _wrong_replicas(cluster, newest, broker) or _wrong_leaders(cluster, led, broker)
        if text is not None:
            return text
    return None if _have_bad_disks(cluster) else _behind(cluster, led)


def _have_bad_disks(cluster: SimulatedCluster) -> bool:
    return any(fault in cluster.settings.faults for fault in (*DISK_FAULTS, "full-disk"))


def _behind(cluster: SimulatedCluster, led: dict[str, int | None]) -> str | None:
    """No client writes any more: every replica has what its leader has.

    A follower may have more only if its leader has appended nothing in its term: those records are no leader's any
    more, and are truncated at the next append.
    """
    for group, leader in led.items():
        found = {broker: cluster.replica(group, broker) for broker in cluster.brokers}
        ends = {broker: one.member.log.end_offset for broker, one in found.items() if one is not None}
        leading = None if leader is None else found[leader]
        if leading is None:
            continue
        node = leading.member.node
        may_have_more = node.watermark == node.log.end_offset and node.log.epochs.latest < node.term
        if any(end < node.log.end_offset or (end > node.log.end_offset and not may_have_more) for end in ends.values()):
            return f"{group} ends at {ends}, and broker {leader} leads"
    return None


def _wrong_replicas(cluster: SimulatedCluster, metadata: Metadata, broker: int) -> str | None:
    wanted = {
        group_name(topic.name, number, topic.id)
        for topic, number, partition in metadata.partitions()
        if broker in partition.replicas
    }
    here = {address.name for address in cluster.sim.nodes[broker].addresses if address.kind == "replica"}
    if here != wanted:
        return f"broker {broker} has {sorted(here - wanted)} too much and {sorted(wanted - here)} not"
    kept = set(groups_on_disk(cluster.brokers[broker].disk, DATA))
    if kept - wanted and not _have_bad_disks(cluster):  # which keep files from going
        return f"broker {broker} still has the files of {sorted(kept - wanted)}"
    return None


def _wrong_leaders(cluster: SimulatedCluster, led: dict[str, int | None], broker: int) -> str | None:
    """Brokers tell each other their leaders: in the end all brokers know every leader."""
    node = cluster.replica(METADATA, broker)
    assert node is not None
    for group, leader in led.items():
        known = node.context.leadership.of(group)
        named = None if known is None else known.broker
        if leader is None or named != leader:
            return f"broker {broker} takes broker {named} for the leader of {group}, not {leader}"
    return None
