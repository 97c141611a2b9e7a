"""A member of a classic group: it joins, receives its assignment, and sends heartbeats until a rebalance.

    OUT ──► JOINING ──► ASSIGNING ──► SYNCING ──► STABLE ──► PREPARING ──► JOINING …
             ▲   │      (the leader)    ▲           │           ▲
             │   └──────────────────────┘           │           └─ the user revokes its partitions (eager only)
             └──────────────────────────────────────┴─ expelled: its partitions are lost

In PREPARING and OUT it joins as soon as the user has done its tasks. The member that the coordinator chose as the
leader assigns the partitions (assignors.py).
"""

from __future__ import annotations

import enum
from typing import Any

from log.machines.group.classic.consumer_protocol import (
    PROTOCOL_TYPE,
    VERSION_MAX,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from protocol.apis import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from protocol.messages.consumer_protocol import TopicPartition as OwnedPartitions
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tools.client.errors import ClientError, KafkaError, error_code
from tools.client.membership.assignors import ASSIGNORS, GroupMember
from tools.client.membership.member import (
    NOTHING,
    GroupSettings,
    Identity,
    Reconciliation,
    Revoke,
    Say,
    Subscription,
    Task,
    by_topic,
)
from tools.client.metadata import TopicPartition, View

_MEMBERS_VERSION = 3  # from which on LeaveGroup names several
_EXPELLED = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION}


class Phase(enum.Enum):
    OUT = enum.auto()
    JOINING = enum.auto()
    ASSIGNING = enum.auto()
    SYNCING = enum.auto()
    STABLE = enum.auto()
    PREPARING = enum.auto()
    LEFT = enum.auto()


class ClassicMembership:
    """See member.Membership."""

    def __init__(self, settings: GroupSettings, subscription: Subscription) -> None:
        self.reconciliation = Reconciliation()
        self.error: ClientError | None = None
        self.phase = Phase.OUT
        self.member_id = ""
        self.generation = -1
        self._settings = settings
        self._subscription = subscription
        self._topics: frozenset[str] | None = None if subscription.pattern else subscription.topics
        self._is_cooperative = all(one.is_cooperative for one in settings.assignors)
        self._is_speaking = False
        self._heartbeat_at = 0.0
        self._protocol = ""
        self._members: dict[str, GroupMember] = {}
        """The members of the group, if this member is the leader."""
        self._counts: dict[str, int] | None = None
        """The numbers of partitions that the leader used for its assignment."""
        self._assignments: list[SyncGroupRequestAssignment] = []
        self._reason = ""
        self._again = ""
        """The reason to rejoin as soon as the current JoinGroup or SyncGroup is answered."""

    @property
    def identity(self) -> Identity | None:
        if self.generation < 0 or self.reconciliation.is_lost:
            return None
        return Identity(self.member_id, self.generation, self._settings.instance_id)

    @property
    def topics(self) -> frozenset[str]:
        """The topics whose metadata this member needs."""
        wanted = set(self._topics or ())
        for one in self._members.values():
            wanted |= one.topics
        return frozenset(wanted)

    @property
    def next_at(self) -> float | None:
        return self._heartbeat_at if self.phase in (Phase.STABLE, Phase.PREPARING) and not self._is_speaking else None

    @property
    def is_blind(self) -> bool:
        return self.phase is Phase.ASSIGNING or self._topics is None

    # -- requests ----------------------------------------------------------------------------------------------------

    def say(self, now: float) -> Say | None:
        if self._is_speaking or self.error is not None:
            return None
        self._prepare()
        said = self._said(now)
        self._is_speaking = said is not None
        return said

    def _prepare(self) -> None:
        """Begin to join as soon as the user has no more tasks."""
        if self.phase is Phase.PREPARING:
            held = self.reconciliation.owned and not self._is_cooperative
            if self.reconciliation.is_done and not held:
                self.phase = Phase.JOINING
        elif self.phase is Phase.OUT and self.reconciliation.is_done and self._topics is not None:
            self.phase = Phase.JOINING

    def _said(self, now: float) -> Say | None:
        match self.phase:
            case Phase.JOINING:
                return self._join()
            case Phase.SYNCING:
                return self._sync()
            case Phase.STABLE | Phase.PREPARING if now >= self._heartbeat_at:
                return self._heartbeat(now)
        return None

    def _join(self) -> Say:
        settings = self._settings
        assert self._topics is not None
        self._again = ""
        owned = [
            OwnedPartitions(topic=topic, partitions=some) for topic, some in by_topic(self.reconciliation.owned).items()
        ]
        subscription = ConsumerProtocolSubscription(
            topics=sorted(self._topics),
            owned_partitions=owned,
            generation_id=self.generation,
        )
        data = encode_subscription(subscription, VERSION_MAX)
        request = JoinGroupRequest(
            group_id=settings.group_id,
            session_timeout_ms=_ms(settings.session_timeout),
            rebalance_timeout_ms=_ms(settings.max_poll_interval),
            member_id=self.member_id,
            group_instance_id=settings.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=one.name, metadata=data) for one in settings.assignors],
            reason=self._reason or None,
        )
        return Say(JOIN_GROUP, request, settings.max_poll_interval)

    def _sync(self) -> Say:
        request = SyncGroupRequest(
            group_id=self._settings.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self._settings.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self._protocol,
            assignments=self._assignments,
        )
        return Say(SYNC_GROUP, request, self._settings.max_poll_interval)

    def _heartbeat(self, now: float) -> Say:
        self._heartbeat_at = now + self._settings.heartbeat_interval
        request = HeartbeatRequest(
            group_id=self._settings.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self._settings.instance_id,
        )
        return Say(HEARTBEAT, request)

    # -- answers -----------------------------------------------------------------------------------------------------

    def told(self, response: Any, now: float) -> None:
        self._is_speaking = False
        code = error_code(response.error_code)
        if self.phase is Phase.LEFT:
            return
        if code in _EXPELLED:
            self._expelled(code)
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.rejoin("the group rebalances")
        elif code is ErrorCode.MEMBER_ID_REQUIRED and isinstance(response, JoinGroupResponse):
            self.member_id = response.member_id
        elif code is not ErrorCode.NONE:
            self._fail(KafkaError(response.error_code, f"group {self._settings.group_id}"))
        elif isinstance(response, JoinGroupResponse):
            self._joined(response)
        elif isinstance(response, SyncGroupResponse):
            self._synced(response, now)
        else:
            assert isinstance(response, HeartbeatResponse)

    def unheard(self, error: ClientError, now: float) -> None:
        """The same request is sent again: for the coordinator a repetition makes no difference."""
        self._is_speaking = False
        if not error.kind.is_retriable:
            self._fail(error)
        self._heartbeat_at = now

    def _joined(self, response: JoinGroupResponse) -> None:
        self.member_id, self.generation = response.member_id, response.generation_id
        self._protocol = response.protocol_name or ""
        self._reason = ""
        self._members, self._counts, self._assignments = {}, None, []
        if response.leader != self.member_id or response.skip_assignment:
            self.phase = Phase.SYNCING
            return
        try:
            self._members = {
                one.member_id: GroupMember.told(decode_subscription(one.metadata), one.group_instance_id)
                for one in response.members
            }
        except ProtocolError as error:
            self._fail(ClientError(f"group {self._settings.group_id}: a member's subscription is unreadable: {error}"))
            return
        self.phase = Phase.ASSIGNING

    def _synced(self, response: SyncGroupResponse, now: float) -> None:
        try:
            told = decode_assignment(response.assignment)
        except ProtocolError as error:
            self._fail(ClientError(f"group {self._settings.group_id}: the assignment is unreadable: {error}"))
            return
        self.reconciliation.target = frozenset(
            TopicPartition(one.topic, number) for one in told.assigned_partitions for number in one.partitions
        )
        self.phase = Phase.STABLE
        self._heartbeat_at = now + self._settings.heartbeat_interval
        if self._again:
            self.rejoin(self._again)

    def seen(self, view: View) -> None:
        """As the leader, assign once all topics are known, and rejoin when their numbers of partitions change."""
        topics = self._subscription.matching(view)
        if self._subscription.pattern is not None and view.brokers and topics != self._topics:
            self._topics = topics
            self.rejoin("topics have come or gone")
        if self.phase is Phase.ASSIGNING:
            if all(topic in view.topics or topic in view.errors for topic in self.topics):
                self._assign(self._counted(view))
        elif self._counts is not None and self._members and self._counted(view) != self._counts:
            self.rejoin("partitions have come or gone")

    def _counted(self, view: View) -> dict[str, int]:
        return {name: len(view.topics[name].partitions) for name in self.topics if name in view.topics}

    def _assign(self, counts: dict[str, int]) -> None:
        assignor = ASSIGNORS.get(self._protocol)
        if assignor is None:
            self._fail(ClientError(f"group {self._settings.group_id} assigns by {self._protocol!r}, which is unknown"))
            return
        self._counts = counts
        self._assignments = [
            SyncGroupRequestAssignment(member_id=member, assignment=encode_assignment(by_topic(given), VERSION_MAX))
            for member, given in assignor.assign(self._members, counts).items()
        ]
        self.phase = Phase.SYNCING

    # -- the user ----------------------------------------------------------------------------------------------------

    def done(self, task: Task) -> None:
        self.reconciliation.done(task)
        if isinstance(task, Revoke) and self.phase is Phase.STABLE and self._is_cooperative:
            self.rejoin("partitions were given up")  # so that their new owner gets them

    def rejoin(self, reason: str) -> None:
        """Take part in a rebalance, or begin one."""
        if self.phase in (Phase.OUT, Phase.LEFT):
            return
        if self._is_speaking and self.phase in (Phase.JOINING, Phase.SYNCING):
            self._again = reason
            return
        self._reason = reason
        self.phase = Phase.PREPARING
        self._members, self._counts = {}, None
        if not self._is_cooperative:
            self.reconciliation.target = NOTHING

    def subscribe(self, subscription: Subscription) -> None:
        self._subscription = subscription
        if subscription.pattern is None:
            self._topics = subscription.topics
        self.rejoin("the subscription changed")

    def leave(self, reason: str) -> Say | None:
        """A static member does not leave: its partitions wait for its return."""
        was_member = bool(self.member_id) and self.error is None
        member_id = self.member_id
        self._forget()
        self._is_speaking = False
        self.phase = Phase.LEFT
        if not was_member or self._settings.instance_id is not None:
            return None
        group_id = self._settings.group_id

        def message(version: int) -> LeaveGroupRequest:
            if version < _MEMBERS_VERSION:
                return LeaveGroupRequest(group_id=group_id, member_id=member_id)
            return LeaveGroupRequest(group_id=group_id, members=[MemberIdentity(member_id=member_id, reason=reason)])

        return Say(LEAVE_GROUP, message)

    def come_back(self) -> None:
        if self.phase is Phase.LEFT:
            self.phase = Phase.OUT

    def _expelled(self, code: ErrorCode) -> None:
        member_id = self.member_id
        self._forget()
        if code is ErrorCode.ILLEGAL_GENERATION:
            self.member_id = member_id
        self.phase = Phase.OUT

    def _forget(self) -> None:
        self.member_id, self.generation = "", -1
        self._members, self._counts, self._assignments = {}, None, []
        self.reconciliation.lose()

    def _fail(self, error: ClientError) -> None:
        self.error = error
        self.generation = -1
        self.reconciliation.lose()


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
