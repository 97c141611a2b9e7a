"""The timestamps of a batch's records, one after the other, without the rest of them."""

from __future__ import annotations

from collections.abc import Iterator

from protocol.errors import CorruptBatch
from protocol.records.varint import decode_unsigned


def record_times(
    data: bytes, count: int, base_timestamp: int, base_offset: int = 0, first_offset: int | None = None
) -> Iterator[tuple[int, int]]:
    """Offset and timestamp of each of `count` records from `first_offset` on, read only when it is asked for.

    Of each record, the fields behind its offset are passed over, as its length says.
    """
    longer, at = decode_unsigned, 0
    first_delta = 0 if first_offset is None else (first_offset - base_offset) << 1
    try:
        for _ in range(count):
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
            since = data[at]
            at += 1
            if since > 0x7F:
                if (high := data[at]) < 0x80:
                    since += (high - 1) * 0x80
                    at += 1
                else:
                    since, at = longer(data, at - 1, 64)
            delta = data[at]
            if delta > 0x7F:
                if (high := data[at + 1]) < 0x80:
                    delta += (high - 1) * 0x80
                    at += 1
                elif (highest := data[at + 2]) < 0x80:
                    delta += (high - 1) * 0x80 + (highest - 1) * 0x4000
                    at += 2
                else:
                    delta, at = longer(data, at)
            if length & 1 or delta & 1 or at > end:
                raise CorruptBatch(f"a record at byte {at} does not add up")
            if delta >= first_delta:
                yield base_offset + (delta >> 1), base_timestamp + (since >> 1 ^ -(since & 1))
            at = end
    except IndexError:
        raise CorruptBatch(f"the {count} records run past the end, byte {len(data)}") from None
