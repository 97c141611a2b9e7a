"""Writers and readers: actors on nodes of their own, linked to every broker."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import pykka
from attrs import frozen

from actors.messages.replica import AppendRecords, AppendResult, ReadRecords, ReadResult, replica_address
from actors.runtime import Actor, Address, Future, Payload, RemoteFailure, handles
from log.segment.producer_state import BATCHES_KEPT
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.records.batches import Record, RecordBatches, build_batch, check_batches, records
from protocol.schema.declaration import Buffer
from tools.simulator.record.history import IDEMPOTENT, ONE, History, WriteOperation

ASK_SECONDS = 2.0
_RECORDS_BYTES_MAX = 1 << 20
_REPEAT_SHARE = 0.1
_TOO_FEW = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
_NEVER = frozenset(
    (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.CORRUPT_MESSAGE)
)


@frozen(slots=True)
class ClientServices:
    """What clients share."""

    history: History
    brokers: tuple[int, ...]
    groups: tuple[str, ...]
    think_s: float
    value_bytes: int
    stale_s: float
    calm_since: Callable[[], float]
    """Since when no process was stopped and no wire clogged: what such a one says may be old."""
    committed: Callable[[str, int], bool]
    """Has an end up to this offset been committed?"""
    was_followed: Callable[[str, int, float], bool]
    """Was another leader elected after this epoch, before that time?"""
    holders: Callable[[str, int], int]
    """How many brokers hold everything up to this offset?"""
    min_insync_replicas: int
    led_alone: Callable[[str, int, float], bool]
    """Has this broker led, since that time, though it had lost all the others?"""
    damaged: Callable[[int], bool]
    """Was a bit flipped on this broker's disk?"""
    votes_alone: Callable[[str, int, float], bool]
    """Has this broker been its partition's only voter since that time?"""
    is_given_up: Callable[[int], bool] = lambda _epoch: False
    """Is a leader of this epoch one of a generation that an operator has given up, which does not know it yet?"""

    def batches(self, data: Buffer, reader: Address, broker: int, group: str = "") -> RecordBatches | None:
        """What a broker gave to a reader; None if it is damaged, as only a damaged disk may give it."""
        try:
            return check_batches(bytes(data))
        except ProtocolError as error:
            if not self.damaged(broker):
                self.history.violate("damaged read", group, f"{reader} from broker {broker}: {error}")
            return None

    def note_read(self, group: str, at: int, batches: RecordBatches, reader: Address, promise: str) -> int:
        """Note what a reader at this position was given, and check that it continues there. Gives its next position."""
        for number, (place, header) in enumerate(zip(batches.positions, batches.headers, strict=True)):
            if header.base_offset > at or header.next_offset <= at or (number and header.base_offset != at):
                text = f"{reader} at {at} was given {header.base_offset}..{header.next_offset}"
                self.history.violate(promise, group, text)
                return at
            if not self.committed(group, header.next_offset):
                text = f"{reader} was given {header.base_offset}, which is not committed"
                self.history.violate("read of uncommitted", group, text)
            if not header.is_control:
                for record in records(batches.data, place, limit=_RECORDS_BYTES_MAX):
                    self.history.saw(group, record.offset, record.value or b"", reader.name)
            at = header.next_offset
        return at


@frozen(slots=True)
class Finish:
    """Do what is left to do, once more in every partition, and then nothing."""


@frozen(slots=True)
class _Next:
    pass


@frozen(slots=True)
class _Again:
    operation: WriteOperation


@frozen(slots=True)
class _Poll:
    group: str


class SimulatedClient(Actor):
    """Knows, or guesses, the leader of each partition."""

    restart = None
    role: ClassVar[str]
    """The kind in its address."""

    def __init__(self, services: ClientServices, rng: random.Random) -> None:
        super().__init__()
        self.services = services
        self.rng = rng
        self.history = services.history
        self._leaders: dict[str, int] = {}
        self.finished = False

    @property
    def now(self) -> float:
        return self.node.scheduler.clock.now()

    def leader(self, group: str) -> int:
        return self._leaders.setdefault(group, self.rng.choice(self.services.brokers))

    def look_elsewhere(self, group: str) -> None:
        brokers = self.services.brokers
        self._leaders[group] = brokers[(brokers.index(self.leader(group)) + 1) % len(brokers)]

    def complain(self, group: str, error: BaseException, broker: int) -> None:
        """A broker's own failure, handed on to a client, is only right if its disk failed."""
        if isinstance(error, RemoteFailure) and "LogOffline" not in str(error) and not self.services.damaged(broker):
            self.history.violate("a handler failed", group, str(error))


class Writer(SimulatedClient):
    """Writes one batch after the other, each value once."""

    role = "writer"

    def __init__(self, services: ClientServices, rng: random.Random, kind: str, producer_id: int) -> None:
        super().__init__(services, rng)
        self._kind = kind
        self._producer_id = producer_id
        self._sequences = dict.fromkeys(services.groups, 0)
        self._recent: dict[str, deque[tuple[WriteOperation, int]]] = defaultdict(lambda: deque(maxlen=BATCHES_KEPT))
        self._timeout_s = rng.choice((0.1, 0.5, 1.5))
        self._written = 0
        self._finishing: list[str] | None = None

    def on_start(self) -> None:
        self.after(self.rng.uniform(0, self.services.think_s), _Next())

    @handles(Finish)
    def finish(self, _message: Finish) -> None:
        self._finishing = list(self.services.groups)

    @handles(_Next)
    def next(self, _message: _Next) -> None:
        if self._finishing is None:
            group = self.rng.choice(self.services.groups)
        elif self._finishing:
            group = self._finishing.pop()
        else:
            self.finished = True
            return
        self.begin(group)

    def begin(self, group: str) -> None:
        """Write something there."""
        self._attempt(self.operation(group))

    def operation(self, group: str) -> WriteOperation:
        """A new operation, with values that no client has written yet."""
        count = self.rng.choice((1, 1, 2, 3))
        names = [b"%s-%d" % (self.address.name.encode(), self._written + at) for at in range(count)]
        values = tuple(name.ljust(self.rng.randint(0, self.services.value_bytes), b".") for name in names)
        self._written += count
        return self.history.begin(self.address.name, self._kind, group, values, self.now)

    @handles(_Again)
    def again(self, message: _Again) -> None:
        self._attempt(message.operation)

    def _attempt(self, operation: WriteOperation) -> None:
        operation.attempts += 1
        operation.broker = self.leader(operation.group)
        self._send(operation, self._sequences[operation.group], partial(self._answered, operation))

    def _send(self, operation: WriteOperation, sequence: int, answered: Callable[[Future[Any]], None]) -> None:
        acks = 1 if self._kind == ONE else -1
        data = Payload(memoryview(self._batch(operation, sequence)))
        request = AppendRecords(acks, int(self._timeout_s * 1000), data)
        address = replica_address(operation.group, self.leader(operation.group))
        self.ask(address, request, answered, timeout=self._timeout_s + 0.3)

    def _batch(self, operation: WriteOperation, sequence: int) -> bytearray:
        made = [Record(at, 1 + at, value, value, ()) for at, value in enumerate(operation.values)]  # keys of their own
        if self._kind != IDEMPOTENT:
            return build_batch(made)
        return build_batch(made, producer_id=self._producer_id, producer_epoch=0, base_sequence=sequence)

    def _answered(self, operation: WriteOperation, future: Future[Any]) -> None:
        error = future.exception
        if error is not None:
            self.complain(operation.group, error, operation.broker)
            unsent = isinstance(error, pykka.ActorDeadError) and "no link" in str(error)
            self._not_written(operation, surely=unsent)
            return
        result: AppendResult = future.get()
        operation.epoch = result.leader_epoch
        if self.services.is_given_up(result.leader_epoch):
            self._not_written(operation, surely=False)
            return
        if result.error == ErrorCode.NONE:
            operation.base_offset = result.base_offset
            self._check_held(operation)
            self._over(operation, "ok")
        else:
            if self._is_wrong(operation.group, result) or self._needs_nobody(operation, result):
                self.history.violate(
                    "a good append was refused", operation.group, f"{operation.values[0]!r}: {result.message}",
                    operation.values[0],
                )  # fmt: skip
            surely = result.base_offset < 0 and result.error != ErrorCode.KAFKA_STORAGE_ERROR
            self._not_written(operation, surely=surely)

    def _check_held(self, operation: WriteOperation) -> None:
        held, needed = self.services.holders(operation.group, operation.end), self.services.min_insync_replicas
        if self._kind != ONE and held < needed:
            self.history.violate(
                "acks=all is held by min.insync.replicas", operation.group,
                f"{operation.values[0]!r} at {operation.base_offset}: {held} of {needed} have it", operation.values[0],
            )  # fmt: skip

    def _is_wrong(self, group: str, result: AppendResult) -> bool:
        """A leader that does not know yet that another was elected may lack what it judges by.

        It never says that a batch is missing: a majority has confirmed a leader that does.
        """
        if result.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return True
        return result.error in _NEVER and not self.services.was_followed(group, result.leader_epoch, self.now)

    def _needs_nobody(self, operation: WriteOperation, result: AppendResult) -> bool:
        """A single voter has enough replicas, even if all other brokers are gone."""
        alone = self.services.votes_alone(operation.group, operation.broker, operation.invoked_at)
        return result.error in _TOO_FEW and alone and self.services.min_insync_replicas == 1

    def _not_written(self, operation: WriteOperation, *, surely: bool) -> None:
        if surely or self.rng.random() < 0.5:
            self.look_elsewhere(operation.group)
        if not surely and self._kind != IDEMPOTENT:
            self._over(operation, "unknown")
        else:
            self.after(self.rng.uniform(0.005, 0.1), _Again(operation))

    def _over(self, operation: WriteOperation, outcome: str) -> None:
        self.history.end(operation, outcome, self.now)
        if self._kind == IDEMPOTENT:
            group = operation.group
            self._recent[group].append((operation, self._sequences[group]))
            self._sequences[group] += len(operation.values)
            if self.rng.random() < _REPEAT_SHARE:
                self._repeat(*self.rng.choice(self._recent[group]))
                return
        self._think()

    def _repeat(self, operation: WriteOperation, sequence: int) -> None:
        """Once more what was acknowledged lately, as a client with several batches in flight may."""
        self._send(operation, sequence, partial(self._repeated, operation, self.leader(operation.group)))

    def _repeated(self, operation: WriteOperation, broker: int, future: Future[Any]) -> None:
        if future.exception is not None:
            self.complain(operation.group, future.exception, broker)
        else:
            result: AppendResult = future.get()
            moved = result.error == ErrorCode.NONE and result.base_offset != operation.base_offset
            given_up = self.services.is_given_up(result.leader_epoch)
            if not given_up and (moved or self._is_wrong(operation.group, result)):
                self.history.violate(
                    "a repeated batch is known", operation.group,
                    f"{operation.values[0]!r} at {operation.base_offset} was answered with {result.base_offset}, "
                    f"{result.message or 'no error'}",
                    operation.values[0],
                )  # fmt: skip
        self._think()

    def _think(self) -> None:
        self.after(self.rng.expovariate(1 / self.services.think_s), _Next())


class PartitionReader(SimulatedClient):
    """Reads every partition from the beginning."""

    role = "reader"

    def __init__(self, services: ClientServices, rng: random.Random) -> None:
        super().__init__(services, rng)
        self.positions = dict.fromkeys(services.groups, 0)
        self._hurries = False

    def on_start(self) -> None:
        for group in self.services.groups:
            self.after(self.rng.uniform(0, 0.1), _Poll(group))

    @handles(Finish)
    def finish(self, _message: Finish) -> None:
        self._hurries = True

    @handles(_Poll)
    def poll(self, message: _Poll) -> None:
        group = message.group
        broker = self.leader(group)
        bytes_max = self.rng.choice((1, 300, 1 << 20)) if not self._hurries else 1 << 20
        request = ReadRecords(self.positions[group], bytes_max, 1, 500)
        self.ask(
            replica_address(group, broker), request, partial(self._answered, group, broker, self.now),
            timeout=ASK_SECONDS,
        )  # fmt: skip

    def _answered(self, group: str, broker: int, asked_at: float, future: Future[Any]) -> None:
        pause_s = self.rng.uniform(0.005, 0.1) if not self._hurries else 0.001
        error = future.exception
        if error is None:
            result: ReadResult = future.get()
            if self.services.is_given_up(result.leader_epoch):
                self.look_elsewhere(group)
            elif result.error == ErrorCode.NONE:
                self._take(group, broker, asked_at, result)
            elif result.error == ErrorCode.OFFSET_OUT_OF_RANGE and self.positions[group] < result.log_start_offset:
                self.history.skipped[group].update(range(self.positions[group], result.log_start_offset))
                self.positions[group] = result.log_start_offset
            else:
                self.look_elsewhere(group)
        else:
            self.complain(group, error, broker)
            self.look_elsewhere(group)
        self.after(pause_s, _Poll(group))

    def _take(self, group: str, broker: int, asked_at: float, result: ReadResult) -> None:
        self._check_fresh(group, broker, asked_at, result)
        batches, at = self.services.batches(result.batches, self.address, broker, group), self.positions[group]
        if batches is None:
            self.look_elsewhere(group)
        else:
            self.positions[group] = self.services.note_read(group, at, batches, self.address, "poll order")

    def _check_fresh(self, group: str, broker: int, asked_at: float, result: ReadResult) -> None:
        """A leader may answer for a while after it has lost its quorum, not for ever."""
        before = asked_at - self.services.stale_s
        if before < self.services.calm_since() or not self.services.was_followed(group, result.leader_epoch, before):
            return
        if self.services.led_alone(group, broker, asked_at):
            return
        acknowledged = self.history.acknowledged_before(group, before)
        if result.high_watermark < acknowledged:
            self.history.violate(
                "stale read", group,
                f"broker {broker} said {result.high_watermark} at {asked_at:.3f} in epoch {result.leader_epoch}; "
                f"{acknowledged} was acknowledged {self.services.stale_s:.1f} s before",
            )  # fmt: skip
