"""Requests for committed offsets: commit, fetch, delete; and the expiry of offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from log.machines.coordination import Caller, Moment, bytes_of
from log.machines.group.classic.group import ClassicGroup
from log.machines.group.group import Group, Shared
from log.machines.group.offsets.committed import NO_TOPIC_ID, Committed, CommittedOffsets, Place, tombstone
from log.machines.metadata.metadata import Topic
from log.machines.metadata.topic_ids import id_bytes, id_text
from protocol.error_codes import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponseTopic,
)
from protocol.records.batches import NO_PRODUCER

_TOPIC_IDS_FROM = 10
_NEW_GROUPS_FROM = 9
_SEVERAL_GROUPS_FROM = 8
_MS_A_MINUTE = 60_000

_Good = tuple[Topic, OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition, OffsetCommitResponsePartition]
"""An offset that may be committed, and the answer for it."""


class OffsetRequests:
    """Answers them for the groups of a partition. A group that only commits is made by its first commit."""

    __slots__ = ("_groups", "_new_group", "_offsets", "_shared", "_topics", "_untied")

    def __init__(
        self, shared: Shared, offsets: CommittedOffsets, groups: Mapping[str, Group], new_group: Callable[[str], Group]
    ) -> None:
        self._shared = shared
        self._offsets = offsets
        self._groups = groups
        self._new_group = new_group
        self._topics: dict[tuple[str, str], bool] = {}
        """Topics of committed offsets, by name and id: did the topic exist, as far as this broker knows?"""
        self._untied: set[str] = set()
        """Names of unknown topics for which there are offsets without a topic id."""

    def loaded(self) -> None:
        """Topics may have been deleted meanwhile: offsets carry the topic ids for which they were committed."""
        found = self._offsets.topics()
        self._topics = {topic: False for topic in found if topic[1] != NO_TOPIC_ID}
        self._untied = {name for name, topic_id in found if topic_id == NO_TOPIC_ID}
        self.metadata_changed()

    # -- commit ----------------------------------------------------------------------------------------------

    def commit(self, request: OffsetCommitRequest, caller: Caller, moment: Moment) -> None:
        known = [self._commit_topic(topic, caller.version) for topic in request.topics]
        error = ErrorCode.NONE
        if any(topic is not None for topic, _ in known):
            error = self._refuses_commit(request, caller.version, moment)
        expire_ms = -1 if request.retention_time_ms == -1 else moment.wall_ms + request.retention_time_ms
        good: list[_Good] = []
        answers = []
        for asked, (topic, unknown) in zip(request.topics, known, strict=True):
            partitions = self._check(asked.partitions, topic, unknown, error, good)
            answers.append(OffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id, partitions=partitions))
        self._put(request.group_id, good, moment, expire_ms)
        self._shared.effects.reply(caller, OffsetCommitResponse(topics=answers))

    def _commit_topic(self, asked: OffsetCommitRequestTopic, version: int) -> tuple[Topic | None, ErrorCode]:
        if version >= _TOPIC_IDS_FROM:
            return self._shared.metadata.topics.get(id_text(bytes(asked.topic_id))), ErrorCode.UNKNOWN_TOPIC_ID
        return self._shared.metadata.topic(asked.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _refuses_commit(self, request: OffsetCommitRequest, version: int, moment: Moment) -> ErrorCode:
        epoch = request.generation_id_or_member_epoch
        group = self._groups.get(request.group_id)
        if group is None:
            if epoch >= 0:
                return ErrorCode.GROUP_ID_NOT_FOUND if version >= _NEW_GROUPS_FROM else ErrorCode.ILLEGAL_GENERATION
            if self._shared.is_full(self._groups):
                return ErrorCode.POLICY_VIOLATION
            group = self._new_group(request.group_id)
        error = group.refuses_commit(request.member_id, request.group_instance_id, epoch, version, transactional=False)
        if error == ErrorCode.NONE and isinstance(group, ClassicGroup):
            group.showed_life(request.member_id, moment)
        return error

    def _check(
        self,
        asked: Sequence[OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition],
        topic: Topic | None,
        unknown: ErrorCode,
        error: ErrorCode,
        good: list[_Good],
    ) -> list[OffsetCommitResponsePartition]:
        """The answers for these partitions; those that may be committed are added to `good`."""
        answers = []
        for one in asked:
            code = unknown if topic is None else self._checked(one, topic, error)
            answer = OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=code)
            answers.append(answer)
            if code == ErrorCode.NONE and topic is not None:
                good.append((topic, one, answer))
        return answers

    def _checked(
        self, one: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition, topic: Topic, error: ErrorCode
    ) -> ErrorCode:
        if not 0 <= one.partition_index < len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if (
            error == ErrorCode.NONE
            and len(one.committed_metadata or "") > self._shared.config.offset_metadata_max_bytes
        ):
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return error

    def _put(
        self, group_id: str, good: Sequence[_Good], moment: Moment, expire_ms: int = -1, producer_id: int = NO_PRODUCER
    ) -> list[Callable[[], None]]:
        """All of a commit together, or none of it if that is too large for one batch. Gives what takes it back."""
        puts: list[tuple[Place, Committed]] = []
        for topic, one, _ in good:
            committed = Committed(
                one.committed_offset,
                one.committed_leader_epoch,
                one.committed_metadata or "",
                moment.wall_ms,
                expire_ms,
                topic.id,
            )
            puts.append(((topic.name, one.partition_index), committed))
        writes = [committed.record(group_id, place) for place, committed in puts]
        if bytes_of(writes) > self._shared.record_bytes_max():
            for _, _, told in good:
                told.error_code = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
            return []
        undo = []
        for place, committed in puts:
            if producer_id == NO_PRODUCER:
                self._offsets.put(group_id, place, committed)
            else:
                undo.append(self._offsets.hold(group_id, place, committed, producer_id))
            self._topics[place[0], committed.topic_id] = True
        self._shared.effects.records.extend(writes)
        return undo

    # -- transactions ----------------------------------------------------------------------------------------

    def commit_transactional(self, request: TxnOffsetCommitRequest, caller: Caller, moment: Moment) -> None:
        """Offsets that count when the producer's transaction is committed. Their records are the producer's."""
        known = [self._shared.metadata.topic(topic.name) for topic in request.topics]
        error = ErrorCode.NONE
        if any(topic is not None for topic in known):
            error = self._refuses_transactional(request, caller.version)
        good: list[_Good] = []
        answers = []
        for asked, topic in zip(request.topics, known, strict=True):
            partitions = self._check(asked.partitions, topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error, good)
            answers.append(TxnOffsetCommitResponseTopic(name=asked.name, partitions=partitions))
        undo = self._put(request.group_id, good, moment, producer_id=request.producer_id)
        if self._shared.effects.records:
            self._shared.effects.producer = (request.producer_id, request.producer_epoch)
            self._shared.effects.undo = partial(_in_reverse, undo)
        self._shared.effects.reply(caller, TxnOffsetCommitResponse(topics=answers))

    def _refuses_transactional(self, request: TxnOffsetCommitRequest, version: int) -> ErrorCode:
        group = self._groups.get(request.group_id)
        if group is None:
            if request.generation_id >= 0:
                return ErrorCode.ILLEGAL_GENERATION
            if self._shared.is_full(self._groups):
                return ErrorCode.POLICY_VIOLATION
            group = self._new_group(request.group_id)
        error = group.refuses_commit(
            request.member_id, request.group_instance_id, request.generation_id, version, transactional=True
        )
        # Transactional producers do not know errors of member epochs and would fail for good; on this one they abort.
        return ErrorCode.ILLEGAL_GENERATION if error == ErrorCode.STALE_MEMBER_EPOCH else error

    # -- fetch -----------------------------------------------------------------------------------------------

    def fetch(self, request: OffsetFetchRequest, caller: Caller) -> None:
        """All groups of the request. The router of requests sends each partition its own groups."""
        if caller.version >= _SEVERAL_GROUPS_FROM:
            groups = [self._fetch_group(one, caller.version, request.require_stable) for one in request.groups]
            self._shared.effects.reply(caller, OffsetFetchResponse(groups=groups))
            return
        asked = OffsetFetchRequestGroup(group_id=request.group_id, topics=request.topics)
        found = self._fetch_group(asked, caller.version, request.require_stable)
        self._shared.effects.reply(caller, OffsetFetchResponse(topics=found.topics, error_code=found.error_code))

    def _fetch_group(
        self,
        asked: OffsetFetchRequestGroup,
        version: int,
        require_stable: bool,  # noqa: FBT001 - the request's field
    ) -> OffsetFetchResponseGroup:
        group = self._groups.get(asked.group_id)
        error = ErrorCode.NONE if group is None else group.refuses_fetch(asked.member_id, asked.member_epoch)
        answer = OffsetFetchResponseGroup(group_id=asked.group_id, error_code=error)
        if error != ErrorCode.NONE:
            return answer
        topics = list(self._all_topics(asked.group_id)) if asked.topics is None else asked.topics
        for topic in topics:
            name: str | None = topic.name
            topic_id = topic.topic_id
            if version >= _TOPIC_IDS_FROM and asked.topics is not None:
                found = self._shared.metadata.topics.get(id_text(bytes(topic_id)))
                name = None if found is None else found.name
            elif version >= _TOPIC_IDS_FROM:
                found = self._shared.metadata.topic(topic.name)
                if found is None:
                    continue
                topic_id = id_bytes(found.id)
            partitions = [self.told(asked.group_id, name, number, require_stable) for number in topic.partition_indexes]
            answer.topics.append(OffsetFetchResponseTopics(name=name or "", topic_id=topic_id, partitions=partitions))
        return answer

    def _all_topics(self, group_id: str) -> Iterator[OffsetFetchRequestTopics]:
        topics: dict[str, list[int]] = {}
        for (topic, partition), _ in self._offsets.of(group_id):
            topics.setdefault(topic, []).append(partition)
        for name, partitions in topics.items():
            yield OffsetFetchRequestTopics(name=name, partition_indexes=partitions)

    def told(
        self,
        group_id: str,
        topic: str | None,
        partition: int,
        require_stable: bool,  # noqa: FBT001 - the request's field
    ) -> OffsetFetchResponsePartitions:
        """The answer for one partition."""
        error, committed = ErrorCode.NONE, None
        if topic is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID
        elif require_stable and self._offsets.is_pending(group_id, (topic, partition)):
            error = ErrorCode.UNSTABLE_OFFSET_COMMIT
        else:
            committed = self._offsets.get(group_id, (topic, partition))
            if committed is not None and self._is_of_another(topic, committed.topic_id):
                committed = None
        if committed is None:
            return OffsetFetchResponsePartitions(partition_index=partition, committed_offset=-1, error_code=error)
        return OffsetFetchResponsePartitions(
            partition_index=partition,
            committed_offset=committed.offset,
            committed_leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
        )

    # -- delete ----------------------------------------------------------------------------------------------

    def delete(self, request: OffsetDeleteRequest, caller: Caller) -> None:
        group = self._groups.get(request.group_id)
        error = ErrorCode.NONE
        if group is None:
            error = ErrorCode.GROUP_ID_NOT_FOUND
        elif isinstance(group, ClassicGroup) and not group.is_empty and not group.uses_consumer_protocol:
            error = ErrorCode.NON_EMPTY_GROUP
        if group is None or error != ErrorCode.NONE:
            self._shared.effects.reply(caller, OffsetDeleteResponse(error_code=error))
            return
        answers = []
        for topic in request.topics:
            in_use = group.is_subscribed_to(topic.name)
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if in_use else ErrorCode.NONE
            answer = OffsetDeleteResponseTopic(name=topic.name)
            for one in topic.partitions:
                place = (topic.name, one.partition_index)
                if not in_use and self._has(request.group_id, place):
                    self.drop(request.group_id, place)
                answer.partitions.append(
                    OffsetDeleteResponsePartition(partition_index=one.partition_index, error_code=code)
                )
            answers.append(answer)
        self._shared.effects.reply(caller, OffsetDeleteResponse(topics=answers))

    def drop_all(self, group_id: str) -> None:
        """The group goes, so do its offsets."""
        for place in self._offsets.places(group_id):
            self.drop(group_id, place)

    def drop(self, group_id: str, place: Place) -> None:
        self._offsets.drop(group_id, place)
        self._shared.effects.records.append(tombstone(group_id, place))
        self._shared.effects.cut()

    def _has(self, group_id: str, place: Place) -> bool:
        return self._offsets.get(group_id, place) is not None or self._offsets.is_pending(group_id, place)

    # -- expiry of offsets ---------------------------------------------------------------------------------------

    def expire(self, group: Group, moment: Moment) -> bool:
        """Drop what is too old. True if nothing is left."""
        retention_ms = self._shared.config.offsets_retention_minutes * _MS_A_MINUTE
        left = self._offsets.has_pending(group.group_id)
        for place, committed in list(self._offsets.of(group.group_id)):
            since = committed.commit_ms
            if isinstance(group, ClassicGroup):
                aging = group.offsets_age_since(since)
                if aging is None:
                    return False
                since = aging
            expires_ms = since + retention_ms if committed.expire_ms == -1 else committed.expire_ms
            held = self._offsets.is_pending(group.group_id, place) or group.is_subscribed_to(place[0])
            if held or not moment.is_sure or moment.wall_ms < expires_ms:
                left = True
            else:
                self.drop(group.group_id, place)
        return not left

    def metadata_changed(self) -> None:
        """Offsets of a topic that was deleted are gone, even if there is another of its name already."""
        self._tie()
        for topic in self._topics:
            if topic[1] in self._shared.metadata.topics:
                self._topics[topic] = True
        gone = {topic for topic in self._topics if self._is_gone(*topic)}
        if not gone:
            return
        for group_id, place in self._offsets.everything():
            topic_ids = self._offsets.topic_ids(group_id, place)
            lost = {topic_id for topic_id in topic_ids if (place[0], topic_id) in gone}
            if lost == topic_ids:
                self.drop(group_id, place)
            elif lost:  # a tombstone would delete offsets of other topics, too
                self._offsets.drop_of(group_id, place, lost)
        for topic in gone:
            del self._topics[topic]

    def _is_gone(self, name: str, topic_id: str) -> bool:
        """Did the topic exist and was it deleted? A topic that never existed may be unknown to this broker so far."""
        return self._topics.get((name, topic_id), False) and topic_id not in self._shared.metadata.topics

    def _is_of_another(self, name: str, topic_id: str) -> bool:
        """Does another topic have the name of this one now?"""
        if topic_id == NO_TOPIC_ID or topic_id in self._shared.metadata.topics:
            return False
        return self._is_gone(name, topic_id) or self._shared.metadata.topic(name) is not None

    def _tie(self) -> None:
        """Offsets without a topic id belong to the first topic of that name that is known here."""
        found = {name: topic.id for name in self._untied if (topic := self._shared.metadata.topic(name)) is not None}
        if found:
            self._offsets.tie(found)
            self._untied -= found.keys()
            self._topics.update(dict.fromkeys(found.items(), True))


def _in_reverse(undo: Sequence[Callable[[], None]]) -> None:
    """A commit may name a partition twice."""
    for take_back in reversed(undo):
        take_back()
