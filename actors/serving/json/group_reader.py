"""What a connection reads as a member of a group: records of the partitions that are assigned to it, for its polls.

A poll begins a read of every partition without records here, at its leader, and is answered with the first that come.
What comes later lies here until the next poll. A partition that was given away takes what was read of it along.

Records are chosen from a read, and written for a poll, in slices. The records of an answer are taken at once, together
with the assignment at that moment: partitions may come and go before all of it is written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attrs import field

from actors.messages.replica import FindOffset, ReadRecords, ReadResult
from actors.serving.json import reading
from actors.serving.json.at_leader import AtLeader
from actors.serving.json.membership import GroupMembership, Offsets, Owned, Where
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.json.lines import Facts
from protocol.late_attrs import define, frozen
from protocol.records.record import Record

if TYPE_CHECKING:
    from actors.serving.connection import Connection
    from actors.serving.json.call import LineCall
    from log.slices import Slices

READ_BYTES = 256 << 10
KEPT_BYTES_MAX = 1 << 20
KEPT_RECORDS_MAX = 10_000
"""The most records and bytes that a partition keeps ready for polls. Few compressed bytes may contain many of both."""
READS_AT_ONCE_MAX = 16
ANSWER_SECONDS = 10.0
CROWDED_WAIT_MS = 20
"""How long a read waits for records if there are more partitions than are read at once."""


@frozen(slots=True)
class Poll:
    """One request for records, until it is answered."""

    call: LineCall[Any]
    records_max: int
    deadline: float
    told: Callable[[Record], Facts]


@define(slots=True, eq=False)
class _Lane:
    """One partition, with the records that were read of it and not yet polled."""

    owned: Owned
    records: deque[Record] = field(factory=deque)
    next_offset: int = -1
    """The next offset to read; -1 until the first one is known."""
    reading: bool = False


class GroupReader:
    """The reader of one connection."""

    def __init__(
        self,
        connection: Connection,
        group: str,
        topics: tuple[str, ...],
        begin_at: int,
        poll_seconds_max: float,
        *,
        read_committed: bool,
    ) -> None:
        """`begin_at`: EARLIEST or LATEST, where the group has committed nothing."""
        self._connection = connection
        self._begin_at = begin_at
        self._read_committed = read_committed
        self._lanes: dict[Where, _Lane] = {}
        self._polls: deque[Poll | Callable[[], None]] = deque()
        """And functions that are called once the polls before them are answered."""
        self._subscribing: list[LineCall[Any]] = []
        self._told_assignment: tuple[Where, ...] | None = None
        self.polled: Offsets = {}
        """The offset after the last record that was returned, of every partition that is still assigned."""
        self.membership = GroupMembership(connection, group, topics, poll_seconds_max, self._changed)

    # -- requests --------------------------------------------------------------------------------------------------

    def subscribed(self, call: LineCall[Any]) -> None:
        """Answer once the assignment is known."""
        self._subscribing.append(call)
        self._changed()

    def poll(self, poll: Poll) -> None:
        self.membership.used_at = self._connection.now
        self._polls.append(poll)
        self._connection.later(max(poll.deadline - self._connection.now, 0.0), self._serve)
        self._serve()

    def when_polled(self, then: Callable[[], None]) -> None:
        """Do this when every poll that came before is answered."""
        self.membership.used_at = self._connection.now
        self._polls.append(then)
        self._serve()

    def assignment(self) -> list[Facts]:
        """As answers have it."""
        topics: dict[str, list[int]] = {}
        for _, owned in sorted(self.membership.owned.items()):
            topics.setdefault(owned.topic, []).append(owned.number)
        return [{"topic": name, "partitions": sorted(which)} for name, which in sorted(topics.items())]

    # -- inside ----------------------------------------------------------------------------------------------------

    def _changed(self) -> None:
        """Partitions may have come or gone."""
        if not hasattr(self, "membership"):
            return  # it is just being made
        owned = self.membership.owned
        for where, lane in list(self._lanes.items()):
            if owned.get(where) is not lane.owned:
                del self._lanes[where]
                self.polled.pop((lane.owned.topic, lane.owned.number), None)
        for where, one in owned.items():
            lane = self._lanes.setdefault(where, _Lane(one))
            if lane.next_offset < 0 and one.position is not None and one.position >= 0:
                lane.next_offset = one.position
        if self._subscribing and (self.membership.joined or self.membership.error):
            waiting, self._subscribing = self._subscribing, []
            for call in waiting:
                if self.membership.error is not None:
                    call.refuse(*self.membership.error)
                else:
                    facts = {"group": self.membership.group, "member": self.membership.member_id}
                    call.answer(facts | self._news())
        self._serve()

    def _news(self) -> Facts:
        """The assignment, if it differs from the one that was returned last."""
        now = tuple(sorted(self.membership.owned))
        if now == self._told_assignment:
            return {}
        self._told_assignment = now
        return {"assignment": self.assignment()}

    def _serve(self) -> None:
        """Answer the polls for which records are here, and read on for the others, or for the next poll."""
        had_nothing = False
        while self._polls:
            poll = self._polls[0]
            if not isinstance(poll, Poll):
                self._polls.popleft()
                poll()
                continue
            taken = self._take(poll)
            moved = self.membership.joined and tuple(sorted(self.membership.owned)) != self._told_assignment
            over = poll.deadline <= self._connection.now
            if not taken and not moved and not over and self.membership.error is None:
                self._read()
                return
            self._polls.popleft()
            if self.membership.error is not None:
                poll.call.refuse(*self.membership.error)
            else:
                self._connection.in_slices(_tell(poll, taken, self._news()))
            had_nothing = not taken
        if had_nothing:
            self._read()

    def _take(self, poll: Poll) -> list[tuple[Facts, Record]]:
        """Take the records that are here, of one partition after the other; the next time another is first."""
        taken: list[tuple[Facts, Record]] = []
        for where in list(self._lanes):
            lane = self._lanes[where]
            beside = {"topic": lane.owned.topic, "partition": lane.owned.number}
            while lane.records and len(taken) < poll.records_max:
                record = lane.records.popleft()
                taken.append((beside, record))
                self.polled[lane.owned.topic, lane.owned.number] = record.offset + 1
            if taken:
                self._lanes[where] = self._lanes.pop(where)
            if len(taken) >= poll.records_max:
                break
        return taken

    def _read(self) -> None:
        """Read from a few partitions at once, in turn: a partition that is read comes last in the next round."""
        under_way = sum(lane.reading for lane in self._lanes.values())
        for where, lane in list(self._lanes.items()):
            if under_way >= READS_AT_ONCE_MAX:
                return
            if not lane.reading and not lane.records and lane.owned.position is not None:
                under_way += 1
                lane.reading = True
                self._lanes[where] = self._lanes.pop(where)
                if lane.next_offset < 0:
                    self._find(where, lane)
                else:
                    self._read_one(where, lane)

    def _ask(self, where: Where, lane: _Lane, question: Callable[[int], Any], then: Callable[[AtLeader], None]) -> None:
        topic = self._connection.serving.metadata.topics.get(where[0])
        if topic is None:
            lane.reading = False  # it was deleted, and will be taken away
            return

        def answered(asked: AtLeader) -> None:
            if self._lanes.get(where) is lane:
                then(asked)

        deadline = self._connection.now + ANSWER_SECONDS
        AtLeader(self._connection, topic, where[1], deadline, question, answered)

    def _find(self, where: Where, lane: _Lane) -> None:
        def found(asked: AtLeader) -> None:
            if asked.error == ErrorCode.NONE:
                lane.next_offset = asked.result.offset
            self._is_read(lane)

        self._ask(where, lane, lambda _left: FindOffset(self._begin_at, self._read_committed), found)

    def _read_one(self, where: Where, lane: _Lane) -> None:
        def question(_left: int) -> ReadRecords:
            poll = self._polls[0] if self._polls else None
            wait_ms = max(int((poll.deadline - self._connection.now) * 1000), 0) if isinstance(poll, Poll) else 0
            if len(self._lanes) > READS_AT_ONCE_MAX:
                wait_ms = min(wait_ms, CROWDED_WAIT_MS)
            return ReadRecords(lane.next_offset, READ_BYTES, 1, wait_ms, self._read_committed)

        def was_read(asked: AtLeader) -> None:
            result: ReadResult | None = asked.result
            if asked.error == ErrorCode.NONE and result is not None:
                self._connection.in_slices(self._take_in(where, lane, result))
                return
            if asked.error == ErrorCode.OFFSET_OUT_OF_RANGE:
                lane.next_offset = -1  # what was committed is deleted, or was never there: as if nothing were
            self._is_read(lane)

        self._ask(where, lane, question, was_read)

    def _take_in(self, where: Where, lane: _Lane, result: ReadResult) -> Slices[None]:
        records: list[Record] = []
        next_offset, problem = lane.next_offset, None
        try:
            records, next_offset = yield from reading.chosen(result, next_offset, KEPT_RECORDS_MAX, KEPT_BYTES_MAX)
        except ProtocolError as error:
            problem = error
        if self._lanes.get(where) is not lane:
            return  # it was given away meanwhile
        lane.records.extend(records)
        lane.next_offset = next_offset
        if problem is not None:
            self._refuse_poll(lane, problem)
        self._is_read(lane)

    def _refuse_poll(self, lane: _Lane, error: ProtocolError) -> None:
        name = f"{lane.owned.topic}-{lane.owned.number}"
        self._connection.log.warning("connection: %s cannot be read at %d: %s", name, lane.next_offset, error)
        poll = self._polls[0] if self._polls else None
        if isinstance(poll, Poll):
            self._polls.popleft()
            poll.call.refuse(error.code, f"{name} at offset {lane.next_offset}: {error}")

    def _is_read(self, lane: _Lane) -> None:
        lane.reading = False
        self._serve()


def _tell(poll: Poll, taken: list[tuple[Facts, Record]], facts: Facts) -> Slices[None]:
    pieces = yield from reading.told(taken, poll.told)
    poll.call.answer_long(facts, "records", pieces)
