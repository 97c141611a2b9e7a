"""A coordinator: it drives the state machine of one partition of an internal topic, while this broker leads it.

    not leading ──LeadershipChanged──► loading ──everything committed is replayed──► serving
         ▲                                ▲                                             │
         └──────── not the leader ────────┴────────── an append failed ────────────────┘

The machine (log/machines/coordination.py) decides at once and runs ahead of the log. One flight is under way at a
time: an append of all records that were decided since the last one, or, without records, the question to the replica
whether it still leads, for which the replica asks a majority. Answers go out when the flight that carries them has
landed. So no client gets an answer that is not committed, or that a newer leader may have changed; and a thousand
commits at once are one append.

The outcomes of a flight:

- committed: its answers go out. If fewer replicas than min.insync.replicas hold it by then, its clients have to try
  again, and the coordinator goes on, since the machine's decisions are in the log.
- refused for now (too few replicas are in sync, the disk is full, the replica is overloaded): nothing is written. The
  machine keeps its decisions, and the flight is repeated until it succeeds. Meanwhile clients have to try again,
  nothing is decided for them, and the machine's clock stands still, so that no session ends that could not be renewed.
- refused because of the producer of its transaction: the machine takes back that one decision.
- anything else (another replica leads): it is not known what is committed. All waiting clients have to try again, and a
  new machine is loaded from the log. Appends wait for their commit as long as this replica leads: the log has no other
  writer, so a replay up to the high watermark is complete.

A machine that raises is not trusted any more, and a new one is loaded in the same way. If a request caused the
exception, its client gets an error. If not (time passed, a topic changed, the log was replayed), the exception would
probably come again: the coordinator waits longer before each load, until a machine reaches its first deadline.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Protocol

from actors.messages.controller import MetadataChanged
from actors.messages.coordinator import CalendarMoved, Coordinate, CoordinateBytes, CoordinatedBytes, LeadershipChanged
from actors.messages.replica import (
    ALL,
    EARLIEST,
    LATEST,
    AppendRecords,
    AppendResult,
    ConfirmLeadership,
    DescribeReplica,
    FindOffset,
    ReadRecords,
    ReadResult,
    group_name,
    replica_address,
)
from actors.raft.context import BrokerContext
from actors.runtime import Actor, Address, Future, MailboxFull, Payload, handles
from actors.runtime.timers import Timer
from log.config import LogConfig
from log.machines.coordination import EFFECTS_BYTES_MAX, RECORD_BYTES_MAX, Caller, Effects, Moment, bytes_of
from protocol.apis import APIS
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.late_attrs import frozen
from protocol.records.batches import BatchHeader, Record, build_batch, parse_batches, records
from protocol.schema.codec import decode, encode

APPEND_MS_MAX = 2**31 - 1
LOAD_BYTES = 1 << 20
BATCH_BYTES_MAX = 1 << 19
LOADED_BYTES_MAX = 1 << 31
"""No batch is larger, so every batch can be loaded: only coordinators write here, and they compress nothing."""
BATCH_RECORDS_MAX = 1000
"""The most records of one append, unless one request needs more. Such a batch is built in a few milliseconds."""
LOOK_SECONDS = 1.0
RETRY_SECONDS, RETRY_SECONDS_MAX = 0.02, 10.0
TICK_SECONDS_MIN = 0.001
"""A shorter timer may fire before its deadline, by a rounding error of the machine's clock, again and again."""
WRITE_SECONDS_MAX = 0.5
"""The longest pause before a flight is repeated that was refused for now."""
OPEN_MAX = 100_000
_FOR_NOW = frozenset({ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT})
"""Errors of a leader that has written nothing."""


class CoordinatorMachine(Protocol):
    """What a coordinator drives; see log/machines/coordination.py."""

    @property
    def next_deadline(self) -> float | None: ...

    def replay(self, key: bytes, value: bytes | None) -> None: ...

    def loaded(self, moment: Moment) -> None: ...

    def handle(self, request: Any, caller: Caller, moment: Moment) -> None: ...

    def tick(self, moment: Moment) -> None: ...

    def take_effects(self) -> Effects: ...


@frozen(slots=True)
class _Tick:
    pass


@frozen(slots=True)
class _Look:
    pass


@frozen(slots=True)
class _LoadAgain:
    life: int


@frozen(slots=True)
class _FlyAgain:
    life: int
    pause: float


@frozen(slots=True)
class Loaded:
    """A machine to which all committed records were replayed."""

    log: str
    """The partition from which it was replayed."""
    epoch: int
    machine: CoordinatorMachine


class Coordinator(Actor):
    """See the module's docstring."""

    mailbox_capacity: ClassVar[int] = 1 << 16

    def __init__(self, topic: str, number: int, context: BrokerContext) -> None:
        super().__init__()
        self._context = context
        self._topic = topic
        self._number = number
        self._replica = self._replica_now()
        """A topic that is deleted and created again has other replicas."""
        self._epoch = -1
        """The epoch in which this replica leads, or -1."""
        self._life = 0
        """Counts machines: work that was begun for an earlier one is dropped."""
        self._machine: CoordinatorMachine | None = None
        self._ready = False
        """Is everything replayed?"""
        self._open: dict[Future[Any], None] = {}
        """The replies that are owed, in the order of their requests."""
        self._queue: list[Effects] = []
        """Decisions that no flight has carried yet."""
        self._flying = False
        self._timer: Timer | None = None
        self._tick_at: float | None = None
        self._pause = RETRY_SECONDS
        """Before the next load, if a machine fails without a request."""
        self._stands_since: float | None = None
        """Since when nothing can be written; None if records can be written."""
        self._stood_seconds = 0.0
        """How long the machine's clock has stood still in all."""

    @property
    def loaded(self) -> Loaded | None:
        """The loaded machine, for the simulator and tests. None unless all is replayed."""
        return Loaded(self._replica.name, self._epoch, self._machine) if self._ready and self._machine else None

    # -- what subclasses fill in -------------------------------------------------------------------------------

    @abc.abstractmethod
    def machine(self, epoch: int) -> CoordinatorMachine:
        """A new machine that has replayed nothing yet."""

    def replay_batch(self, machine: CoordinatorMachine, header: BatchHeader, batch: Sequence[Record]) -> None:
        """Take in one committed batch of the log."""
        if not header.is_control:
            for record in batch:
                assert record.key is not None, "a compacted topic has keys"
                machine.replay(record.key, record.value)

    def clock(self) -> float:
        """The seconds in which the machine's time-outs are counted."""
        return self.now

    def topics_changed(self, machine: CoordinatorMachine) -> None:
        """Topics may have come, gone or grown, perhaps some time ago."""

    def time_passed(self, machine: CoordinatorMachine) -> None:
        """The calendar was moved: days may have passed."""

    def on_served(self, flight: list[Effects]) -> None:
        """The decisions of this flight are committed, and their answers are out."""

    def take_back(self, flight: list[Effects], error: ErrorCode) -> bool:  # noqa: ARG002 - for subclasses
        """This flight was refused. True if the machine has taken the decisions back and the clients are answered."""
        return False

    # -- what is asked -------------------------------------------------------------------------------------------

    @handles(Coordinate)
    def coordinate(self, message: Coordinate) -> object:
        return self._handle(message.request, message.version, message.client_id, message.client_host, self.defer)

    @handles(CoordinateBytes)
    def coordinate_bytes(self, message: CoordinateBytes) -> CoordinatedBytes | None:
        api, reply = APIS[message.api_key], self.defer()
        try:
            request, _ = decode(api.request, message.version, memoryview(message.request))
        except ProtocolError as error:
            self.log.warning("coordinator: %s cannot read a request: %s", self.address, error)
            reply.set(_encoded(ErrorCode.INVALID_REQUEST, message.version))
            return None
        answered: Future[Any] = Future(self.node.scheduler)
        answered.add_callback(lambda done: reply.set(_encoded(done.get(), message.version)))
        refusal = self._handle(request, message.version, message.client_id, message.client_host, lambda: answered)
        if refusal is not None:
            answered.set(refusal)
        return None

    def _handle(
        self, request: object, version: int, client_id: str, client_host: str, defer: Callable[[], Future[Any]]
    ) -> ErrorCode | None:
        if self._epoch < 0:
            return ErrorCode.NOT_COORDINATOR
        if self._machine is None or not self._ready:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if len(self._open) >= OPEN_MAX or self.stands:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        token = defer()
        self._open[token] = None
        self.decide(request, Caller(token, version, client_id, client_host))
        return None

    def decide(self, request: object, caller: Caller) -> None:
        """Let the machine decide on a request."""
        assert self._machine is not None
        try:
            self._machine.handle(request, caller, self._moment)
            effects = self._take_effects(self._machine)
        except Exception:
            # Raised here, it would only reach the asker, and the machine would keep half of a decision.
            self.log.exception("coordinator: %s failed on %s", self.address, type(request).__name__)
            self._answer(caller.token, ErrorCode.UNKNOWN_SERVER_ERROR)
            self._load_soon()
        else:
            self._decided(effects)

    def act(self, occasion: str, act: Callable[[], None]) -> bool:
        """Let the machine act without a request. True if it did not fail."""
        assert self._machine is not None
        try:
            act()
            effects = self._take_effects(self._machine)
        except Exception:
            self.log.exception(
                "coordinator: %s failed on %s, and loads again in %g s", self.address, occasion, self._pause
            )
            self._fail()
            return False
        self._decided(effects)
        return True

    @handles(MetadataChanged)
    def metadata_changed(self, _message: MetadataChanged) -> None:
        if self._machine is not None and self._ready:
            self.act("changed topics", partial(self.topics_changed, self._machine))

    @handles(CalendarMoved)
    def calendar_moved(self, _message: CalendarMoved) -> bool:
        if self._timer is not None:
            self._timer.cancel()
        if self._machine is not None and self._ready:
            self.time_passed(self._machine)
        self.tick(_Tick())
        return True

    @handles(_Tick)
    def tick(self, _message: _Tick) -> None:
        self._tick_at = self._timer = None
        if (
            self._machine is not None
            and self._ready
            and not self.stands
            and self.act("a deadline", partial(self._machine.tick, self._moment))
        ):
            self._pause = RETRY_SECONDS

    # -- leading, or not -----------------------------------------------------------------------------------------

    def on_start(self) -> None:
        self.every(LOOK_SECONDS, _Look())
        self._look()

    @handles(_Look)
    def look(self, _message: _Look) -> None:
        """While this replica does not lead as far as is known: the message about it may have been lost."""
        if self._epoch < 0:
            self._look()

    def _look(self) -> None:
        replica = self._replica_now()

        def described(future: Future[Any]) -> None:
            if future.exception is None and self._epoch < 0 and future.get().role == "Leader":
                self._lead(replica, future.get().leader_epoch)

        self.ask(replica, DescribeReplica(), described)

    def _replica_now(self) -> Address:
        topic = self._context.metadata.topic(self._topic)
        return replica_address(
            group_name(self._topic, self._number, "" if topic is None else topic.id), self.node.broker
        )

    @handles(LeadershipChanged)
    def leadership_changed(self, message: LeadershipChanged) -> None:
        known = message.raft_group == self._replica.name
        if message.epoch < 0 and known:
            self._forget()
            self._epoch = -1
        elif message.epoch >= 0 and (not known or message.epoch > self._epoch):
            self._lead(replica_address(message.raft_group, self.node.broker), message.epoch)

    def _lead(self, replica: Address, epoch: int) -> None:
        self._forget()
        self._replica, self._epoch, self._pause = replica, epoch, RETRY_SECONDS
        self._load()

    def _forget(self) -> None:
        """Drop the machine, and answer all waiting clients."""
        self._life += 1
        self._machine, self._ready, self._flying, self._queue = None, False, False, []
        self._stands_since, self._stood_seconds = None, 0.0
        waiting, self._open = self._open, {}
        for reply in waiting:
            if not reply.done:
                reply.set(ErrorCode.NOT_COORDINATOR)

    def _load_soon(self) -> None:
        self._forget()
        self.after(RETRY_SECONDS, _LoadAgain(self._life))

    def _fail(self) -> None:
        """Load again after a longer pause each time: the machine failed without a request, and may fail again."""
        self._forget()
        self.after(self._pause, _LoadAgain(self._life))
        self._pause = min(2 * self._pause, RETRY_SECONDS_MAX)

    # -- loading -------------------------------------------------------------------------------------------------

    @handles(_LoadAgain)
    def load_again(self, message: _LoadAgain) -> None:
        if message.life == self._life and self._epoch >= 0:
            self._load()

    def _load(self) -> None:
        """Replay everything that is committed, from the log start to the high watermark."""
        self._machine = self.machine(self._epoch)
        self._find(EARLIEST, lambda start: self._find(LATEST, lambda end: self._read_on(start, end)))

    def _find(self, timestamp: int, then: Callable[[int], None]) -> None:
        """Ask the replica for this offset. A leader answers once it is certain how far its log is committed."""

        def found(life: int, future: Future[Any]) -> None:
            if life != self._life:
                return
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER if future.exception is not None else future.get().error
            if error == ErrorCode.NONE:
                then(future.get().offset)
            else:
                self._not_loaded(error)

        self.ask(self._replica, FindOffset(timestamp, False, self._epoch), partial(found, self._life))

    def _not_loaded(self, error: int) -> None:
        """Load again soon; or, if another replica leads, once this one leads again."""
        if error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
            self._forget()
            self._epoch = -1
        else:
            self.after(RETRY_SECONDS, _LoadAgain(self._life))

    def _read_on(self, offset: int, end: int) -> None:
        if offset >= end:
            self._loaded()
            return
        self.ask(self._replica, ReadRecords(offset, LOAD_BYTES, 0, 0), partial(self._read, self._life, offset, end))

    def _read(self, life: int, offset: int, end: int, future: Future[Any]) -> None:
        if life != self._life:
            return
        result: ReadResult | None = future.get() if future.exception is None else None
        if result is None or result.error != ErrorCode.NONE:
            self._not_loaded(ErrorCode.NOT_LEADER_OR_FOLLOWER if result is None else result.error)
            return
        assert self._machine is not None
        try:
            read_to = self._replay(self._machine, result, offset, end)
        except Exception:
            self.log.exception(
                "coordinator: %s cannot replay what is behind offset %d, and loads again in %g s",
                self.address, offset, self._pause,
            )  # fmt: skip
            self._fail()
            return
        if read_to > offset:
            self._read_on(read_to, end)
        else:
            self.log.warning(
                "coordinator: %s finds nothing at offset %d, before the end at %d, and loads again in %g s",
                self.address, offset, end, self._pause,
            )  # fmt: skip
            self._fail()

    def _replay(self, machine: CoordinatorMachine, result: ReadResult, offset: int, end: int) -> int:
        """Replay these batches. Gives the end of the last one."""
        batches = parse_batches(result.batches)
        for position, header in zip(batches.positions, batches.headers, strict=True):
            if offset <= header.base_offset < end:
                self.replay_batch(machine, header, records(batches.data, position, limit=LOADED_BYTES_MAX))
            offset = max(offset, header.next_offset)
        return offset

    def _loaded(self) -> None:
        machine = self._machine
        assert machine is not None
        self._ready = True

        def begin() -> None:
            machine.loaded(self._moment)
            self.topics_changed(machine)

        self.act("what it has loaded", begin)

    # -- records first, then answers -------------------------------------------------------------------------------

    def _take_effects(self, machine: CoordinatorMachine) -> list[Effects]:
        """The machine's decisions, in pieces that can be written."""
        taken = machine.take_effects()
        if not taken:
            return []
        pieces = taken.pieces(BATCH_BYTES_MAX)
        size = max(bytes_of(piece.records) for piece in pieces)
        if size > EFFECTS_BYTES_MAX:
            raise ValueError(f"it wants to write {size} bytes at once, where {EFFECTS_BYTES_MAX} are allowed")
        return pieces

    def _decided(self, effects: list[Effects]) -> None:
        """Enqueue the machine's decisions, and set its timer."""
        if effects:
            self._enqueue(*effects)
        self._arrange_tick()

    def record_bytes_max(self) -> int:
        """The largest record that a client can make this coordinator write: max.message.bytes of its topic."""
        topic = self._context.metadata.topic(self._topic)
        configs = {**self._context.topic_defaults, **({} if topic is None else topic.configs)}
        configured = configs.get("max.message.bytes")
        return min(LogConfig().max_message_bytes if configured is None else int(configured), RECORD_BYTES_MAX)

    def _enqueue(self, *effects: Effects) -> None:
        self._queue.extend(effects)
        if not self._flying:
            self._fly()

    def _fly(self) -> None:
        """Begin the next flight: write its records, or confirm leadership for its answers."""
        flight = self._take_flight()
        if flight is None:
            return
        self._flying = True
        self.ask(self._replica, self.question(flight), partial(self._landed, self._life, flight))

    def _take_flight(self) -> list[Effects] | None:
        """The next decisions in order, as many as go together in one batch."""
        if not self._queue:
            return None
        size = records = count = 0
        for effects in self._queue:
            size += bytes_of(effects.records)
            records += len(effects.records)
            is_full = size > BATCH_BYTES_MAX or records > BATCH_RECORDS_MAX
            if count and (is_full or not self.go_together(self._queue[0], effects)):
                break
            count += 1
        flight, self._queue = self._queue[:count], self._queue[count:]
        return flight

    def go_together(self, first: Effects, other: Effects) -> bool:
        """May the records of both be in one batch?"""
        return first.producer is None and other.producer is None

    def question(self, flight: list[Effects]) -> object:
        """The message to the replica for this flight; its answer has an `error`."""
        writes = [write for effects in flight for write in effects.records]
        if not writes:
            return ConfirmLeadership(self._epoch)
        timestamp, producer = self._context.calendar.wall_ms(), flight[0].producer
        made = [Record(at, timestamp, key, value, ()) for at, (key, value) in enumerate(writes)]
        if producer is None:
            batch = build_batch(made)
        else:
            batch = build_batch(made, producer_id=producer[0], producer_epoch=producer[1], transactional=True)
        return AppendRecords(ALL, APPEND_MS_MAX, Payload(memoryview(batch)), self._epoch, own=True)

    def _landed(self, life: int, flight: list[Effects], future: Future[Any], *, pause: float = RETRY_SECONDS) -> None:
        if life != self._life:
            return
        error = _error_of(future)
        if error in _FOR_NOW:
            self._stand(flight, _reason_of(future, error), pause)
            return
        self._go_on()
        if error in (ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND):
            self._flying = False
            self._committed(flight, with_answers=error == ErrorCode.NONE)
        elif self.take_back(flight, error):
            self._flying = False
        else:
            self.log.info("coordinator: %s loads again: %s", self.address, error.name)
            self._load_soon()
            return
        if not self._flying:
            self._fly()

    def _committed(self, flight: list[Effects], *, with_answers: bool) -> None:
        for effects in flight:
            for token, response in effects.replies:
                self._answer(token, response if with_answers else ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.on_served(flight)  # which may cause more decisions

    # -- while nothing can be written ------------------------------------------------------------------------------

    @property
    def stands(self) -> bool:
        """Are requests of clients refused, because nothing can be written?"""
        return self._stands_since is not None

    def _stand(self, flight: list[Effects], reason: str, pause: float) -> None:
        """Keep the decisions, let their clients try again, and repeat the flight."""
        if self._stands_since is None:
            self._stands_since = self.clock()
            self.log.info("coordinator: %s cannot write for now: %s", self.address, reason)
        self._queue[:0] = flight
        for effects in self._queue:
            for token, _ in effects.replies:
                self._answer(token, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.after(pause, _FlyAgain(self._life, min(2 * pause, WRITE_SECONDS_MAX)))

    @handles(_FlyAgain)
    def fly_again(self, message: _FlyAgain) -> None:
        if message.life != self._life:
            return
        flight = self._take_flight()
        assert flight is not None, "the refused flight is in the queue"
        landed = partial(self._landed, self._life, flight, pause=message.pause)
        self.ask(self._replica, self.question(flight), landed)

    def _go_on(self) -> None:
        if self._stands_since is not None:
            self._stood_seconds += self.clock() - self._stands_since
            self._stands_since = None
            self._arrange_tick()

    def _answer(self, token: Any, response: object) -> None:
        self._open.pop(token, None)
        if not token.done:
            token.set(response)

    @property
    def _moment(self) -> Moment:
        calendar = self._context.calendar
        return Moment(self._machine_now, calendar.wall_ms(), calendar.is_sure())

    @property
    def _machine_now(self) -> float:
        """The time of the machine's clock, which stands still while nothing can be written."""
        since = self._stands_since
        return (self.clock() if since is None else since) - self._stood_seconds

    def _arrange_tick(self) -> None:
        """Keep one timer: a deadline that has moved later is noticed when the timer fires."""
        deadline = None if self._machine is None else self._machine.next_deadline
        if deadline is not None and (self._tick_at is None or deadline < self._tick_at):
            if self._timer is not None:
                self._timer.cancel()
            self._tick_at = deadline
            seconds = deadline - self._machine_now
            self._timer = self.after(max(seconds, TICK_SECONDS_MIN) if seconds > 0 else 0.0, _Tick())


def _error_of(future: Future[Any]) -> ErrorCode:
    """The error with which a replica refused a flight; NONE if it did not."""
    if future.exception is None:
        return ErrorCode(future.get().error)
    return (
        ErrorCode.REQUEST_TIMED_OUT if isinstance(future.exception, MailboxFull) else ErrorCode.NOT_LEADER_OR_FOLLOWER
    )


def _reason_of(future: Future[Any], error: ErrorCode) -> str:
    """The error in words, for the log of this broker."""
    answer = None if future.exception is not None else future.get()
    return f"{error.name}: {answer.message}" if isinstance(answer, AppendResult) and answer.message else error.name


def _encoded(answer: object, version: int) -> CoordinatedBytes:
    if isinstance(answer, ErrorCode):
        return CoordinatedBytes(answer, Payload(memoryview(b"")))
    return CoordinatedBytes(ErrorCode.NONE, Payload(memoryview(b"".join(map(bytes, encode(answer, version))))))
