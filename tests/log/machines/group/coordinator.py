"""A partition of __consumer_offsets without actors: a machine, the log that it writes, time, and its answers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any

from log.machines.coordination import Caller, Effects, Moment, Write
from log.machines.group.classic.consumer_protocol import encode_subscription
from log.machines.group.config import GroupConfig
from log.machines.group.machine import GroupMachine
from log.machines.metadata.plans import Circumstances, CreateTopic
from log.machines.metadata.topic_ids import id_text
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.schema.codec import decode, encode
from tests.log.machines.clusters import Cluster

GROUP = "readers"
WALL_MS = 1_700_000_000_000


class Coordinator:
    """The driver of a machine, with a log that commits at once."""

    def __init__(self, config: GroupConfig | None = None, world: Cluster | None = None) -> None:
        self.world = world or new_world(orders=4, bills=2)
        self.config = config or GroupConfig()
        self.now = 100.0
        self.is_sure = True
        """Can the wall clock be believed?"""
        self.log: list[tuple[bytes, bytes | None, int] | tuple[int, bool]] = []
        """Records with their producer's id, and markers."""
        self.answers: dict[int, Any] = {}
        self._versions: dict[int, int] = {}
        self._tokens = count(1)
        self._ids = count(1)
        self.machine = self.replayed()

    # -- driving ---------------------------------------------------------------------------------------------

    @property
    def moment(self) -> Moment:
        return Moment(self.now, WALL_MS + round(self.now * 1000), self.is_sure)

    def send(self, request: Any, version: int, client_id: str = "c") -> int:
        """Ask; the answer comes under this number. What travels is what could travel."""
        request, _ = decode(type(request), version, b"".join(encode(request, version)))
        token = next(self._tokens)
        self._versions[token] = version
        self.machine.handle(request, Caller(token, version, client_id, "/127.0.0.1"), self.moment)
        self.take()
        return token

    def ask(self, request: Any, version: int, client_id: str = "c") -> Any:
        """Ask what is answered at once."""
        token = self.send(request, version, client_id)
        assert token in self.answers, "no answer yet"
        return self.answers[token]

    def take(self) -> Effects:
        effects = self.machine.take_effects()
        producer = -1 if effects.producer is None else effects.producer[0]
        self.log.extend((key, value, producer) for key, value in effects.records)
        for token, response in effects.replies:
            assert isinstance(token, int)
            assert token not in self.answers, "answered twice"
            encode(response, self._versions[token])
            self.answers[token] = response
        return effects

    def wait(self, seconds: float) -> None:
        """Time passes; whatever is due meanwhile happens when it is."""
        end = self.now + seconds
        while (due := self.machine.next_deadline) is not None and due <= end:
            self.now = max(self.now, due)
            self.machine.tick(self.moment)
            self.take()
            assert self.machine.next_deadline is None or self.machine.next_deadline > due
        self.now = end

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        self.log.append((producer_id, committed))
        self.machine.transaction_ended(producer_id, committed=committed)
        assert not self.take().records

    def metadata_changed(self) -> None:
        self.machine.metadata_changed(self.moment)
        self.take()

    def replayed(self, log: Iterable[tuple[Any, ...]] | None = None) -> GroupMachine:
        """Another machine that knows what was written."""
        machine = self._new_machine()
        for one in self.log if log is None else log:
            if len(one) == 3:
                machine.replay(*one)
            else:
                machine.replay_marker(one[0], committed=one[1])
        machine.loaded(self.moment)
        return machine

    def fail_over(self) -> None:
        """What was asked and not answered never will be."""
        self.machine = self.replayed()
        self.take()

    @property
    def written(self) -> list[Write]:
        return [(one[0], one[1]) for one in self.log if len(one) == 3]

    def _new_machine(self) -> GroupMachine:
        return GroupMachine(self.world.metadata, self.config, lambda: f"id{next(self._ids)}")

    # -- members ---------------------------------------------------------------------------------------------

    def join(self, member_id: str = "", version: int = 9, client_id: str = "c", **changes: Any) -> int:
        return self.send(join_request(member_id, **changes), version, client_id)

    def joins(self, client_id: str = "c", **changes: Any) -> tuple[str, int]:
        """A new member gets its id and joins with it. Gives the id and where its answer will be."""
        refused = self.ask(join_request(**changes), 9, client_id)
        return refused.member_id, self.join(refused.member_id, client_id=client_id, **changes)

    def sync(self, member_id: str, generation: int, assignments: dict[str, bytes] | None = None) -> int:
        """With assignments by member id."""
        given = [
            SyncGroupRequestAssignment(member_id=member, assignment=data)
            for member, data in (assignments or {}).items()
        ]
        request = SyncGroupRequest(group_id=GROUP, generation_id=generation, member_id=member_id, assignments=given)
        return self.send(request, 5)

    def stable(self, *client_ids: str, **changes: Any) -> tuple[list[str], int]:
        """A group with these members, all of which have an assignment: their own names. Gives ids and generation."""
        tokens = []
        members: list[str] = []
        for client_id in client_ids:
            member_id, token = self.joins(client_id, **changes)
            tokens.extend([self.join(other, **changes) for other in members])
            members.append(member_id)
            tokens.append(token)
        answer = self.answers[tokens[-1]]
        assert len(members) == 1 or all(token in self.answers for token in tokens)
        given = {member: member.encode() for member in members}
        order = sorted(members, key=lambda member: member == answer.leader)
        syncs = {
            member: self.sync(member, answer.generation_id, given if member == answer.leader else {})
            for member in order
        }
        for member in members:
            assert bytes(self.answers[syncs[member]].assignment) == member.encode()
        return members, answer.generation_id

    def heartbeat(self, member_id: str, generation: int, instance_id: str | None = None) -> int:
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=generation, member_id=member_id, group_instance_id=instance_id
        )
        code = self.ask(request, 4).error_code
        assert isinstance(code, int)
        return code

    def leave(self, *members: tuple[str, str | None], reason: str | None = None) -> list[int]:
        """By member id and instance id."""
        leaving = [
            MemberIdentity(member_id=member_id, group_instance_id=instance_id, reason=reason)
            for member_id, instance_id in members
        ]
        answer = self.ask(LeaveGroupRequest(group_id=GROUP, members=leaving), 5)
        return [one.error_code for one in answer.members]

    # -- offsets ---------------------------------------------------------------------------------------------

    def commit(
        self,
        offset: int,
        member_id: str = "",
        generation: int = -1,
        place: tuple[str, int] = ("orders", 0),
        **changes: Any,
    ) -> int:
        """Commit one offset; gives its error."""
        answer = self.ask(commit_request(offset, member_id, generation, place, **changes), 8)
        code = answer.topics[0].partitions[0].error_code
        assert isinstance(code, int)
        return code

    def committed(
        self, place: tuple[str, int] = ("orders", 0), group: str = GROUP, *, require_stable: bool = False
    ) -> tuple[int, int]:
        """Offset and error."""
        topics = [OffsetFetchRequestTopics(name=place[0], partition_indexes=[place[1]])]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=require_stable
        )
        answer = self.ask(request, 9).groups[0]
        assert answer.error_code == 0
        found = answer.topics[0].partitions[0]
        return found.committed_offset, found.error_code


def new_world(**topics: int) -> Cluster:
    """A broker, and topics with so many partitions, whose ids are such as travel."""
    world = Cluster(1)
    ids = count(1)
    world.about = Circumstances(frozenset({1}), lambda: id_text(next(ids).to_bytes(16, "big")))
    for name, partitions in topics.items():
        assert world.ask(CreateTopic, name, assignment=((1,),) * partitions).error == ErrorCode.NONE
    return world


def subscription(*topics: str) -> bytes:
    return encode_subscription(ConsumerProtocolSubscription(topics=list(topics)), 0)


def join_request(
    member_id: str = "",
    *,
    group: str = GROUP,
    protocols: dict[str, bytes] | None = None,
    protocol_type: str = "consumer",
    instance_id: str | None = None,
    session_ms: int = 10_000,
    rebalance_ms: int = 60_000,
    reason: str | None = None,
) -> JoinGroupRequest:
    offered = {"range": subscription("orders")} if protocols is None else protocols
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in offered.items()],
        reason=reason,
    )


def commit_request(
    offset: int,
    member_id: str = "",
    generation: int = -1,
    place: tuple[str, int] = ("orders", 0),
    *,
    group: str = GROUP,
    metadata: str = "",
    instance_id: str | None = None,
) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(
        partition_index=place[1], committed_offset=offset, committed_metadata=metadata
    )
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=[OffsetCommitRequestTopic(name=place[0], partitions=[partition])],
    )
