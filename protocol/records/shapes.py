"""Records of one shape: fields of the same lengths at the same places, one record right behind the other.

The records of one producer often have the same shape. Whether many records in a row have it is then one comparison for
each byte that states a length: a slice with a step gathers that byte of all of them.

A shape is read off a record that was walked. It is remembered under the first bytes of that record, because the next
batch of the same producer begins alike. A remembered shape is a guess: every byte that states a length is compared.
"""

from __future__ import annotations

from protocol.records.varint import decode_unsigned, encode_unsigned

_BLOCK = 8192  # offset deltas of two bytes end here, and a third byte changes only here
_ONE_BYTE = 64  # offset deltas of one byte end here
_ONES = tuple(bytes((byte,)) for byte in range(0x100))
_EVEN = bytes(range(0, 0x80, 2))
_LOW = bytes(0x80 | number << 1 & 0x7F for number in range(_BLOCK))
_MIDDLE = bytes(number >> 6 for number in range(_BLOCK))
_MIDDLE_OF_THREE = bytes(0x80 | number >> 6 for number in range(_BLOCK))
_ENDS_VARINT = bytes(range(0x80))
_CONTINUES_VARINT = bytes(range(0x80, 0x100))
_HEADERS_MAX = 16  # of a record in a run
TIMESTAMP_BYTES_MAX = 8
"""Longer timestamp deltas are decoded, to see whether the timestamp fits 64 bits."""
_HINT_BYTES = 2
_REMEMBERED_MAX = 1024

_remembered: dict[tuple[bytes, int], Shape] = {}


class Shape:
    """The layout of a record: a length, one byte, a timestamp delta, an offset delta, and the rest."""

    __slots__ = (
        "_constants", "_delta_at", "_length", "_longer", "_rest", "_timestamp_at", "_timestamp_end", "delta_size",
        "has_key", "headers", "stride",
    )  # fmt: skip

    def __init__(
        self,
        length: bytes,
        timestamp_size: int,
        delta_size: int,
        rest_size: int,
        rest: tuple[tuple[int, bytes], ...],
        *,
        has_key: bool,
        headers: int,
    ) -> None:
        """`rest`: the bytes behind the offset delta that state lengths or the number of headers, with their places."""
        self._length = length
        self._timestamp_at = len(length) + 1
        self._timestamp_end = self._timestamp_at + timestamp_size - 1
        self._delta_at = self._timestamp_end + 1
        self._rest = (rest_size, rest)
        self._longer: Shape | None = None
        self.delta_size = delta_size
        self.has_key = has_key
        self.headers = headers
        rest_at = self._delta_at + delta_size
        self.stride = rest_at + rest_size
        self._constants = (
            *((place, _ONES[byte]) for place, byte in enumerate(length)),
            *((rest_at + place, byte) for place, byte in rest),
        )

    @property
    def longer(self) -> Shape:
        """The same, with an offset delta of one byte more."""
        if self._longer is None:
            length, _ = decode_unsigned(self._length, 0)
            self._longer = Shape(
                encode_unsigned(length + 2), self._delta_at - self._timestamp_at, self.delta_size + 1, *self._rest,
                has_key=self.has_key, headers=self.headers,
            )  # fmt: skip
        return self._longer

    def count(self, data: bytes, at: int, index: int, count: int) -> int:
        """How many of the `count` records from `at` on have this shape, before the first one that has not.

        The first of them is record `index` of its batch. Their offset deltas must have this shape's size, and all but
        the last byte in common if there are three. `data` has room for all of them.
        """
        stride, end = self.stride, at + count * self.stride
        for place, byte in self._constants:
            column = data[at + place : end : stride]
            if column != byte * count:
                count -= len(column.lstrip(byte))
                end = at + count * stride
        column = data[at + self._timestamp_end : end : stride]
        if not column.isascii():
            count -= len(column.lstrip(_ENDS_VARINT))
            end = at + count * stride
        for place in range(self._timestamp_at, self._timestamp_end):
            column = data[at + place : end : stride]
            if column.translate(None, _CONTINUES_VARINT):
                count -= len(column.lstrip(_CONTINUES_VARINT))
                end = at + count * stride
        place = at + self._delta_at
        for column in _deltas(index, count):
            if data[place:end:stride] != column:
                return 0  # rare: such a record is wrong, or its offset delta is longer than it need be
            place += 1
        return count


def shape_of(data: bytes, begin: int, end: int, index: int) -> Shape | None:
    """The shape of the record from `begin` to `end`, which was walked; None if no run can be compared with it."""
    _, at = decode_unsigned(data, begin)
    length, timestamp = data[begin:at], at + 1
    _, delta = decode_unsigned(data, timestamp, 64)
    _, key = decode_unsigned(data, delta)
    size = key - delta
    if size != delta_size(index) or delta - timestamp > TIMESTAMP_BYTES_MAX:
        return None
    key_size, at = decode_unsigned(data, key)
    places = [*range(key, at)]
    at += 0 if key_size & 1 else key_size >> 1
    headers, fields = 0, 1  # the value; then the headers' keys and values
    while at < end:
        start = at
        number, at = decode_unsigned(data, at)
        places += range(start, at)
        if fields:
            at += 0 if number & 1 else number >> 1
            fields -= 1
        else:
            headers, fields = number >> 1, number
    if headers > _HEADERS_MAX:
        return None
    rest = tuple((place - key, data[place : place + 1]) for place in places)
    has_key = not key_size & 1
    shape = Shape(length, delta - timestamp, size, end - key, rest, has_key=has_key, headers=headers)
    if len(_remembered) >= _REMEMBERED_MAX:
        _remembered.clear()
    _remembered[data[begin : begin + _HINT_BYTES], size] = shape
    return shape


def remembered(data: bytes, at: int, index: int) -> Shape | None:
    """The shape that the record at `at`, number `index` of its batch, may well have."""
    return _remembered.get((data[at : at + _HINT_BYTES], delta_size(index)))


def delta_size(index: int) -> int:
    """The bytes of this record's offset delta, if it is written as short as can be."""
    return 1 if index < _ONE_BYTE else 2 if index < _BLOCK else 3


def same_size_until(index: int) -> int:
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
