"""Batches that a replica has refused for now: what the same producer sent behind them must not take their place.

A client has several batches under way. The first is refused, because too few replicas are in sync or another one leads;
when the second arrives, that is over. By its sequence it comes too early, and Kafka says OUT_OF_ORDER_SEQUENCE_NUMBER,
upon which librdkafka renumbers everything that is under way, in all partitions, and writes some of it twice. Of a
producer that a partition does not know yet, Kafka accepts the second batch, and then never the first one.

So a broker remembers refused batches, and a replica refuses later ones in the same way, until the first one has come
again or is considered abandoned. Both are sent once more, in their order. This table never lets a batch in: it may be
forgotten at any time.

The table belongs to the broker and outlives its replicas: a batch is also refused while its replica's mailbox is full,
and while the replica is restarted because its disk failed. Only the end of the process forgets it, and that ends the
client's connection too.
"""

from __future__ import annotations

from attrs import evolve

from log.errors import RequestError
from log.segment.producer_state import SEQUENCES, ProducerStates
from protocol.error_codes import ErrorCode
from protocol.late_attrs import frozen
from protocol.records.batches import BatchHeader

PRODUCERS_MAX = 10_000
SECONDS_MAX = 30.0
"""A refused batch that is not retried within this time is considered abandoned."""
_NO_PRODUCERS = ProducerStates()


class Overtakes(RequestError):
    """A batch before this one was refused for now. The client retries both."""

    code = ErrorCode.NOT_ENOUGH_REPLICAS


@frozen(slots=True)
class Refusal:
    """The sequences of a producer that were refused and have not come again: from the first missing one to the last."""

    epoch: int
    first_sequence: int
    end_sequence: int
    """The sequence after the last batch that was refused. The log may already hold the first batches of the range."""
    until: float


class Refusals:
    """The refused batches of one broker, by Raft group and producer."""

    __slots__ = ("_refused",)

    def __init__(self) -> None:
        self._refused: dict[tuple[str, int], Refusal] = {}

    def __len__(self) -> int:
        return len(self._refused)

    def note(self, group: str, header: BatchHeader, now: float, producers: ProducerStates = _NO_PRODUCERS) -> None:
        """A batch was refused, and its retry is expected. `producers`: the partition's table, where it is known."""
        if header.producer_id < 0 or header.base_sequence < 0:
            return
        key = (group, header.producer_id)
        missing = self._missing(key, producers, now)
        end = (header.base_sequence + header.last_offset_delta + 1) % SEQUENCES
        if missing is not None:
            if missing.epoch > header.producer_epoch:
                return
            if missing.epoch == header.producer_epoch:
                if _is_behind(missing.end_sequence, end):
                    end = missing.end_sequence
                if _is_behind(header.base_sequence, missing.first_sequence):
                    self._refused[key] = evolve(missing, end_sequence=end)
                    return
            if _is_written(producers, header.producer_id, header.producer_epoch, header.base_sequence):
                return  # It was refused after it was written. Until another leader cuts it off, the other is missing.
        self._refused.pop(key, None)  # the oldest are first
        if len(self._refused) >= PRODUCERS_MAX:
            del self._refused[next(iter(self._refused))]
        self._refused[key] = Refusal(header.producer_epoch, header.base_sequence, end, now + SECONDS_MAX)

    def check(self, group: str, header: BatchHeader, now: float, producers: ProducerStates) -> None:
        """Raise Overtakes if a batch before this one was refused and has not come again."""
        if not self._refused:
            return
        key = (group, header.producer_id)
        missing = self._missing(key, producers, now)
        if missing is None or missing.epoch != header.producer_epoch:
            return
        if header.base_sequence == missing.first_sequence:
            del self._refused[key]
        elif _is_behind(header.base_sequence, missing.first_sequence):
            raise Overtakes(
                f"producer {header.producer_id} sends sequence {header.base_sequence}, and {missing.first_sequence} was"
                " refused for now and has not come again"
            )

    def _missing(self, key: tuple[str, int], producers: ProducerStates, now: float) -> Refusal | None:
        """The producer's batches that were refused lately and are not in the log.

        The log may hold the first of the refused batches all the same: an earlier leader has written it, and the client
        did not get the answer. Then the batch that follows the log's last one is the first that is missing.
        """
        refused = self._refused.get(key)
        if refused is None:
            return None
        if refused.until > now and not _is_written(producers, key[1], refused.epoch, refused.first_sequence):
            return refused
        known = producers.get(key[1])
        if refused.until > now and known is not None and known.epoch == refused.epoch:
            following = (known.last_sequence + 1) % SEQUENCES
            if _is_behind(refused.end_sequence, following):
                self._refused[key] = refused = evolve(refused, first_sequence=following)
                return refused
        del self._refused[key]
        return None


def _is_written(producers: ProducerStates, producer_id: int, epoch: int, first_sequence: int) -> bool:
    """Does the log have this batch, or a later one?"""
    known = producers.get(producer_id)
    return known is not None and (
        known.epoch > epoch or (known.epoch == epoch and _is_behind(known.last_sequence + 1, first_sequence))
    )


def _is_behind(sequence: int, other: int) -> bool:
    """Sequences count to 2³¹−1 and start again at 0."""
    return 0 < (sequence - other) % SEQUENCES < SEQUENCES // 2
