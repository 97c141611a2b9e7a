"""A group whose assignment is made here (KIP-848). One heartbeat does it all: join, stay, acknowledge, leave.

    something happens (a member comes, goes, wants other topics; topics come, go, grow)
        └─► the group's epoch grows                       at once
    a heartbeat comes, and the target is of an older epoch
        └─► an assignor makes the target of that epoch    for all members together
    each member's own heartbeats
        └─► it goes from what it has towards its target   by itself, see reconciliation.py

Every answer carries the assignment until the member says that it has exactly that. The first answer with it may have
gone to a connection that the member has given up: a heartbeat of that connection may come after later ones. After a
failover the coordinator does not know which members have confirmed their assignments: the first answer to each member
carries it once.

The group's state is written as records, and changes only by them: see state.py. Sessions and other timeouts are not
written: they begin again after a failover, and the group continues where it was.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from attrs import evolve

from log.machines.coordination import Caller, Moment, Write
from log.machines.deadlines import Deadlines
from log.machines.group.classic.consumer_protocol import PROTOCOL_TYPE
from log.machines.group.classic.members import NAME_BYTES_MAX
from log.machines.group.consumer.assignment import NOTHING, Assignment, assignment_of, by_topic
from log.machines.group.consumer.epochs import ConsumerEpochs
from log.machines.group.consumer.heartbeat import (
    HeartbeatRefused,
    asked,
    check,
    is_full,
    refusal,
    refuse_stale,
    refuse_unreleased,
)
from log.machines.group.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    MemberState,
)
from log.machines.group.consumer.reconciliation import Goal, reconciled
from log.machines.group.consumer.records import ConsumerRecords
from log.machines.group.consumer.state import ConsumerState
from log.machines.group.group import Shared
from log.machines.group.rebalances import Rebalances
from log.machines.names.pattern import InvalidPattern, NamePattern
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import Assignment as AssignmentMessage
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

SENT_AWAY_MAX = 1000
GROUP_RECORDS_MAX = 4
"""How many records of the largest size the metadata of all members of a group may fill."""
COMMIT_VERSION = 9
"""OffsetCommit of members of the new protocol: from this version on its generation is a member epoch."""
SESSION = "session"
REVOCATION = "revocation"
JOIN = "join"
"""A member of the classic protocol has to join again."""
SYNC = "sync"
"""A member of the classic protocol joined, and has to ask for its assignment."""


class ConsumerGroup:
    """One group. See group.Group for what it has in common with classic ones."""

    group_type = "consumer"
    protocol_type = PROTOCOL_TYPE

    def __init__(self, group_id: str, shared: Shared) -> None:
        self.shared = shared
        self.records = ConsumerRecords(group_id, shared)
        self.deadlines: Deadlines[tuple[str, str]] = Deadlines()
        """The deadline of each kind (session, revocation, join, sync) and member."""
        self._awaited: set[tuple[str, str]] = set()
        self.sent_away: deque[str] = deque(maxlen=SENT_AWAY_MAX)
        """Ids that members of the classic protocol were given, to come back with."""
        self._unconfirmed: set[str] = set()
        """Members that were sent another assignment and have not confirmed it since."""
        self._untold: set[str] = set()
        """Members that this coordinator has not answered since it was loaded."""
        self.epochs = ConsumerEpochs(self.records, shared.metadata)

    # -- facts -----------------------------------------------------------------------------------------------

    @property
    def group_id(self) -> str:
        return self.data.group_id

    @property
    def data(self) -> ConsumerState:
        """What the records say."""
        return self.records.state

    @property
    def members(self) -> dict[str, ConsumerMember]:
        return self.data.members

    @property
    def rebalances(self) -> Rebalances:
        return self.epochs.history.rebalances

    @property
    def is_empty(self) -> bool:
        return not self.data.members

    @property
    def is_classic_again(self) -> bool:
        """Are there members, and do all speak the classic protocol?"""
        return not self.is_empty and all(member.classic is not None for member in self.members.values())

    @property
    def is_new(self) -> bool:
        """Was nothing written yet? That is so when the first member was refused."""
        return self.data.epoch == 0

    @property
    def state(self) -> str:
        if not self.members:
            return "Empty"
        if self.data.epoch > self.data.target_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.data.target_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in self.data.wanted_by(member) for member in self.members.values())

    def refuses_commit(
        self, member_id: str, instance_id: str | None, epoch: int, version: int, *, transactional: bool
    ) -> ErrorCode:
        if epoch < 0 and self.is_empty:
            return ErrorCode.NONE  # an administrator, or a consumer that assigns its partitions itself
        if transactional and epoch == -1 and not member_id and instance_id is None:
            return ErrorCode.NONE  # old producers do not name the member for which they commit
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not transactional and member.classic is None and version < COMMIT_VERSION:
            return ErrorCode.UNSUPPORTED_VERSION
        return _refuses_epoch(member, epoch)

    def refuses_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        if not member_id and epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        return ErrorCode.UNKNOWN_MEMBER_ID if member is None else _refuses_epoch(member, epoch)

    # -- records ---------------------------------------------------------------------------------------------

    def replay(self, key: Any, value: Any | None) -> None:
        """Take in a record of keys 3 to 8 or 16, decoded."""
        self.data.replay(key, value)

    def loaded(self, moment: Moment) -> None:
        """All records were replayed: every member's session begins again."""
        self.epochs.are_topics_known = False
        self._untold = set(self.members)
        for member in self.members.values():
            self.begin_session(member, moment)
            self._watch_revocation(member, moment)

    def metadata_changed(self, moment: Moment) -> None:
        """Topics may have come, gone or grown."""
        if self.members:
            self.epochs.begin_if_topics_changed(moment)

    def tombstones(self) -> list[Write]:
        return self.records.tombstones()

    # -- time ------------------------------------------------------------------------------------------------

    @property
    def next_deadline(self) -> float | None:
        return self.deadlines.next

    def tick(self, moment: Moment) -> None:
        while (due := self.deadlines.pop_due(moment.now)) is not None:
            kind, member_id = due
            member = self.members[member_id]
            self.remove([member], self._lateness(kind, member), moment)

    def end_session(self, member_id: str, moment: Moment) -> None:
        self.deadlines.set((SESSION, member_id), moment.now)

    def _lateness(self, kind: str, member: ConsumerMember) -> str:
        if kind == SESSION:
            return f"member {member.member_id} was silent for {self._session_timeout_ms(member)} ms"
        undone = {
            REVOCATION: "give up its partitions",
            JOIN: "join again",
            SYNC: "ask for its assignment",
        }
        return f"member {member.member_id} did not {undone[kind]} in {member.rebalance_timeout_ms} ms"

    def begin_session(self, member: ConsumerMember, moment: Moment) -> None:
        self.deadlines.set((SESSION, member.member_id), moment.now + self._session_timeout_ms(member) / 1000)

    def _session_timeout_ms(self, member: ConsumerMember) -> int:
        if member.classic is not None:
            return member.classic.session_timeout_ms
        return self.shared.config.group_consumer_session_timeout_ms

    def awaits(self, kind: str, member: ConsumerMember, moment: Moment) -> None:
        """The member has to do this within its rebalance timeout, counted from when it was first asked to."""
        if (kind, member.member_id) not in self._awaited:
            self._awaited.add((kind, member.member_id))
            self.deadlines.set((kind, member.member_id), moment.now + member.rebalance_timeout_ms / 1000)

    def no_longer_awaits(self, kind: str, member: ConsumerMember) -> None:
        self._awaited.discard((kind, member.member_id))
        self.deadlines.clear((kind, member.member_id))

    def _watch_revocation(self, member: ConsumerMember, moment: Moment) -> None:
        self.no_longer_awaits(REVOCATION, member)
        if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
            self.awaits(REVOCATION, member, moment)

    # -- heartbeats ------------------------------------------------------------------------------------------

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest, caller: Caller, moment: Moment) -> None:
        try:
            check(request, caller.version)
            if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
                response = self._leave(request, moment)
            else:
                response = self._beat(request, caller, moment)
        except HeartbeatRefused as error:
            response = refusal(error)
        self.shared.effects.reply(caller, response)

    def _beat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, moment: Moment
    ) -> ConsumerGroupHeartbeatResponse:
        self.refuse_if_full(request.member_id)
        owned = None if request.topic_partitions is None else assignment_of(request.topic_partitions)
        known = self._known(request, owned)
        member_id = request.member_id or self.shared.new_id()
        self.refuse_if_large(known, asked(known or ConsumerMember(member_id), request, caller))
        if known is not None and known.member_id != member_id:
            self.replace(known, member_id)
        before = self.members.get(member_id)
        after = asked(before or ConsumerMember(member_id), request, caller)
        now = self.advance(before, after, owned, moment)
        response = ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=now.epoch,
            heartbeat_interval_ms=self.shared.config.group_consumer_heartbeat_interval_ms,
        )
        if before is None or before.assigned != now.assigned:
            self._unconfirmed.add(member_id)
        elif owned == now.assigned:
            self._unconfirmed.discard(member_id)
        if is_full(request) or member_id in self._unconfirmed or member_id in self._untold:
            response.assignment = _message(now.assigned)
            self._untold.discard(member_id)
        return response

    def refuse_if_full(self, member_id: str) -> None:
        size_max = self.shared.config.group_consumer_max_size
        if len(self.members) >= size_max and member_id not in self.members:
            raise HeartbeatRefused(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {size_max} members.",
            )

    def refuse_if_large(self, known: ConsumerMember | None, wanted: ConsumerMember) -> None:
        """Refuse what is too large for a record, and what makes the group too large."""
        if known is not None and wanted.topics is known.topics and wanted.regex == known.regex and not wanted.classic:
            return
        size, size_max = wanted.size, self.shared.record_bytes_max()
        if max(len(wanted.client_id.encode()), len((wanted.instance_id or "").encode())) > NAME_BYTES_MAX:
            raise HeartbeatRefused(
                ErrorCode.INVALID_REQUEST, f"The client's or the instance's id has more than {NAME_BYTES_MAX} bytes."
            )
        if size > size_max:
            text = f"What the member says of itself takes {size} bytes, of which a record may have {size_max}."
            raise HeartbeatRefused(ErrorCode.MESSAGE_TOO_LARGE, text)
        others = self.data.size - (0 if known is None else self.data.sizes.get(known.member_id, 0))
        if wanted.classic is None:
            size_max *= GROUP_RECORDS_MAX  # those of the classic protocol share a record if the group goes back to it
        if others + size > size_max:
            text = f"The group's members would take {others + size} bytes, of which they may have {size_max}."
            raise HeartbeatRefused(ErrorCode.GROUP_MAX_SIZE_REACHED, text)

    def _known(self, request: ConsumerGroupHeartbeatRequest, owned: Assignment | None) -> ConsumerMember | None:
        """The member that sends this, or whose place it takes; None for a new one. Refuses what can be refused."""
        joins = request.member_epoch == JOIN_EPOCH
        if request.instance_id is None:
            known = self.members.get(request.member_id) if joins else self._member(request.member_id)
        elif joins:
            known = self.data.static_member(request.instance_id) or self.members.get(request.member_id)
            if known is not None and known.member_id != request.member_id and known.classic is None:
                refuse_unreleased(known, request.member_id, request.instance_id)
        else:
            known = self.instance(request.instance_id, request.member_id)
        if known is not None:
            refuse_stale(known, request.member_epoch, owned)
        self._refuse_pattern(request.subscribed_topic_regex, known)
        return known

    def _refuse_pattern(self, regex: str | None, known: ConsumerMember | None) -> None:
        if regex and (known is None or known.regex != regex) and regex not in self.data.matches:
            try:
                NamePattern(regex)
            except InvalidPattern as error:
                message = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}."
                raise HeartbeatRefused(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from error

    def _member(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            text = f"Member {member_id} is not a member of group {self.group_id}."
            raise HeartbeatRefused(ErrorCode.UNKNOWN_MEMBER_ID, text)
        return member

    def instance(self, instance_id: str, member_id: str) -> ConsumerMember:
        """The static member of this name, if it has this id."""
        known = self.data.static_member(instance_id)
        if known is None:
            raise HeartbeatRefused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if known.member_id != member_id:
            raise HeartbeatRefused(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} was fenced by member {known.member_id}.",
            )
        return known

    def advance(
        self, before: ConsumerMember | None, after: ConsumerMember, owned: Assignment | None, moment: Moment
    ) -> ConsumerMember:
        """A member said what it wants and has: write what changed, and let it take its next step."""
        if after != before:
            self.records.put_member(after)
        was_subscribed_to = (before.topics, before.regex) if before is not None else (frozenset(), "")
        changed = (after.topics, after.regex) != was_subscribed_to
        if before is None:
            self.epochs.begin(f"member {after.member_id} joined", moment)
        elif changed:
            self.epochs.begin(f"member {after.member_id} changed its subscription", moment)
        elif not self.epochs.are_topics_known:
            self.epochs.begin_if_topics_changed(moment)
        self.epochs.update_target()
        member = reconciled(after, self.goal(after), owned, subscription_changed=changed)
        if member != after:
            self.records.put_assignment(member)
            self._watch_revocation(member, moment)
        self.begin_session(member, moment)
        self.epochs.history.settle(self.members.values(), member.member_id, moment)
        return member

    def goal(self, member: ConsumerMember) -> Goal:
        """What a member has to reach now."""
        state = self.data
        subscribed = state.topic_ids(state.wanted_by(member))
        return Goal(state.target_epoch, state.target_of(member.member_id), subscribed, state.is_free)

    # -- members that go -------------------------------------------------------------------------------------

    def _leave(self, request: ConsumerGroupHeartbeatRequest, moment: Moment) -> ConsumerGroupHeartbeatResponse:
        if request.instance_id is not None:
            member = self.instance(request.instance_id, request.member_id)
        else:
            member = self._member(request.member_id)
        if request.member_epoch == STATIC_LEAVE_EPOCH:
            self.records.put_assignment(evolve(member, epoch=STATIC_LEAVE_EPOCH, revoking=NOTHING))
            self.no_longer_awaits(REVOCATION, member)
            self.epochs.history.settle(self.members.values(), member.member_id, moment)
        else:
            self.remove([member], f"member {member.member_id} left", moment)
        return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)

    def remove(self, members: list[ConsumerMember], cause: str, moment: Moment) -> None:
        """Remove members; their partitions are free."""
        for member in members:
            self._forget(member)
        if not self.is_classic_again:  # else the remaining members have to join again in the epoch that they know
            self.epochs.begin(cause, moment)
        self.epochs.history.settle(self.members.values(), members[-1].member_id, moment)

    def _forget(self, member: ConsumerMember) -> None:
        self.records.drop_member(member.member_id)
        self._unconfirmed.discard(member.member_id)
        self._untold.discard(member.member_id)
        for kind in (SESSION, REVOCATION, JOIN, SYNC):
            self.no_longer_awaits(kind, member)

    def replace(self, old: ConsumerMember, member_id: str) -> None:
        """A static member came back under another id: it gets what it had, and no other member is affected."""
        target = self.data.target_of(old.member_id)
        self._forget(old)
        new = evolve(old, member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
        self.records.put_member(new)
        self.records.put_target(member_id, target)
        self.records.put_assignment(new)


def _refuses_epoch(member: ConsumerMember, epoch: int) -> ErrorCode:
    if epoch == member.epoch:
        return ErrorCode.NONE
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION


def _message(assignment: Assignment) -> AssignmentMessage:
    return AssignmentMessage(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=partitions) for topic_id, partitions in by_topic(assignment)
        ]
    )
