"""Which producers may begin a transaction in this partition: those that the coordinator vouched for (KIP-890).

A transactional batch that begins a transaction here waits until the coordinator has said that the partition is in that
transaction. Without that, a batch that was under way for too long could begin a transaction that is never ended.

    asks = verifications.park(header, append)   the first of a producer asks the coordinator, the others wait behind it
    parked = verifications.answered(guard)      in the order in which they came; append them now, in this turn
    verifications.check(header, guard, ...)     just before each append

A marker that comes in between takes the guard away: what was vouched for has ended. And a later batch of a producer
never overtakes an earlier one: it waits in the same queue, and it cannot begin where an earlier batch is missing.

The table is the leader's alone. The next leader asks again.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from attrs import field

from log.errors import RequestError
from log.segment.producer_state import OutOfOrderSequence, ProducerFenced, ProducerStates, WrongTransactionState
from protocol.error_codes import ErrorCode
from protocol.late_attrs import define
from protocol.records.batches import BatchHeader

PRODUCERS_MAX = 100_000
PARKED_MAX = 1000
NO_EPOCH = -1
T = TypeVar("T")


class TooMuchParked(RequestError):
    """Too many batches wait for a coordinator that is slow to answer. The client retries."""

    code = ErrorCode.NOT_ENOUGH_REPLICAS


@define(slots=True)
class Verification(Generic[T]):
    """One producer that wants to begin a transaction here."""

    guard: int
    epoch: int
    lowest_sequence: int
    """Of the batches since then: the transaction of an otherwise unknown producer must begin with this one."""
    is_asked: bool = True
    parked: list[T] = field(factory=list)


class Verifications(Generic[T]):
    """The verifications of one partition. T stands for an append that waits."""

    __slots__ = ("_guards", "_producers")

    def __init__(self) -> None:
        self._producers: dict[int, Verification[T]] = {}
        self._guards = 0

    def __len__(self) -> int:
        return len(self._producers)

    def must_wait(self, header: BatchHeader, producers: ProducerStates) -> bool:
        """Must this batch be vouched for first, or wait behind one that must?"""
        if not header.is_transactional:
            return False
        known = self._producers.get(header.producer_id)
        if known is not None and known.parked and known.epoch == header.producer_epoch:
            return True
        return not producers.has_open(header.producer_id, header.producer_epoch)

    def fence(self, header: BatchHeader) -> list[T]:
        """A producer comes with this epoch. Gives the appends of older epochs that wait: they have to be refused."""
        known = self._producers.get(header.producer_id)
        if known is None or known.epoch >= header.producer_epoch:
            return []
        del self._producers[header.producer_id]
        return known.parked

    def park(self, header: BatchHeader, append: T) -> int | None:
        """Let an append wait. Gives the guard with which to ask the coordinator, unless it is asked already.

        What waits of an older epoch was fenced before.
        """
        known = self._producers.get(header.producer_id)
        if known is None or known.epoch != header.producer_epoch:
            if known is not None and known.parked:
                assert header.producer_epoch < known.epoch, "what waits of an older epoch is fenced first"
                raise ProducerFenced(
                    f"producer {header.producer_id} sends in epoch {known.epoch}; a batch of {header.producer_epoch}"
                    " comes late"
                )
            if len(self._producers) >= PRODUCERS_MAX:
                self._forget_oldest()
            self._guards += 1
            known = Verification(self._guards, header.producer_epoch, header.base_sequence, is_asked=False)
            self._producers[header.producer_id] = known
        if len(known.parked) >= PARKED_MAX:
            raise TooMuchParked(f"{PARKED_MAX} appends of producer {header.producer_id} wait for its coordinator")
        known.lowest_sequence = min(known.lowest_sequence, header.base_sequence)
        known.parked.append(append)
        if known.is_asked:
            return None
        known.is_asked = True
        return known.guard

    def answered(self, producer_id: int, guard: int) -> list[T]:
        """The coordinator has answered: the appends that waited for that. None if the guard is not the present one."""
        known = self._producers.get(producer_id)
        if known is None or known.guard != guard:
            return []
        parked, known.parked, known.is_asked = known.parked, [], False
        return parked

    def check(self, header: BatchHeader, guard: int, producers: ProducerStates) -> None:
        """Raise an error unless this batch, vouched for with this guard, may still begin or continue a transaction."""
        if producers.has_open(header.producer_id, header.producer_epoch):
            return
        known = self._producers.get(header.producer_id)
        if known is None or known.guard != guard or known.epoch != header.producer_epoch:
            raise WrongTransactionState(
                f"producer {header.producer_id}: its transaction ended while this batch was under way"
            )
        if producers.get(header.producer_id) is None and header.base_sequence > known.lowest_sequence:
            raise OutOfOrderSequence(
                f"producer {header.producer_id} sends sequence {header.base_sequence}, and {known.lowest_sequence} came"
                " before it and is not here"
            )

    def began(self, producer_id: int) -> None:
        """Its transaction is open here: there is nothing more to vouch for. Appends that wait stay."""
        known = self._producers.get(producer_id)
        if known is not None and not known.parked:
            del self._producers[producer_id]

    def end(self, producer_id: int, next_epoch: int = NO_EPOCH) -> list[T]:
        """A marker comes: what was vouched for has ended. Gives the appends that wait: they have to be refused.

        In transactions v2 a marker has the epoch of the producer's next transaction: appends of that epoch are not
        concerned, and go on waiting for the coordinator's answer.
        """
        known = self._producers.get(producer_id)
        if known is None or (next_epoch != NO_EPOCH and known.epoch >= next_epoch):
            return []
        del self._producers[producer_id]
        return known.parked

    def clear(self) -> list[T]:
        """This replica leads no more. Gives all appends that wait."""
        producers, self._producers = self._producers, {}
        return [append for known in producers.values() for append in known.parked]

    def _forget_oldest(self) -> None:
        """Forget the oldest producer without a waiting append. It has to be vouched for once more if it comes back."""
        for producer_id, known in self._producers.items():
            if not known.parked:
                del self._producers[producer_id]
                return
        raise TooMuchParked(f"{PRODUCERS_MAX} producers wait for their coordinators")
