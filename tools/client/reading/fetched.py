"""The whole batches of one partition in a Fetch response, without control batches and aborted transactions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from crc32c import crc32c

from protocol.errors import CorruptBatch
from protocol.messages.fetch import AbortedTransaction
from protocol.records.batches import BatchHeader, ControlType, control_type, read_header, records
from protocol.records.record import Record
from protocol.schema.declaration import Buffer
from tools.client.metadata import TopicPartition

_CRC_FROM = 21
_SIZE_FROM, _SIZE_TO = 8, 12


class RawBatch(NamedTuple):
    """One record batch in the format of the log. Its records before `first_offset` are to be skipped."""

    where: TopicPartition
    header: BatchHeader
    data: memoryview
    first_offset: int

    def check(self) -> None:
        """Raise CorruptBatch if the checksum does not match."""
        found = crc32c(self.data[_CRC_FROM:])
        if found != self.header.crc:
            raise CorruptBatch(
                f"{self.where}: the batch at offset {self.header.base_offset} has CRC {found:#010x}, "
                f"its header says {self.header.crc:#010x}"
            )

    def records(self, bytes_max: int) -> list[Record]:
        """Its records from `first_offset` on. Raises ProtocolError if they take more bytes decompressed."""
        made = records(self.data, limit=bytes_max)
        if made and made[0].offset < self.first_offset:
            return [record for record in made if record.offset >= self.first_offset]
        return made


class Fetched:
    """Batches of one answer, taken one by one.

    `aborted` are aborted transactions by producer and first offset: the batches of that producer from there to its
    abort marker are hidden.
    """

    def __init__(
        self,
        where: TopicPartition,
        data: Buffer,
        first_offset: int,
        aborted: Iterable[AbortedTransaction] | None = None,
    ) -> None:
        self.where = where
        self.size = 0
        self.next_offset = first_offset
        """The offset after the last batch that was taken or skipped."""
        self.end_offset = first_offset
        """The offset after the last batch."""
        self.last_epoch = -1
        self.is_cut = False
        """Is the first batch incomplete, because it is larger than the request's limit?"""
        self._batches: deque[tuple[BatchHeader, memoryview]] = deque()
        self._aborted = deque(sorted(aborted or (), key=lambda one: one.first_offset))
        self._aborting: set[int] = set()
        view = memoryview(data)
        at = 0
        # After the last whole batch there may be a part of one, cut off by the request's limit.
        while len(view) - at >= _SIZE_TO:
            size = int.from_bytes(view[at + _SIZE_FROM : at + _SIZE_TO], "big") + _SIZE_TO
            if size > len(view) - at:
                break
            header = read_header(view, at)
            self._batches.append((header, view[at : at + size]))
            self.end_offset = max(self.end_offset, header.next_offset)
            self.last_epoch = header.leader_epoch
            at += size
        self.size = at
        self.is_cut = not self._batches and len(view) > 0

    def take(self) -> RawBatch | None:
        """The next visible batch; None at the end."""
        while self._batches:
            header, data = self._batches.popleft()
            first_offset = self.next_offset
            if header.last_offset < first_offset:
                continue
            self.next_offset = header.next_offset
            if not self._is_hidden(header, data):
                return RawBatch(self.where, header, data, first_offset)
        self.next_offset = max(self.next_offset, self.end_offset)
        return None

    def _is_hidden(self, header: BatchHeader, data: memoryview) -> bool:
        while self._aborted and self._aborted[0].first_offset <= header.last_offset:
            self._aborting.add(self._aborted.popleft().producer_id)
        if header.is_control:
            if header.producer_id in self._aborting and _is_abort(data):
                self._aborting.remove(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._aborting


def _is_abort(data: memoryview) -> bool:
    (marker,) = records(data, limit=len(data))
    return control_type(marker) is ControlType.ABORT
