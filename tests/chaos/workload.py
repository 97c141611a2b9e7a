"""Writers, readers and probes for a cluster of real processes, and what must not be found in what they saw.

Each client is a thread that asks replicas through the actor API. What they do and see goes into one `Record`: a History
(tools/simulator) behind a lock, and beside it every answer that a leader gave, to find those that led no longer.
Times are this process's monotonic clock: taken before an ask and after its answer, so `before` is never too early.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from typing import Any

import pykka
from attrs import define, frozen

from actors.harness import Cluster
from actors.messages.replica import AppendRecords, AppendResult, ReadRecords, ReadResult, replica_address
from actors.runtime import LinkLost, MailboxFull, Payload, RemoteFailure
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.records.batches import Record as KafkaRecord
from protocol.records.batches import RecordBatches, build_batch, check_batches, records
from tools.simulator.record.history import IDEMPOTENT, ONE, History, WriteOperation

RECORDS_BYTES_MAX = 1 << 20
REFUSALS_MAX = 8
PROBES_MAX = 200
_NEVER = frozenset(
    (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.CORRUPT_MESSAGE)
)


@frozen(slots=True)
class Read:
    """A leader's answer to a read: how far the partition reaches, as it says."""

    client: str
    group: str
    broker: int
    epoch: int
    high_watermark: int
    asked_at: float
    answered_at: float

    def __str__(self) -> str:
        return (
            f"read by {self.client} of {self.group}: broker {self.broker} in epoch {self.epoch} says "
            f"{self.high_watermark}, {self.asked_at:.3f}..{self.answered_at:.3f}"
        )


@define(slots=True)
class Attempt:
    """The last attempt of an acknowledged append: `WriteOperation` knows only when the first began."""

    operation: WriteOperation
    asked_at: float


class Record:
    """What all clients did and saw."""

    def __init__(self) -> None:
        self.history = History()
        self.lock = threading.Lock()
        self.reads: list[Read] = []
        self.attempts: list[Attempt] = []
        self.refusals: Counter[str] = Counter()
        self.leaders: dict[tuple[str, int], int] = {}
        self.ends: dict[str, int] = {}
        """Per partition: up to where readers must come, once that is known."""
        self.alone: list[tuple[int, float, float]] = []
        """Brokers, and from when until when they may have heard of no other."""
        self.finishing = threading.Event()
        self.over = threading.Event()
        self._begun_at = time.monotonic()

    @property
    def now(self) -> float:
        """Seconds since this record was begun."""
        return time.monotonic() - self._begun_at

    def was_alone(self, read: Read) -> bool:
        """May the broker that answered this have heard of no other broker then?"""
        return any(
            broker == read.broker and since <= read.answered_at and read.asked_at <= until
            for broker, since, until in self.alone
        )

    def begin(self, client: str, kind: str, group: str, values: tuple[bytes, ...]) -> WriteOperation:
        with self.lock:
            return self.history.begin(client, kind, group, values, self.now)

    def acknowledged(self, operation: WriteOperation, result: AppendResult, asked_at: float) -> None:
        with self.lock:
            operation.base_offset, operation.epoch = result.base_offset, result.leader_epoch
            self.attempts.append(Attempt(operation, asked_at))
            self._leads(operation.group, result.leader_epoch, operation.broker)
            self.history.end(operation, "ok", self.now)

    def given_up(self, operation: WriteOperation, outcome: str) -> None:
        with self.lock:
            self.history.end(operation, outcome, self.now)

    def answered(self, client: str, group: str, broker: int, result: ReadResult, asked_at: float) -> None:
        with self.lock:
            self._leads(group, result.leader_epoch, broker)
            self.reads.append(
                Read(client, group, broker, result.leader_epoch, result.high_watermark, asked_at, self.now)
            )

    def saw(self, group: str, offset: int, value: bytes, reader: str) -> None:
        with self.lock:
            self.history.saw(group, offset, value, reader)

    def violate(self, promise: str, group: str, text: str, *values: bytes) -> None:
        with self.lock:
            self.history.violate(promise, group, f"{text} (at {self.now:.3f})", *values)

    def refused(self, group: str, error: BaseException | ErrorCode) -> None:
        """Count why something was not done. A broker's own failure is more than a refusal."""
        name = error.name if isinstance(error, ErrorCode) else type(error).__name__
        with self.lock:
            self.refusals[name] += 1
        if isinstance(error, RemoteFailure):
            self.violate("a handler failed", group, str(error))

    def _leads(self, group: str, epoch: int, broker: int) -> None:
        leader = self.leaders.setdefault((group, epoch), broker)
        if leader != broker:
            text = f"brokers {leader} and {broker} both answered as its leader in epoch {epoch} (at {self.now:.3f})"
            self.history.violate("two leaders in one epoch", group, text)


def is_unsent(error: BaseException) -> bool:
    """Was the message surely not delivered?"""
    if isinstance(error, MailboxFull):
        return True
    return isinstance(error, pykka.ActorDeadError) and not isinstance(error, LinkLost) and "no link" in str(error)


class Client(threading.Thread):
    """Knows, or guesses, who leads."""

    def __init__(self, name: str, cluster: Cluster, record: Record, groups: tuple[str, ...], seed: str) -> None:
        super().__init__(name=name, daemon=True)
        self.cluster = cluster
        self.record = record
        self.groups = groups
        self.rng = random.Random(f"{seed} {name}")
        self.failure: BaseException | None = None
        self._leaders: dict[str, int] = {}

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:  # noqa: BLE001  told by the test, with everything else
            self.failure = error

    def work(self) -> None:
        raise NotImplementedError

    def leader(self, group: str) -> int:
        """Mostly who led last; now and then anybody, to meet those who believe that they lead."""
        if group not in self._leaders or self.rng.random() < 0.03:
            self._leaders[group] = self.rng.choice(self.cluster.brokers)
        return self._leaders[group]

    def look_elsewhere(self, group: str) -> None:
        brokers = self.cluster.brokers
        self._leaders[group] = brokers[(brokers.index(self.leader(group)) + 1) % len(brokers)]

    def rest(self, seconds: float) -> None:
        """Think, unless everything is to end."""
        self.record.over.wait(seconds)


class Writer(Client):
    """Writes one batch after the other, each value once."""

    def __init__(
        self, name: str, cluster: Cluster, record: Record, groups: tuple[str, ...], seed: str, kind: str, producer: int
    ) -> None:
        super().__init__(name, cluster, record, groups, seed)
        self._kind = kind
        self._producer = producer
        self._sequences = dict.fromkeys(groups, 0)
        self._written = 0
        # The patient wait at stopped brokers until these wake; the others see how soon somebody else takes over.
        self._timeouts_s = (0.3, 1.5, 10.0) if producer % 2 else (0.2, 0.5)
        self.operation: WriteOperation | None = None

    def work(self) -> None:
        while not self.record.finishing.is_set():
            self._write(self.rng.choice(self.groups))
            self.rest(self.rng.expovariate(1 / 0.02))
        for group in self.groups:
            self._write(group)

    def _write(self, group: str) -> None:
        count = self.rng.choice((1, 1, 2, 3))
        names = [b"%s-%d" % (self.name.encode(), self._written + at) for at in range(count)]
        values = tuple(name.ljust(self.rng.choice((0, 0, 100, 2000)), b".") for name in names)
        self._written += count
        operation = self.operation = self.record.begin(self.name, self._kind, group, values)
        while not self.record.over.is_set():
            outcome = self._attempt(operation)
            given_up = self._kind != IDEMPOTENT and operation.attempts >= REFUSALS_MAX
            if outcome == "failed" and not given_up:
                self.look_elsewhere(group)
            elif outcome == "unknown" and self._kind == IDEMPOTENT:
                if self.rng.random() < 0.5:
                    self.look_elsewhere(group)
            else:
                if outcome != "ok":
                    self.record.given_up(operation, outcome)
                self._sequences[group] += count
                self.operation = None
                return
            self.rest(self.rng.uniform(0.005, 0.1))

    def _attempt(self, operation: WriteOperation) -> str:
        """One append: `ok`, `failed` if it was surely not written, else `unknown`."""
        operation.attempts += 1
        group = operation.group
        operation.broker = self.leader(group)
        timeout_s = self.rng.choice(self._timeouts_s)
        request = AppendRecords(1 if self._kind == ONE else -1, int(timeout_s * 1000), self._batch(operation))
        asked_at = self.record.now
        try:
            result: AppendResult = self.cluster.ask(
                replica_address(group, operation.broker), request, timeout=timeout_s + 0.3
            )
        except (pykka.ActorDeadError, pykka.Timeout, MailboxFull, RemoteFailure) as error:
            self.record.refused(group, error)
            return "failed" if is_unsent(error) else "unknown"
        if result.error == ErrorCode.NONE:
            self.record.acknowledged(operation, result, asked_at)
            return "ok"
        operation.epoch = result.leader_epoch
        self.record.refused(group, ErrorCode(result.error))
        if result.error in _NEVER:
            text = f"broker {operation.broker}, epoch {result.leader_epoch}: {result.message}"
            self.record.violate("a good append was refused", group, text, operation.values[0])
        surely = result.base_offset < 0 and result.error != ErrorCode.KAFKA_STORAGE_ERROR
        return "failed" if surely else "unknown"

    def _batch(self, operation: WriteOperation) -> Payload:
        now_ms = int(time.time() * 1000)  # else it would be too old to keep
        made = [KafkaRecord(at, now_ms, None, value, ()) for at, value in enumerate(operation.values)]
        if self._kind != IDEMPOTENT:
            return Payload(memoryview(build_batch(made)))
        sequence = self._sequences[operation.group]
        return Payload(
            memoryview(build_batch(made, producer_id=self._producer, producer_epoch=0, base_sequence=sequence))
        )


class Reader(Client):
    """Reads one partition from its beginning; now and then it goes back a bit and reads again."""

    position = 0

    def work(self) -> None:
        (group,) = self.groups
        while not self.record.over.is_set() and self.position < self.record.ends.get(group, 1 << 62):
            self._poll(group)
            self.rest(self.rng.uniform(0.0, 0.05))

    def _poll(self, group: str) -> None:
        if self.rng.random() < 0.01 and group not in self.record.ends:
            self.position = max(0, self.position - self.rng.randint(1, 500))
        broker = self.leader(group)
        request = ReadRecords(self.position, self.rng.choice((1, 3000, 1 << 20)), 1, self.rng.choice((0, 500)))
        asked_at = self.record.now
        try:
            result: ReadResult = self.cluster.ask(
                replica_address(group, broker), request, timeout=self.rng.choice((1.0, 8.0))
            )
        except (pykka.ActorDeadError, pykka.Timeout, MailboxFull, RemoteFailure) as error:
            self.record.refused(group, error)
            self.look_elsewhere(group)
            return
        if result.error != ErrorCode.NONE:
            self.record.refused(group, ErrorCode(result.error))
            if result.error == ErrorCode.OFFSET_OUT_OF_RANGE:
                text = f"{self.name} came to {self.position}; broker {broker}, epoch {result.leader_epoch}, has it not"
                self.record.violate("a position was lost", group, text)
            self.look_elsewhere(group)
            return
        self.record.answered(self.name, group, broker, result, asked_at)
        self._take(group, broker, result)

    def _take(self, group: str, broker: int, result: ReadResult) -> None:
        try:
            batches = check_batches(result.batches)
        except ProtocolError as error:
            self.record.violate("damaged read", group, f"{self.name} from broker {broker}: {error}")
            return
        reached, found, wrong = walk(batches, self.position)
        for offset, value in found.items():
            self.record.saw(group, offset, value, self.name)
        self.position = reached
        if wrong:
            self.record.violate("poll order", group, f"{self.name} from broker {broker}: {wrong}")


class Prober(Client):
    """Asks everybody how far each partition reaches, and does not wait: a stopped leader wakes to questions."""

    def work(self) -> None:
        waiting: list[tuple[str, int, float, Any]] = []
        while not self.record.finishing.is_set():
            for group in self.groups:
                for broker in self.cluster.brokers:
                    if sum(1 for one in waiting if one[1] == broker) < PROBES_MAX:
                        ref = self.cluster.ref(replica_address(group, broker))
                        waiting.append((group, broker, self.record.now, ref.ask(ReadRecords(0, 1, 0, 0), block=False)))
            self.rest(self.rng.uniform(0.02, 0.2))
            waiting = [one for one in waiting if not self._take(*one)]

    def _take(self, group: str, broker: int, asked_at: float, future: Any) -> bool:
        if not future.done:
            return False
        if future.exception is not None:
            self.record.refused(group, future.exception)
        elif future.get().error == ErrorCode.NONE:
            self.record.answered(self.name, group, broker, future.get(), asked_at)
        return True


def walk(batches: RecordBatches, position: int) -> tuple[int, dict[int, bytes], str]:
    """What a reader at `position` gets of these batches: its next position, the records, and what is wrong if any."""
    found: dict[int, bytes] = {}
    for number, (at, header) in enumerate(zip(batches.positions, batches.headers, strict=True)):
        held = header.base_offset <= position < header.next_offset
        if not held or (number and header.base_offset != position):
            return position, found, f"at {position} it was given {header.base_offset}..{header.next_offset}"
        if not header.is_control:
            for record in records(batches.data, at, limit=RECORDS_BYTES_MAX):
                found[record.offset] = record.value or b""
        position = header.next_offset
    return position, found, ""
