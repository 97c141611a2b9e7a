"""Fetches from all leaders at once, ahead of the user, on the loop's thread.

Each broker has one fetch in flight; the next one is sent as soon as the answer is there, before the user has read its
records. A partition with enough buffered records is left out until some are read; when the whole buffer is full, no
fetch is sent. A waiting fetch that a seek has made useless is ended by closing its connection: its answer would take as
long as a fetch may wait. State that the user's thread reads too is under `changed`.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from functools import partial
from itertools import count
from typing import Any

from attrs import Factory, define, frozen

from protocol.apis import FETCH, LIST_OFFSETS
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, PartitionData
from protocol.messages.list_offsets import ListOffsetsResponse
from tools.client.errors import ClientError, ConnectionLost, ErrorClass, KafkaError, LogTruncated
from tools.client.metadata import TopicPartition
from tools.client.network.cluster import Cluster
from tools.client.network.connection import Ask
from tools.client.offsets import LATEST, OffsetAt, offsets_request, offsets_told
from tools.client.reading.fetch_session import FetchSession, Wanted
from tools.client.reading.fetched import Fetched

_log = logging.getLogger(__name__)
_LANE = "fetch"
_VERSION_WITHOUT_IDS = 12
_TURNS = count(1)


@frozen
class Fetching:
    """The settings of a consumer's fetches."""

    committed: bool = False
    reset: int | None = None
    """EARLIEST or LATEST: the position when the offset is not in the log, or the log was truncated; None: an error."""
    wait: float = 0.5
    bytes_min: int = 1
    bytes_max: int = 50 << 20
    partition_bytes: int = 1 << 20
    buffer_bytes: int = 64 << 20


@define(eq=False)
class Assigned:
    """One assigned partition. Every seek begins a new `turn`; answers to requests of an earlier turn are ignored."""

    where: TopicPartition
    wanted: int | None
    """The time or the end of the log at which to begin, until its offset is known."""
    position: int = -1
    """The offset of the next record for the user; −1 while it is not known."""
    epoch: int = -1
    """The leader epoch of the batch before `position`, if it is known."""
    fetch_offset: int = -1
    last_epoch: int = -1
    turn: int = 0
    is_paused: bool = False
    is_asking: bool = False
    fetched: deque[Fetched] = Factory(deque)
    buffered: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    failures: int = 0
    retry_at: float = 0.0
    error: ClientError | None = None
    is_out_of_range: bool = False
    """Is `fetch_offset` not in the log? The records that were fetched before are returned first."""

    def seek(self, offset: int | None, wanted: int | None = None) -> int:
        """Set the position. Returns the buffered bytes that are dropped."""
        freed, self.buffered = self.buffered, 0
        self.fetched.clear()
        self.turn = next(_TURNS)
        self.position = self.fetch_offset = -1 if offset is None else offset
        self.wanted = wanted
        self.epoch = self.last_epoch = -1
        self.is_asking = False
        self.failures, self.retry_at, self.error = 0, 0.0, None
        self.is_out_of_range = False
        return freed


class Fetcher:
    """Requests offsets and records of the assigned partitions from their leaders."""

    def __init__(self, cluster: Cluster, fetching: Fetching, changed: threading.Condition) -> None:
        self.assigned: dict[TopicPartition, Assigned] = {}  # replaced as a whole, by the user's thread
        self.buffered = 0  # under `changed`
        self.closed: ClientError | None = None
        self._cluster = cluster
        self._loop = cluster.loop
        self._fetching = fetching
        self._changed = changed
        self._sessions: dict[int, FetchSession] = {}
        self._busy: dict[int, dict[TopicPartition, tuple[int, Wanted]]] = {}
        cluster.listen(self.pump)
        cluster.loop.at_end(self._end)

    def pump(self) -> None:
        """Send all requests that are due."""
        if self.closed is not None:
            return
        now = self._loop.now()
        fetches: dict[int, dict[TopicPartition, tuple[int, Wanted]]] = {}
        lookups: dict[int, list[Assigned]] = {}
        unknown: list[str] = []
        view = self._cluster.view
        with self._changed:
            is_full = self.buffered >= self._fetching.buffer_bytes
            in_vain = [leader for leader, read in self._busy.items() if self._is_in_vain(read)]
            for one in self.assigned.values():
                if not self._may_ask_for(one, now):
                    continue
                known = view.partition(one.where)
                if known is None or known.leader is None:
                    unknown.append(one.where.topic)
                elif one.wanted is not None:
                    one.is_asking = True
                    lookups.setdefault(known.leader, []).append(one)
                elif not one.is_paused and not is_full and one.buffered < 4 * self._fetching.partition_bytes:
                    partition = FetchPartition(
                        partition=one.where.partition,
                        current_leader_epoch=known.epoch,
                        fetch_offset=one.fetch_offset,
                        last_fetched_epoch=one.last_epoch,
                        partition_max_bytes=self._fetching.partition_bytes,
                    )
                    wanted = Wanted(view.topic_id(one.where.topic), partition)
                    fetches.setdefault(known.leader, {})[one.where] = one.turn, wanted
        if unknown:
            self._cluster.want(unknown)
        for leader, asked in lookups.items():
            self._look_up(leader, asked)
        for leader, read in fetches.items():
            if leader not in self._busy:
                self._fetch(leader, read)
            elif leader in in_vain:
                self._hang_up(leader)

    def _may_ask_for(self, one: Assigned, now: float) -> bool:
        if one.is_out_of_range and not one.fetched:  # the user has all buffered records
            one.seek(None, self._fetching.reset)
        return not (one.error is not None or one.is_asking or one.is_out_of_range or one.retry_at > now)

    # -- offsets by time -------------------------------------------------------------------------------------------

    def _look_up(self, leader: int, asked: list[Assigned]) -> None:
        turns = {one.where: (one, one.turn) for one in asked}
        seconds = self._cluster.patience.request
        questions = [(one.where, one.wanted) for one in asked if one.wanted is not None]
        request = offsets_request(self._cluster.view, questions, committed=self._fetching.committed, seconds=seconds)
        way = self._cluster.way(leader)
        then = partial(self._looked_up, turns)
        if way is None:
            then(KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"broker {leader}"))
        else:
            way.ask(Ask(LIST_OFFSETS, request, then, self._loop.now() + seconds))

    def _looked_up(self, turns: dict[TopicPartition, tuple[Assigned, int]], response: Any) -> None:
        told = offsets_told(response) if isinstance(response, ListOffsetsResponse) else {}
        with self._changed:
            for where, (one, turn) in turns.items():
                if one.turn != turn or one.wanted is None:
                    continue
                one.is_asking = False
                answer = told.get(where, response)
                if isinstance(answer, OffsetAt) and answer.offset >= 0:
                    one.position = one.fetch_offset = answer.offset
                    one.wanted = None
                    one.failures = 0
                elif isinstance(answer, OffsetAt):
                    one.wanted = LATEST  # no record is that late: the next one will be
                elif isinstance(answer, ClientError):
                    self._failed(one, answer)
                else:
                    self._failed(
                        one, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the answer has no offset of {where}")
                    )
            self._changed.notify_all()
        self.pump()

    # -- records ---------------------------------------------------------------------------------------------------

    def _fetch(self, leader: int, read: dict[TopicPartition, tuple[int, Wanted]]) -> None:
        way = self._cluster.way(leader, _LANE)
        if way is None:
            return  # the broker is gone; metadata is being refreshed
        session = self._sessions.setdefault(leader, FetchSession())
        said = session.request({where: wanted for where, (_, wanted) in read.items()})
        fetching = self._fetching
        request = FetchRequest(
            max_wait_ms=int(fetching.wait * 1000),
            min_bytes=fetching.bytes_min,
            max_bytes=fetching.bytes_max,
            isolation_level=int(fetching.committed),
            session_id=said.session_id,
            session_epoch=said.session_epoch,
            topics=said.topics,
            forgotten_topics_data=said.forgotten,
        )
        self._busy[leader] = read
        deadline = self._loop.now() + fetching.wait + self._cluster.patience.request
        then = partial(self._fetched, leader, read)
        way.ask(Ask(FETCH, request, then, deadline, None if said.has_ids else _VERSION_WITHOUT_IDS))

    def _is_in_vain(self, read: dict[TopicPartition, tuple[int, Wanted]]) -> bool:
        """Was one of these partitions sought or removed since this fetch was sent?"""
        for where, (turn, _) in read.items():
            one = self.assigned.get(where)
            if one is None or one.turn != turn:
                return True
        return False

    def _hang_up(self, leader: int) -> None:
        del self._busy[leader]
        self._sessions[leader].restart()
        way = self._cluster.way(leader, _LANE)
        if way is not None:
            way.hang_up(ConnectionLost("the positions have changed"))
        self._loop.soon(self.pump)

    def _fetched(self, leader: int, read: dict[TopicPartition, tuple[int, Wanted]], response: Any) -> None:
        if self._busy.get(leader) is not read:
            return  # its connection was closed on purpose
        del self._busy[leader]
        session = self._sessions[leader]
        if isinstance(response, FetchResponse):
            session.answered(response.session_id, response.error_code)
            if response.error_code:
                response = KafkaError(response.error_code, f"a fetch from broker {leader}")
        if isinstance(response, ClientError):
            session.restart()
            self._all_failed(read, response)
        else:
            self._read(read, response)
        self.pump()

    def _all_failed(self, read: dict[TopicPartition, tuple[int, Wanted]], error: ClientError) -> None:
        is_session = isinstance(error, KafkaError) and error.code in (
            ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
            ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        )
        if is_session:
            return  # the next request opens another session
        with self._changed:
            for where, (turn, _) in read.items():
                one = self.assigned.get(where)
                if one is not None and one.turn == turn:
                    self._failed(one, error)
            self._changed.notify_all()

    def _read(self, read: dict[TopicPartition, tuple[int, Wanted]], response: FetchResponse) -> None:
        nodes = {one.node_id: (one.host, one.port) for one in response.node_endpoints}
        names = {wanted.topic_id: where.topic for where, (_, wanted) in read.items()}
        with self._changed:
            for topic in response.responses:
                name = topic.topic or names.get(topic.topic_id, "")
                for data in topic.partitions:
                    where = TopicPartition(name, data.partition_index)
                    one, asked = self.assigned.get(where), read.get(where)
                    if one is None or asked is None or one.turn != asked[0]:
                        continue  # the partition was sought meanwhile
                    named = data.current_leader
                    if named is not None and data.error_code:
                        address = nodes.get(named.leader_id)
                        if self._cluster.leader_named(where, named.leader_id, named.leader_epoch, address):
                            continue
                    self._take_in(one, data)
            self._changed.notify_all()

    def _take_in(self, one: Assigned, data: PartitionData) -> None:
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range(one)
            return
        if data.error_code:
            self._failed(one, KafkaError(data.error_code, f"records of {one.where}"))
            return
        if data.diverging_epoch is not None:
            self._diverged(one, data.diverging_epoch.end_offset)
            return
        one.failures = 0
        one.high_watermark, one.last_stable_offset = data.high_watermark, data.last_stable_offset
        one.log_start_offset = data.log_start_offset
        if not data.records:
            return
        aborted = data.aborted_transactions if self._fetching.committed else None
        try:
            fetched = Fetched(one.where, data.records, one.fetch_offset, aborted)
        except ProtocolError as error:
            self._failed(one, KafkaError(ErrorCode.CORRUPT_MESSAGE, f"records of {one.where}", str(error)))
            return
        if fetched.is_cut:
            limit = self._fetching.partition_bytes
            one.error = KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE, f"records of {one.where}", f"a batch has more than {limit} bytes"
            )
        elif fetched.end_offset > one.fetch_offset:
            one.fetch_offset, one.last_epoch = fetched.end_offset, fetched.last_epoch
            one.fetched.append(fetched)
            one.buffered += fetched.size
            self.buffered += fetched.size

    # -- errors ----------------------------------------------------------------------------------------------------

    def _out_of_range(self, one: Assigned) -> None:
        if self._fetching.reset is None:
            one.error = KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"records of {one.where}", f"there is no offset {one.fetch_offset}"
            )
        else:
            _log.warning("%s has no offset %d; reading continues at auto_offset_reset", one.where, one.fetch_offset)
            one.is_out_of_range = True

    def _diverged(self, one: Assigned, end_offset: int) -> None:
        """The log was truncated below this consumer's position."""
        error = LogTruncated(one.where, one.fetch_offset, end_offset)
        if self._fetching.reset is None:
            one.error = error
        else:
            _log.warning("%s", error)
            self.buffered -= one.seek(min(one.position, end_offset))  # buffered records are fetched again

    def _failed(self, one: Assigned, error: ClientError) -> None:
        if not error.kind.is_retriable:
            one.error = error
            return
        pause = self._cluster.patience.pause(one.failures)
        one.failures += 1
        one.retry_at = self._loop.now() + pause
        self._loop.after(pause, self.pump)
        if error.kind is ErrorClass.REFRESH:
            self._loop.soon(self._cluster.refresh)  # not under the lock

    def _end(self, error: ClientError) -> None:
        with self._changed:
            self.closed = error
            self._changed.notify_all()
