"""One record batch to columns of Python objects.

The reader is aiokafka's compiled one. Each of its records is dropped as soon as the columns have its values: the
garbage collector visits every living record again and again, which takes longer than reading them. Without aiokafka, or
if a header name is not UTF-8, a loop in Python does the same. Compressed batches are decompressed first, with this
project's codecs, which limit the result, and given to the reader as uncompressed ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from protocol.records.batches import HEADER, BatchHeader
from protocol.records.compression import decompress
from protocol.records.record import Headers
from tools.client.reading.fetched import RawBatch

try:
    from aiokafka.record.default_records import DefaultRecordBatch as compiled_reader  # noqa: N813  it is used like a function
except ImportError:  # the package is optional
    compiled_reader = None

BATCH_BYTES_MAX = 256 << 20
_CODEC = 0b111
_HEADER_TO_LENGTH = 12


class Decoded(NamedTuple):
    """Columns of the same length. `headers` is empty if it is not requested."""

    offsets: Sequence[int]
    """A range where there are no gaps."""
    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Sequence[tuple[str, bytes | None]]]


def decode(batch: RawBatch, end: int, *, with_headers: bool) -> Decoded:
    """The records of a batch from `first_offset` of the batch up to `end`."""
    if compiled_reader is not None:
        try:
            return _columns(batch, compiled_reader(_opened(batch)), end, with_headers=with_headers)
        except UnicodeDecodeError:
            pass
    return _columns(batch, _by_loop(batch), end, with_headers=with_headers)


def _columns(batch: RawBatch, records: Iterable[Any], end: int, *, with_headers: bool) -> Decoded:
    first, header = batch.first_offset, batch.header
    has_gaps = header.record_count != header.last_offset_delta + 1
    offsets: Sequence[int]
    if has_gaps:
        offsets = gaps = list[int]()
    else:  # offsets need not be read
        begin = max(first, header.base_offset)
        offsets = range(begin, max(min(end, header.next_offset), begin))
        records = islice(records, offsets.start - header.base_offset, offsets.stop - header.base_offset)
    made = Decoded(offsets, [], [], [], [])
    _, timestamps, keys, values, headers = made
    for one in records:
        if has_gaps:
            if not first <= one.offset < end:
                continue
            gaps.append(one.offset)
        timestamps.append(one.timestamp)
        keys.append(one.key)
        values.append(one.value)
        if with_headers:
            headers.append(one.headers)
    return made


def _by_loop(batch: RawBatch) -> list[Any]:
    return [
        one._replace(headers=_clean(one.headers)) if one.headers else one
        for one in batch._replace(first_offset=batch.header.base_offset).records(BATCH_BYTES_MAX)
    ]


def _clean(headers: Headers) -> Headers:
    """Header names that are not UTF-8 get replacement characters, as in Java."""
    return tuple((name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), one) for name, one in headers)


def _opened(batch: RawBatch) -> memoryview | bytes:
    """The batch without compression. Its checksum is wrong then; it was checked before."""
    header: BatchHeader = batch.header
    if not header.attributes & _CODEC:
        return batch.data
    plain = decompress(header.codec, batch.data[HEADER.size :], BATCH_BYTES_MAX)
    changed = header._replace(
        attributes=header.attributes & ~_CODEC, batch_length=HEADER.size - _HEADER_TO_LENGTH + len(plain)
    )
    return HEADER.pack(*changed) + bytes(plain)
