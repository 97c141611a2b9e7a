"""Whether a starting cluster is ready: all brokers and topics of its file exist, and preferred leaders lead."""

from __future__ import annotations

from actors.cluster_file.facts import ClusterFacts
from actors.messages.replica import group_name
from actors.raft.context import BrokerContext
from actors.raft.leadership import misled


def is_settled(context: BrokerContext, cluster: ClusterFacts) -> bool:
    """Is every broker registered, and does every partition of the cluster file have a leader?"""
    if not context.metadata.brokers.keys() >= set(cluster.brokers):
        return False
    for wanted in cluster.topics:
        topic = context.metadata.topic(wanted.name)
        if topic is None or not all(
            context.leadership.is_led(group_name(topic.name, number, topic.id))
            for number in range(len(topic.partitions))
        ):
            return False
    return bool(context.metadata.cluster_id)


def is_balanced(context: BrokerContext) -> bool:
    """Does every partition have a leader, and the preferred one where that is in sync?"""
    metadata, leadership = context.metadata, context.leadership
    return next(misled(metadata, leadership), None) is None and all(
        leadership.is_led(group_name(topic.name, number, topic.id)) for topic, number, _ in metadata.partitions()
    )
