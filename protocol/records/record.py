"""The records inside a batch, once decompressed.

    length           varint   of what follows
    attributes       i8       nothing uses them
    timestamp delta  varlong
    offset delta     varint
    key              varint length, bytes; length −1 is null
    value            varint length, bytes; length −1 is null
    headers          varint count, then each a key (length, UTF-8) and a value (length, bytes; length −1 is null)

The two loops are written out, field by field: a function per field would take twice the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from protocol.errors import CorruptBatch, InvalidRecord
from protocol.records.varint import decode_unsigned, decode_varint, encode_varint, encode_varlong

Headers = tuple[tuple[str, bytes | None], ...]

_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
_VARINTS = tuple(  # what most lengths and deltas are: one or two bytes
    bytes((number << 1,)) if number < 0x40 else bytes((number << 1 & 0x7F | 0x80, number >> 6))
    for number in range(2048)
)
_NULL = encode_varint(-1)


class Record(NamedTuple):
    """One record, with its own offset and timestamp rather than the batch's deltas.

    A header's key is text. Bytes in it that are not UTF-8 survive as surrogates and are written back as they were.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def iterate_records(  # noqa: C901
    data: bytes,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    start: tuple[int, int] = (0, 0),
) -> Iterator[Record]:
    """The `count` records that fill `data`, each made when it is asked for.

    With an append time, that is the timestamp of each. `start` is the number and the position of the first one.
    """
    new, longer = tuple.__new__, decode_unsigned
    (number, at), size, delta_before = start, len(data), -1
    # Every number below is still zigzagged when it is read: its lowest bit is the sign. A second byte that ends it adds
    # 0x80 for each of its units, less the 0x80 that only said that it follows.
    try:
        for number in range(start[0], count):
            length = data[at]
            at += 1
            if length > 0x7F:
                if (high := data[at]) < 0x80:
                    length += (high - 1) * 0x80
                    at += 1
                else:
                    length, at = longer(data, at - 1)
            end = at + (length >> 1)
            at += 1
            timestamp = data[at]
            at += 1
            if timestamp > 0x7F:
                timestamp, at = longer(data, at - 1, 64)
            timestamp = base_timestamp + (timestamp >> 1 ^ -(timestamp & 1)) if append_time is None else append_time
            delta = data[at]
            at += 1
            if delta > 0x7F:
                if (high := data[at]) < 0x80:
                    delta += (high - 1) * 0x80
                    at += 1
                else:
                    delta, at = longer(data, at - 1)
            key_size = data[at]
            at += 1
            if key_size > 0x7F:
                if (high := data[at]) < 0x80:
                    key_size += (high - 1) * 0x80
                    at += 1
                else:
                    key_size, at = longer(data, at - 1)
            if key_size & 1:
                if key_size != 1:
                    raise _bad_length(number, "key", key_size)
                key = None
            else:
                begin = at
                at += key_size >> 1
                key = data[begin:at]
            value_size = data[at]
            at += 1
            if value_size > 0x7F:
                if (high := data[at]) < 0x80:
                    value_size += (high - 1) * 0x80
                    at += 1
                else:
                    value_size, at = longer(data, at - 1)
            if value_size & 1:
                if value_size != 1:
                    raise _bad_length(number, "value", value_size)
                value = None
            else:
                begin = at
                at += value_size >> 1
                value = data[begin:at]
            if data[at]:
                headers, at = _read_headers(data, at, end)
            else:
                headers = ()
                at += 1
            # A slice past the end is only shorter, but then the record does not end where its length says.
            if at != end or length & 1:
                raise _bad_length(number, "record", length)
            if delta <= delta_before or delta & 1:
                raise CorruptBatch(f"record {number} has offset delta {_signed(delta)} after {_signed(delta_before)}")
            if not _INT64_MIN <= timestamp <= _INT64_MAX:
                raise CorruptBatch(f"record {number} has timestamp {timestamp}")
            delta_before = delta
            yield new(Record, (base_offset + (delta >> 1), timestamp, key, value, headers))
    except IndexError:
        raise _runs_past_the_end(number, count, size) from None
    if at != size:
        raise CorruptBatch(f"{count} records end at byte {at} of {size}")


def pass_over(data: bytes, first_delta: int, begin: tuple[int, int], end: int, count: int) -> tuple[int, int]:
    """Number and position of the first record whose offset delta is `first_delta` or more, or of that numbered `end`.

    It looks from `begin` on, at nothing but lengths and deltas.
    """
    longer, first = decode_unsigned, first_delta << 1  # deltas are zigzagged, as above
    number, at = begin
    try:
        for number in range(begin[0], end):
            start = at
            length = data[at]
            at += 1
            if length > 0x7F:
                if (high := data[at]) < 0x80:
                    length += (high - 1) * 0x80
                    at += 1
                else:
                    length, at = longer(data, at - 1)
            following = at + (length >> 1)
            at += 1
            while data[at] > 0x7F:
                at += 1
            at += 1
            delta = data[at]
            if delta > 0x7F:
                if (high := data[at + 1]) < 0x80:
                    delta += (high - 1) * 0x80
                else:
                    delta, at = longer(data, at)
            if delta >= first:
                return number, start
            at = following
    except IndexError:
        raise _runs_past_the_end(number, count, len(data)) from None
    return end, at


def _runs_past_the_end(number: int, count: int, size: int) -> CorruptBatch:
    return CorruptBatch(f"record {number} of {count} runs past the end, byte {size}")


def _signed(zigzag: int) -> int:
    return zigzag >> 1 ^ -(zigzag & 1)


def _bad_length(number: int, what: str, size: int) -> CorruptBatch:
    return CorruptBatch(f"record {number} does not add up: the length of its {what} is given as {_signed(size)}")


def _read_headers(data: bytes, at: int, end: int) -> tuple[Headers, int]:
    count, at = decode_varint(data, at)
    if not 0 <= count <= end - at:
        raise CorruptBatch(f"{count} headers in {end - at} bytes")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size = data[at]
        at += 1
        if size > 0x7F:
            size, at = decode_unsigned(data, at - 1)
        begin = at
        at += size >> 1
        if size & 1 or at > end:
            raise CorruptBatch(f"a header key of {_signed(size)} bytes in {end - begin}")
        key = data[begin:at].decode("utf-8", "surrogateescape")
        size = data[at]
        at += 1
        if size > 0x7F:
            size, at = decode_unsigned(data, at - 1)
        if size == 1:
            headers.append((key, None))
            continue
        begin = at
        at += size >> 1
        if size & 1 or at > end:
            raise CorruptBatch(f"a header value of {_signed(size)} bytes in {end - begin}")
        headers.append((key, data[begin:at]))
    return tuple(headers), at


def write_records(records: Sequence[Record], base_offset: int, base_timestamp: int) -> bytearray:
    """The bytes of these records. Their offsets rise from `base_offset` on, with or without gaps."""
    out = bytearray()
    table, table_size, longer, join = _VARINTS, len(_VARINTS), encode_varint, b"".join
    delta_before = -1
    for offset, timestamp, key, value, headers in records:
        delta = offset - base_offset
        if delta <= delta_before:
            raise ValueError(f"offset {offset} cannot follow offset {base_offset + delta_before}")
        delta_before = delta
        since = timestamp - base_timestamp
        if key is None:
            key_size, key = _NULL, b""  # noqa: PLW2901
        else:
            length = len(key)
            key_size = table[length] if length < table_size else longer(length)
        if value is None:
            value_size, value = _NULL, b""  # noqa: PLW2901
        else:
            length = len(value)
            value_size = table[length] if length < table_size else longer(length)
        body = join((
            b"\0",
            table[since] if 0 <= since < table_size else encode_varlong(since),
            table[delta] if delta < table_size else longer(delta),
            key_size,
            key,
            value_size,
            value,
            _write_headers(headers) if headers else b"\0",
        ))  # fmt: skip
        length = len(body)
        out += table[length] if length < table_size else longer(length)
        out += body
    return out


def _write_headers(headers: Headers) -> bytes:
    parts = [encode_varint(len(headers))]
    for key, value in headers:
        try:
            encoded = key.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise InvalidRecord(f"the header key {key!r} is not text: {error.reason}") from None
        parts += _sized(encoded)
        parts += (_NULL,) if value is None else _sized(value)
    return b"".join(parts)


def _sized(data: bytes) -> tuple[bytes, bytes]:
    size = len(data)
    return _VARINTS[size] if size < len(_VARINTS) else encode_varint(size), data
