"""How a coordinator's state is asked, and what it gives back.

A coordinator (of groups, of transactions) keeps what its partition's records make. Its state machine is pure: requests
and moments go in, records and answers come out, without a clock and without I/O.

    machine.replay(key, value, producer_id) every committed record, oldest first; the producer's of a transaction
    machine.replay_marker(id, committed)    the end of a transaction, in its place; after all, machine.loaded(moment)
    machine.handle(request, caller, moment) a request of Kafka's protocol, decoded; answered now or later
    machine.tick(moment)                    something is due; machine.next_deadline says when (or None)
    machine.effects                         what came of it: the driver of the machine takes it after every call

The state runs ahead of the log: it changes when a record is decided on, not when that is committed. So the driver keeps
this order: all records of one `Effects` are appended together, all or none; answers go out only when these records and
all before them are committed, even answers that wrote nothing, since they may depend on earlier records. If the outcome
of an append is unknown, the machine is thrown away and built again from the log.

What clients make a machine write is bounded when the machine decides: a record has at most max.message.bytes of its
topic. What a machine writes by itself (time passed, a topic was deleted) is cut into several batches where it may be,
and no batch is larger than EFFECTS_BYTES_MAX. Every batch that was written can be loaded, under any earlier bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

from attrs import field

from protocol.late_attrs import define, frozen

Write = tuple[bytes, bytes | None]
"""A record: key and value as they are written. None is a tombstone."""


RECORD_OVERHEAD = 32
"""An upper bound on what a record takes beside its key and value."""
RECORD_BYTES_MAX = 8 << 20
"""The largest record that a client can make a machine write, even where max.message.bytes is more."""
EFFECTS_BYTES_MAX = 32 << 20
"""The largest batch of a machine. The log's compaction can still take it apart."""


def bytes_of(records: Iterable[Write]) -> int:
    """The largest number of bytes that these records take in a batch."""
    return sum(len(key) + len(value or b"") + RECORD_OVERHEAD for key, value in records)


@frozen(slots=True)
class Moment:
    """When something happens: seconds that only go forward, for timeouts; the wall clock, for what is written down."""

    now: float
    wall_ms: int
    is_sure: bool = True
    """Can the wall clock be believed? Nothing is dropped because of its age otherwise."""


@frozen(slots=True)
class Caller:
    """The client that asks. `token` stands for its request: the answer carries it."""

    token: object
    version: int
    client_id: str
    client_host: str


@define(slots=True)
class Effects:
    """Records to append, then answers to give: token and response."""

    records: list[Write] = field(factory=list)
    replies: list[tuple[object, object]] = field(factory=list)
    producer: tuple[int, int] | None = None
    """Id and epoch, if the records belong to a producer's open transaction. All of them do, then."""
    undo: Callable[[], None] | None = None
    """Takes back the machine's decision if the log refuses the records of a producer's transaction."""
    cuts: list[int] = field(factory=list)
    """Numbers of records after which the rest may be written in another batch, because it is independent."""

    def __bool__(self) -> bool:
        return bool(self.records or self.replies)

    def reply(self, caller: Caller, response: object) -> None:
        self.replies.append((caller.token, response))

    def cut(self) -> None:
        """What comes next may be written in another batch."""
        if not self.cuts or self.cuts[-1] != len(self.records):
            self.cuts.append(len(self.records))

    def pieces(self, bytes_max: int) -> list[Effects]:
        """The same in several batches of about this size, as far as it may be cut. The answers are with the last."""
        if not self.cuts or bytes_of(self.records) <= bytes_max:
            return [self]
        made, begin, size = [], 0, 0
        for before, after in pairwise((0, *self.cuts)):
            more = bytes_of(self.records[before:after])
            if size and size + more > bytes_max:
                made.append(Effects(self.records[begin:before]))
                begin, size = before, 0
            size += more
        self.records, self.cuts = self.records[begin:], []
        return [*made, self]
