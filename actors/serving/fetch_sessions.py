"""Fetch sessions (KIP-227): a client names its partitions once; later requests and responses have only what changed.

Sessions belong to a broker, not to a connection: a client may go on over another one. There are so many at a time; a
new one takes the place of the one that was not used for longest, if that was not used for two minutes.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Collection, Generator, Iterator

from attrs import Factory

from protocol.error_codes import ErrorCode
from protocol.late_attrs import define
from protocol.messages.fetch import FetchPartition, FetchRequest, PartitionData

SESSIONS_MAX = 1000  # max.incremental.fetch.session.cache.slots
PARTITIONS_MAX = 10_000
"""The most partitions of one session. A client that reads more names them all in every request."""
PARTITIONS_IN_ALL_MAX = 200_000
"""The most partitions of all sessions of a broker together: about 100 MB."""
EVICT_SECONDS = 120.0  # min.incremental.fetch.session.eviction.ms
BY_ID_FROM = 13
"""The version of Fetch from which topics have ids instead of names."""
INITIAL_EPOCH, FINAL_EPOCH = 0, -1
_EPOCH_MAX = (1 << 31) - 1
_ID_MAX = (1 << 31) - 1

Key = tuple[str, bytes, int]


@define(slots=True, eq=False)
class Wanted:
    """A partition that a client reads, and what the last response said of it."""

    topic: str
    topic_id: bytes
    partition: FetchPartition
    high_watermark: int = -1
    log_start_offset: int = -1

    @property
    def key(self) -> Key:
        return self.topic, self.topic_id, self.partition.partition

    def is_news(self, answer: PartitionData) -> bool:
        """Must the response have this? It is noted as sent."""
        told = (self.high_watermark, self.log_start_offset)
        self.high_watermark, self.log_start_offset = answer.high_watermark, answer.log_start_offset
        if answer.error_code != ErrorCode.NONE:
            self.high_watermark = -1  # the end of the error is news, too
            return True
        changed = told != (answer.high_watermark, answer.log_start_offset)
        return changed or bool(answer.records) or answer.diverging_epoch is not None


@define(slots=True, eq=False)
class FetchSession:
    """What one client reads."""

    id: int
    epoch: int = INITIAL_EPOCH
    """The epoch that the client's next request must have."""
    by_id: bool = False
    """Does it name topics by id? Then it has no names of them."""
    partitions: OrderedDict[Key, Wanted] = Factory(OrderedDict)
    used_at: float = 0.0

    def next_epoch(self) -> None:
        self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1


class FetchSessions:
    """The sessions of one broker."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()  # the least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, request: FetchRequest, version: int, now: float) -> FetchSession | ErrorCode | None:
        """The session of this request, which `update` brings up to date; None if it has none; or why it is refused."""
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(request.session_id, None)
            return None
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_id != (version >= BY_ID_FROM):
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        self._sessions.move_to_end(session.id)
        session.used_at = now
        session.next_epoch()
        return session

    def update(self, session: FetchSession, request: FetchRequest) -> Generator[None, None, bool]:
        """Note what a request adds, changes and forgets, with a pause after each partition.

        False if the session got too many partitions: it is closed, and the client begins another.
        """
        known, before = session.partitions, len(session.partitions)
        for wanted in partitions_of(request):
            known.setdefault(wanted.key, wanted).partition = wanted.partition
            yield
        for forgotten in request.forgotten_topics_data:
            for number in forgotten.partitions:
                known.pop((forgotten.topic, forgotten.topic_id, number), None)
                yield
        if len(known) > before and (len(known) > PARTITIONS_MAX or self.partitions > PARTITIONS_IN_ALL_MAX):
            self._sessions.pop(session.id, None)
            return False
        return True

    def partitions_in(self, number: int) -> Collection[Wanted]:
        """The partitions that the session of this number reads; none if there is no such session."""
        session = self._sessions.get(number)
        return () if session is None else session.partitions.values()

    @property
    def partitions(self) -> int:
        """The partitions of all sessions."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def open(self, wanted: Collection[Wanted], version: int, now: float) -> int:
        """A session for these partitions; 0 if they or the sessions are too many, and the client goes on without."""
        if len(wanted) > PARTITIONS_MAX:
            return 0
        left = PARTITIONS_IN_ALL_MAX - len(wanted) - self.partitions
        while len(self._sessions) >= SESSIONS_MAX or left < 0:
            oldest = next(iter(self._sessions.values()))
            if now - oldest.used_at < EVICT_SECONDS:
                return 0
            left += len(oldest.partitions)
            del self._sessions[oldest.id]
        number = self._rng.randint(1, _ID_MAX)
        while number in self._sessions:
            number = self._rng.randint(1, _ID_MAX)
        partitions = OrderedDict((one.key, one) for one in wanted)
        self._sessions[number] = FetchSession(number, INITIAL_EPOCH + 1, version >= BY_ID_FROM, partitions, now)
        return number


def partitions_of(request: FetchRequest) -> Iterator[Wanted]:
    """The partitions that a request names."""
    for topic in request.topics:
        for partition in topic.partitions:
            yield Wanted(topic.topic, topic.topic_id, partition)
