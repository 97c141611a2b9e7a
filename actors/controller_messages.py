"""What is asked of controllers, and what they answer. The operations are declared in log/machines/plans.py."""

from __future__ import annotations

from actors.runtime import wire
from log.machines.plans import (
    AlterConfigs,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    DrainBroker,
    EndMove,
    MoveReplicas,
    RegisterBroker,
    Request,
    TakeProducerIds,
)
from protocol.late_attrs import frozen

OPERATIONS: tuple[type[Request], ...] = (
    CreateTopic, DeleteTopic, CreatePartitions, AlterConfigs, MoveReplicas, EndMove, DrainBroker, RegisterBroker,
    TakeProducerIds,
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
