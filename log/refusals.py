"""Batches that a replica has refused for now: what the same producer sent behind them must not take their place.

A client has several batches under way. The first is refused, because too few replicas are in sync or another one leads;
when the second arrives, that is over. By its sequence it comes too early, and Kafka says OUT_OF_ORDER_SEQUENCE_NUMBER,
upon which librdkafka numbers everything anew that is under way, in all partitions, and writes some of it twice. Of a
producer that a partition does not know yet, Kafka takes the second batch, and the first one never more.

So a replica remembers what it refused, and refuses what lies behind in the same way, until the first one has come again
or does not come back. Both are sent once more, in their order. Nothing is ever let in because of this table: it may be
forgotten at any time.
"""

from __future__ import annotations

from log.errors import LogError
from log.producer_state import ProducerStates
from protocol.late_attrs import frozen
from protocol.records import BatchHeader

PRODUCERS_MAX = 1000
SECONDS_MAX = 30.0
"""Who does not send a refused batch again within this time does not mean to."""
_SEQUENCES = 1 << 31


class Overtakes(LogError):
    """A batch before this one was refused for now. Send both again (Kafka: NOT_ENOUGH_REPLICAS)."""


@frozen(slots=True)
class Refusal:
    """The first batch of a producer that was refused and has not come again."""

    epoch: int
    first_sequence: int
    until: float


class Refusals:
    """Of one replica."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, Refusal] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def note(self, header: BatchHeader, producers: ProducerStates, now: float) -> None:
        """This batch was refused, and is expected again."""
        if header.producer_id < 0 or header.base_sequence < 0:
            return
        missing = self._missing(header.producer_id, producers, now)
        if missing is not None and (
            missing.epoch > header.producer_epoch
            or (missing.epoch == header.producer_epoch and _is_behind(header.base_sequence, missing.first_sequence))
        ):
            return
        self._by_producer.pop(header.producer_id, None)  # the oldest are first
        if len(self._by_producer) >= PRODUCERS_MAX:
            del self._by_producer[next(iter(self._by_producer))]
        self._by_producer[header.producer_id] = Refusal(header.producer_epoch, header.base_sequence, now + SECONDS_MAX)

    def check(self, header: BatchHeader, producers: ProducerStates, now: float) -> None:
        """May this batch be looked at, or was one before it refused that has not come again?"""
        if not self._by_producer:
            return
        missing = self._missing(header.producer_id, producers, now)
        if missing is None or missing.epoch != header.producer_epoch:
            return
        if header.base_sequence == missing.first_sequence:
            del self._by_producer[header.producer_id]
        elif _is_behind(header.base_sequence, missing.first_sequence):
            raise Overtakes(
                f"producer {header.producer_id} sends sequence {header.base_sequence}, and {missing.first_sequence} was"
                " refused for now and has not come again"
            )

    def _missing(self, producer_id: int, producers: ProducerStates, now: float) -> Refusal | None:
        """What of this producer was refused lately and is not in the log."""
        refused = self._by_producer.get(producer_id)
        if refused is None:
            return None
        known = producers.get(producer_id)
        is_here = known is not None and (
            known.epoch > refused.epoch
            or (known.epoch == refused.epoch and _is_behind(known.last_sequence + 1, refused.first_sequence))
        )
        if is_here or refused.until <= now:
            del self._by_producer[producer_id]
            return None
        return refused


def _is_behind(sequence: int, other: int) -> bool:
    """Sequences count to 2³¹−1 and start again at 0."""
    return 0 < (sequence - other) % _SEQUENCES < _SEQUENCES // 2
