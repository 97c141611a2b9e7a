"""The check that the records of a batch can be read. It makes no objects of them.

A batch is acknowledged only if every reader gets through it: it holds as many records as its header says, their offset
deltas are 0, 1, 2, …, each record is as long as it says, and the last one ends where the batch ends. A batch that is
wrong in one of these would stop every reader of the partition for ever.

Records that follow each other in one shape are compared with that shape all together (`record_shapes.py`). All other
records are walked one by one: those of the usual form with two looks each (`usual_records.py`), others field by field.
"""

from __future__ import annotations

from protocol.errors import BatchTooLarge, CorruptBatch, InvalidRecord
from protocol.records.shapes import (
    TIMESTAMP_BYTES_MAX,
    Shape,
    delta_size,
    remembered,
    same_size_until,
    shape_of,
)
from protocol.records.usual_records import pass_usual
from protocol.records.varint import decode_unsigned

_COUNT_MAX = 1 << 20  # offset deltas of three bytes end here
_BASE_TIMESTAMP_MAX = 1 << 62  # far enough from the end of 64 bits for all deltas of up to 8 bytes
_SAME_BEFORE_RUN = 2
_RUN_MIN = 8  # a search for a run costs as much as this many records
_RUN_FIRST = 256  # records that are first compared with a shape, since a run may be short
_RUN_GROWTH = 8
_RUN_MAX = 2048  # so that the bytes of all of them stay in the processor's cache from column to column
_UNUSUAL_MIN, _UNUSUAL_MAX = 4, 1024  # records that are walked field by field before usual ones are looked for again
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1


def check_records(
    data: bytes, count: int, base_timestamp: int, *, elements_max: int, keyless: list[int] | None = None
) -> None:
    """Check all records of a batch at once; see RecordWalk."""
    walk = RecordWalk(data, count, base_timestamp, elements_max=elements_max, keyless=keyless)
    is_done = walk.step(count)
    assert is_done


class RecordWalk:
    """The check that `data` is `count` records with offset deltas 0, 1, 2, …, in as many steps as are wanted.

    Records and their headers together are `elements_max` at most. The numbers of records without a key are added to
    `keyless`, if it is given.
    """

    __slots__ = (
        "_base_timestamp", "_count", "_data", "_elements_left", "_elements_max", "_keyless", "at", "index",
        "last_at",
    )  # fmt: skip

    def __init__(
        self, data: bytes, count: int, base_timestamp: int, *, elements_max: int, keyless: list[int] | None = None
    ) -> None:
        assert elements_max <= _COUNT_MAX, elements_max
        if not -_BASE_TIMESTAMP_MAX <= base_timestamp <= _BASE_TIMESTAMP_MAX:
            raise InvalidRecord(f"the base timestamp {base_timestamp} is out of range")
        if count > elements_max:
            raise BatchTooLarge(f"a batch of {count} records; at most {elements_max} are allowed: send smaller batches")
        self._data = data
        self._count = count
        self._base_timestamp = base_timestamp
        self._elements_max = elements_max
        self._elements_left = elements_max - count
        self._keyless = keyless
        self.at = 0
        self.index = 0
        self.last_at = 0
        """Where the record before `at` begins."""

    @property
    def last_timestamp(self) -> int:
        """The timestamp of the record that was walked last."""
        _, at = decode_unsigned(self._data, self.last_at)
        zigzag, _ = decode_unsigned(self._data, at + 1, 64)
        return self._base_timestamp + _signed(zigzag)

    def step(self, records: int) -> bool:
        """Check about this many more records. True when all are good; InvalidRecord names the one that is not."""
        count = self._count
        try:
            self._run(min(self.index + records, count))
        except IndexError:
            raise InvalidRecord(f"record {self.index} of {count} runs past the end of the batch") from None
        except CorruptBatch as error:
            raise InvalidRecord(f"record {self.index} of {count} cannot be read: {error}") from None
        if self.index < count:
            return False
        if self.at != len(self._data):
            raise InvalidRecord(f"the {count} records of the batch end at byte {self.at} of {len(self._data)}")
        return True

    def _run(self, until: int) -> None:
        """Take runs of equal shapes where there may be some, though they end behind `until`, and walk the rest."""
        tries_from = 0
        while self.index < until:
            start, taken = self.index, 0
            if tries_from <= start <= self._count - _RUN_MIN:
                taken = self._take_run(remembered(self._data, self.at, start))
            if not taken and self._walk(until, tries_from):
                taken = self._take_run(shape_of(self._data, self.last_at, self.at, self.index - 1))
            # Where shapes change all the time, the search for runs must not cost more than it saves.
            if taken < _RUN_MIN:
                tries_from = self.index + max(2 * (self.index - start), _RUN_MIN)

    def _walk(self, until: int, tries_from: int) -> bool:
        """Walk record by record: to `until`, or until some neighbours, from `tries_from` on, were equally long."""
        pause, tries = _UNUSUAL_MIN, range(tries_from, self._count - _RUN_MIN + 1)
        while self.index < until:
            passed = pass_usual(self._data, self.at, self.index, until, tries, keyless=self._keyless is None)
            if passed.records:
                self.at, self.index, self.last_at = passed.at, self.index + passed.records, passed.last_at
            if passed.are_same:
                return True
            # Where few records are usual, the search for them must not cost more than it saves.
            pause = _UNUSUAL_MIN if passed.records >= _UNUSUAL_MIN else min(2 * pause, _UNUSUAL_MAX)
            end = min(until, self.index + pause)
            if self.index < end and self._one_by_one(end, tries_from):
                return True
        return False

    def _one_by_one(self, until: int, tries_from: int) -> bool:  # noqa: C901
        """Walk record by record: to `until`, or until some neighbours, from `tries_from` on, were equally long."""
        data, keyless = self._data, self._keyless
        at = begin = self.at
        index, longer, tries_until = self.index, decode_unsigned, self._count - _RUN_MIN
        last_length, same = -1, 0
        try:
            while index < until:
                begin = at
                length = data[at]
                at += 1
                if length > 0x7F:
                    if (high := data[at]) < 0x80:
                        length += (high - 1) * 0x80
                        at += 1
                    else:
                        length, at = longer(data, at - 1)
                end = at + (length >> 1)
                at += 1  # the attributes, which nothing uses
                if data[at] > 0x7F:
                    if data[at + 1] > 0x7F:
                        at = self._skip_timestamp(at)
                    else:
                        at += 2
                else:
                    at += 1
                delta = data[at]
                at += 1
                if delta > 0x7F:
                    if (high := data[at]) < 0x80:
                        delta += (high - 1) * 0x80
                        at += 1
                    elif (highest := data[at + 1]) < 0x80:
                        delta += (high - 1) * 0x80 + (highest - 1) * 0x4000
                        at += 2
                    else:
                        delta, at = longer(data, at - 1)
                size = data[at]
                at += 1
                if size > 0x7F:
                    size, at = longer(data, at - 1)
                if size & 1:
                    if size != 1:
                        raise CorruptBatch(f"its key has {_signed(size)} bytes")
                    if keyless is not None:
                        keyless.append(index)
                else:
                    at += size >> 1
                size = data[at]
                at += 1
                if size > 0x7F:
                    if (high := data[at]) < 0x80:
                        size += (high - 1) * 0x80
                        at += 1
                    else:
                        size, at = longer(data, at - 1)
                if size & 1:
                    if size != 1:
                        raise CorruptBatch(f"its value has {_signed(size)} bytes")
                else:
                    at += size >> 1
                if data[at]:
                    at = self._skip_headers(at, end)
                else:
                    at += 1
                if at != end or length & 1:
                    raise CorruptBatch(
                        f"its length is given as {_signed(length)}, and its fields end {at - end} bytes off"
                    )
                if delta != index << 1:
                    raise CorruptBatch(f"its offset delta is {_signed(delta)}")
                index += 1
                if length == last_length:
                    same += 1
                    if same >= _SAME_BEFORE_RUN and tries_from <= index <= tries_until:
                        return True
                else:
                    last_length, same = length, 0
        finally:
            self.at, self.index, self.last_at = at, index, begin
        return False

    def _take_run(self, shape: Shape | None) -> int:
        """Pass the records that have this shape. Gives how many there were."""
        data, first, piece = self._data, self.index, _RUN_FIRST
        while shape is not None and self.index < self._count:
            if shape.delta_size < delta_size(self.index):
                shape = shape.longer
            left = min(same_size_until(self.index), self._count) - self.index
            wanted = min(piece, left, (len(data) - self.at) // shape.stride)
            count = shape.count(data, self.at, self.index, wanted)
            if count:
                self._pass(shape, count)
            if count < wanted or not count:
                break
            piece = min(piece * _RUN_GROWTH, _RUN_MAX)
        return self.index - first

    def _pass(self, shape: Shape, count: int) -> None:
        if self._keyless is not None and not shape.has_key:
            self._keyless.extend(range(self.index, self.index + count))
        if shape.headers:
            self._count_headers(count * shape.headers)
        self.at += count * shape.stride
        self.index += count
        self.last_at = self.at - shape.stride

    def _count_headers(self, count: int) -> None:
        self._elements_left -= count
        if self._elements_left < 0:
            raise BatchTooLarge(
                f"a batch of more than {self._elements_max} records and headers, the most that is allowed: send smaller"
                " batches"
            )

    def _skip_timestamp(self, at: int) -> int:
        """Where a timestamp delta of three bytes or more ends."""
        data, begin = self._data, at
        while data[at] > 0x7F:
            at += 1
        at += 1
        if at - begin > TIMESTAMP_BYTES_MAX:
            zigzag, at = decode_unsigned(data, begin, 64)
            timestamp = self._base_timestamp + _signed(zigzag)
            if not _INT64_MIN <= timestamp <= _INT64_MAX:
                raise CorruptBatch(f"its timestamp is {timestamp}")
        return at

    def _skip_headers(self, at: int, end: int) -> int:
        """Where the headers that begin here end."""
        data = self._data
        zigzag, at = decode_unsigned(data, at)
        count = zigzag >> 1
        if zigzag & 1 or count > end - at:
            raise CorruptBatch(f"it has {_signed(zigzag)} headers in {end - at} bytes")
        self._count_headers(count)
        is_key = True
        for _ in range(2 * count):
            size = data[at]
            at += 1
            if size > 0x7F:
                size, at = decode_unsigned(data, at - 1)
            if not size & 1:
                at += size >> 1
            elif is_key or size != 1:
                raise CorruptBatch(f"a header has a {'key' if is_key else 'value'} of {_signed(size)} bytes")
            is_key = not is_key
        return at


def _signed(zigzag: int) -> int:
    return zigzag >> 1 ^ -(zigzag & 1)
