"""How a coordinator's state is asked, and what it gives back.

A coordinator (of groups, of transactions) keeps what its partition's records make. Its state machine is pure: requests
and moments go in, records and answers come out, without a clock and without I/O.

    machine.replay(key, value, producer_id) every committed record, oldest first; the producer's of a transaction
    machine.replay_marker(id, committed)    the end of a transaction, in its place; after all, machine.loaded(moment)
    machine.handle(request, caller, moment) a request of Kafka's protocol, decoded; answered now or later
    machine.tick(moment)                    something is due; machine.next_deadline says when (or None)
    machine.effects                         what came of it: whoever drives the machine takes it after every call

The state runs ahead of the log: it changes when a record is decided on, not when that is committed. So whoever drives
it keeps this order: all records of one `Effects` are appended together, all or none; answers go out only when these
records and all before them are committed, even answers that wrote nothing, since they may tell of what others wrote. If
an append fails, or nobody knows what became of it, the machine is thrown away and made anew from the log.
"""

from __future__ import annotations

from attrs import field

from protocol.late_attrs import define, frozen

Write = tuple[bytes, bytes | None]
"""A record: key and value as they are written. None is a tombstone."""


@frozen(slots=True)
class Moment:
    """When something happens: seconds that only go forward, for timeouts; the wall clock, for what is written down."""

    now: float
    wall_ms: int


@frozen(slots=True)
class Caller:
    """Who asks. `token` stands for the question: the answer comes with it."""

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

    def __bool__(self) -> bool:
        return bool(self.records or self.replies)

    def reply(self, caller: Caller, response: object) -> None:
        self.replies.append((caller.token, response))
