"""The records of the metadata log, as JSON: few, small, and readable with `python -m tools.cli dump-log`.

One operation is one batch of them, so it is there as a whole or not at all. A kind that is not known here was written
by a newer Barnabas: a broker that cannot read it must not ignore it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, TypeVar

import orjson
from attrs import asdict, fields

from log.errors import DamagedFile, UnknownFormat
from protocol.late_attrs import frozen

T = TypeVar("T", bound="MetadataRecord")
_kinds: dict[str, type[MetadataRecord]] = {}


@frozen
class MetadataRecord:
    """Base of all of them. The fields are numbers, words, and arrays of these."""

    kind: ClassVar[str]


def _kind(name: str) -> Any:
    def register(record_class: type[T]) -> type[T]:
        record_class.kind = name
        _kinds[name] = record_class
        return record_class

    return register


Pairs = tuple[tuple[str, str], ...]


@_kind("cluster")
@frozen
class ClusterFormed(MetadataRecord):
    """The first record of all."""

    cluster_id: str


@_kind("broker")
@frozen
class BrokerRegistered(MetadataRecord):
    """This broker is there, with this directory, and clients find it at this address."""

    broker: int
    directory: str
    host: str
    port: int


@_kind("drain")
@frozen
class BrokerDraining(MetadataRecord):
    """This broker is drained of replicas, or may keep some again."""

    broker: int
    draining: bool


@_kind("topic")
@frozen
class TopicMade(MetadataRecord):
    """A topic without partitions yet; they follow in the same batch."""

    topic_id: str
    name: str
    configs: Pairs


@_kind("partitions")
@frozen
class PartitionsPlaced(MetadataRecord):
    """Partitions from number `first` on, each with its replicas, the preferred leader first."""

    topic_id: str
    first: int
    replicas: tuple[tuple[int, ...], ...]


@_kind("move")
@frozen
class ReplicasMoved(MetadataRecord):
    """A partition moves to these replicas; the present ones stay until `MoveEnded`."""

    topic_id: str
    partition: int
    replicas: tuple[int, ...]


@_kind("moved")
@frozen
class MoveEnded(MetadataRecord):
    """The partition's leader confirmed that its voters are exactly the wanted replicas."""

    topic_id: str
    partition: int


@_kind("recovered")
@frozen
class PartitionRecovered(MetadataRecord):
    """An operator accepted a loss: these replicas begin a new generation of the partition without the rest."""

    topic_id: str
    partition: int
    survivors: tuple[int, ...]


@_kind("recovered-beyond")
@frozen
class PartitionRecoveredBeyond(MetadataRecord):
    """As PartitionRecovered, where replicas know of later generations than the metadata, which has lost their records.

    No generation may begin twice, with other voters. So this one is later than all of them. Survivors keep their logs
    if they have begun generation `begun`, the latest one that any of them has.
    """

    topic_id: str
    partition: int
    survivors: tuple[int, ...]
    generation: int
    begun: int


@_kind("drop")
@frozen
class TopicDropped(MetadataRecord):
    """The topic and all that is in it are gone."""

    topic_id: str


@_kind("configs")
@frozen
class ConfigsSet(MetadataRecord):
    """Settings of a topic, complete: what is not named has its default."""

    topic_id: str
    configs: Pairs


@_kind("producer-ids")
@frozen
class ProducerIdsTaken(MetadataRecord):
    """Producer ids below this one are given out."""

    next_id: int


@_kind("confirm")
@frozen
class LeadershipConfirmed(MetadataRecord):
    """Changes nothing; once committed, it shows that its writer was the controller."""


@_kind("done")
@frozen
class RequestDone(MetadataRecord):
    """What was answered to a request, for when it comes again."""

    request_id: str
    answer: str


def encode(record: MetadataRecord) -> bytes:
    return orjson.dumps({"kind": record.kind, **asdict(record, recurse=False)})


def decode(data: bytes) -> MetadataRecord:
    try:
        value = orjson.loads(data)
        record_class = _kinds.get(value.pop("kind"))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise DamagedFile(f"{data[:200]!r} is no metadata record: {error}") from error
    if record_class is None:
        raise UnknownFormat(f"{data[:200]!r} is a metadata record of a newer Barnabas")
    return _made(record_class, value)


def known_kinds() -> Iterable[type[MetadataRecord]]:
    return _kinds.values()


def _made(record_class: type[MetadataRecord], value: Mapping[str, Any]) -> MetadataRecord:
    names = [one.name for one in fields(record_class)]
    if sorted(names) != sorted(value):
        raise UnknownFormat(f"a {record_class.kind!r} record with {sorted(value)}; {sorted(names)} are known here")
    return record_class(**{name: _frozen(value[name]) for name in names})


def _frozen(value: Any) -> Any:
    return tuple(_frozen(one) for one in value) if isinstance(value, list) else value
