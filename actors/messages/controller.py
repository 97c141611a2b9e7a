"""What is asked of controllers, and what they answer. The operations are declared in log/machines/metadata/plans.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actors.runtime import wire
from log.machines.metadata.plans import (
    AlterConfigs,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    DrainBroker,
    EndMove,
    MoveReplicas,
    RecoverPartition,
    RegisterBroker,
    Request,
    TakeProducerIds,
)
from protocol.late_attrs import frozen

OPERATIONS: tuple[type[Request], ...] = (
    CreateTopic, DeleteTopic, CreatePartitions, AlterConfigs, MoveReplicas, EndMove, DrainBroker, RegisterBroker,
    TakeProducerIds, RecoverPartition,
)  # fmt: skip

for _number, _message_class in enumerate(OPERATIONS, start=0x0300):
    wire(_number)(_message_class)


@wire(0x0320)
@frozen(slots=True)
class OperationAnswer:
    """JSON: error (Kafka's code), message, warnings, and what else there is to say."""

    answer: str


@wire(0x0321)
@frozen(slots=True)
class ElectLeaders:
    """Let the preferred replica lead each partition of a topic; of every topic, if none is named."""

    topic: str


@wire(0x0322)
@frozen(slots=True)
class DescribeCluster:
    """Everything that this broker knows of the cluster, as JSON."""


@wire(0x0323)
@frozen(slots=True)
class DescribeQuorum:
    """Who leads the metadata group, and how far each of its members is, as its leader knows, as JSON."""


@wire(0x0324)
@frozen(slots=True)
class AwaitLeaders:
    """Answered when this broker can name a leader for each of these partitions, or when the time is up (False)."""

    topic_id: str
    first: int
    end: int
    seconds: float

    @classmethod
    def after(cls, facts: Mapping[str, Any], seconds: float) -> AwaitLeaders:
        """Of the partitions that were made: `facts` is the answer to their creation."""
        return cls(facts["topic_id"], facts.get("first", 0), facts["partitions"], seconds)


def makes_partitions(request: object) -> bool:
    """Is this a creation, after which leaders may be awaited?"""
    return isinstance(request, CreateTopic | CreatePartitions) and not request.validate_only


@frozen(slots=True)
class TellMetadata:
    """Asked inside a broker, by whoever missed it: how much of the metadata is here (MetadataChanged)?"""


@frozen(slots=True)
class MetadataChanged:
    """Told inside a broker: the metadata of these topics has changed.

    `complete`: everything is replayed that this broker had applied before it was last started.
    """

    topic_ids: frozenset[str]
    complete: bool
