"""What a broker knows of the cluster, for people and tools: the metadata, and the leaders."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from actors.cluster_file.facts import GROUP
from actors.messages.replica import group_name
from actors.raft.leadership import Leadership
from log.machines.metadata.metadata import Metadata
from log.raft.leader import Leader
from log.raft.node import RaftNode


def describe(metadata: Metadata, leadership: Leadership, alive: Collection[int]) -> dict[str, Any]:
    """The cluster as JSON."""
    led = leadership.of(GROUP)

    def partition(topic_name: str, topic_id: str, number: int) -> dict[str, Any]:
        state = metadata.topics[topic_id].partitions[number]
        now = leadership.of(group_name(topic_name, number, topic_id))
        return {
            "partition": number,
            "leader": None if now is None else now.broker,
            "leader_epoch": -1 if now is None else now.epoch,
            "replicas": state.replicas,
            "isr": () if now is None else now.in_sync,
            "moved_from": state.moved_from,
        }

    return {
        "cluster_id": metadata.cluster_id,
        "controller": None if led is None else led.broker,
        "applied": metadata.applied,
        "brokers": [
            {
                "broker": one.broker, "host": one.host, "port": one.port, "alive": one.broker in alive,
                "draining": one.draining,
            }
            for one in sorted(metadata.brokers.values(), key=lambda one: one.broker)
        ],
        "topics": [
            {
                "name": topic.name,
                "topic_id": topic.id,
                "configs": topic.configs,
                "partitions": [partition(topic.name, topic.id, at) for at in range(len(topic.partitions))],
            }
            for topic in sorted(metadata.topics.values(), key=lambda topic: topic.name)
        ],
    }  # fmt: skip


def describe_quorum(
    node: RaftNode, role: Leader, heard: Mapping[int, float], wall_ms: int, now: float
) -> dict[str, Any]:
    """The voters and the observers of the metadata, as their leader sees them."""
    end = node.log.end_offset

    def member(broker: int, directory: str) -> dict[str, Any]:
        progress = role.progress.get(broker)
        heard_at, caught_up = now, now
        if progress is not None:
            heard_at = max(progress.last_ack_at, heard.get(broker, 0.0))
            caught_up = heard_at if progress.match >= end else progress.caught_up_at
        return {
            "broker": broker,
            "directory": directory,
            "end": end if progress is None else progress.match,
            "heard_ms": wall_ms - int(1000 * (now - heard_at)),
            "caught_up_ms": -1 if caught_up == -math.inf else wall_ms - int(1000 * (now - caught_up)),
        }

    return {
        "leader": node.broker,
        "leader_epoch": node.term,
        "high_watermark": node.watermark,
        "voters": [member(voter.broker, voter.directory) for voter in node.membership.voters],
        "observers": [
            member(broker, progress.directory)
            for broker, progress in sorted(role.progress.items())
            if broker not in node.membership.brokers
        ],
    }
