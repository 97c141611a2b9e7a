"""The records of a read as they are answered: which of them a client gets, and how they are written, in slices.

A read may have a hundred thousand batches, and a batch a hundred thousand records. So all of this pauses often, after
so many records or kilobytes. A large batch is decompressed, and a large record written, in a LongCall.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import orjson

from log.segment.batch_slices import read_from
from log.slices import Slices, called
from protocol.errors import ProtocolError
from protocol.records.batches import BatchHeader, ControlType, control_type, read_header, records

if TYPE_CHECKING:
    from actors.messages.replica import ReadResult
    from protocol.json.lines import Facts
    from protocol.records.record import Record

PAUSE_AFTER = 100
"""Records and kilobytes, together: half a millisecond's work, or a few milliseconds' if values are written as JSON."""
LARGE_BYTES = 256 << 10
"""A larger record is written in a LongCall: to check the depth of a megabyte of JSON takes 80 ms."""


def chosen(result: ReadResult, first_offset: int, records_max: int, bytes_max: int) -> Slices[tuple[list[Record], int]]:
    """As many records from this offset on as are wanted, at least one if there is one, and the offset after them.

    A batch that cannot be read is an error if nothing is before it: the next read begins there.
    """
    made: list[Record] = []
    size, next_offset, weight = 0, first_offset, 0
    try:
        for header, batch in readable(result):
            yield None
            if len(made) == records_max:
                break
            for record in () if batch is None else (yield from read_from(first_offset, header, batch)):
                more = size_of(record)
                if len(made) == records_max or (made and size + more > bytes_max):
                    return made, next_offset
                size += more
                made.append(record)
                next_offset = record.offset + 1
                weight += _weight(record, more)
                if weight >= PAUSE_AFTER:
                    yield None
                    weight = 0
            next_offset = max(next_offset, header.next_offset)
    except ProtocolError:
        if next_offset == first_offset:
            raise
    return made, next_offset


def readable(result: ReadResult) -> Iterator[tuple[BatchHeader, memoryview | None]]:
    """Every batch, without bytes if its records are not returned: those of a control batch, or aborted ones."""
    data, at = memoryview(result.batches), 0
    to_come, aborting = list(reversed(result.aborted)), set[int]()
    while at < len(data):
        header = read_header(data, at)
        batch = data[at : at + header.size]
        at += header.size
        while to_come and to_come[-1].first_offset <= header.last_offset:
            aborting.add(to_come.pop().producer_id)
        if header.is_control:
            if header.producer_id in aborting and _is_abort(header, batch):
                aborting.discard(header.producer_id)
            yield header, None
        elif header.is_transactional and header.producer_id in aborting:
            yield header, None
        else:
            yield header, batch


def _is_abort(header: BatchHeader, batch: memoryview) -> bool:
    made = records(batch, limit=header.size)
    return bool(made) and control_type(made[0]) is ControlType.ABORT


def told(taken: Iterable[tuple[Facts, Record]], tell: Callable[[Record], Facts]) -> Slices[list[bytes]]:
    """The records, each with the facts beside it, as they stand in a list of JSON: in pieces, without the commas
    between these."""
    pieces: list[bytes] = []
    gathered: list[tuple[Facts, Record]] = []
    weight = 0
    for beside, record in taken:
        size = size_of(record)
        if size > LARGE_BYTES:
            if gathered:
                pieces.append(_piece(gathered, tell))
                gathered, weight = [], 0
            pieces.append((yield from called(partial(_piece, [(beside, record)], tell))))
            continue
        gathered.append((beside, record))
        weight += _weight(record, size)
        if weight >= PAUSE_AFTER:
            pieces.append(_piece(gathered, tell))
            gathered, weight = [], 0
            yield None
    if gathered:
        pieces.append(_piece(gathered, tell))
    return pieces


def _piece(taken: list[tuple[Facts, Record]], tell: Callable[[Record], Facts]) -> bytes:
    return orjson.dumps([{**beside, **tell(record)} for beside, record in taken])[1:-1]


def size_of(record: Record) -> int:
    """The bytes of its key, value and headers."""
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


def _weight(record: Record, size: int) -> int:
    """The number of records as which it counts: a kilobyte, or a dozen headers, take as long as one."""
    return 1 + (size >> 10) + len(record.headers) // 12
