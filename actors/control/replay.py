"""The metadata machine: it applies the committed records of the metadata log to this broker's copy.

A record is applied when it is committed and on this broker's own disk. A leader may know that others have a record on
their disks before its own disk does. If a broker acted on such a record, the replicas that it makes would outlive a
power cut, and the record that wants them would not: they would be removed as unwanted replicas.

The copy is *complete* when this broker has replayed what it had applied before its last start. Until then, a topic that
is missing in the copy may exist in the cluster, so nothing is removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from log.machines.metadata.records import decode
from protocol.errors import ProtocolError
from protocol.records.batches import RecordBatches, check_batches, records

if TYPE_CHECKING:
    from log.machines.metadata.metadata import Metadata
    from log.replica.member import Member

_READ_BYTES = 1 << 20


class DamagedBatches(Exception):
    """The disk has damaged the metadata log at `offset`."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset


class Replay:
    """See the module's docstring."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._end_at_start = 0
        """The end of the log when it was opened."""
        self._lacks_something = False
        """Did this broker lose metadata that it had applied? Until it is back, the copy is incomplete."""

    def begin(self, member: Member) -> None:
        """The log is open."""
        self._end_at_start = member.log.end_offset
        self._lacks_something = not member.node.eligible

    @property
    def lacks_something(self) -> bool:
        return self._lacks_something

    def apply(self, member: Member) -> frozenset[str] | None:
        """Apply the new committed records. Gives the ids of the changed topics; None if there are no new records."""
        metadata, end = self._metadata, self._applicable_end(member)
        if metadata.applied >= end:
            return None
        touched: set[str] = set()
        while metadata.applied < end:
            batches = self._read(member, end)
            for position, header in zip(batches.positions, batches.headers, strict=True):
                if header.base_offset < metadata.applied:
                    continue
                if not header.is_control:
                    touched |= self._apply_batch(batches.data, position)
                metadata.applied = header.next_offset
        return frozenset(touched)

    def is_complete(self, member: Member) -> bool:
        """Has this broker replayed what it had applied before its last start?"""
        if self._lacks_something:
            return False
        return self._has_applied(member, min(self._end_at_start, member.log.end_offset))

    def look_for_the_rest(self, member: Member) -> None:
        """Is lost metadata back? Then a leader has completed the log (the member is eligible), and it is applied."""
        if self._lacks_something:
            self._lacks_something = not (member.node.eligible and self._has_applied(member, member.log.end_offset))

    def _applicable_end(self, member: Member) -> int:
        return min(member.node.watermark, member.log.flushed_offset)

    def _read(self, member: Member, end: int) -> RecordBatches:
        offset = self._metadata.applied
        try:
            return check_batches(member.log.read(offset, _READ_BYTES, up_to=end).read())
        except ProtocolError as error:
            raise DamagedBatches(offset, str(error)) from error

    def _apply_batch(self, data: memoryview, position: int) -> set[str]:
        touched = set()
        for record in records(data, position, limit=len(data)):
            assert record.value is not None, "a metadata record has a value"
            topic_id = self._metadata.apply(decode(record.value))
            if topic_id is not None:
                touched.add(topic_id)
        return touched

    def _has_applied(self, member: Member, end: int) -> bool:
        """Is every committed record below `end` applied?

        Records of a deposed leader may stay in this log until more comes. They are not waited for.
        """
        role = member.node.role
        if role.certain_watermark is not None:
            end = min(end, role.certain_watermark)
        return self._metadata.applied >= end
