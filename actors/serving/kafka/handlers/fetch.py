"""Fetch: what is committed of some partitions, held back until there is enough of it or the time is up.

The records are slices of files, which the kernel sends. Every partition is read at once, and once only, however often
a request names it; where together they are more than was asked for, those at the end are left for the next request. The
first batch may be larger than any limit, or it could never be read. While nothing is there, the replicas are asked to
say when that changes. While slices that wait to be sent hold too many files open, only one partition of a request gets
records, as a copy in memory.

Left out: fetching by followers, which replicate in another way, and preferred read replicas.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import evolve

from actors.messages.replica import FetchExpired, ReadSlice, SliceRead, UnwatchLog, WatchLog
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
"""Slices of files in one answer. Each may hold a descriptor until it is sent; other partitions are told to have no
records, and their turn comes with the next request."""
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

    wanted: Wanted
    topic: Topic | None
    answer: PartitionData
    beyond: int = 0
    """Bytes of the next segments: an answer has one segment's records, but min_bytes counts what is there."""
    withheld: bool = False
    """Is there more, which is not given now because slices hold too many files open?"""


class _Fetch:
    """One request until it is answered. Whatever takes time for each partition is done in slices."""

    __slots__ = (
        "_call", "_deadline", "_files", "_gather", "_is_waiting", "_moved", "_number", "_reads", "_session", "_timer",
    )  # fmt: skip

    def __init__(self, call: Call[FetchRequest], session: FetchSession | None) -> None:
        self._call = call
        self._session = session
        self._reads: list[_Read] = []
        self._number = 0
        self._timer: Timer | None = None
        self._deadline = call.serving.node.scheduler.clock.now() + call.request.max_wait_ms / 1000
        self._is_waiting = False
        """Is everything read, too little found, and every replica asked to say when that changes?"""
        self._moved = False
        """Did some replica say so before all were asked?"""
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
        for count, one in enumerate(list(named.values()), 1):
            self._reads.append(_Read(one, serving.topic_by(one.topic, one.topic_id), _nothing(one)))
            if not count % PAUSE_EVERY:
                yield
        yield from self._read_all()

    # -- reading -----------------------------------------------------------------------------------------------

    def _read_all(self) -> Slices:
        self._moved = False
        self._files = 0
        self._gather = Gather(self._all_answered)
        for read in self._reads:
            wanted, topic, number = read.wanted, read.topic, read.wanted.partition.partition
            if topic is None:
                by_id = any(wanted.topic_id)
                missing = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                read.answer = _failed(wanted, missing)
            elif not 0 <= number < len(topic.partitions):
                read.answer = _failed(wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                read.answer = _nothing(wanted)  # what was read before goes first, and its file with it
                self._ask(read, topic)
            yield
        self._gather.done()

    def _ask(self, read: _Read, topic: Topic, *, copied: bool = False) -> None:
        self._gather.begin()
        read.beyond, read.withheld = 0, False
        asked = read.wanted.partition
        message = ReadSlice(
            asked.fetch_offset, self._limit(asked), self._call.request.isolation_level == READ_COMMITTED,
            asked.current_leader_epoch, asked.last_fetched_epoch, copied,
        )  # fmt: skip
        replica = self._call.serving.replica(topic, asked.partition)
        self._call.connection.ask(replica, message, partial(self._was_read, read))

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
            self._files += found.slice.file is not None
            read.answer, read.beyond = _answer(read.wanted, found), found.slice.beyond
            read.withheld = found.withheld
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
        if not self._moved:
            yield from self._watch()
        if self._moved:
            yield from self._read_all()
        elif self._is_over():  # while this was asked
            yield from self._answer()
        else:
            self._is_waiting = True

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
        size = 0
        for count, read in enumerate(self._reads, 1):
            answer = read.answer
            if answer.error_code != ErrorCode.NONE or answer.diverging_epoch is not None:
                return True
            size += len(answer.records or b"") + read.beyond
            if not count % PAUSE_EVERY:
                yield
        return size >= request.min_bytes

    # -- waiting -----------------------------------------------------------------------------------------------

    def _watch(self) -> Slices:
        """Nothing, or not enough, is there: have every replica say when it has more."""
        connection, serving = self._call.connection, self._call.serving
        if self._timer is None:
            self._number = connection.wait_for_more(self)
            left = self._deadline - serving.node.scheduler.clock.now()
            self._timer = connection.after(max(left, 0.0), FetchExpired(self._number))
        committed = self._call.request.isolation_level == READ_COMMITTED
        for read in self._reads:
            assert read.topic is not None
            end = read.answer.last_stable_offset if committed else read.answer.high_watermark
            watch = WatchLog(connection.address, self._number, end, committed)
            if not connection.send(serving.replica(read.topic, read.wanted.partition.partition), watch):
                self._moved = True
            yield

    def _unwatch(self) -> Slices:
        connection, serving = self._call.connection, self._call.serving
        for read in self._reads:
            assert read.topic is not None
            address = serving.replica(read.topic, read.wanted.partition.partition)
            connection.send(address, UnwatchLog(connection.address, self._number))
            yield

    def more(self) -> None:
        """Some replica has more to read, or is gone."""
        if self._is_waiting:
            self._is_waiting = False
            self._call.connection.in_slices(self._read_all())
        else:
            self._moved = True

    def expired(self) -> None:
        if self._is_waiting:  # else what is being read is the answer
            self._is_waiting = False
            self._call.connection.in_slices(self._answer())

    # -- answering ---------------------------------------------------------------------------------------------

    def _answer(self) -> Slices:
        call, serving, request = self._call, self._call.serving, self._call.request
        if self._timer is not None:
            self._timer.cancel()
            call.connection.wait_no_longer(self._number)
            yield from self._unwatch()
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
