"""Aborted transactions of a segment, in Kafka's `.txnindex` format: small, so it is read whole.

A reader that wants only committed records is given the aborted transactions that overlap what it reads. An entry
belongs to the segment that holds its abort marker.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from log.errors import DamagedFile
from protocol.late_attrs import frozen

_ENTRY = struct.Struct(">hqqqq")
_VERSION = 0


@frozen(slots=True)
class AbortedTransaction:
    """A transaction that was aborted: its first record, its marker, and the last stable offset at that time."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    def encode(self) -> bytes:
        return _ENTRY.pack(_VERSION, self.producer_id, self.first_offset, self.last_offset, self.last_stable_offset)


def decode_transactions(data: bytes, path: str) -> list[AbortedTransaction]:
    """Read a whole `.txnindex` file."""
    if len(data) % _ENTRY.size:
        raise DamagedFile(f"{path} has {len(data)} bytes, which is no whole number of {_ENTRY.size}-byte entries")
    transactions = []
    for version, *values in _ENTRY.iter_unpack(data):
        if version > _VERSION:
            raise DamagedFile(f"{path} has an entry of version {version}; {_VERSION} is known here")
        transactions.append(AbortedTransaction(*values))
    return transactions


def whole_transactions(data: bytes) -> list[AbortedTransaction]:
    """What can be read of a `.txnindex` file whose end a crash may have torn."""
    transactions: list[AbortedTransaction] = []
    for version, *values in _ENTRY.iter_unpack(data[: len(data) - len(data) % _ENTRY.size]):
        transaction = AbortedTransaction(*values)
        last_offset = transactions[-1].last_offset if transactions else -1
        if version != _VERSION or not transaction.first_offset < transaction.last_offset > last_offset:
            break
        transactions.append(transaction)
    return transactions


def overlapping(
    transactions: Iterable[AbortedTransaction], start_offset: int, end_offset: int
) -> list[AbortedTransaction]:
    """The transactions of which a reader of [start, end) may see records."""
    return [
        transaction
        for transaction in transactions
        if transaction.last_offset >= start_offset and transaction.first_offset < end_offset
    ]
