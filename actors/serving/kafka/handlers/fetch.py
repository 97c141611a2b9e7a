"""Fetch: committed records of some partitions. The response waits until they are enough, or the time is up.

The records are slices of files, which the kernel sends. Every partition is read at once, and once only, however often
a request names it; if together they have more than was asked for, those at the end are left for the next request. The
first batch may be larger than any limit, or it could never be read. While slices that wait to be sent hold too many
files open, only one partition of a request gets records, as a copy in memory. While bytes are lacking, the replicas are
asked to report more.

Left out: fetching by followers, which replicate in another way, and preferred read replicas.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import evolve

from actors.messages.replica import FetchExpired, LogMoved, ReadSlice, SliceRead, UnwatchLog, WatchLog
from actors.runtime import Future, Gather
from actors.serving.fetch_sessions import INITIAL_EPOCH, FetchSession, Key, Wanted, partitions_of
from actors.serving.kafka.handlers.leaders import endpoints
from log.disk.slice import Slice
from protocol.error_codes import ErrorCode
from protocol.late_attrs import define
from protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from protocol.records.batches import parse_batches
from protocol.records.compression import Codec

if TYPE_CHECKING:
    from actors.runtime import Address
    from actors.runtime.timers import Timer
    from actors.serving.kafka.connection import Call
    from log.machines.metadata.metadata import Topic

SLICE_BYTES_MIN = 1025  # what the codec would copy is read
BYTES_MAX = 55 << 20  # fetch.max.bytes of a broker
READ_COMMITTED = 1
ZSTD_FROM = 10
LOOKED_AT_BYTES_MAX = 256 << 10
"""Of one partition, for clients so old that every batch has to be looked at for zstd, unless one batch is larger."""
FILES_MAX = 256
"""Slices of files in one answer. Each may hold a descriptor until it is sent; other partitions get
no records, and their turn comes with the next request."""
PAUSE_EVERY = 16
"""So many partitions are soon done with, and most requests name fewer: a pause costs as much as the work."""
ABORTED_AT_ONCE_MAX = 100
"""Aborted transactions that an answer may name and still be encoded without a pause."""
Slices = Generator[None, None, None]


def handle(call: Call[FetchRequest]) -> FetchResponse | Generator[None, None, None]:
    request, serving = call.request, call.serving
    if request.replica_id >= 0 or (request.replica_state is not None and request.replica_state.replica_id >= 0):
        return FetchResponse(error_code=ErrorCode.INVALID_REQUEST)  # replicas here do not fetch
    now = serving.node.scheduler.clock.now()
    found = serving.sessions.find(request, call.version, now)
    if isinstance(found, ErrorCode):
        return FetchResponse(error_code=found)
    return _Fetch(call, found).begin()


@define(slots=True, eq=False)
class _Read:
    """One partition of one fetch."""

    place: int
    """Among the partitions of its fetch."""
    wanted: Wanted
    topic: Topic | None
    answer: PartitionData
    replica: Address | None = None
    """The replica on this broker, if the partition exists."""
    is_of_file: bool = False
    """Was a slice of a file read for the answer?"""
    beyond: int = 0
    """Bytes of the next segments: an answer has one segment's records, but min_bytes counts what is there."""
    withheld: bool = False
    """Is there more, which is not given now because slices hold too many files open?"""
    end: int = -1
    """Where the replica begins to count more bytes, once this was read."""
    more: int = 0
    """Bytes that the replica has reported since this was read."""
    is_watched: bool = False
    """Will its replica report more?"""


class _Fetch:
    """One request until it is answered. Work on many partitions is done in slices.

    A fetch that lacks bytes has every replica report when more can be read (WatchLog, LogMoved). It adds up the
    reported bytes, and when they are all that it lacked, it reads the partitions that moved again. A replica reports
    once, and is asked again while the fetch lacks bytes; if the fetch has one partition, the second report comes when
    all of these bytes are there. So a fetch whose time is up knows which partitions moved, and reads these again before
    it is answered.
    """

    __slots__ = (
        "_call", "_deadline", "_files", "_gather", "_is_committed", "_is_waiting", "_is_watching", "_lacks", "_moved",
        "_number", "_reads", "_session", "_timer",
    )  # fmt: skip

    def __init__(self, call: Call[FetchRequest], session: FetchSession | None) -> None:
        self._call = call
        self._session = session
        self._is_committed = call.request.isolation_level == READ_COMMITTED
        """Does the client read committed records only?"""
        self._reads: list[_Read] = []
        self._number = 0
        self._timer: Timer | None = None
        self._deadline = call.serving.node.scheduler.clock.now() + call.request.max_wait_ms / 1000
        self._lacks = 0
        """How many bytes it lacks, after all that was read or reported."""
        self._moved: dict[int, _Read] = {}
        """The partitions of which more was reported than was read, by place."""
        self._is_watching = False
        """Is everything read, and too little found? Then every replica is asked to report more."""
        self._is_waiting = False
        """Has every replica been asked?"""
        self._gather: Gather
        """Counts the reads that are under way."""
        self._files = 0
        """Slices of files that were read for it."""

    def begin(self) -> Slices:
        """Ask for every partition, once however often it is named. Of a partition named twice the last counts."""
        request, serving, session = self._call.request, self._call.serving, self._session
        if session is None:
            named: dict[Key, Wanted] = {}
            for count, one in enumerate(partitions_of(request), 1):
                named[one.key] = one
                if not count % PAUSE_EVERY:
                    yield
        elif (yield from serving.sessions.update(session, request)):
            named = session.partitions
        else:
            yield from self._call.answering(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
            return
        for place, one in enumerate(list(named.values())):
            self._reads.append(_Read(place, one, serving.topic_by(one.topic, one.topic_id), _nothing(one)))
            if not (place + 1) % PAUSE_EVERY:
                yield
        yield from self._read(self._reads)

    # -- reading -----------------------------------------------------------------------------------------------

    def _read(self, reads: list[_Read]) -> Slices:
        self._gather = Gather(self._all_answered)
        for read in reads:
            wanted, topic, number = read.wanted, read.topic, read.wanted.partition.partition
            if topic is None:
                by_id = any(wanted.topic_id)
                missing = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                read.answer = _failed(wanted, missing)
            elif not 0 <= number < len(topic.partitions):
                read.answer = _failed(wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                self._ask(read, topic)
            yield
        self._gather.done()

    def _ask(self, read: _Read, topic: Topic, *, copied: bool = False) -> None:
        self._gather.begin()
        if read.end >= 0:  # the slice of an earlier read goes first, and its file with it
            self._files -= read.is_of_file
            read.answer = _nothing(read.wanted)
            read.beyond, read.withheld, read.is_of_file = 0, False, False
        asked = read.wanted.partition
        message = ReadSlice(
            asked.fetch_offset, self._limit(asked), self._is_committed, asked.current_leader_epoch,
            asked.last_fetched_epoch, copied,
        )  # fmt: skip
        read.replica = self._call.serving.replica(topic, asked.partition)
        self._call.connection.ask(read.replica, message, partial(self._was_read, read))

    def _limit(self, asked: FetchPartition) -> int:
        limit = min(asked.partition_max_bytes, self._call.request.max_bytes, BYTES_MAX)
        return max(limit if self._call.version >= ZSTD_FROM else min(limit, LOOKED_AT_BYTES_MAX), 1)

    def _was_read(self, read: _Read, future: Future[Any]) -> None:
        if future.exception is not None:  # there is no replica here, or it ended before it answered
            read.answer = _failed(read.wanted, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            found: SliceRead = future.get()
            if found.slice.file is not None and self._files >= FILES_MAX:
                found = evolve(found, slice=found.slice.withheld(), withheld=True)
            read.is_of_file = found.slice.file is not None
            self._files += read.is_of_file
            read.answer, read.beyond = _answer(read.wanted, found), found.slice.beyond
            read.withheld = found.withheld
            readable = found.last_stable_offset if self._is_committed else found.high_watermark
            read.end, read.more = max(readable, read.wanted.partition.fetch_offset), 0
            self._moved.pop(read.place, None)
        self._gather.done()

    def _all_answered(self) -> None:
        self._call.connection.in_slices(self._was_all_read())

    def _was_all_read(self) -> Slices:
        withheld = yield from self._first_withheld()
        if withheld is not None:
            assert withheld.topic is not None
            self._gather = Gather(self._all_answered)
            self._ask(withheld, withheld.topic, copied=True)
            self._gather.done()
            return
        if (yield from self._is_enough()) or self._is_over():
            yield from self._answer()
            return
        yield from self._watch()
        self._is_waiting = True
        self._go_on()

    def _first_withheld(self) -> Generator[None, None, _Read | None]:
        """A partition of which something must be given, in memory: else the client would ask in vain, and again."""
        first = None
        for count, read in enumerate(self._reads, 1):
            if read.answer.records:
                return None
            if first is None and read.withheld:
                first = read
            if not count % PAUSE_EVERY:
                yield
        return first

    def _is_over(self) -> bool:
        """Is the time up, or is the client gone?"""
        call = self._call
        return call.serving.node.scheduler.clock.now() >= self._deadline or call.connection.heard_all

    def _is_enough(self) -> Generator[None, None, bool]:
        request = self._call.request
        if request.max_wait_ms <= 0 or not self._reads:
            return True
        lacks = request.min_bytes
        for count, read in enumerate(self._reads, 1):
            answer = read.answer
            if answer.error_code != ErrorCode.NONE or answer.diverging_epoch is not None:
                return True
            lacks -= len(answer.records or b"") + read.beyond
            if not count % PAUSE_EVERY:
                yield
        self._lacks = lacks
        for read in self._moved.values():
            self._lacks -= read.more
        return lacks <= 0

    # -- waiting -----------------------------------------------------------------------------------------------

    def _watch(self) -> Slices:
        """Have every replica report when it has more, unless enough is reported meanwhile."""
        connection = self._call.connection
        self._is_watching = True
        if self._timer is None:
            self._number = connection.wait_for_more(self)
            left = self._deadline - self._call.serving.node.scheduler.clock.now()
            self._timer = connection.after(max(left, 0.0), FetchExpired(self._number))
        for read in self._reads:
            if self._lacks <= 0:
                return
            if not read.is_watched:
                self._watch_one(read)
            yield

    def _watch_one(self, read: _Read) -> None:
        connection = self._call.connection
        wanted = self._lacks if read.more and len(self._reads) == 1 else 1
        watch = WatchLog(
            connection.address, self._number, read.place, read.end, self._is_committed, max(self._lacks, 1), wanted
        )
        read.is_watched = True
        assert read.replica is not None
        if not connection.send(read.replica, watch):
            read.is_watched = False
            self._note_more(read, self._call.request.min_bytes)  # the next read gets the error

    def _note_more(self, read: _Read, size: int) -> None:
        self._moved[read.place] = read
        read.more += size
        self._lacks -= size

    def moved(self, message: LogMoved) -> None:
        """A replica has more to read, or leads no longer."""
        read = self._reads[message.place]
        read.is_watched = False
        if message.end < 0:
            self._note_more(read, self._call.request.min_bytes)
        elif message.end > read.end:
            self._note_more(read, message.size)
            read.end = message.end
        if self._is_watching and self._lacks > 0:
            self._watch_one(read)
        self._go_on()

    def expired(self) -> None:
        self._deadline = -math.inf
        self._go_on()

    def _go_on(self) -> None:
        """Once enough is reported or the time is up, read the partitions that moved again; answer if none has."""
        if self._is_waiting and (self._lacks <= 0 or self._is_over()):
            self._is_watching = self._is_waiting = False
            moved = list(self._moved.values())
            self._call.connection.in_slices(self._read(moved) if moved else self._answer())

    def _unwatch(self) -> Slices:
        connection = self._call.connection
        for read in self._reads:
            if read.is_watched:
                read.is_watched = False
                assert read.replica is not None
                connection.send(read.replica, UnwatchLog(connection.address, self._number))
            yield

    def abandon(self) -> None:
        """The connection ends."""
        for _ in self._unwatch():
            pass

    # -- answering ---------------------------------------------------------------------------------------------

    def _answer(self) -> Slices:
        call, serving, request = self._call, self._call.serving, self._call.request
        if self._timer is not None:
            self._timer.cancel()
            yield from self._unwatch()
            call.connection.wait_no_longer(self._number)
        yield from self._keep_within(request.max_bytes)
        if call.version < ZSTD_FROM:
            yield from self._keep_from_zstd()
        response = FetchResponse()
        told = yield from self._news()
        if self._session is not None:
            response.session_id = self._session.id
        elif call.version >= 7 and request.session_epoch == INITIAL_EPOCH:
            now = serving.node.scheduler.clock.now()
            response.session_id = serving.sessions.open([read.wanted for read in told], call.version, now)
        leaders = yield from self._fill(response, told)
        if leaders and call.version >= 16:
            response.node_endpoints = [
                NodeEndpoint(node_id=one.broker, host=one.host, port=one.port) for one in endpoints(serving, leaders)
            ]
        if len(told) < PAUSE_EVERY and sum(len(_aborted(read)) for read in told) <= ABORTED_AT_ONCE_MAX:
            call.answer_at_once(response)
        else:
            yield from call.answering(response)

    def _news(self) -> Generator[None, None, list[_Read]]:
        """What the client is told: everything, or in a session what has changed."""
        session = self._session
        if session is None:
            for count, read in enumerate(self._reads, 1):
                read.wanted.is_news(read.answer)
                if not count % PAUSE_EVERY:
                    yield
            return self._reads
        told = []
        for count, read in enumerate(self._reads, 1):
            if read.wanted.is_news(read.answer):
                told.append(read)
                if read.answer.records and read.wanted.key in session.partitions:
                    session.partitions.move_to_end(read.wanted.key)  # the others come first next time
            if not count % PAUSE_EVERY:
                yield
        return told

    def _keep_within(self, bytes_max: int) -> Slices:
        """What is too much goes, but for the first."""
        left, is_first = min(bytes_max, BYTES_MAX), True
        for count, read in enumerate(self._reads, 1):
            size = len(read.answer.records or b"")
            if size and not is_first and size > left:
                read.answer.records = b""
            else:
                left -= size
                is_first = is_first and not size
            if not count % PAUSE_EVERY:
                yield

    def _keep_from_zstd(self) -> Slices:
        """Clients that are so old could not read it."""
        for read in self._reads:
            records: object = read.answer.records
            data = records.read() if isinstance(records, Slice) else read.answer.records or b""
            if any(header.codec is Codec.ZSTD for header in parse_batches(data).headers):
                read.answer = _failed(read.wanted, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
            yield

    def _fill(self, response: FetchResponse, told: list[_Read]) -> Generator[None, None, set[int]]:
        """Put the answers in, by topic. Gives the leaders that are named in them."""
        leaders: set[int] = set()
        by_topic: dict[tuple[str, bytes], FetchableTopicResponse] = {}
        for count, read in enumerate(told, 1):
            wanted, answer = read.wanted, read.answer
            if answer.error_code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH) and read.topic:
                led = self._call.serving.led(read.topic, answer.partition_index)
                if self._call.version >= 12 and led is not None and led.broker is not None:
                    answer.current_leader = LeaderIdAndEpoch(leader_id=led.broker, leader_epoch=led.epoch)
                    leaders.add(led.broker)
            topic = by_topic.get((wanted.topic, wanted.topic_id))
            if topic is None:
                topic = FetchableTopicResponse(topic=wanted.topic, topic_id=wanted.topic_id)
                by_topic[wanted.topic, wanted.topic_id] = topic
                response.responses.append(topic)
            topic.partitions.append(answer)
            if not count % PAUSE_EVERY:
                yield
        return leaders


def _aborted(read: _Read) -> list[AbortedTransaction]:
    return read.answer.aborted_transactions or []


def _nothing(wanted: Wanted) -> PartitionData:
    return PartitionData(partition_index=wanted.partition.partition, records=b"")


def _failed(wanted: Wanted, error: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=wanted.partition.partition, error_code=error, high_watermark=-1, records=b"",
        aborted_transactions=None,
    )  # fmt: skip


def _answer(wanted: Wanted, read: SliceRead) -> PartitionData:
    if read.error != ErrorCode.NONE:
        answer = _failed(wanted, ErrorCode(read.error))
        if read.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            answer.high_watermark, answer.log_start_offset = read.high_watermark, read.log_start_offset
        return answer
    found = read.slice
    answer = PartitionData(
        partition_index=wanted.partition.partition,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.log_start_offset,
        aborted_transactions=None,
        records=found if found.file is not None and found.size >= SLICE_BYTES_MIN else found.read(),  # type: ignore[arg-type]
    )
    if read.aborted is not None:
        answer.aborted_transactions = [
            AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset) for one in read.aborted
        ]
    if read.diverged is not None:
        answer.diverging_epoch = EpochEndOffset(epoch=read.diverged[0], end_offset=read.diverged[1])
    return answer
