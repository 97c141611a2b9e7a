"""The records in what a leader sends that a client may be told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.records.batches import (
    BatchHeader,
    ControlType,
    control_type,
    parse_batches,
    records,
    records_from,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from actors.messages.replica import ReadResult
    from protocol.records.record import Record

UNPACKED_BYTES_MAX = 64 << 20
"""Of one batch: a few compressed bytes may become very many."""


def readable(result: ReadResult, first_offset: int) -> Iterator[tuple[BatchHeader, Iterable[Record]]]:
    """Every batch with the records in it that may be told: none of a control batch, none that were aborted.

    Records are made one after the other, from `first_offset` on: of many in a batch, only some may be asked for.
    """
    batches = parse_batches(result.batches)
    to_come, aborting = list(reversed(result.aborted)), set[int]()
    for position, header in zip(batches.positions, batches.headers, strict=True):
        while to_come and to_come[-1].first_offset <= header.last_offset:
            aborting.add(to_come.pop().producer_id)
        if header.is_control:
            if header.producer_id in aborting and _is_abort(batches.data, position, header):
                aborting.discard(header.producer_id)
            yield header, []
        elif header.is_transactional and header.producer_id in aborting:
            yield header, []
        else:
            yield header, records_from(first_offset, batches.data, position, limit=UNPACKED_BYTES_MAX)


def _is_abort(data: memoryview, position: int, header: BatchHeader) -> bool:
    made = records(data, position, limit=header.size)
    return bool(made) and control_type(made[0]) is ControlType.ABORT


def size_of(record: Record) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers
