"""Columns of many record batches, made into one Arrow batch: Spark takes ten thousand rows at once two times faster
than a thousand. Many more are slower again, because their objects do not fit the processor's caches.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc

from protocol.records.compression import Codec
from tools.client.reading.fetched import RawBatch
from tools.spark.reading.decoding import Decoded, decode

ROWS = 16_384
BYTES = 32 << 20
"""Decompressed. With one more batch, which has at most 256 MiB then, a column is far from Arrow's limit of 2 GiB."""
_CREATE_TIME, _LOG_APPEND_TIME = 0, 1
_COUNTED = pa.array(range(4 * ROWS), pa.int64())
_Same = tuple[str, int, int]
"""Topic, partition and kind of timestamp."""


class Columns:
    """Collects decoded batches, and returns them as one Arrow batch with the source's schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._has_headers = "headers" in schema.names
        self._begin()

    def _begin(self) -> None:
        self.rows = 0
        self.size = 0
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._offsets: list[Sequence[int]] = []
        self._timestamps: list[int] = []
        self._headers: list[Sequence[tuple[str, bytes | None]]] = []
        self._runs: list[tuple[int, _Same]] = []
        """Runs of rows with the same topic, partition and kind of timestamp: count and values."""

    @property
    def is_full(self) -> bool:
        return self.rows >= ROWS or self.size >= BYTES

    def add(self, batch: RawBatch, end: int) -> None:
        """Add the records of a batch before `end`."""
        decoded = decode(batch, end, with_headers=self._has_headers)
        count = len(decoded.offsets)
        if not count:
            return
        self.rows += count
        self.size += _size(batch, decoded)
        self._add_offsets(decoded.offsets)
        self._timestamps += decoded.timestamps
        self._keys += decoded.keys
        self._values += decoded.values
        self._headers += decoded.headers
        kind = _LOG_APPEND_TIME if batch.header.is_log_append_time else _CREATE_TIME
        self._add_run(count, (batch.where.topic, batch.where.partition, kind))

    def _add_offsets(self, offsets: Sequence[int]) -> None:
        last = self._offsets[-1] if self._offsets else None
        if isinstance(last, range) and isinstance(offsets, range) and last.stop == offsets.start:
            self._offsets[-1] = range(last.start, offsets.stop)
        else:
            self._offsets.append(offsets)

    def _add_run(self, count: int, same: _Same) -> None:
        if self._runs and self._runs[-1][1] == same:
            count += self._runs.pop()[0]
        self._runs.append((count, same))

    def take(self) -> pa.RecordBatch:
        """All collected rows; the columns are empty then."""
        arrays = [
            pa.array(self._keys, pa.binary()),
            pa.array(self._values, pa.binary()),
            _repeated([(count, topic) for count, (topic, _, _) in self._runs], pa.string()),
            _repeated([(count, partition) for count, (_, partition, _) in self._runs], pa.int32()),
            pa.concat_arrays([_longs(offsets) for offsets in self._offsets]),
            pc.multiply(_longs(self._timestamps), 1000).view(self._schema.field("timestamp").type),
            _repeated([(count, kind) for count, (_, _, kind) in self._runs], pa.int32()),
        ]
        if self._has_headers:
            arrays.append(self._header_array())
        made = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        self._begin()
        return made

    def _header_array(self) -> pa.Array:
        """A record without headers has null, as with the stock connector."""
        wanted = self._schema.field("headers").type
        flat = [one for headers in self._headers for one in headers]
        structs = pa.StructArray.from_arrays(
            [pa.array([name for name, _ in flat], pa.string()), pa.array([value for _, value in flat], pa.binary())],
            fields=list(wanted.value_type),
        )
        ends = array("i", accumulate((len(headers) for headers in self._headers), initial=0))
        offsets = pa.Array.from_buffers(pa.int32(), len(ends), [None, pa.py_buffer(ends)])
        is_null = pa.array([not headers for headers in self._headers], pa.bool_())
        return pa.ListArray.from_arrays(offsets, structs, type=wanted, mask=is_null)


def _size(batch: RawBatch, decoded: Decoded) -> int:
    """The bytes of a batch in columns; for a compressed batch, the sum over its records."""
    if batch.header.codec is Codec.NONE:
        return batch.header.size
    headers = sum(len(name) + len(one or b"") for some in decoded.headers for name, one in some)
    return sum(map(len, filter(None, decoded.keys))) + sum(map(len, filter(None, decoded.values))) + headers


def _longs(values: Sequence[int]) -> pa.Array:
    if isinstance(values, range) and len(values) <= len(_COUNTED):
        return pc.add(_COUNTED.slice(0, len(values)), values.start)
    return pa.array(values, pa.int64())


def _repeated(runs: list[tuple[int, str]] | list[tuple[int, int]], kind: pa.DataType) -> pa.Array:
    return pa.concat_arrays([pa.repeat(pa.scalar(value, kind), count) for count, value in runs])
