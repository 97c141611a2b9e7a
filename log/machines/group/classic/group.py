"""A group whose members assign partitions among themselves: the classic protocol.

    Empty → PreparingRebalance      a member joins, leaves or is silent: all members have to join again
    PreparingRebalance → Completing all members joined, or the time is over; the leader of a new generation assigns
    CompletingRebalance → Stable    the leader's assignment came; it is written, then sent to the members
    any of them → Preparing         the next reason
    PreparingRebalance → Empty      no member is left

What is written is the group as of the last assignment. A coordinator that takes over from the log continues there:
members of that generation do not notice, members that were joining are unknown and join again.
"""

from __future__ import annotations

import enum
from copy import copy

from attrs import evolve

from log.machines.coordination import Caller, Moment, Write
from log.machines.deadlines import Deadlines
from log.machines.group.classic.consumer_protocol import PROTOCOL_TYPE, subscribed_topics
from log.machines.group.classic.members import (
    NAME_BYTES_MAX,
    NO_MEMBER,
    ClassicMember,
    ClassicMembers,
    Protocols,
    bytes_of_member,
    protocols_of,
)
from log.machines.group.group import Shared
from log.machines.group.rebalances import OpenRebalance, Rebalances
from protocol.error_codes import ErrorCode
from protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from protocol.messages.group_records import GroupMetadataKey, GroupMetadataValue
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.schema.codec import encode_versioned

KEY_VERSION = 2
VALUE_VERSION = 3
JOIN_PATIENCE_MS = 300_000
"""How long a new member's first join may wait. Until it is answered the member cannot show that it lives."""
MEMBER_ID_REQUIRED_FROM = 4
_NO_PROTOCOL_IS_NULL_FROM = 7
_SKIP_ASSIGNMENT_FROM = 9
_SEVERAL_LEAVE_FROM = 3


class ClassicState(enum.StrEnum):
    """The state of a classic group, under Kafka's name."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


class Phase(enum.Enum):
    """What a whole group waits for; single members' sessions go by their ids."""

    JOIN = "join"
    SYNC = "sync"


class ClassicGroup:
    """One classic group, or a simple one: offsets of consumers that are in no group."""

    group_type = "classic"

    def __init__(self, group_id: str, shared: Shared) -> None:
        self.group_id = group_id
        self.rebalances = Rebalances()
        self.members = ClassicMembers()
        self.generation = 0
        self.protocol_type = ""
        """Nothing is a simple group's."""
        self.protocol: str | None = None
        self.state = ClassicState.EMPTY
        self.state_since_ms = -1
        """By the wall clock; -1 where it is unknown."""
        self._shared = shared
        self._deadlines: Deadlines[Phase | str] = Deadlines()
        self._initial_left_ms: int | None = None
        """While the first members join: how much longer to wait for further ones."""
        self._came_meanwhile = False
        self._topics: frozenset[str] | None = frozenset()
        self._open: OpenRebalance | None = None
        self._written: GroupMetadataValue | None = None
        """The last generation that has assignments, as it is in the log."""

    # -- records ---------------------------------------------------------------------------------------------

    @classmethod
    def recorded(cls, group_id: str, shared: Shared, value: GroupMetadataValue) -> ClassicGroup:
        """The group as it was written."""
        group = cls(group_id, shared)
        group.generation = value.generation
        group.protocol_type = value.protocol_type
        group.protocol = value.protocol
        group.state_since_ms = value.current_state_timestamp
        for member in value.members:
            group.members.add(ClassicMember.recorded(member, value.protocol or ""))
        if value.members:
            group.state = ClassicState.STABLE
            group.members.leader = value.leader or value.members[0].member_id
        group._written = value
        group._topics = group._subscribed_topics()
        return group

    def loaded(self, moment: Moment) -> None:
        """Begin the sessions of all members."""
        for member in self.members:
            self._begin_session(member, moment)
        if self._written is not None and self._written.members and self._written.leader is None:
            self._prepare("the last member of the new protocol went", moment)
        elif len(self.members) > self._shared.config.group_max_size:
            self._prepare(f"{len(self.members)} members are more than the group may have", moment)

    def _value(self) -> GroupMetadataValue:
        protocol = self.protocol or ""
        return GroupMetadataValue(
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=self.protocol,
            leader=self.members.leader,
            current_state_timestamp=self.state_since_ms,
            members=[member.record(protocol) for member in self.members],
        )

    def tombstones(self) -> list[Write]:
        return [(self._key(), None)]

    def _key(self) -> bytes:
        return encode_versioned(GroupMetadataKey(group=self.group_id), KEY_VERSION)

    def _write(self) -> None:
        self.write_as(self._value())

    def write_as(self, value: GroupMetadataValue) -> None:
        self._written = value
        self._shared.effects.records.append((self._key(), encode_versioned(value, VALUE_VERSION)))

    def _write_renamed(self, old_id: str, new_id: str) -> None:
        """The generation as it was written, with another id for one member: a failover would bring back the old one."""
        written = copy(self._written)
        at = next((at for at, one in enumerate(written.members) if one.member_id == old_id), None) if written else None
        if written is None or at is None:
            return
        written.members = [copy(one) for one in written.members]
        written.members[at].member_id = new_id
        written.leader = new_id if written.leader == old_id else written.leader
        self.write_as(written)

    # -- facts -----------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        return self.state == ClassicState.EMPTY

    @property
    def is_unused(self) -> bool:
        """Is this group left over from a join that was refused?"""
        return self.generation == 0 and self.is_empty and not self.protocol_type and not self.members.pending

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == PROTOCOL_TYPE

    def is_subscribed_to(self, topic: str) -> bool:
        """Consumers whose subscriptions cannot be read may use any topic."""
        return self.uses_consumer_protocol if self._topics is None else topic in self._topics

    def offsets_age_since(self, committed_ms: int) -> int | None:
        """From when on an offset that was committed then gets older; None while it does not."""
        if not self.protocol_type:
            return committed_ms
        if self.is_empty:
            return committed_ms if self.state_since_ms < 0 else self.state_since_ms
        if self.state == ClassicState.STABLE and self.uses_consumer_protocol and self._topics is not None:
            return committed_ms
        return None

    def refuses_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        version: int,  # noqa: ARG002 - new groups' answers differ by it
        *,
        transactional: bool,
    ) -> ErrorCode:
        if epoch < 0 and self.is_empty:
            return ErrorCode.NONE
        if epoch >= 0 or member_id != NO_MEMBER or instance_id is not None:
            error = self.members.refusal(member_id, instance_id)
            if error == ErrorCode.NONE and epoch != self.generation:
                error = ErrorCode.ILLEGAL_GENERATION
            if error != ErrorCode.NONE:
                return error
        elif not transactional:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not transactional and self.state == ClassicState.COMPLETING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def refuses_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:  # noqa: ARG002 - anybody may read
        return ErrorCode.NONE

    def showed_life(self, member_id: str, moment: Moment) -> None:
        """A member that commits lives."""
        if member_id in self.members and self.state in (ClassicState.STABLE, ClassicState.PREPARING):
            self._begin_session(self.members[member_id], moment)

    def describe(self) -> DescribedGroup:
        told = (self.protocol or "") if self.state == ClassicState.STABLE else ""
        return DescribedGroup(
            group_id=self.group_id,
            group_state=str(self.state),
            protocol_type=self.protocol_type,
            protocol_data=told,
            members=[
                DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=member.metadata(told) if told else b"",
                    member_assignment=member.assignment if told else b"",
                )
                for member in self.members
            ],
        )

    def _subscribed_topics(self) -> frozenset[str] | None:
        if not len(self.members):
            return frozenset()
        if not self.uses_consumer_protocol or self.protocol is None:
            return None
        protocol = self.protocol
        return subscribed_topics(member.metadata(protocol) for member in self.members)

    # -- time ------------------------------------------------------------------------------------------------

    @property
    def next_deadline(self) -> float | None:
        return self._deadlines.next

    def tick(self, moment: Moment) -> None:
        while (due := self._deadlines.pop_due(moment.now)) is not None:
            if due is Phase.JOIN:
                self._join_time_over(moment)
            elif due is Phase.SYNC:
                self._sync_time_over(moment)
            else:
                assert isinstance(due, str)
                self._session_over(due, moment)

    def end_session(self, member_id: str, moment: Moment) -> None:
        self._deadlines.set(member_id, moment.now)

    def _after(self, timeout_ms: int, moment: Moment) -> float:
        return moment.now + max(timeout_ms, 1) / 1000

    def _begin_session(self, member: ClassicMember, moment: Moment) -> None:
        self._deadlines.set(member.member_id, self._after(member.session_timeout_ms, moment))

    def _session_over(self, member_id: str, moment: Moment) -> None:
        if member_id in self.members.pending:
            self.members.remove(member_id)
            self._complete_join_if_all_came(moment)
            return
        member = self.members[member_id]
        waits = member.joining is not None or member.syncing is not None
        if waits and not member.is_new:
            return  # the answer begins its session again
        silent_ms = JOIN_PATIENCE_MS if member.is_new else member.session_timeout_ms
        self._remove(member_id)
        self._members_went(f"member {member_id} was silent for {silent_ms} ms", moment)

    # -- joining ---------------------------------------------------------------------------------------------

    def join(self, request: JoinGroupRequest, caller: Caller, moment: Moment) -> None:
        """A member joins, or joins again. The answer waits for the other members."""
        member_id = request.member_id
        if (error := self._too_large(request, caller)) != ErrorCode.NONE:
            self._refuse_join(caller, member_id, error)
        elif not self._has_room_for(member_id):
            self._remove(member_id)
            self._complete_join_if_all_came(moment)
            self._refuse_join(caller, NO_MEMBER, ErrorCode.GROUP_MAX_SIZE_REACHED)
        elif not self._understands(request):
            self._refuse_join(caller, member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif member_id == NO_MEMBER:
            self._join_without_id(request, caller, moment)
        elif member_id in self.members.pending and request.group_instance_id is None:
            self._add(member_id, request, caller, moment)
        elif (error := self.members.refusal(member_id, request.group_instance_id)) != ErrorCode.NONE:
            self._refuse_join(caller, member_id, error)
        else:
            self._join_again(self.members[member_id], request, caller, moment)

    def _too_large(self, request: JoinGroupRequest, caller: Caller) -> ErrorCode:
        """Would the group's record be larger than a record may be? All members are in it."""
        instance_id = request.group_instance_id
        if max(len(caller.client_id.encode()), len((instance_id or "").encode())) > NAME_BYTES_MAX:
            return ErrorCode.INVALID_REQUEST
        protocols = tuple((one.name, one.metadata) for one in request.protocols)
        size = bytes_of_member(caller.client_id, caller.client_host, instance_id, protocols)
        size_max = self._shared.record_bytes_max()
        if size > size_max:
            return ErrorCode.MESSAGE_TOO_LARGE
        known_id = request.member_id
        if instance_id is not None and known_id == NO_MEMBER:
            known_id = self.members.with_instance(instance_id) or NO_MEMBER
        known = self.members[known_id].size if known_id in self.members else 0
        too_many = size > known and self.members.size - known + size > size_max
        return ErrorCode.GROUP_MAX_SIZE_REACHED if too_many else ErrorCode.NONE

    def _has_room_for(self, member_id: str) -> bool:
        """During a rebalance a full group takes the members that join first."""
        max_size = self._shared.config.group_max_size
        if self.state == ClassicState.EMPTY:
            return True
        if self.state == ClassicState.PREPARING:
            waits = member_id in self.members and self.members[member_id].joining is not None
            return waits or self.members.joining < max_size
        return member_id in self.members or len(self.members) < max_size

    def _understands(self, request: JoinGroupRequest) -> bool:
        if not len(self.members):
            return bool(request.protocol_type) and bool(request.protocols)
        same_type = request.protocol_type == self.protocol_type
        return same_type and self.members.understand_one_of(one.name for one in request.protocols)

    def _join_without_id(self, request: JoinGroupRequest, caller: Caller, moment: Moment) -> None:
        instance_id = request.group_instance_id
        name = caller.client_id if instance_id is None else instance_id
        member_id = f"{name}-{self._shared.new_id()}"
        replaced = None if instance_id is None else self.members.with_instance(instance_id)
        if replaced is not None:
            self._replace_static(replaced, member_id, request, caller, moment)
        elif instance_id is None and caller.version >= MEMBER_ID_REQUIRED_FROM:
            if len(self.members.pending) >= self._shared.config.group_max_size:
                self._refuse_join(caller, NO_MEMBER, ErrorCode.GROUP_MAX_SIZE_REACHED)
                return
            self.members.pending.add(member_id)
            self._deadlines.set(member_id, self._after(request.session_timeout_ms, moment))
            self._refuse_join(caller, member_id, ErrorCode.MEMBER_ID_REQUIRED)
        else:
            self._add(member_id, request, caller, moment)

    def _add(self, member_id: str, request: JoinGroupRequest, caller: Caller, moment: Moment) -> None:
        if not len(self.members):
            self.protocol_type = request.protocol_type
        member = ClassicMember(
            member_id,
            request.group_instance_id,
            caller.client_id,
            caller.client_host,
            _rebalance_timeout_ms(request),
            request.session_timeout_ms,
            protocols_of(request.protocols),
            joining=caller,
            is_new=True,
        )
        self.members.add(member)
        self._came_meanwhile = True
        self._deadlines.set(member_id, self._after(JOIN_PATIENCE_MS, moment))
        self._rebalance(_with_reason(f"member {member_id} joined", request.reason), moment)
        self._note_joined(member_id, moment)
        self._complete_join_if_all_came(moment)

    def _join_again(self, member: ClassicMember, request: JoinGroupRequest, caller: Caller, moment: Moment) -> None:
        same = member.protocols == protocols_of(request.protocols)
        leads = self.members.leader == member.member_id
        if same and (self.state == ClassicState.COMPLETING or (self.state == ClassicState.STABLE and not leads)):
            # It did not get the answer, or nothing has changed for it: it only has to ask for its assignment.
            self._shared.effects.reply(caller, self._joined(member, tell_members=leads))
            return
        if self.state == ClassicState.PREPARING:
            cause = f"member {member.member_id} joined again"
        elif same:
            cause = f"leader {member.member_id} joined again"
        else:
            cause = f"member {member.member_id} changed what it subscribes to"
        self._update(member, request, caller)
        self._rebalance(_with_reason(cause, request.reason), moment)
        self._note_joined(member.member_id, moment)
        self._complete_join_if_all_came(moment)

    def _update(self, member: ClassicMember, request: JoinGroupRequest, caller: Caller) -> None:
        self.members.set_protocols(member, protocols_of(request.protocols))
        member.rebalance_timeout_ms = _rebalance_timeout_ms(request)
        member.session_timeout_ms = request.session_timeout_ms
        if member.joining is not None:  # it asks again, on another connection
            self._refuse_join(member.joining, member.member_id, ErrorCode.REBALANCE_IN_PROGRESS)
        self.members.set_joining(member, caller)

    def _replace_static(
        self, old_id: str, new_id: str, request: JoinGroupRequest, caller: Caller, moment: Moment
    ) -> None:
        """A static member came back without its id: it gets a new one, and a member with the old one is fenced."""
        old = self.members[old_id]
        subscribed = self._topics_of(old.protocols)
        member = evolve(old, member_id=new_id, client_id=caller.client_id, client_host=caller.client_host, is_new=False)
        member.joining = member.syncing = None
        self._deadlines.clear(old_id)
        self.members.replace(old_id, member)
        self._answer_waiting(old, ErrorCode.FENCED_INSTANCE_ID, old_id)
        self._begin_session(member, moment)
        self._update(member, request, caller)
        cause = _with_reason(f"static member {request.group_instance_id} came back as {new_id}", request.reason)
        if self.state == ClassicState.STABLE:
            unchanged = subscribed == self._topics_of(member.protocols)
            if unchanged and self.members.elected_protocol() == self.protocol:
                self._go_on_as(member, old_id)
                return
        self._write_renamed(old_id, new_id)
        self._rebalance(cause, moment)
        self._note_joined(new_id, moment)
        self._complete_join_if_all_came(moment)

    def _go_on_as(self, member: ClassicMember, old_id: str) -> None:
        """The generation stays: only the new id is written down. From version 9 on a leader knows not to assign."""
        caller = member.joining
        assert caller is not None
        self.members.set_joining(member, None)
        self._write()
        leads = self.members.leader == member.member_id
        if caller.version >= _SKIP_ASSIGNMENT_FROM:
            response = self._joined(member, tell_members=leads)
            response.skip_assignment = leads
        else:
            response = self._joined(member, tell_members=False)
            response.leader = old_id if leads else response.leader
        self._shared.effects.reply(caller, response)

    def _topics_of(self, protocols: Protocols) -> frozenset[str] | None:
        """What a consumer subscribes to under the protocol that the group speaks."""
        if not self.uses_consumer_protocol:
            return None
        return subscribed_topics(metadata for name, metadata in protocols if name == self.protocol)

    # -- rebalancing -----------------------------------------------------------------------------------------

    def _rebalance(self, cause: str, moment: Moment) -> None:
        """Have all members join again, unless that is under way."""
        if self.state != ClassicState.PREPARING:
            self._prepare(cause, moment)

    def _prepare(self, cause: str, moment: Moment) -> None:
        if self.state == ClassicState.COMPLETING:
            for member in self.members:  # which still have what they were assigned last
                self._answer_sync(member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
                self._begin_session(member, moment)
        self._end_open(moment)
        self._open = OpenRebalance(moment, cause)
        self._deadlines.clear(Phase.SYNC)
        self.members.unsynced.clear()
        delay_ms = self._shared.config.group_initial_rebalance_delay_ms
        timeout_ms = self.members.rebalance_timeout_ms
        if self.state == ClassicState.EMPTY and delay_ms > 0:
            self._initial_left_ms = max(timeout_ms - delay_ms, 0)
            self._came_meanwhile = False
            self._deadlines.set(Phase.JOIN, self._after(delay_ms, moment))
        else:
            self._initial_left_ms = None
            self._deadlines.set(Phase.JOIN, self._after(timeout_ms, moment))
        self._change(ClassicState.PREPARING, moment)

    def _complete_join_if_all_came(self, moment: Moment) -> None:
        if self.state == ClassicState.PREPARING and self._initial_left_ms is None and self.members.all_joined:
            self._complete_join(moment)

    def _join_time_over(self, moment: Moment) -> None:
        left_ms = self._initial_left_ms
        if left_ms and self._came_meanwhile:
            delay_ms = min(self._shared.config.group_initial_rebalance_delay_ms, left_ms)
            self._initial_left_ms = left_ms - delay_ms
            self._came_meanwhile = False
            self._deadlines.set(Phase.JOIN, self._after(delay_ms, moment))
        else:
            self._complete_join(moment)

    def _complete_join(self, moment: Moment) -> None:
        """Begin a generation of the members that joined, and of static members whose sessions last."""
        late = [member for member in self.members if member.joining is None]
        for member in late:
            self._waited_for(member.member_id, moment)
            if member.instance_id is None:
                self._remove(member.member_id)
        if len(self.members) and not self.members.lead_by_one_that_joined():
            self._deadlines.set(Phase.JOIN, self._after(self.members.rebalance_timeout_ms, moment))
            return
        self._deadlines.clear(Phase.JOIN)
        self._initial_left_ms = None
        self.members.unsynced.clear()
        self.generation += 1
        self.protocol = self.members.elected_protocol() if len(self.members) else None
        self._topics = self._subscribed_topics()
        if not len(self.members):
            self._change(ClassicState.EMPTY, moment)
            self._write()
            self._end_open(moment)
            return
        self._change(ClassicState.COMPLETING, moment)
        if self._open is not None:
            self._open.joined(self.members.ids, moment)
        for member in self.members:
            self._answer_join(member, self._joined(member, tell_members=member.member_id == self.members.leader))
            self._begin_session(member, moment)
            member.is_new = False
            self.members.unsynced.add(member.member_id)
        self._deadlines.set(Phase.SYNC, self._after(self.members.rebalance_timeout_ms, moment))

    def _sync_time_over(self, moment: Moment) -> None:
        """Remove the members that got an answer to their join and never asked for their assignment."""
        missing = sorted(self.members.unsynced)
        if not missing:
            return
        for member_id in missing:
            self._waited_for(member_id, moment)
            self._remove(member_id)
        self._members_went(f"{', '.join(missing)} did not ask for an assignment in time", moment)

    def _members_went(self, cause: str, moment: Moment) -> None:
        if self.state in (ClassicState.STABLE, ClassicState.COMPLETING):
            self._prepare(cause, moment)
        self._complete_join_if_all_came(moment)

    def _change(self, state: ClassicState, moment: Moment) -> None:
        self.state = state
        self.state_since_ms = moment.wall_ms

    def _note_joined(self, member_id: str, moment: Moment) -> None:
        if self.state == ClassicState.PREPARING:
            self._waited_for(member_id, moment)

    def _waited_for(self, member_id: str, moment: Moment) -> None:
        if self._open is not None:
            self._open.waited_for(member_id, moment)

    def _end_open(self, moment: Moment) -> None:
        if self._open is not None:
            self.rebalances.add(self._open.ended(moment, self.generation, self.members.ids))
            self._open = None

    # -- assignments -----------------------------------------------------------------------------------------

    def sync(self, request: SyncGroupRequest, caller: Caller, moment: Moment) -> None:
        """A member asks for its assignment. The leader brings the assignments of all members."""
        error = self._refuses_sync(request)
        if error != ErrorCode.NONE:
            self._shared.effects.reply(caller, SyncGroupResponse(error_code=error))
            return
        member = self.members[request.member_id]
        self.members.unsynced.discard(member.member_id)
        if not self.members.unsynced:
            self._deadlines.clear(Phase.SYNC)
        if self.state == ClassicState.STABLE:
            self._shared.effects.reply(caller, self._assigned(member))
            return
        self._answer_sync(member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        member.syncing = caller
        if member.member_id == self.members.leader:
            self._waited_for(member.member_id, moment)
            given = {one.member_id: bytes(one.assignment) for one in request.assignments}
            for each in self.members:
                each.assignment = given.get(each.member_id, b"")
            self._become_stable(moment)

    def _become_stable(self, moment: Moment) -> None:
        self._change(ClassicState.STABLE, moment)
        self._write()
        for member in self.members:
            self._answer_sync(member, self._assigned(member))
            self._begin_session(member, moment)
        self._end_open(moment)

    def _refuses_sync(self, request: SyncGroupRequest) -> ErrorCode:
        error = self.members.refusal(request.member_id, request.group_instance_id)
        if error != ErrorCode.NONE:
            return error
        if request.generation_id != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if _differ(request.protocol_type, self.protocol_type) or _differ(request.protocol_name, self.protocol):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if self.state == ClassicState.PREPARING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        assigned = sum(len(one.assignment) for one in request.assignments)
        if assigned and self.members.size + assigned > self._shared.record_bytes_max():
            return ErrorCode.MESSAGE_TOO_LARGE
        return ErrorCode.NONE

    def _assigned(self, member: ClassicMember) -> SyncGroupResponse:
        return SyncGroupResponse(
            protocol_type=self.protocol_type, protocol_name=self.protocol, assignment=member.assignment
        )

    # -- staying and leaving ---------------------------------------------------------------------------------

    def heartbeat(self, request: HeartbeatRequest, caller: Caller, moment: Moment) -> None:
        error = self.members.refusal(request.member_id, request.group_instance_id)
        if error == ErrorCode.NONE and request.generation_id != self.generation:
            error = ErrorCode.ILLEGAL_GENERATION
        if error == ErrorCode.NONE:
            self._begin_session(self.members[request.member_id], moment)
            if self.state == ClassicState.PREPARING:
                error = ErrorCode.REBALANCE_IN_PROGRESS
        self._shared.effects.reply(caller, HeartbeatResponse(error_code=error))

    def leave(self, request: LeaveGroupRequest, caller: Caller, moment: Moment) -> None:
        leaving, went = leaving_members(request, caller), list[str]()
        errors = [self._leave(one, went) for one in leaving]
        if ErrorCode.NONE in errors:
            left = (one for one, error in zip(leaving, errors, strict=True) if error == ErrorCode.NONE)
            reasons = [one.reason for one in left if one.reason]
            verb = "member" if len(went) == 1 else "members"
            self._members_went(_with_reason(f"{verb} {', '.join(went)} left", "; ".join(reasons)), moment)
        self._shared.effects.reply(caller, left_response(leaving, errors, caller))

    def _leave(self, one: MemberIdentity, went: list[str]) -> ErrorCode:
        """An administrator removes static members by their instance ids alone."""
        if one.member_id in self.members.pending:
            self._remove(one.member_id)
            return ErrorCode.NONE
        member_id: str | None = one.member_id
        if one.member_id == NO_MEMBER and one.group_instance_id is not None:
            member_id = self.members.with_instance(one.group_instance_id)
        if member_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = self.members.refusal(member_id, one.group_instance_id)
        if error == ErrorCode.NONE:
            self._remove(member_id)
            went.append(member_id)
        return error

    def _remove(self, member_id: str) -> None:
        self._deadlines.clear(member_id)
        member = self.members.remove(member_id)
        if member is not None:
            self._answer_waiting(member, ErrorCode.UNKNOWN_MEMBER_ID, NO_MEMBER)

    # -- answers ---------------------------------------------------------------------------------------------

    def _joined(self, member: ClassicMember, *, tell_members: bool) -> JoinGroupResponse:
        protocol = self.protocol or ""
        members = self.members if tell_members else ()
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=protocol,
            leader=self.members.leader or "",
            member_id=member.member_id,
            members=[
                JoinGroupResponseMember(
                    member_id=one.member_id, group_instance_id=one.instance_id, metadata=one.metadata(protocol)
                )
                for one in members
            ],
        )

    def _answer_join(self, member: ClassicMember, response: JoinGroupResponse) -> None:
        if member.joining is not None:
            self._shared.effects.reply(member.joining, response)
            self.members.set_joining(member, None)

    def _answer_sync(self, member: ClassicMember, response: SyncGroupResponse) -> None:
        if member.syncing is not None:
            self._shared.effects.reply(member.syncing, response)
            member.syncing = None

    def dissolve(self) -> None:
        """The group goes over to the new protocol: members that wait have to join again, there."""
        for member in self.members:
            self._answer_waiting(member, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)

    def _answer_waiting(self, member: ClassicMember, error: ErrorCode, member_id: str) -> None:
        """Refuse the requests of a member that was removed while they wait."""
        if member.joining is not None:
            self._refuse_join(member.joining, member_id, error)
            member.joining = None
        self._answer_sync(member, SyncGroupResponse(error_code=error))

    def _refuse_join(self, caller: Caller, member_id: str, error: ErrorCode) -> None:
        self._shared.effects.reply(caller, refused_join(caller, member_id, error))


def refused_join(caller: Caller, member_id: str, error: ErrorCode) -> JoinGroupResponse:
    no_protocol = None if caller.version >= _NO_PROTOCOL_IS_NULL_FROM else ""
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=no_protocol)


def leaving_members(request: LeaveGroupRequest, caller: Caller) -> list[MemberIdentity]:
    several = caller.version >= _SEVERAL_LEAVE_FROM
    return request.members if several else [MemberIdentity(member_id=request.member_id)]


def left_response(leaving: list[MemberIdentity], errors: list[ErrorCode], caller: Caller) -> LeaveGroupResponse:
    if caller.version < _SEVERAL_LEAVE_FROM:
        return LeaveGroupResponse(error_code=errors[0])
    members = [
        MemberResponse(member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=error)
        for one, error in zip(leaving, errors, strict=True)
    ]
    return LeaveGroupResponse(members=members)


def _rebalance_timeout_ms(request: JoinGroupRequest) -> int:
    return request.session_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms


def _differ(told: str | None, known: str | None) -> bool:
    return told is not None and known is not None and told != known


def _with_reason(cause: str, reason: str | None) -> str:
    return f"{cause} ({reason})" if reason else cause
