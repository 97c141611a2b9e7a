"""Records of the usual form, of any length: they are checked with two looks each.

The form: a length and a value's length of two bytes, a timestamp delta and an offset delta of one or two bytes, a key's
length of one byte, no headers. That is a value of 64 to 8,000 bytes, and a key of up to 63 bytes or none, in a batch
that was filled within 8 s. A record of another form is not wrong: record_walk.py decides on it.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import NamedTuple

from protocol.records.shapes import delta_size, same_size_until

_HEADS = {  # length, timestamp, offset, length of the key; by the sizes of the timestamp delta and the offset delta
    (1, 1): struct.Struct("<HxBBB"),
    (1, 2): struct.Struct("<HxBHB"),
    (2, 1): struct.Struct("<HxHBB"),
    (2, 2): struct.Struct("<HxHHB"),
}
_TIMESTAMP_AT = 3
_CONTINUED = {1: (0x80, 0), 2: (0x8080, 0x80)}  # the bits that say whether a byte follows, and what they must be
_VALUE = struct.Struct("<H")
_LENGTHS = 0x8000  # two bytes, of which the second ends the number
_NEVER = -1 << 40  # a size that adds up with nothing
_SAME_MIN = 2


class Passed(NamedTuple):
    """Usual records that are good."""

    records: int
    at: int
    """Where the first one begins that was not passed."""
    last_at: int
    are_same: bool
    """Did it stop because the last ones were equally long? Such may be a run of one shape."""


@cache
def _sizes() -> list[int]:
    """What a length says that takes two bytes, by those bytes as one number, the first of them the lower."""
    sizes = [_NEVER] * _LENGTHS
    for high in range(0x80):
        for low in range(0, 0x80, 2):
            sizes[high << 8 | 0x80 | low] = (high << 7 | low) >> 1
    return sizes


@cache
def _key_sizes(*, keyless: bool) -> list[int]:
    """What a key's length of one byte says."""
    sizes = [_NEVER if byte & 1 or byte > 0x7F else byte >> 1 for byte in range(0x100)]
    if keyless:
        sizes[1] = 0
    return sizes


@cache
def _deltas(size: int) -> list[int]:
    """The offset deltas of all records whose delta has this size, as they are read."""
    if size == 1:
        return [number << 1 for number in range(64)]
    return [(number >> 6) << 8 | 0x80 | number << 1 & 0x7F for number in range(8192)]


def pass_usual(data: bytes, at: int, index: int, until: int, tries: range, *, keyless: bool) -> Passed:
    """Pass usual records from `at` on, the first of which is number `index`, before number `until`.

    It stops before a record that is not usual or not good, where an offset delta or a timestamp delta gets longer, and,
    if the next number is one of `tries`, behind neighbours that are equally long. A record without a key is usual only
    if `keyless`.
    """
    size, first, last_at = delta_size(index), index, at
    since_size = 2 if data[at + _TIMESTAMP_AT : at + _TIMESTAMP_AT + 1] > b"\x7f" else 1
    head = _HEADS.get((since_size, size))
    if head is None:
        return Passed(0, at, at, are_same=False)
    unpack, head_size, value_length = head.unpack_from, head.size, _VALUE.unpack_from
    sizes, key_sizes, (continued, ends) = _sizes(), _key_sizes(keyless=keyless), _CONTINUED[since_size]
    last_length, same = -1, 0
    try:
        for delta in _deltas(size)[index : min(until, same_size_until(index))]:
            length, since, found, key = unpack(data, at)
            value_at = at + head_size + key_sizes[key]
            (value,) = value_length(data, value_at)
            end = at + 2 + sizes[length]
            if found != delta or since & continued != ends or value_at + 3 + sizes[value] != end or data[end - 1]:
                break
            last_at, at = at, end
            index += 1
            if length == last_length:
                same += 1
                if same >= _SAME_MIN and index in tries:
                    return Passed(index - first, at, last_at, are_same=True)
            else:
                last_length, same = length, 0
    except (struct.error, IndexError):
        pass  # a longer varint, or the end of the data: not usual
    return Passed(index - first, at, last_at, are_same=False)
