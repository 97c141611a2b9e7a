"""The records of one batch, read and written in slices (`log/slices.py`): a batch may have a hundred thousand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice

from log.config import DECOMPRESSED_BYTES_MAX
from log.slices import Slices, T, called
from protocol.errors import BatchTooLarge, CorruptBatch
from protocol.records.batches import BatchHeader, Record, made_records, rebuilt_header, unpacked, write_batch
from protocol.records.compression import Bytes
from protocol.records.record import pass_over, write_records

SLICE_RECORDS = 1000
"""Records that are read or written without a pause."""
DECOMPRESS_BYTES = 1 << 20
"""What is decompressed at once: gzip takes 4 ms for it. More is a LongCall."""
COMPRESS_BYTES = 64 << 10
"""What is compressed at once: gzip takes 2 ms for it. More is a LongCall."""


def read_batch(header: BatchHeader, batch: Bytes) -> Slices[Iterator[list[Record]]]:
    """The records of a batch that has this header, in lists of SLICE_RECORDS. Only the last list is shorter."""
    return _lists(header, made_records(header, (yield from _unpacked(header, batch))))


def read_from(first_offset: int, header: BatchHeader, batch: Bytes) -> Slices[Iterator[Record]]:
    """The records of a batch that has this header from this offset on, each made when it is asked for."""
    data = yield from _unpacked(header, batch)
    count, first_delta = header.record_count, first_offset - header.base_offset
    begin, end = (0, 0), 0
    while begin[0] == end < count and first_delta > 0:
        if end:
            yield None
        end = min(end + SLICE_RECORDS, count)
        begin = pass_over(data, first_delta, begin, end, count)
    return made_records(header, data, begin)


def _unpacked(header: BatchHeader, batch: Bytes) -> Slices[bytes]:
    return in_time(header, partial(unpacked, batch), max(DECOMPRESSED_BYTES_MAX, len(batch)))


def in_time(header: BatchHeader, unpack: Callable[..., T], limit: int) -> Slices[T]:
    """What `unpack(limit=…)` makes of a batch with this header: at once, unless it takes long to decompress."""
    if not header.codec:
        return unpack(limit=limit)
    if header.size <= DECOMPRESS_BYTES:
        try:
            return unpack(limit=DECOMPRESS_BYTES)
        except BatchTooLarge:
            pass  # it is larger than it looks
    return (yield from called(lambda: unpack(limit=limit)))


def _lists(header: BatchHeader, left: Iterator[Record]) -> Iterator[list[Record]]:
    while part := list(islice(left, SLICE_RECORDS)):
        if part[-1].offset > header.last_offset:
            raise CorruptBatch(f"the batch has offset {part[-1].offset}, after its last, {header.last_offset}")
        yield part


def rebuild(header: BatchHeader, retained: Sequence[Record], *, delete_horizon: int | None = None) -> Slices[bytearray]:
    """The batch with this header and only these of its records, of which there is one at least; see rebuild_batch()."""
    changed = rebuilt_header(header, retained, delete_horizon=delete_horizon)
    plain = bytearray()
    for at in range(0, len(retained), SLICE_RECORDS):
        if at:
            yield None
        plain += write_records(retained[at : at + SLICE_RECORDS], header.base_offset, changed.base_timestamp)
    if not changed.codec or len(plain) <= COMPRESS_BYTES:
        return write_batch(changed, plain)
    return (yield from called(lambda: write_batch(changed, plain)))
