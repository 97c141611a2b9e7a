"""Which losses a cluster survives."""

from __future__ import annotations

from tools.simulator.cluster.cluster import SimulatedCluster


def whole(cluster: SimulatedCluster, broker: int) -> bool:
    """Would a majority still have everything if this broker lost what it has?"""
    if any(other.damaged or not other.alive for other in cluster.brokers.values() if other.id != broker):
        return False
    metadata = cluster.metadata()
    if metadata is None or metadata.applied < cluster.invariants.cluster.furthest:
        return False  # no living broker has applied all partitions yet
    return all(_is_whole_without(cluster, group, broker) for group in cluster.every_group())


def _is_whole_without(cluster: SimulatedCluster, group: str, broker: int) -> bool:
    leader = cluster.leader(group)
    replica = None if leader is None else cluster.replica(group, leader)
    if replica is None or (leader == broker and len(replica.member.node.membership.voters) == 1):
        return False
    node = replica.member.node
    if node.history.latest_offset >= node.watermark:
        return False
    # Neither of two voters can commit alone. What a learner has sent makes a second voter of it, although it is lost.
    if broker in node.replicas and len(node.membership.voters) <= 2:
        return False
    for voter in node.membership.voters:
        other = cluster.replica(group, voter.broker)
        if voter.broker == broker:
            continue
        if other is None or not other.member.node.eligible or other.context.directory_id != voter.directory:
            return False
        if not other.member.node.is_voter:
            return False
    return True
