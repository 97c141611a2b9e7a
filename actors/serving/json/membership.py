"""A connection as a member of a group: what it is assigned, and how far it has read.

It is a member by Kafka's newer protocol (KIP-848): the broker heartbeats for it, and the coordinator says what it owns.
Partitions come and go between two polls; one that goes is given back at once, one that comes is read from the group's
committed offset. A client that does not poll for too long leaves the group, as one that is gone.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from actors.serving.at_coordinator import ask_coordinator, tell_coordinator
from log.machines.metadata.topic_ids import id_bytes, id_text
from protocol.apis import CONSUMER_GROUP_HEARTBEAT, OFFSET_COMMIT, OFFSET_FETCH
from protocol.error_codes import ErrorCode
from protocol.late_attrs import define
from protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

if TYPE_CHECKING:
    from actors.serving.connection import Connection

ANSWER_SECONDS = 10.0
REBALANCE_MS = 60_000
RETRY_SECONDS = 0.2
HEARTBEAT_VERSION, COMMIT_VERSION, FETCH_VERSION = 1, 9, 9
JOINS, LEAVES = 0, -1
CLIENT_ID = "json"
FENCED = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})

Offsets = dict[tuple[str, int], int]
"""Offsets by topic name and partition."""
Committed = Callable[[dict[tuple[str, int], ErrorCode]], None]
Where = tuple[str, int]
"""A partition: the id of its topic, and its number."""


@define(slots=True)
class Owned:
    """A partition that is assigned to this member. `position` is None until it is known where to begin."""

    topic: str
    number: int
    position: int | None = None


class GroupMembership:
    """The membership of one connection in one group."""

    def __init__(
        self,
        connection: Connection,
        group: str,
        topics: tuple[str, ...],
        poll_seconds_max: float,
        changed: Callable[[], None],
    ) -> None:
        """`changed()` is called when there is an answer from the coordinator, and when partitions have come or gone."""
        self._connection = connection
        self.group = group
        self.topics = topics
        self._poll_seconds_max = poll_seconds_max
        self._changed = changed
        self.member_id = str(uuid.UUID(int=connection.serving.context.rng.getrandbits(128), version=4))
        self.epoch = JOINS
        self.owned: dict[Where, Owned] = {}
        self.error: tuple[ErrorCode, str] | None = None
        """Why the connection is a member no longer."""
        self.joined = False
        """Has the coordinator sent an assignment, be it empty?"""
        self._told_owned: tuple[Where, ...] | None = None
        self._asking = False
        self._beats = 0
        self.used_at = connection.now
        self._beat()

    def leave(self, then: Callable[[], None]) -> None:
        """Be a member no longer; `then` once the coordinator knows, or cannot be reached."""
        if self.error is not None:
            then()
            return
        self._end(ErrorCode.UNKNOWN_MEMBER_ID, "this connection has left its group")
        self._ask(self._farewell, lambda _answer, _error: then())

    def abandon(self) -> None:
        """The client is gone: tell the coordinator, if it can be reached at once. Otherwise the session expires."""
        if self.error is None:
            self.error = (ErrorCode.UNKNOWN_MEMBER_ID, "this connection is gone")
            tell_coordinator(
                self._connection,
                self.group,
                CONSUMER_GROUP_HEARTBEAT,
                HEARTBEAT_VERSION,
                self._farewell,
                client_id=CLIENT_ID,
            )

    @property
    def _farewell(self) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(group_id=self.group, member_id=self.member_id, member_epoch=LEAVES)

    # -- heartbeats ------------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        if self._asking or self.error is not None:
            return
        if self._connection.now - self.used_at > self._poll_seconds_max:
            text = f"this connection has not polled for {self._poll_seconds_max:g} s and was taken out of its group"
            self._ask(self._farewell, lambda _answer, _error: None)
            self._end(ErrorCode.UNKNOWN_MEMBER_ID, text)
            return
        self._asking = True
        joins = self.epoch == JOINS
        owned = () if joins else tuple(sorted(self.owned))
        # All fields, every time: then the answer has the assignment, even if an earlier answer was lost.
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=list(self.topics),
            topic_partitions=_by_topic(owned),
        )

        def answered(response: ConsumerGroupHeartbeatResponse | None, error: ErrorCode) -> None:
            self._asking = False
            if self.error is None:
                self._answered(response, error, owned)

        self._ask(request, answered)

    def _ask(
        self,
        request: ConsumerGroupHeartbeatRequest,
        then: Callable[[ConsumerGroupHeartbeatResponse | None, ErrorCode], None],
    ) -> None:
        deadline = self._connection.now + ANSWER_SECONDS
        ask_coordinator(
            self._connection, self.group, CONSUMER_GROUP_HEARTBEAT, HEARTBEAT_VERSION, request, deadline,
            lambda response: response.error_code, then, client_id=CLIENT_ID,
        )  # fmt: skip

    def _answered(
        self, response: ConsumerGroupHeartbeatResponse | None, error: ErrorCode, told: tuple[Where, ...]
    ) -> None:
        if error in FENCED:
            self.epoch, self._told_owned = JOINS, None
            self.owned.clear()
            self._changed()
            self._beat_after(0.0)
        elif error == ErrorCode.COORDINATOR_NOT_AVAILABLE:
            self._beat_after(RETRY_SECONDS)
        elif error != ErrorCode.NONE or response is None:
            self._end(error, (response.error_message if response is not None else None) or error.name)
        else:
            self.epoch, self._told_owned = response.member_epoch, told
            if response.assignment is not None:
                self._assigned(response.assignment)
            now = self._told_owned != tuple(sorted(self.owned))
            self._beat_after(0.0 if now else response.heartbeat_interval_ms / 1000)

    def _beat_after(self, seconds: float) -> None:
        self._beats += 1
        number = self._beats

        def beat() -> None:
            if number == self._beats:
                self._beat()

        self._connection.later(seconds, beat)

    def _end(self, error: ErrorCode, text: str) -> None:
        self.error = (error, text)
        self.owned.clear()
        self._changed()

    # -- what is assigned ------------------------------------------------------------------------------------------

    def _assigned(self, assignment: Assignment) -> None:
        wanted = {
            (id_text(topic.topic_id), number) for topic in assignment.topic_partitions for number in topic.partitions
        }
        for where in [where for where in self.owned if where not in wanted]:
            del self.owned[where]
        came = []
        for where in sorted(wanted - self.owned.keys()):
            topic = self._connection.serving.metadata.topics.get(where[0])
            if topic is not None:  # else this broker does not know it (yet): the next answer has it again
                self.owned[where] = Owned(topic.name, where[1])
                came.append(where)
        if came:
            self._find_positions(came)
        if not self.joined or not came:
            self.joined = True
            self._changed()

    def _find_positions(self, came: list[Where]) -> None:
        """Fetch the committed offsets of these partitions."""
        topics: dict[str, list[int]] = {}
        for where in came:
            topics.setdefault(self.owned[where].topic, []).append(where[1])
        request = OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id=self.group,
                    member_id=self.member_id,
                    member_epoch=self.epoch,
                    topics=[
                        OffsetFetchRequestTopics(name=name, partition_indexes=which) for name, which in topics.items()
                    ],
                )
            ],
            require_stable=True,
        )

        def found(response: OffsetFetchResponse | None, error: ErrorCode) -> None:
            missing = [where for where in came if where in self.owned and self.owned[where].position is None]
            if response is not None and error == ErrorCode.NONE:
                committed = {
                    (topic.name, one.partition_index): one
                    for topic in response.groups[0].topics
                    for one in topic.partitions
                }
                for where in missing:
                    one = committed.get((self.owned[where].topic, where[1]))
                    if one is not None and one.error_code == ErrorCode.NONE:
                        self.owned[where].position = one.committed_offset  # -1: nothing was committed
                missing = [where for where in missing if self.owned[where].position is None]
            if missing and self.error is None:
                self._connection.later(RETRY_SECONDS, lambda: self._find_again(missing))
            self._changed()

        deadline = self._connection.now + ANSWER_SECONDS
        ask_coordinator(
            self._connection, self.group, OFFSET_FETCH, FETCH_VERSION, request, deadline,
            lambda response: response.groups[0].error_code, found, client_id=CLIENT_ID,
        )  # fmt: skip

    def _find_again(self, missing: list[Where]) -> None:
        still = [where for where in missing if where in self.owned and self.owned[where].position is None]
        if still and self.error is None:
            self._find_positions(still)

    # -- commits ---------------------------------------------------------------------------------------------------

    def commit(self, offsets: Offsets, then: Committed) -> None:
        """Note that the group has read topics and partitions up to these offsets. `then` gets the outcome for each.

        Only of what is assigned to this member, from now until it is done: another may have read further by then.
        """
        mine = self._by_name()
        owned = {place: mine[place] for place in offsets if place in mine}
        self._commit(offsets, owned, self._connection.now + ANSWER_SECONDS, then)

    def _by_name(self) -> dict[tuple[str, int], Owned]:
        return {(one.topic, one.number): one for one in self.owned.values()}

    def _commit(self, asked: Offsets, owned: dict[tuple[str, int], Owned], deadline: float, then: Committed) -> None:
        mine = self._by_name()
        offsets = {place: asked[place] for place, one in owned.items() if mine.get(place) is one}
        gone = {place: ErrorCode.STALE_MEMBER_EPOCH for place in asked if place not in offsets}
        if not offsets:
            then(gone)
            return
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, number), offset in offsets.items():
            partition = OffsetCommitRequestPartition(partition_index=number, committed_offset=offset)
            topics.setdefault(topic, []).append(partition)
        request = OffsetCommitRequest(
            group_id=self.group,
            member_id=self.member_id,
            generation_id_or_member_epoch=self.epoch,
            topics=[OffsetCommitRequestTopic(name=name, partitions=which) for name, which in topics.items()],
        )

        def answered(response: OffsetCommitResponse | None, error: ErrorCode) -> None:
            if response is None:
                then({**dict.fromkeys(offsets, error), **gone})
            elif error == ErrorCode.STALE_MEMBER_EPOCH and self._connection.now < deadline and self.error is None:
                # A newer epoch is on its way to us.
                self._connection.later(RETRY_SECONDS / 10, lambda: self._commit(asked, owned, deadline, then))
            else:
                then({**_outcomes(response), **gone})

        ask_coordinator(
            self._connection,
            self.group,
            OFFSET_COMMIT,
            COMMIT_VERSION,
            request,
            deadline,
            _first_error,
            answered,
            client_id=CLIENT_ID,
        )


def _first_error(response: OffsetCommitResponse) -> int:
    """An error of the coordinator is that of every partition."""
    return next((one.error_code for topic in response.topics for one in topic.partitions), ErrorCode.NONE)


def _outcomes(response: OffsetCommitResponse) -> dict[tuple[str, int], ErrorCode]:
    return {
        (topic.name, one.partition_index): ErrorCode(one.error_code)
        for topic in response.topics
        for one in topic.partitions
    }


def _by_topic(owned: tuple[Where, ...]) -> list[TopicPartitions]:
    topics: dict[str, list[int]] = {}
    for topic_id, number in owned:
        topics.setdefault(topic_id, []).append(number)
    return [TopicPartitions(topic_id=id_bytes(topic_id), partitions=which) for topic_id, which in topics.items()]
