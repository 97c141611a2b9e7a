"""What comes of a call: records, answers, markers."""

from __future__ import annotations

from attrs import field

from log.machines.coordination import Effects
from protocol.late_attrs import define, frozen

TopicPartition = tuple[str, int]


@frozen(slots=True)
class Markers:
    """How a transaction ended, for every partition of it.

    The driver of the machine writes them until every partition has its marker, or is deleted, and reports that.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    transaction_version: int
    partitions: tuple[TopicPartition, ...]


@define(slots=True)
class TransactionEffects(Effects):
    """As with answers, markers are written only when the records and all before them are committed."""

    markers: list[Markers] = field(factory=list)
    wants_producer_ids: bool = False
    """A request or a time-out waits for a producer id, and none is left: the driver has to give some."""

    def __bool__(self) -> bool:
        return bool(self.records or self.replies or self.markers or self.wants_producer_ids)
