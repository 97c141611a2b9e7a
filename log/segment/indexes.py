"""Sparse indexes of a segment, in Kafka's formats: offset to position, timestamp to offset.

    .index       relative offset u32, position u32      one entry per index.interval.bytes of log
    .timeindex   timestamp i64, relative offset u32     the largest timestamp so far and where it is

An entry says: the batch that ends with this offset (relative to the segment's base) begins at this position. A look-up
finds the last entry at or below what is asked for; the rest is a short walk over batch headers. Index files carry no
checksum, so a look-up gives the whole entry and the segment believes it only if the batch there bears it out.

While a segment is active its entries live in arrays and reach the file with the next flush. A sealed segment's file is
memory-mapped and searched in place. Both searches are O(log n).
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from typing import ClassVar

OFFSET_ENTRY = struct.Struct(">II")
TIME_ENTRY = struct.Struct(">qI")

Entry = tuple[int, int]  # relative offset and position; of a time index, timestamp and relative offset


class _Index:
    """A growing index: keys, and the value that belongs to each. Both only grow."""

    __slots__ = ("_keys", "_values", "_written")
    form: ClassVar[struct.Struct]
    key_code: ClassVar[str]

    def __init__(self) -> None:
        self._keys = array(self.key_code)
        self._values = array("I")
        self._written = 0

    @property
    def size(self) -> int:
        return len(self._keys) * self.form.size

    @property
    def last(self) -> Entry | None:
        return self._entry(len(self._keys) - 1)

    def _entry(self, at: int) -> Entry | None:
        return (self._keys[at], self._values[at]) if at >= 0 else None

    def _pop(self) -> None:
        self._keys.pop()
        self._values.pop()
        self._written = min(self._written, len(self._keys))

    def unwritten(self) -> tuple[int, bytes]:
        """What is not in the file yet, and where it goes."""
        first = self._written
        entries = zip(self._keys[first:], self._values[first:], strict=True)
        return first * self.form.size, b"".join(self.form.pack(*entry) for entry in entries)

    def mark_written(self) -> None:
        self._written = len(self._keys)


class OffsetIndex(_Index):
    """The growing offset index of an active segment: relative offsets, and positions."""

    __slots__ = ()
    form = OFFSET_ENTRY
    key_code = "I"

    def add(self, relative_offset: int, position: int) -> None:
        assert not self._keys or relative_offset > self._keys[-1], "index entries only grow"
        self._keys.append(relative_offset)
        self._values.append(position)

    def entry_for(self, relative_offset: int) -> Entry | None:
        """The last entry at or below this offset: where to begin looking for it."""
        return self._entry(bisect_right(self._keys, relative_offset) - 1)

    def entry_before(self, position: int) -> Entry | None:
        """The last entry whose batch begins at or before this position."""
        return self._entry(bisect_right(self._values, position) - 1)

    def cut(self, relative_offset: int, position: int) -> None:
        """Forget entries for what begins at `position` or lies at `relative_offset` or above."""
        while self._keys and (self._values[-1] >= position or self._keys[-1] >= relative_offset):
            self._pop()

    def load(self, data: bytes | memoryview, position_end: int) -> bool:
        """Take in a file's entries below `position_end`. False if they are no index: then it is left empty."""
        offsets, positions = array("I"), array("I")
        last_offset = last_position = -1
        for relative_offset, position in OFFSET_ENTRY.iter_unpack(data[: len(data) - len(data) % OFFSET_ENTRY.size]):
            if position >= position_end or relative_offset <= last_offset or position <= last_position:
                if position >= position_end and position > last_position and relative_offset > last_offset:
                    break  # entries for what was cut away, or never written
                return False
            offsets.append(relative_offset)
            positions.append(position)
            last_offset, last_position = relative_offset, position
        self._keys, self._values, self._written = offsets, positions, len(offsets)
        return True


class TimeIndex(_Index):
    """The growing time index of an active segment: timestamps, and the relative offsets where they are."""

    __slots__ = ()
    form = TIME_ENTRY
    key_code = "q"

    def add(self, timestamp: int, relative_offset: int) -> None:
        """Note a new largest timestamp; one that is not larger says nothing new."""
        if self._keys and (timestamp <= self._keys[-1] or relative_offset <= self._values[-1]):
            return
        self._keys.append(timestamp)
        self._values.append(relative_offset)

    def entry_below(self, timestamp: int) -> Entry | None:
        """The last entry with an earlier timestamp: nothing up to its offset has this timestamp or a later one."""
        return self._entry(bisect_right(self._keys, timestamp - 1) - 1)

    def cut(self, relative_offset: int) -> None:
        while self._values and self._values[-1] >= relative_offset:
            self._pop()

    def load(self, data: bytes | memoryview, relative_end: int) -> bool:
        timestamps, offsets = array("q"), array("I")
        for timestamp, relative_offset in TIME_ENTRY.iter_unpack(data[: len(data) - len(data) % TIME_ENTRY.size]):
            if relative_offset >= relative_end:
                break
            if timestamps and (timestamp <= timestamps[-1] or relative_offset <= offsets[-1]):
                return False
            timestamps.append(timestamp)
            offsets.append(relative_offset)
        self._keys, self._values, self._written = timestamps, offsets, len(offsets)
        return True


# -- sealed segments: the same look-ups on a memory-mapped file ------------------------------------------------------


def mapped_entry_for(view: memoryview, relative_offset: int) -> Entry | None:
    return _mapped_entry(view, OFFSET_ENTRY, _search(view, OFFSET_ENTRY, 0, relative_offset))


def mapped_entry_before(view: memoryview, position: int) -> Entry | None:
    return _mapped_entry(view, OFFSET_ENTRY, _search(view, OFFSET_ENTRY, 1, position))


def mapped_entry_below(view: memoryview, timestamp: int) -> Entry | None:
    return _mapped_entry(view, TIME_ENTRY, _search(view, TIME_ENTRY, 0, timestamp - 1))


def mapped_last_time(view: memoryview) -> Entry | None:
    """The largest timestamp of the segment and the relative offset where it is."""
    return _mapped_entry(view, TIME_ENTRY, len(view) // TIME_ENTRY.size - 1)


def _mapped_entry(view: memoryview, form: struct.Struct, at: int) -> Entry | None:
    if at < 0:
        return None
    first, second = form.unpack_from(view, at * form.size)
    return first, second


def _search(view: memoryview, entry: struct.Struct, field: int, wanted: int) -> int:
    """The last entry whose field is at most `wanted`, or -1."""
    low, high = 0, len(view) // entry.size
    unpack, size = entry.unpack_from, entry.size
    while low < high:
        middle = (low + high) >> 1
        if unpack(view, middle * size)[field] <= wanted:
            low = middle + 1
        else:
            high = middle
    return low - 1
