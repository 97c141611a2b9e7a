"""A consumer's partitions and positions, and the records that are decoded but not returned to the user yet.

On the user's thread, one at a time; state that the loop's thread reads too is under `changed`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection

from protocol.errors import ProtocolError
from protocol.records.record import Record
from tools.client.errors import ClientError
from tools.client.group_offsets import Committed
from tools.client.metadata import TopicPartition
from tools.client.network.cluster import Cluster
from tools.client.reading.fetched import RawBatch
from tools.client.reading.fetcher import Assigned, Fetcher, Fetching

BATCH_BYTES_MAX = 256 << 20  # decompressed
Where = tuple[str, int]
Records = dict[TopicPartition, list[Record]]


class Corrupt(ClientError):
    """A batch does not match its checksum or its counts. The position stays before it; `seek` past it to continue."""


class Reading:
    """Takes fetched batches, decodes them, and keeps the records that `poll` had no room for."""

    def __init__(self, cluster: Cluster, fetching: Fetching, *, check_crcs: bool) -> None:
        self.changed = threading.Condition()
        self.fetcher = Fetcher(cluster, fetching, self.changed)
        self.is_interrupted: Callable[[], bool] = lambda: False
        """Has the user's thread to do something before it reads on?"""
        self._loop = cluster.loop
        self._check_crcs = check_crcs
        self._left: deque[tuple[TopicPartition, list[Record]]] = deque()

    # -- partitions --------------------------------------------------------------------------------------------------

    def assign(self, starts: dict[TopicPartition, tuple[int | None, int | None]]) -> None:
        """Read these and no others, from the arguments of `Assigned.seek`. Unchanged positions keep their records."""
        assigned = {}
        decoded = {where for where, _ in self._left}
        for where, (offset, wanted) in starts.items():
            before = self.fetcher.assigned.get(where)
            goes_on = before is not None and before.position == offset and before.error is None
            if before is not None and goes_on and where not in decoded:
                assigned[where] = before
            else:
                assigned[where] = one = Assigned(where, None)
                one.seek(offset, wanted)
        with self.changed:
            self._left.clear()
            self._replace(assigned)
        self._loop.soon(self.fetcher.pump)

    def add(self, wheres: Collection[TopicPartition]) -> list[Assigned]:
        """Add partitions whose positions are set later."""
        added = [Assigned(where, None) for where in wheres]
        for one in added:
            one.seek(None)
            one.is_asking = True
        with self.changed:
            self._replace({**self.fetcher.assigned, **{one.where: one for one in added}})
        return added

    def drop(self, wheres: Collection[TopicPartition]) -> None:
        """Remove partitions."""
        gone = set(wheres)
        with self.changed:
            self._replace({where: one for where, one in self.fetcher.assigned.items() if where not in gone})
        self._left = deque(left for left in self._left if left[0] not in gone)
        self._loop.soon(self.fetcher.pump)

    def _replace(self, assigned: dict[TopicPartition, Assigned]) -> None:
        self.fetcher.assigned = assigned
        self.fetcher.buffered = sum(one.buffered for one in assigned.values())

    def of(self, where: Where) -> Assigned:
        try:
            return self.fetcher.assigned[TopicPartition(*where)]
        except KeyError:
            raise ValueError(f"{TopicPartition(*where)} is not assigned") from None

    def seek(self, where: Where, offset: int | None, wanted: int | None) -> None:
        one = self.of(where)
        with self.changed:
            self.fetcher.buffered -= one.seek(offset, wanted)
        self._left = deque(left for left in self._left if left[0] != one.where)
        self._loop.soon(self.fetcher.pump)

    def pause(self, where: Where) -> None:
        one = self.of(where)
        one.is_paused = True
        decoded = self._first_left(one.where)
        if decoded is not None:
            self.seek(one.where, decoded, None)

    def resume(self, where: Where) -> None:
        self.of(where).is_paused = False
        self._loop.soon(self.fetcher.pump)

    def position(self, one: Assigned) -> int:
        """The offset after the last returned record; −1 while it is not known."""
        decoded = self._first_left(one.where)
        return one.position if decoded is None else decoded

    def positions(self) -> dict[TopicPartition, Committed]:
        """The known positions, as offsets to commit."""
        known = {}
        for where, one in self.fetcher.assigned.items():
            decoded = self._first_left(where)
            if decoded is not None:
                known[where] = Committed(decoded)
            elif one.position >= 0:
                known[where] = Committed(one.position, one.epoch)
        return known

    def _first_left(self, where: TopicPartition) -> int | None:
        return next((records[0].offset for other, records in self._left if other == where), None)

    # -- reading -----------------------------------------------------------------------------------------------------

    @property
    def has_records(self) -> bool:
        return bool(self._left)

    def give(self, room: int) -> Records:
        """At most so many decoded records."""
        given: Records = {}
        while self._left and room > 0:
            where, records = self._left.popleft()
            taken = records[:room]
            room -= len(taken)
            given.setdefault(where, []).extend(taken)
            if len(taken) < len(records):
                self._left.appendleft((where, records[len(taken) :]))
        return given

    def decode_more(self, seconds: float, max_records: int) -> bool:
        """Decode the next batches. False if none came in time, or the user's thread has a task first."""
        batches = self._take(seconds, max_records, by_bytes=False)
        self._decode(batches)
        return bool(batches)

    def batches(self, seconds: float, max_bytes: int) -> list[RawBatch]:
        batches = self._take(seconds, max_bytes, by_bytes=True)
        if self._check_crcs:
            for at, batch in enumerate(batches):
                try:
                    batch.check()
                except ProtocolError as error:
                    self._give_back(batches[at:])
                    if at == 0:
                        raise Corrupt(str(error)) from error
                    return batches[:at]
        return batches

    def _take(self, seconds: float, room: int, *, by_bytes: bool) -> list[RawBatch]:
        """Batches until they have so many records or bytes; the last one may exceed that.

        Empty if none came in time, or the user's thread has a task first.
        """
        deadline = time.monotonic() + seconds
        taken: list[RawBatch] = []
        while not taken:
            with self.changed:
                if not self.changed.wait_for(self._has_news, max(deadline - time.monotonic(), 0.0)):
                    break
                if self.fetcher.closed is not None:
                    raise self.fetcher.closed
                if self.is_interrupted():
                    break
                for one in list(self.fetcher.assigned.values()):
                    if not one.is_paused and room > 0:
                        room -= self._take_from(one, room, taken, by_bytes=by_bytes)
                self._rotate()
            self._loop.soon(self.fetcher.pump)
        return taken

    def _take_from(self, one: Assigned, room: int, taken: list[RawBatch], *, by_bytes: bool) -> int:
        """Add batches of one partition to `taken` and return their size. An error is raised after all good batches."""
        if one.error is not None and not one.fetched and not taken:
            raise one.error
        size = 0
        while one.fetched and size < room:
            fetched = one.fetched[0]
            batch = fetched.take()
            one.position = fetched.next_offset
            if batch is None:
                one.fetched.popleft()
                one.buffered -= fetched.size
                self.fetcher.buffered -= fetched.size
            else:
                taken.append(batch)
                one.epoch = batch.header.leader_epoch
                size += batch.header.size if by_bytes else batch.header.record_count
        return size

    def _has_news(self) -> bool:
        if self.fetcher.closed is not None or self.is_interrupted():
            return True
        return any((one.fetched or one.error) and not one.is_paused for one in self.fetcher.assigned.values())

    def _rotate(self) -> None:
        """Begin with another partition next time."""
        assigned = self.fetcher.assigned
        if len(assigned) > 1:
            first = next(iter(assigned))
            one = assigned.pop(first)
            assigned[first] = one

    def _decode(self, batches: list[RawBatch]) -> None:
        for at, batch in enumerate(batches):
            try:
                if self._check_crcs:
                    batch.check()
                records = batch.records(BATCH_BYTES_MAX)
            except ProtocolError as error:
                self._give_back(batches[at:])
                if not self._left:
                    raise Corrupt(f"{batch.where} at offset {batch.first_offset}: {error}") from error
                return
            if records:
                self._left.append((batch.where, records))

    def _give_back(self, batches: list[RawBatch]) -> None:
        """Read these batches again later: the error of a damaged one is raised when it is the first."""
        firsts: dict[TopicPartition, int] = {}
        for batch in batches:
            firsts.setdefault(batch.where, batch.first_offset)
        with self.changed:
            for where, first in firsts.items():
                self.fetcher.buffered -= self.of(where).seek(first)
        self._loop.soon(self.fetcher.pump)
