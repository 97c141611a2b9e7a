"""A member of a classic group, eager or cooperative, as real clients drive it.

The leader of a generation assigns the partitions. An eager member revokes all partitions before it rejoins. A
cooperative one keeps them and names them when it joins; a partition that moves to another member is assigned to none
until its owner has revoked it, with one more rebalance.
"""

from __future__ import annotations

import random
from collections import Counter

from protocol.apis import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from protocol.schema.codec import decode_versioned, encode_versioned
from protocol.schema.declaration import Buffer
from tools.simulator.groups.member import REQUEST_SECONDS, ConsumerServices, SimulatedConsumer
from tools.simulator.settings.groups import COOPERATIVE, MemberSettings

PROTOCOL_TYPE = "consumer"
_SEVERAL_LEAVE_FROM = 3
_EAGER_TO_COMMIT = 0.3


class ClassicConsumer(SimulatedConsumer):
    """See the module's docstring."""

    def __init__(self, services: ConsumerServices, rng: random.Random, member: MemberSettings) -> None:
        super().__init__(services, rng, member)
        self._cooperates = member.kind == COOPERATIVE
        self._joins = False
        """Is a join or a sync under way?"""
        self._owned_in = -1
        """The generation in which it got what it has."""
        self._user_data = b""
        self._lost: set[int] = set()
        """What it has been told to give up, and still has until it is committed."""

    def begin_life(self) -> None:
        self._joins = False
        self._owned_in, self._user_data, self._lost = -1, b"", set()
        super().begin_life()
        self.later(self.settings.heartbeat_s, self._beat)

    # -- joining -----------------------------------------------------------------------------------------------------

    def join(self) -> None:
        if self._joins:
            return
        self._joins, self.stable = True, False
        self.commit(self._give_up_and_join)

    def _give_up_and_join(self) -> None:
        if not self._cooperates:
            self.forget_all()
        self._drop_lost()  # or it would say that it has what it is about to give up, and never join again for that
        self._send_join()

    def _drop_lost(self) -> None:
        for number in self._lost:
            self.owned.pop(number, None)
        self._lost = set()

    def _send_join(self) -> None:
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=int(self.settings.session_s * 1000),
            rebalance_timeout_ms=int(self.settings.rebalance_s * 1000),
            member_id=self.member_id,
            group_instance_id=self.member.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=self.member.kind, metadata=self._subscription())],
        )
        self.ask_coordinator(JOIN_GROUP, request, self.versions.join, self._joined, seconds=self._patience_s)

    def _subscription(self) -> bytes:
        owned = [TopicPartition(topic=self.services.topic, partitions=sorted(self.owned))] if self.owned else []
        subscription = ConsumerProtocolSubscription(
            topics=[self.services.topic], user_data=self._user_data, owned_partitions=owned,
            generation_id=self._owned_in,
        )  # fmt: skip
        return encode_versioned(subscription, 3 if self.member.is_modern else 1)

    def _joined(self, response: JoinGroupResponse | None) -> None:
        error = None if response is None else response.error_code
        if response is None or self.has_moved(response.error_code):
            self.again(self._send_join)
        elif error == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self._send_join()
        elif error != ErrorCode.NONE:
            self._begin_anew(response.error_code)
        else:
            if self.member_id not in ("", response.member_id):
                text = f"{self.address} joined as {self.member_id} and was answered as {response.member_id}"
                self.services.clients.history.violate("an answer is for the member that asked", "", text)
            self.member_id, self.epoch = response.member_id, response.generation_id
            assignments = self._assign(response) if response.leader == self.member_id else {}
            self._send_sync(assignments)
            if self.rng.random() < _EAGER_TO_COMMIT:  # as an application that does not know of rebalances
                self.commit()

    def _send_sync(self, assignments: dict[str, list[int]]) -> None:
        generation = self.epoch
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=generation,
            member_id=self.member_id,
            group_instance_id=self.member.instance_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=self._assignment(partitions))
                for member_id, partitions in assignments.items()
            ],
        )
        if self.versions.sync >= 5:
            request.protocol_type, request.protocol_name = PROTOCOL_TYPE, self.member.kind
        self.ask_coordinator(
            SYNC_GROUP, request, self.versions.sync, lambda told: self._synced(generation, told),
            seconds=self._patience_s,
        )  # fmt: skip

    @property
    def _patience_s(self) -> float:
        """For what waits for all the others."""
        return REQUEST_SECONDS + self.settings.rebalance_s

    def _synced(self, generation: int, response: SyncGroupResponse | None) -> None:
        if response is None or self.has_moved(response.error_code):
            self.again(self._send_join)
            return
        if response.error_code != ErrorCode.NONE:
            self._begin_anew(response.error_code)
            return
        mine = _partitions_in(response.assignment)
        self.view.synced(self.group, generation, self.member_id, mine)
        self._joins = False
        self._lost = set(self.owned) - mine
        self._owned_in = generation
        if self._lost:
            self.commit(self._give_up)
        else:
            self.stable = True
        self.take(mine)

    def _give_up(self) -> None:
        """Revoke these partitions: the others get them in one more rebalance."""
        self._drop_lost()
        self.join()

    def _begin_anew(self, error: int) -> None:
        """The group goes on without it, or knows it by another member id."""
        self._joins, self.stable = False, False
        if error == ErrorCode.FENCED_INSTANCE_ID:
            self.die(silently=False)
            return
        if error != ErrorCode.REBALANCE_IN_PROGRESS:
            self.forget_all()
            self.epoch = self._owned_in = -1
        if error == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        self.again(self.join)

    # -- assigning -----------------------------------------------------------------------------------------------------

    def _assign(self, response: JoinGroupResponse) -> dict[str, list[int]]:
        """The assignment of this generation, by member."""
        members = sorted(one.member_id for one in response.members)
        count = len(self.services.clients.groups)
        if not self._cooperates:
            shift = response.generation_id
            return {
                member_id: [number for number in range(count) if (number + shift) % len(members) == at]
                for at, member_id in enumerate(members)
            }
        claims = self._claims(response)
        wanted = _balanced(claims, members, count)
        assigned: dict[str, list[int]] = {member_id: [] for member_id in members}
        for number, member_id in wanted.items():
            if claims.get(number, member_id) == member_id:
                assigned[member_id].append(number)
        return assigned

    def _claims(self, response: JoinGroupResponse) -> dict[int, str]:
        """The owner of each partition, as members say; of two, the one with the later generation."""
        claims: dict[int, tuple[int, str]] = {}
        for one in sorted(response.members, key=lambda member: member.member_id):
            subscription = decode_versioned(ConsumerProtocolSubscription, one.metadata)
            for topic in subscription.owned_partitions:
                for number in topic.partitions:
                    claim = (subscription.generation_id, one.member_id)
                    claims[number] = max(claims.get(number, (-2, "")), claim)
        return {number: member_id for number, (_, member_id) in claims.items()}

    def _assignment(self, partitions: list[int]) -> bytes:
        topics = [TopicPartition(topic=self.services.topic, partitions=partitions)] if partitions else []
        return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=topics), 1)

    # -- staying, and going --------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        if self.stable and self.finishing and self._may_lack and not self._user_data:
            self._user_data = b"once more"  # changed metadata makes the coordinator rebalance
            self.join()
        elif self.stable:
            member_id, generation = self.member_id, self.epoch
            request = HeartbeatRequest(
                group_id=self.group,
                generation_id=generation,
                member_id=member_id,
                group_instance_id=self.member.instance_id,
            )

            def told(response: HeartbeatResponse | None) -> None:
                if response is not None and not self.has_moved(response.error_code):
                    self.refused(response.error_code, member_id, generation)

            self.ask_coordinator(HEARTBEAT, request, self.versions.heartbeat, told)
        self.later(self.settings.heartbeat_s, self._beat)

    @property
    def _may_lack(self) -> bool:
        """A member that revokes partitions rejoins to say so. If a static member dies before that, or its coordinator
        moves, its next process gets the last assignment, has nothing to revoke, and does not rejoin: the partitions
        that were kept back for others stay without an owner. Kafka behaves the same until a rebalance for another
        reason: this is one.
        """
        return self._cooperates and self.member.instance_id is not None

    def refused(self, error: int, member_id: str, epoch: int) -> None:
        if error == ErrorCode.NONE or self._joins or (member_id, epoch) != (self.member_id, self.epoch):
            return
        if error == ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
        else:
            self._begin_anew(error)

    def leave(self) -> None:
        if self.member.instance_id is not None and self.rng.random() < 0.5:
            self.commit(lambda: self.die(silently=False))
        else:
            self.commit(self._send_leave)

    def _send_leave(self) -> None:
        if self.versions.leave >= _SEVERAL_LEAVE_FROM:
            identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.member.instance_id)
            request = LeaveGroupRequest(group_id=self.group, members=[identity])
        else:
            request = LeaveGroupRequest(group_id=self.group, member_id=self.member_id)
        self.ask_coordinator(LEAVE_GROUP, request, self.versions.leave, lambda _told: self.die(silently=False))


def _balanced(claims: dict[int, str], members: list[str], count: int) -> dict[int, str]:
    """The wanted owner of each partition: the present one where that is balanced."""
    quota = -(-count // len(members))
    load: Counter[str] = Counter()
    wanted: dict[int, str] = {}
    for number in range(count):
        owner = claims.get(number)
        if owner is not None and load[owner] < quota:
            wanted[number] = owner
            load[owner] += 1
    for number in range(count):
        if number not in wanted:
            wanted[number] = min(members, key=lambda member_id: (load[member_id], member_id))
            load[wanted[number]] += 1
    return wanted


def _partitions_in(assignment: Buffer) -> frozenset[int]:
    if not len(assignment):
        return frozenset()
    decoded = decode_versioned(ConsumerProtocolAssignment, assignment)
    return frozenset(number for topic in decoded.assigned_partitions for number in topic.partitions)
