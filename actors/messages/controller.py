"""The messages to controllers, and the answers. The operations are declared in log/machines/metadata/plans.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import attrs
import orjson
import pykka

from actors.runtime import Future, MailboxFull, wire
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
from protocol.error_codes import ErrorCode
from protocol.late_attrs import frozen

F = TypeVar("F", bound=attrs.AttrsInstance)

OPERATIONS: tuple[type[Request], ...] = (
    CreateTopic, DeleteTopic, CreatePartitions, AlterConfigs, MoveReplicas, EndMove, DrainBroker, RegisterBroker,
    TakeProducerIds, RecoverPartition,
)  # fmt: skip

for _number, _message_class in enumerate(OPERATIONS, start=0x0300):
    wire(_number)(_message_class)


@wire(0x0320)
@frozen(slots=True)
class OperationAnswer:
    """The answer of a controller. `outcome` reads it."""

    answer: str
    """JSON: error (Kafka's code), message, warnings, and facts. The metadata log keeps it under the request's id."""
    offset: int
    """The controller had applied the metadata up to here when it answered: the operation's records lie below."""

    @property
    def outcome(self) -> Outcome:
        facts = orjson.loads(self.answer)
        error, message, warnings = ErrorCode(facts.pop("error")), facts.pop("message"), tuple(facts.pop("warnings"))
        return Outcome(error, message, warnings, self.offset, facts)


@frozen(slots=True)
class Outcome:
    """The outcome of a question or an operation."""

    error: ErrorCode
    message: str
    warnings: tuple[str, ...] = ()
    offset: int = -1
    """A broker that has applied the metadata up to here has applied the operation. -1 if no controller has answered."""
    facts: Mapping[str, Any] = attrs.Factory(dict)
    """The facts of the answer by name; `facts_as` gives them a type."""

    @classmethod
    def of(cls, future: Future[OperationAnswer]) -> Outcome:
        """The outcome of an ask that has ended. A missing answer of a controller is an error, too."""
        error = future.exception
        if error is None:
            answer: OperationAnswer = future.get()
            return answer.outcome
        if isinstance(error, pykka.Timeout):
            return cls(ErrorCode.REQUEST_TIMED_OUT, f"no controller answered in time ({error}); it may still be done")
        if isinstance(error, pykka.ActorDeadError | MailboxFull):
            text = f"no controller can be asked: {error}; try again, or ask another broker"
            return cls(ErrorCode.NOT_CONTROLLER, text)
        return cls(ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller failed: {error!r}")

    @property
    def error_message(self) -> str | None:
        """As Kafka's protocol has it: null where nothing is wrong."""
        return self.message if self.error else None

    def has(self, kind: type[attrs.AttrsInstance]) -> bool:
        """Does it have such facts? It has others if the id of another operation was used again."""
        return all(one.name in self.facts for one in attrs.fields(kind) if one.default is attrs.NOTHING)

    def facts_as(self, kind: type[F]) -> F:
        """The facts of an operation that has succeeded, such as `TopicCreated` for CreateTopic."""
        names = (one.name for one in attrs.fields(kind))
        return kind(**{name: self.facts[name] for name in names if name in self.facts})


@frozen(slots=True)
class TopicCreated:
    """The facts of CreateTopic. A topic that was only validated has no lasting id."""

    topic_id: str
    partitions: int
    replication_factor: int


@frozen(slots=True)
class PartitionsCreated:
    """The facts of CreateTopic and of CreatePartitions: the topic has new partitions from `first` on."""

    topic_id: str
    partitions: int
    """How many the topic has in all."""
    first: int = 0


@frozen(slots=True)
class TopicDeleted:
    """The facts of DeleteTopic."""

    topic_id: str
    name: str


@frozen(slots=True)
class ProducerIdsGiven:
    """The facts of TakeProducerIds: a block of ids."""

    first: int
    count: int

    @property
    def ids(self) -> range:
        return range(self.first, self.first + self.count)


@wire(0x0321)
@frozen(slots=True)
class ElectLeaders:
    """Let the preferred replica lead each partition of a topic; of every topic, if none is named."""

    topic: str


@wire(0x0322)
@frozen(slots=True)
class DescribeCluster:
    """To any controller: what its broker knows of the cluster, as JSON."""


@wire(0x0323)
@frozen(slots=True)
class DescribeQuorum:
    """The leader of the metadata's Raft group, and how far each member is, as the leader knows, as JSON."""


@wire(0x0324)
@frozen(slots=True)
class AwaitLeaders:
    """Answered when this broker can name a leader for each of these partitions, or when the time is up (False)."""

    topic_id: str
    first: int
    end: int
    seconds: float


@wire(0x0325)
@frozen(slots=True)
class AwaitApplied:
    """Answered (True) when this broker has applied the metadata up to this offset; False if too many wait already."""

    offset: int


@wire(0x0326)
@frozen(slots=True)
class ConfirmMetadata:
    """Answered by the active controller, once a majority has confirmed that it is: the metadata is committed up to
    the `offset` of the answer, or further. Any broker's controller hands it on."""


@wire(0x0327)
@frozen(slots=True)
class SyncMetadata:
    """Answered when this broker has applied everything that was committed when it was asked. Nothing is written."""


def creates_partitions(request: object) -> bool:
    """Is this an operation after which leaders may be awaited?"""
    return isinstance(request, CreateTopic | CreatePartitions) and not request.validate_only


@frozen(slots=True)
class AwaitCaughtUp:
    """Asked inside a broker. Answered when the broker has replayed what it had applied before its last start."""


@frozen(slots=True)
class TellMetadata:
    """Asked inside a broker by an actor that was restarted. Answered by a MetadataChanged without topics."""


@frozen(slots=True)
class MetadataChanged:
    """Told inside a broker: the metadata of these topics has changed.

    `complete`: the broker has replayed what it had applied before its last start.
    """

    topic_ids: frozenset[str]
    complete: bool
