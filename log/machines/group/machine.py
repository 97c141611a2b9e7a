"""Every group of one partition of __consumer_offsets: finds the group of a request, lists, describes, deletes, expires.

OffsetFetch names several groups from version 8 on, DescribeGroups, DeleteGroups and ConsumerGroupDescribe always do:
the router of requests splits them by partition, and each machine answers for the groups of its partition. A group of
another partition does not exist here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from log.machines.coordination import RECORD_BYTES_MAX, Caller, Effects, Moment
from log.machines.deadlines import Deadlines
from log.machines.group.classic.group import ClassicGroup, leaving_members, left_response, refused_join
from log.machines.group.classic.members import NO_MEMBER, PROTOCOLS_MAX
from log.machines.group.config import GroupConfig
from log.machines.group.consumer.description import described
from log.machines.group.consumer.group import ConsumerGroup
from log.machines.group.consumer.heartbeat import HeartbeatRefused, refusal
from log.machines.group.consumer.member import JOIN_EPOCH
from log.machines.group.facts import GroupFacts, classic_facts, consumer_facts
from log.machines.group.group import Group, Shared
from log.machines.group.migration import classic_speakers
from log.machines.group.migration.migration import downgraded, upgraded
from log.machines.group.offsets.committed import Committed, CommittedOffsets
from log.machines.group.offsets.requests import OffsetRequests
from log.machines.group.rebalances import Rebalance
from log.machines.metadata.metadata import Metadata
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from protocol.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.group_records import (
    KEYS,
    VALUES,
    ConsumerGroupMetadataKey,
    GroupMetadataKey,
    OffsetCommitKey,
)
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from protocol.records.batches import NO_PRODUCER
from protocol.schema.codec import decode_versioned, version_of

R = TypeVar("R", SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest)

DUE_AT_ONCE = 200
"""Groups with a due timeout that are served without a pause. Further ones are served right after these."""
EXPIRED_AT_ONCE = 1000
"""Groups and offsets that are examined without a pause for their expiry."""
_AGAIN_SECONDS = 0.1
_ABSENCE_IS_AN_ERROR_FROM = 6
_FULL = (
    "This partition of __consumer_offsets has as many groups as offsets.topic.max.groups.per.partition allows; "
    "delete unused groups, or raise it."
)


class GroupMachine:
    """The facade. See coordination.py for how it is driven."""

    def __init__(
        self,
        metadata: Metadata,
        config: GroupConfig,
        new_id: Callable[[], str],
        record_bytes_max: Callable[[], int] = lambda: RECORD_BYTES_MAX,
    ) -> None:
        self._shared = Shared(metadata, config, new_id, record_bytes_max)
        self._groups: dict[str, Group] = {}
        self._offsets = CommittedOffsets()
        self._offset_requests = OffsetRequests(self._shared, self._offsets, self._groups, self._new_classic)
        self._deadlines: Deadlines[str] = Deadlines()
        self._next_expiry: float | None = None
        self._to_expire: deque[str] = deque()
        """Groups that are still to be examined in this round."""

    # -- effects ---------------------------------------------------------------------------------------------

    @property
    def effects(self) -> Effects:
        return self._shared.effects

    def take_effects(self) -> Effects:
        """What came of the last call, and leave none."""
        taken, self._shared.effects = self._shared.effects, Effects()
        return taken

    def offset_of(self, group_id: str, topic: str, partition: int) -> Committed | None:
        """The committed offset, as it was replayed or decided."""
        return self._offsets.get(group_id, (topic, partition))

    def offset_told(self, group_id: str, topic: str, partition: int) -> int:
        """The committed offset that an OffsetFetch would answer; -1 without one."""
        return self._offset_requests.told(group_id, topic, partition, False).committed_offset

    # -- records ---------------------------------------------------------------------------------------------

    def replay(self, key: bytes, value: bytes | None, producer_id: int = NO_PRODUCER) -> None:
        """Take in a record. The producer's id is that of a record in a transaction. Unknown kinds are left alone."""
        kind = version_of(key)
        if kind not in KEYS:
            return
        decoded_key = decode_versioned(KEYS[kind], key)
        decoded = None if value is None else decode_versioned(VALUES[kind], value)
        if isinstance(decoded_key, OffsetCommitKey):
            self._replay_offset(decoded_key, decoded, producer_id)
        elif isinstance(decoded_key, GroupMetadataKey):
            self._replay_classic(decoded_key.group, decoded)
        else:
            self._replay_consumer(decoded_key, decoded)

    def replay_marker(self, producer_id: int, *, committed: bool) -> None:
        """The end of a producer's transaction, where it stands in the log."""
        self.transaction_ended(producer_id, committed=committed)

    def loaded(self, moment: Moment) -> None:
        """All records were replayed: sessions begin again."""
        for group in self._groups.values():
            group.loaded(moment)
            self._schedule(group)
        self._offset_requests.loaded()
        self._next_expiry = self._expiry_after(moment)

    def _replay_offset(self, key: OffsetCommitKey, value: Any, producer_id: int) -> None:
        place = (key.topic, key.partition)
        if value is None:
            self._offsets.drop(key.group, place)
            return
        self._offsets.put(key.group, place, Committed.recorded(value), producer_id)
        if key.group not in self._groups and producer_id == NO_PRODUCER:
            self._new_classic(key.group)

    def _replay_classic(self, group_id: str, value: Any) -> None:
        if value is not None:
            self._groups[group_id] = ClassicGroup.recorded(group_id, self._shared, value)
        elif isinstance(self._groups.get(group_id), ClassicGroup):
            del self._groups[group_id]

    def _replay_consumer(self, key: Any, value: Any) -> None:
        """Where a group id had both kinds of group, the one that was written last exists."""
        group = self._groups.get(key.group_id)
        if not isinstance(group, ConsumerGroup):
            if value is None:
                return
            group = self._groups[key.group_id] = ConsumerGroup(key.group_id, self._shared)
        group.replay(key, value)
        if value is None and isinstance(key, ConsumerGroupMetadataKey):
            del self._groups[key.group_id]

    # -- time ------------------------------------------------------------------------------------------------

    @property
    def next_deadline(self) -> float | None:
        due = (self._deadlines.next, self._next_expiry)
        return min((at for at in due if at is not None), default=None)

    def tick(self, moment: Moment) -> None:
        """Do what is due. Groups without a due timeout cost nothing."""
        for _ in range(DUE_AT_ONCE):
            group_id = self._deadlines.pop_due(moment.now)
            if group_id is None:
                break
            group = self._groups.get(group_id)
            if group is not None:
                group.tick(moment)
                self._settle(group, moment)
                self.effects.cut()
        if self._next_expiry is not None and moment.now >= self._next_expiry:
            if not self._to_expire:
                self._to_expire.extend(self._groups)
            self._expire(moment)
            self._next_expiry = moment.now + _AGAIN_SECONDS if self._to_expire else self._expiry_after(moment)

    def expire_offsets_now(self, moment: Moment) -> None:
        """Let the next look at old offsets be due."""
        if self._next_expiry is not None:
            self._next_expiry = moment.now

    def end_session(self, group_id: str, member_id: str, moment: Moment) -> None:
        """Treat this member as silent for too long."""
        group = self._groups[group_id]
        group.end_session(member_id, moment)
        self._schedule(group)
        self.tick(moment)

    def metadata_changed(self, moment: Moment) -> None:
        """Topics came, went or grew."""
        self._offset_requests.metadata_changed()
        for group in self._groups.values():
            if isinstance(group, ConsumerGroup):
                group.metadata_changed(moment)
                self._schedule(group)
                self.effects.cut()

    def _schedule(self, group: Group) -> None:
        at = group.next_deadline
        if at is None:
            self._deadlines.clear(group.group_id)
        else:
            self._deadlines.set(group.group_id, at)

    def _expiry_after(self, moment: Moment) -> float:
        return moment.now + self._shared.config.offsets_retention_check_interval_ms / 1000

    def _expire(self, moment: Moment) -> None:
        """Look at some of the groups of this round."""
        left = EXPIRED_AT_ONCE
        while self._to_expire and left > 0:
            group = self._groups.get(self._to_expire.popleft())
            if group is None:
                continue  # it was deleted meanwhile
            left -= 1 + self._offsets.count(group.group_id)
            nothing_left = self._offset_requests.expire(group, moment)
            comes = isinstance(group, ClassicGroup) and bool(group.members.pending)
            if nothing_left and group.is_empty and not comes:
                self._remove(group)

    # -- transactions ----------------------------------------------------------------------------------------

    def transaction_ended(self, producer_id: int, *, committed: bool) -> None:
        """A marker of the producer's transaction is in the log: its offsets count now, or never did."""
        for group_id in self._offsets.transaction_ended(producer_id, committed=committed):
            if committed and group_id not in self._groups:
                self._new_classic(group_id)

    # -- requests --------------------------------------------------------------------------------------------

    def handle(self, request: object, caller: Caller, moment: Moment) -> None:
        """Answered by the effects of this call or of a later one."""
        _HANDLERS[type(request)](self, request, caller, moment)

    def _join(self, request: JoinGroupRequest, caller: Caller, moment: Moment) -> None:
        config = self._shared.config
        low, high = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
        group = self._groups.get(request.group_id)
        error = ErrorCode.NONE
        if not request.group_id:
            error = ErrorCode.INVALID_GROUP_ID
        elif not low <= request.session_timeout_ms <= high:
            error = ErrorCode.INVALID_SESSION_TIMEOUT
        elif len(request.protocols) > PROTOCOLS_MAX:
            error = ErrorCode.INVALID_REQUEST
        elif request.member_id != NO_MEMBER and (
            group is None or (group.is_empty and isinstance(group, ConsumerGroup))
        ):
            error = ErrorCode.UNKNOWN_MEMBER_ID
        elif group is None and self._shared.is_full(self._groups):
            error = ErrorCode.POLICY_VIOLATION
        if error != ErrorCode.NONE:
            self.effects.reply(caller, refused_join(caller, request.member_id, error))
            return
        if isinstance(group, ConsumerGroup):
            if not group.is_empty:
                classic_speakers.join(group, request, caller, moment)
                self._settle(group, moment)
                return
            self.effects.records.extend(group.tombstones())
        if not isinstance(group, ClassicGroup):
            group = self._new_classic(request.group_id)
        group.join(request, caller, moment)
        self._keep_if_used(group)

    def _keep_if_used(self, group: Group) -> None:
        """A group that was made for a request that was then refused does not stay."""
        if isinstance(group, ClassicGroup) and group.is_unused and not self._offsets.has_any(group.group_id):
            del self._groups[group.group_id]
            self._deadlines.clear(group.group_id)
        else:
            self._schedule(group)

    def _settle(self, group: Group, moment: Moment) -> None:
        """The group has served a request. It goes back to the classic protocol when no member speaks the new one."""
        if isinstance(group, ConsumerGroup) and group.is_classic_again:
            group = self._groups[group.group_id] = downgraded(group, self._shared, moment)
        self._schedule(group)

    def _sync(self, request: SyncGroupRequest, caller: Caller, moment: Moment) -> None:
        if not self._is_served(ClassicGroup.sync, classic_speakers.sync, request, caller, moment):
            self.effects.reply(caller, SyncGroupResponse(error_code=_absent(request.group_id)))

    def _heartbeat(self, request: HeartbeatRequest, caller: Caller, moment: Moment) -> None:
        if not self._is_served(ClassicGroup.heartbeat, classic_speakers.heartbeat, request, caller, moment):
            self.effects.reply(caller, HeartbeatResponse(error_code=_absent(request.group_id)))

    def _leave(self, request: LeaveGroupRequest, caller: Caller, moment: Moment) -> None:
        if self._is_served(ClassicGroup.leave, classic_speakers.leave, request, caller, moment):
            return
        error, leaving = _absent(request.group_id), leaving_members(request, caller)
        if error == ErrorCode.UNKNOWN_MEMBER_ID:
            self.effects.reply(caller, left_response(leaving, [error] * len(leaving), caller))
        else:
            self.effects.reply(caller, LeaveGroupResponse(error_code=error))

    def _is_served(
        self,
        by_classic: Callable[[ClassicGroup, R, Caller, Moment], None],
        by_new: Callable[[ConsumerGroup, R, Caller, Moment], None],
        request: R,
        caller: Caller,
        moment: Moment,
    ) -> bool:
        """Have the group of a request of the classic protocol serve it. False if the group does not exist."""
        group = self._groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            by_new(group, request, caller, moment)
        elif isinstance(group, ClassicGroup):
            by_classic(group, request, caller, moment)
        else:
            return False
        self._settle(group, moment)
        return True

    def _consumer_heartbeat(self, request: ConsumerGroupHeartbeatRequest, caller: Caller, moment: Moment) -> None:
        """The first member makes the group. It takes the place of a classic one, with that group's members."""
        known = self._groups.get(request.group_id)
        if isinstance(known, ConsumerGroup):
            known.heartbeat(request, caller, moment)
            self._settle(known, moment)
            return
        if request.group_id and request.member_epoch != JOIN_EPOCH:
            text = _not_of_kind(request.group_id, known, "consumer")
            refused = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=text)
            self.effects.reply(caller, refused)
            return
        if isinstance(known, ClassicGroup) and not known.is_empty:
            self._upgrade(known, request, caller, moment)
            return
        if known is None and self._shared.is_full(self._groups):
            self.effects.reply(caller, refusal(HeartbeatRefused(ErrorCode.POLICY_VIOLATION, _FULL)))
            return
        group = ConsumerGroup(request.group_id, self._shared)
        group.heartbeat(request, caller, moment)
        if group.is_new:
            return
        if known is not None:
            self.effects.records[:0] = known.tombstones()
        self._groups[request.group_id] = group
        self._schedule(group)

    def _upgrade(
        self, classic: ClassicGroup, request: ConsumerGroupHeartbeatRequest, caller: Caller, moment: Moment
    ) -> None:
        """The first member of the new protocol joins: the group goes over to it, unless the member is refused."""
        written = len(self.effects.records)
        try:
            group = upgraded(classic, self._shared, moment)
        except HeartbeatRefused as error:
            self.effects.reply(caller, refusal(error))
            return
        group.heartbeat(request, caller, moment)
        if group.is_classic_again:
            del self.effects.records[written:]
            return
        classic.dissolve()
        self._groups[request.group_id] = group
        self._schedule(group)

    def _consumer_describe(self, request: ConsumerGroupDescribeRequest, caller: Caller, _moment: Moment) -> None:
        groups = []
        for group_id in request.group_ids:
            group = self._groups.get(group_id)
            if isinstance(group, ConsumerGroup):
                groups.append(described(group))
                continue
            text, error = _not_of_kind(group_id, group, "consumer"), ErrorCode.GROUP_ID_NOT_FOUND
            groups.append(DescribedConsumerGroup(group_id=group_id, error_code=error, error_message=text))
        self.effects.reply(caller, ConsumerGroupDescribeResponse(groups=groups))

    def _commit(self, request: OffsetCommitRequest, caller: Caller, moment: Moment) -> None:
        self._offset_requests.commit(request, caller, moment)
        if request.group_id in self._groups:
            self._keep_if_used(self._groups[request.group_id])

    def _commit_transactional(self, request: TxnOffsetCommitRequest, caller: Caller, moment: Moment) -> None:
        self._offset_requests.commit_transactional(request, caller, moment)
        if request.group_id in self._groups:
            self._keep_if_used(self._groups[request.group_id])
        undo = self.effects.undo
        if undo is not None:
            self.effects.undo = partial(self._take_back, request.group_id, undo)

    def _take_back(self, group_id: str, undo: Callable[[], None]) -> None:
        """The log refused the offsets of a transaction. A group that was made for them does not stay."""
        undo()
        if group_id in self._groups:
            self._keep_if_used(self._groups[group_id])

    def _fetch(self, request: OffsetFetchRequest, caller: Caller, _moment: Moment) -> None:
        self._offset_requests.fetch(request, caller)

    def _delete_offsets(self, request: OffsetDeleteRequest, caller: Caller, _moment: Moment) -> None:
        self._offset_requests.delete(request, caller)

    def _describe(self, request: DescribeGroupsRequest, caller: Caller, _moment: Moment) -> None:
        groups = [self._described(group_id, caller.version) for group_id in request.groups]
        self.effects.reply(caller, DescribeGroupsResponse(groups=groups))

    def _described(self, group_id: str, version: int) -> DescribedGroup:
        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return group.describe()
        absent = DescribedGroup(group_id=group_id, group_state="Dead")
        if version >= _ABSENCE_IS_AN_ERROR_FROM:
            absent.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            absent.error_message = _not_of_kind(group_id, group, "classic")
        return absent

    def _list(self, request: ListGroupsRequest, caller: Caller, _moment: Moment) -> None:
        states = {state.lower() for state in request.states_filter}
        types = {one.lower() for one in request.types_filter}
        listed = [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=str(group.state),
                group_type=group.group_type,
            )
            for group in self._groups.values()
            if (not states or group.state.lower() in states) and (not types or group.group_type in types)
        ]
        self.effects.reply(caller, ListGroupsResponse(groups=listed))

    def _delete(self, request: DeleteGroupsRequest, caller: Caller, _moment: Moment) -> None:
        results = [
            DeletableGroupResult(group_id=group_id, error_code=self._deleted(group_id))
            for group_id in request.groups_names
        ]
        self.effects.reply(caller, DeleteGroupsResponse(results=results))

    def _deleted(self, group_id: str) -> ErrorCode:
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if not group.is_empty:
            return ErrorCode.NON_EMPTY_GROUP
        self._remove(group)
        return ErrorCode.NONE

    # -- groups ----------------------------------------------------------------------------------------------

    def _new_classic(self, group_id: str) -> ClassicGroup:
        group = ClassicGroup(group_id, self._shared)
        self._groups[group_id] = group
        return group

    def _remove(self, group: Group) -> None:
        """The group and all that it ever wrote."""
        self._offset_requests.drop_all(group.group_id)
        self.effects.records.extend(group.tombstones())
        self.effects.cut()
        self._deadlines.clear(group.group_id)
        del self._groups[group.group_id]

    # -- facts -----------------------------------------------------------------------------------------------

    def rebalances(self, group_id: str) -> tuple[Rebalance, ...]:
        """The last ones, oldest first."""
        group = self._groups.get(group_id)
        return () if group is None else tuple(group.rebalances)

    def facts(self, group_id: str) -> GroupFacts | None:
        """The group as it is now, of which not everything need be committed yet."""
        group = self._groups.get(group_id)
        offsets = tuple(self._offsets.of(group_id))
        if isinstance(group, ClassicGroup):
            return classic_facts(group, offsets)
        return consumer_facts(group, offsets) if isinstance(group, ConsumerGroup) else None


def _not_of_kind(group_id: str, group: Group | None, kind: str) -> str:
    return f"Group {group_id} is {'not found' if group is None else f'not a {kind} group'}."


def _absent(group_id: str) -> ErrorCode:
    """The error for a member of a group that does not exist."""
    return ErrorCode.UNKNOWN_MEMBER_ID if group_id else ErrorCode.INVALID_GROUP_ID


_HANDLERS: dict[type, Callable[[GroupMachine, Any, Caller, Moment], None]] = {
    JoinGroupRequest: GroupMachine._join,
    SyncGroupRequest: GroupMachine._sync,
    HeartbeatRequest: GroupMachine._heartbeat,
    LeaveGroupRequest: GroupMachine._leave,
    OffsetCommitRequest: GroupMachine._commit,
    TxnOffsetCommitRequest: GroupMachine._commit_transactional,
    OffsetFetchRequest: GroupMachine._fetch,
    OffsetDeleteRequest: GroupMachine._delete_offsets,
    ConsumerGroupHeartbeatRequest: GroupMachine._consumer_heartbeat,
    ConsumerGroupDescribeRequest: GroupMachine._consumer_describe,
    DescribeGroupsRequest: GroupMachine._describe,
    ListGroupsRequest: GroupMachine._list,
    DeleteGroupsRequest: GroupMachine._delete,
}
