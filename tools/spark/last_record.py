"""The last record of a partition that is of a kind, looked for from the end back."""

from __future__ import annotations

from collections.abc import Callable

from protocol.records.record import Record
from tools.client.consumer import Consumer

_STEP = 1_000


def last_record(consumer: Consumer, where: tuple[str, int], matches: Callable[[Record], bool]) -> Record | None:
    """None if there is none. What the consumer reads is another partition afterwards."""
    (begin,) = consumer.beginning_offsets([where]).values()
    (high,) = consumer.end_offsets([where]).values()
    while high > begin:
        low = max(high - _STEP, begin)
        for record in reversed(_records(consumer, where, low, high)):
            if matches(record):
                return record
        high = low
    return None


def _records(consumer: Consumer, where: tuple[str, int], low: int, high: int) -> list[Record]:
    """The records between two offsets."""
    consumer.assign({where: low})
    found: list[Record] = []
    while consumer.position(where) < high:
        for records in consumer.poll(0.1).values():
            found += records
    return [record for record in found if record.offset < high]
