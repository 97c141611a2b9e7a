"""The check that the records of a batch can be read. It makes no objects of them.

A batch is acknowledged only if every reader gets through it: it holds as many records as its header says, their offset
deltas are 0, 1, 2, …, each record is as long as it says, and the last one ends where the batch ends. A batch that is
wrong in one of these would stop every reader of the partition for ever.

The records of one producer often have the same shape: fields of the same lengths at the same places. After a few
neighbours of equal length, the walk compares the following records with that shape column by column: every byte that
states a length must be equal in all of them, which is one slice with a step and one comparison for thousands of
records. All other records are walked one by one, field by field.
"""

from __future__ import annotations

from typing import NamedTuple

from protocol.errors import BatchTooLarge, CorruptBatch, InvalidRecord
from protocol.varint import decode_unsigned, encode_unsigned

_BLOCK = 8192  # offset deltas of two bytes end here, and a third byte changes only here
_ONES = tuple(bytes((byte,)) for byte in range(0x100))
_EVEN = bytes(range(0, 0x80, 2))
_LOW = bytes(0x80 | number << 1 & 0x7F for number in range(_BLOCK))
_MIDDLE = bytes(number >> 6 for number in range(_BLOCK))
_MIDDLE_OF_THREE = bytes(0x80 | number >> 6 for number in range(_BLOCK))
_COUNT_MAX = 1 << 20  # offset deltas of three bytes end here
_ONE_BYTE = 64  # offset deltas of one byte end here
_CONTINUES_VARINT = bytes(range(0x80, 0x100))
_HEADERS_MAX = 16  # of a record in a run
_BASE_TIMESTAMP_MAX = 1 << 62  # far enough from the end of 64 bits for all deltas of up to 8 bytes
_TIMESTAMP_BYTES_MAX = 8  # longer deltas are decoded, to see whether the timestamp fits 64 bits
_SAME_BEFORE_RUN = 2
_RUN_MIN = 16
_RUN_GROWTH = 4
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1


class _Shape(NamedTuple):
    """The layout of a record: a length, one byte, a timestamp delta, an offset delta, and the rest."""

    length: bytes
    """The varint with which the record begins."""
    timestamp_size: int
    delta_size: int
    rest_size: int
    rest: tuple[tuple[int, bytes], ...]
    """Of the rest, the bytes that state lengths or the number of headers, each with its place there."""
    has_key: bool
    headers: int

    @property
    def stride(self) -> int:
        return len(self.length) + 1 + self.timestamp_size + self.delta_size + self.rest_size

    def with_longer_delta(self) -> _Shape:
        """The same, with an offset delta of one byte more."""
        length, _ = decode_unsigned(self.length, 0)
        return self._replace(length=encode_unsigned(length + 2), delta_size=self.delta_size + 1)


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

    def step(self, records: int) -> bool:
        """Check about so many more records. True when all are good; InvalidRecord names the one that is not."""
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
        """Walk one by one, and take a run of equal shapes where the lengths suggest one, though it ends behind."""
        tries_from = 0
        while self.index < until:
            start, same = self.index, self._one_by_one(until, tries_from)
            if not same:
                continue
            taken = self._take_run()
            # Where shapes change all the time, the search for runs must not cost more than it saves.
            wait = 0 if taken >= _RUN_MIN else max(2 * (self.index - start), _RUN_MIN)
            tries_from = self.index + wait

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

    def _take_run(self) -> int:
        """Pass the records that have the shape of the one before them. Gives how many there were."""
        first, size = self.index, len(self._data)
        shape = self._shape()
        pieces = 0  # how many records the last piece had, once the run is taken piece by piece
        while shape is not None and self.index < self._count:
            if shape.delta_size < _delta_size(self.index):
                shape = shape.with_longer_delta()
            left = min(_same_size_until(self.index), self._count) - self.index
            count = min(pieces * _RUN_GROWTH or left, left, (size - self.at) // shape.stride)
            if count > 0 and self._is_run(shape, count):
                self._pass(shape, count)
                pieces = pieces and count
            elif count > _RUN_MIN and not pieces:
                pieces = _RUN_MIN // _RUN_GROWTH
            else:
                break
        return self.index - first

    def _pass(self, shape: _Shape, count: int) -> None:
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

    def _is_run(self, shape: _Shape, count: int) -> bool:
        """Do the next `count` records all have this shape, and the offset deltas that they must have?"""
        data, at, stride = self._data, self.at, shape.stride
        span = (count - 1) * stride + 1
        for number in shape.length:
            if data[at : at + span : stride] != _ONES[number] * count:
                return False
            at += 1
        at += 1  # the attributes
        for _ in range(shape.timestamp_size - 1):
            if data[at : at + span : stride].translate(None, _CONTINUES_VARINT):
                return False
            at += 1
        if not data[at : at + span : stride].isascii():
            return False
        at += 1
        for column in _deltas(self.index, count):
            if data[at : at + span : stride] != column:
                return False
            at += 1
        for place, byte in shape.rest:
            start = at + place
            if data[start : start + span : stride] != byte * count:
                return False
        return True

    def _shape(self) -> _Shape | None:
        """The shape of the record that was just walked; None if no run can be compared with it."""
        data, begin, end = self._data, self.last_at, self.at
        _, at = decode_unsigned(data, begin)
        length, timestamp = data[begin:at], at + 1
        _, delta = decode_unsigned(data, timestamp, 64)
        _, key = decode_unsigned(data, delta)
        if key - delta != _delta_size(self.index - 1) or delta - timestamp > _TIMESTAMP_BYTES_MAX:
            return None
        key_size, at = decode_unsigned(data, key)
        places = [*range(key, at)]
        at += 0 if key_size & 1 else key_size >> 1
        headers, fields = 0, 1  # the value; then the headers' keys and values
        while at < end:
            begin = at
            size, at = decode_unsigned(data, at)
            places += range(begin, at)
            if fields:
                at += 0 if size & 1 else size >> 1
                fields -= 1
            else:
                headers, fields = size >> 1, size
        if headers > _HEADERS_MAX:
            return None
        rest = tuple((place - key, data[place : place + 1]) for place in places)
        return _Shape(length, delta - timestamp, key - delta, end - key, rest, not key_size & 1, headers)

    def _skip_timestamp(self, at: int) -> int:
        """Where a timestamp delta of three bytes or more ends."""
        data, begin = self._data, at
        while data[at] > 0x7F:
            at += 1
        at += 1
        if at - begin > _TIMESTAMP_BYTES_MAX:
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


def _delta_size(index: int) -> int:
    """The bytes of this record's offset delta, if it is written as short as can be."""
    return 1 if index < _ONE_BYTE else 2 if index < _BLOCK else 3


def _same_size_until(index: int) -> int:
    """Where offset deltas get longer, or where the third byte of them changes."""
    return _ONE_BYTE if index < _ONE_BYTE else (index // _BLOCK + 1) * _BLOCK


def _deltas(first: int, count: int) -> tuple[bytes, ...]:
    """The bytes of `count` offset deltas from `first` on, column by column."""
    if first < _ONE_BYTE:
        return (_EVEN[first : first + count],)
    at = first % _BLOCK
    low = _LOW[at : at + count]
    if first < _BLOCK:
        return low, _MIDDLE[at : at + count]
    return low, _MIDDLE_OF_THREE[at : at + count], _ONES[first // _BLOCK] * count


def _signed(zigzag: int) -> int:
    return zigzag >> 1 ^ -(zigzag & 1)
