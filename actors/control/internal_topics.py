"""The topics in which coordinators keep their state. They are created when the first coordinator is needed."""

from __future__ import annotations

from actors.cluster_file.facts import ClusterFacts
from log.machines.coordination import RECORD_BYTES_MAX
from log.machines.metadata.plans import CreateTopic

CONFIGS: tuple[tuple[str, str], ...] = (
    ("cleanup.policy", "compact"),
    ("compression.type", "producer"),
    ("max.message.bytes", str(RECORD_BYTES_MAX)),
    ("segment.bytes", str(100 << 20)),
)


def making_of(facts: ClusterFacts, name: str, request_id: str) -> CreateTopic:
    """The operation that creates this topic."""
    wanted = next(topic for topic in facts.internal_topics if topic.name == name)
    return CreateTopic(request_id, name, wanted.partitions, wanted.replication_factor, configs=CONFIGS)
