"""The operations that wait for the active controller: planned one after the other, written, and answered.

The queue does no I/O. `next_batch` gives what is to be appended to the metadata log; `finish` answers what is applied.
Each operation is planned against everything before it, so one batch at a time is under way. Operations that change
nothing are written together: a request with 20,000 unknown topics does not cause 20,000 syncs of the disk.
"""

from __future__ import annotations

import uuid
from base64 import urlsafe_b64encode
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from actors.messages.controller import OperationAnswer
from actors.messages.replica import group_name
from actors.runtime import Future
from log.machines.metadata.plans import Circumstances, CreateTopic, Plan, Request, plan
from log.machines.metadata.records import LeadershipConfirmed, MetadataRecord, RequestDone, encode
from protocol.error_codes import ErrorCode
from protocol.late_attrs import define
from protocol.records.batches import Record, build_batch

if TYPE_CHECKING:
    from actors.cluster_file.facts import ClusterFacts
    from actors.raft.context import BrokerContext
    from log.machines.metadata.metadata import Metadata, Topic

WAITING_MAX = 10_000
OPERATION_BYTES_MAX = 4 << 20
"""The largest batch of one operation. A larger one is refused before it is written."""
TOO_MANY = "too many operations wait; try again"
_TOGETHER_MAX, _TOGETHER_BYTES_MAX, _TOGETHER_SECONDS = 500, 1 << 18, 0.005
"""Operations that change nothing and are written as one batch: how many, of how many bytes, planned in how long."""


@define(slots=True, eq=False)
class QueuedOperation:
    """An operation, and the reply to its asker; None for an operation of the controller itself."""

    request: Request
    reply: Future[OperationAnswer] | None


Answers = list[tuple[QueuedOperation, str]]


@define(slots=True, eq=False)
class _UnderWay:
    """A batch with its number of records, and the operations that are answered once it is applied."""

    answers: Answers
    records: int


class OperationQueue:
    """See the module's docstring."""

    def __init__(
        self,
        metadata: Metadata,
        circumstances: Callable[[], Circumstances],
        now: Callable[[], float],
        wall_ms: Callable[[], int],
        warn: Callable[..., None],
    ) -> None:
        self._metadata = metadata
        self._circumstances = circumstances
        self._now = now
        self._wall_ms = wall_ms
        self._warn = warn
        self._waiting: deque[QueuedOperation] = deque()
        self._under_way: _UnderWay | None = None
        self._end = 0
        """The end offset of the batch that is under way."""

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= WAITING_MAX

    @property
    def is_under_way(self) -> bool:
        """Is a batch written that is not applied yet?"""
        return self._under_way is not None

    @property
    def topics_to_create(self) -> set[str]:
        """The names of topics whose creation waits."""
        return {one.request.name for one in self._waiting if isinstance(one.request, CreateTopic)}

    def add(self, request: Request, reply: Future[OperationAnswer] | None) -> None:
        self._waiting.append(QueuedOperation(request, reply))

    def next_batch(self) -> bytearray | None:
        """The batch to append next, if there is one: `appended` has to follow. Not while one is under way.

        It is planned against the metadata as it is applied, which must be everything that was ever committed.
        """
        assert self._under_way is None, "a batch is under way"
        while self._waiting:
            batch = self._plan_next()
            if batch is not None:
                return batch
        return None

    def own_batch(self, record: MetadataRecord) -> bytearray:
        """A batch of a record without an operation."""
        batch = self._batch([record], [])
        assert batch is not None
        return batch

    def appended(self, base: int) -> None:
        """The batch has this first offset."""
        assert self._under_way is not None, "no batch was planned"
        self._end = base + self._under_way.records

    def finish(self) -> None:
        """More of the metadata is applied: answer the operations that are done."""
        done = self._under_way
        if done is not None and self._metadata.applied >= self._end:
            self._under_way = None
            for one, answer in done.answers:
                self._answer(one, answer)

    def refuse_all(self, text: str) -> None:
        """Another broker is the controller now, or the disk failed. Written operations may still be done."""
        under_way = [] if self._under_way is None else self._under_way.answers
        waiting = [*(one for one, _ in under_way), *self._waiting]
        self._waiting.clear()
        self._under_way = None
        self._refuse(waiting, ErrorCode.NOT_CONTROLLER, text)

    def _plan_next(self) -> bytearray | None:
        """Plan one operation that changes something, or all those before it that change nothing.

        An operation that changes nothing (a refusal, a validation) leaves the next one the same metadata.
        """
        together: list[MetadataRecord] = []
        answers: Answers = []
        room, stop_at = _TOGETHER_BYTES_MAX, self._now() + _TOGETHER_SECONDS
        while self._waiting and len(answers) < _TOGETHER_MAX and room > 0 and self._now() < stop_at:
            one = self._waiting[0]
            known = self._metadata.answer_to(one.request.request_id)
            planned = None if known is not None else plan(self._metadata, one.request, self._circumstances())
            if planned is not None and planned.records and answers:
                break  # after these
            self._waiting.popleft()
            if planned is None:
                assert known is not None
                self._answer(one, known)
                continue
            for warning in planned.warnings:
                self._warn("controller: %s: %s", type(one.request).__name__, warning)
            if planned.records:
                return self._batch(planned.records, [(one, planned.answer)])
            if one.request.request_id:
                together.append(_nothing_done(one, planned))
                answers.append((one, planned.answer))
                room -= len(planned.answer)
            else:
                self._answer(one, planned.answer)
        return self._batch(together, answers) if together else None

    def _batch(self, records: list[MetadataRecord], answers: Answers) -> bytearray | None:
        """The batch that is under way from now on; None if it is too large, which is answered."""
        timestamp = self._wall_ms()
        batch = build_batch([Record(at, timestamp, None, encode(one), ()) for at, one in enumerate(records)])
        if len(batch) > OPERATION_BYTES_MAX and answers:
            text = f"the change takes {len(batch)} bytes of the metadata log; {OPERATION_BYTES_MAX} are allowed"
            refused = [one for one, _ in answers]
            self._refuse(refused, ErrorCode.INVALID_REQUEST, f"{text}; divide it into smaller changes")
            return None
        self._under_way = _UnderWay(answers, len(records))
        return batch

    def _refuse(self, waiting: Iterable[QueuedOperation], error: ErrorCode, text: str) -> None:
        answer = Plan(error, text).answer
        for one in waiting:
            self._answer(one, answer)

    def _answer(self, waiting: QueuedOperation, answer: str) -> None:
        if waiting.reply is not None and not waiting.reply.done:
            waiting.reply.set(OperationAnswer(answer, self._metadata.applied))


def _nothing_done(one: QueuedOperation, planned: Plan) -> MetadataRecord:
    """The record of a request that changes nothing.

    A refusal is written too: a deposed controller that does not know it yet must not answer from old metadata. So is a
    request that found nothing to do: a repetition of it must not be refused because of later operations. A refused
    request stays refused, because a second copy of it may come late, when its asker has gone on. Only an operation of
    the controller itself is tried again until it succeeds.
    """
    refused_itself = one.reply is None and planned.error != ErrorCode.NONE
    if refused_itself or getattr(one.request, "validate_only", False):
        return LeadershipConfirmed()
    return RequestDone(one.request.request_id, planned.answer)


def circumstances_of(cluster: ClusterFacts, context: BrokerContext, alive: frozenset[int]) -> Circumstances:
    """What a plan needs besides the metadata."""

    def in_sync(topic: Topic, number: int) -> tuple[int, ...]:
        led = context.leadership.of(group_name(topic.name, number, topic.id))
        return () if led is None or led.broker is None else led.in_sync

    return Circumstances(
        alive,
        lambda: new_topic_id(context),
        cluster.partitions_default,
        cluster.replication_factor_default,
        int(context.topic_defaults.get("min.insync.replicas", "1")),
        context.topic_defaults,
        cluster.partitions_max,
        frozenset(context.metadata.brokers.keys() - set(cluster.brokers)),
        in_sync,
    )


def new_topic_id(context: BrokerContext) -> str:
    """A topic id as Kafka writes it: a random UUID in base64 that does not begin with a dash."""
    while True:
        made = uuid.UUID(int=context.rng.getrandbits(128), version=4)
        text = urlsafe_b64encode(made.bytes).decode().rstrip("=")
        if not text.startswith("-") and text not in context.metadata.topics:
            return text
