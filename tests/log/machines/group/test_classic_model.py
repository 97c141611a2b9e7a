"""Clients of a classic group that come, go, crash and come back, while coordinators fail over before all is committed.

Effects wait in a queue until the log has committed them; a failover loses what waits there, records and answers.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from attrs import define, field
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from log.machines.coordination import Caller, Effects
from log.machines.group.config import GroupConfig
from log.machines.group.machine import GroupMachine
from protocol.error_codes import ErrorCode
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.group_records import GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.offset_commit import OffsetCommitResponse
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.schema.codec import decode_versioned, version_of
from tests.log.machines.group.coordinator import GROUP, Coordinator, commit_request, join_request

PARTITIONS = 4
CLIENTS = 5
STATIC = {"c3": "h3", "c4": "h4"}
SETTLED = ("Stable", "Empty")
PLACES = [("orders", number) for number in range(PARTITIONS)]


class LaggingCoordinator(Coordinator):
    """Commits when it is told to."""

    def __init__(self, config: GroupConfig) -> None:
        self.waiting: deque[Effects] = deque()
        super().__init__(config)

    def take(self) -> Effects:
        effects = self.machine.take_effects()
        self.waiting.append(effects)
        return effects

    def commit_one(self) -> Effects | None:
        if not self.waiting:
            return None
        effects = self.waiting.popleft()
        self.log.extend((key, value, -1) for key, value in effects.records)
        for token, response in effects.replies:
            assert isinstance(token, int)
            assert token not in self.answers, "answered twice"
            self.answers[token] = response
        return effects

    def fail_over(self) -> None:
        self.waiting.clear()
        super().fail_over()


@define
class Client:
    name: str
    instance_id: str | None
    member_id: str = ""
    generation: int = -1
    joined: Any = None
    """The answer to its join, until it has synced."""
    owned: set[int] = field(factory=set)
    token: int | None = None
    """What it waits for: a join or a sync."""

    def reset(self) -> None:
        self.member_id, self.generation, self.joined, self.token = "", -1, None, None
        self.owned = set()


class ClassicGroupModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.kafka = LaggingCoordinator(self.config())
        self.clients = {name: Client(name, STATIC.get(name)) for name in (f"c{number}" for number in range(CLIENTS))}
        self.beats: dict[int, Client] = {}
        self.fetches: dict[int, tuple[str, int]] = {}
        self.stale: set[int] = set()
        """Commits of members that are not in the generation that is."""
        self.offset = 0
        self.asked: set[int] = set()
        """Questions that the present coordinator must answer."""

    def config(self) -> GroupConfig:
        return GroupConfig()

    # -- what clients do -------------------------------------------------------------------------------------

    names = st.sampled_from([f"c{number}" for number in range(CLIENTS)])

    @rule(name=names, version=st.sampled_from([3, 5, 9]), topics=st.sampled_from([b"", b"x"]))
    def join(self, name: str, version: int, topics: bytes) -> None:
        client = self.clients[name]
        if client.token is None:
            client.joined = None
            client.owned = set()  # eager: a member that joins gives up what it has
            instance_id = client.instance_id if version >= 5 else None
            if client.instance_id is not None and instance_id is None:
                version, instance_id = 5, client.instance_id
            request = join_request(
                client.member_id, protocols={"range": topics}, instance_id=instance_id, rebalance_ms=20_000
            )
            client.token = self.ask(request, version, name)

    @rule(name=names)
    def sync(self, name: str) -> None:
        client = self.clients[name]
        if client.token is None and client.joined is not None:
            given: dict[str, bytearray] = {}
            if client.joined.leader == client.member_id and client.joined.members:
                members = sorted(member.member_id for member in client.joined.members)
                for partition in range(PARTITIONS):
                    given.setdefault(members[partition % len(members)], bytearray()).append(partition)
            assignments = {member: bytes(data) for member, data in given.items()}
            self.kafka.sync(client.member_id, client.joined.generation_id, assignments)
            client.token = self.note_asked()

    @rule(name=names)
    def heartbeat(self, name: str) -> None:
        client = self.clients[name]
        if client.generation >= 0 and client.token is None:
            request = HeartbeatRequest(
                group_id=GROUP,
                generation_id=client.generation,
                member_id=client.member_id,
                group_instance_id=client.instance_id,
            )
            self.beats[self.ask(request, 4, name)] = client

    @rule(name=names)
    def leave(self, name: str) -> None:
        client = self.clients[name]
        if client.member_id:
            leaving = MemberIdentity(member_id=client.member_id, group_instance_id=client.instance_id)
            self.ask(LeaveGroupRequest(group_id=GROUP, members=[leaving]), 5, name)
            client.reset()

    @rule(name=names)
    def crash(self, name: str) -> None:
        self.clients[name].reset()

    @rule(name=names, number=st.integers(0, PARTITIONS - 1), stale=st.integers(0, 1))
    def commit_offset(self, name: str, number: int, stale: int) -> None:
        client = self.clients[name]
        self.offset += 1
        request = commit_request(
            self.offset,
            client.member_id,
            client.generation - stale,
            ("orders", number),
            instance_id=client.instance_id if client.member_id else None,
        )
        group = self.kafka.machine.facts(GROUP)
        current = group is not None and group.epoch == client.generation - stale
        if group is not None and group.members and not current:
            self.stale.add(self.ask(request, 8, name))
        else:
            self.ask(request, 8, name)

    @rule(place=st.sampled_from(PLACES))
    def fetch_offset(self, place: tuple[str, int]) -> None:
        topics = [OffsetFetchRequestTopics(name=place[0], partition_indexes=[place[1]])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=topics)])
        self.fetches[self.ask(request, 9, "reader")] = place

    @rule(rounds=st.integers(1, 4), who=st.sets(names, min_size=1))
    def go_on(self, rounds: int, who: set[str]) -> None:
        """Some clients do what clients do next, and get the answers that there are."""
        for _ in range(rounds):
            for name in sorted(who):
                client = self.clients[name]
                if client.joined is not None:
                    self.sync(name)
                elif client.owned:
                    self.heartbeat(name)
                else:
                    self.join(name, 9, b"")
            self.commit(1_000)

    # -- what happens to them --------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.5, 3, 9, 11, 21]))
    def wait(self, seconds: float) -> None:
        self.kafka.wait(seconds)

    @rule(how_many=st.integers(1, 10))
    def commit(self, how_many: int) -> None:
        for _ in range(how_many):
            effects = self.kafka.commit_one()
            if effects is not None:
                self.deliver(effects)

    @rule()
    def fail_over(self) -> None:
        self.kafka.fail_over()
        self.asked.clear()
        for client in self.clients.values():
            client.token = None
        self.beats.clear()
        self.fetches.clear()

    # -- answers ---------------------------------------------------------------------------------------------

    def ask(self, request: Any, version: int, client_id: str) -> int:
        token = self.kafka.send(request, version, client_id)
        self.asked.add(token)
        return token

    def note_asked(self) -> int:
        token = max(self.kafka._versions)
        self.asked.add(token)
        return token

    def deliver(self, effects: Effects) -> None:
        for token, response in effects.replies:
            assert isinstance(token, int)
            assert token in self.asked, "an answer to nobody's question"
            self.asked.discard(token)
            if token in self.stale:
                assert isinstance(response, OffsetCommitResponse)
                assert response.topics[0].partitions[0].error_code != ErrorCode.NONE
            if token in self.fetches:
                self.fetched(self.fetches.pop(token), response)
            elif token in self.beats:
                self.beaten(self.beats.pop(token), response)
            for client in self.clients.values():
                if client.token == token:
                    client.token = None
                    self.answered(client, response)

    def answered(self, client: Client, response: Any) -> None:
        if response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.reset()
        elif response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = response.member_id
        elif response.error_code:
            client.joined = None
        elif hasattr(response, "generation_id"):
            client.member_id, client.joined = response.member_id, response
            client.generation = response.generation_id
        else:
            client.joined = None
            client.owned = set(bytes(response.assignment))

    def beaten(self, client: Client, response: Any) -> None:
        if response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.reset()
        elif response.error_code and client.token is None:
            self.join(client.name, 9, b"")

    def fetched(self, place: tuple[str, int], response: Any) -> None:
        found = response.groups[0].topics[0].partitions[0]
        assert found.committed_offset == self.last_written().get(place, -1)

    # -- what always holds -----------------------------------------------------------------------------------

    def last_written(self) -> dict[tuple[str, int], int]:
        offsets: dict[tuple[str, int], int] = {}
        for key, value in self.kafka.written:
            if version_of(key) == 1:
                assert value is not None
                where = decode_versioned(OffsetCommitKey, key)
                offsets[where.topic, where.partition] = decode_versioned(OffsetCommitValue, value).offset
        return offsets

    @invariant()
    def nobody_owns_what_another_of_its_generation_owns(self) -> None:
        owners: dict[tuple[int, int], str] = {}
        for client in self.clients.values():
            for partition in client.owned:
                other = owners.setdefault((client.generation, partition), client.name)
                assert other == client.name

    @invariant()
    def generations_only_grow(self) -> None:
        values = [value for key, value in self.kafka.written if version_of(key) == 2]
        generations = [decode_versioned(GroupMetadataValue, value).generation for value in values if value]
        assert generations == sorted(generations)

    @invariant()
    def what_was_written_makes_the_same_group(self) -> None:
        waiting = [(key, value, -1) for effects in self.kafka.waiting for key, value in effects.records]
        machine = self.kafka.replayed([*self.kafka.log, *waiting])
        replayed = machine.facts(GROUP)
        live = self.kafka.machine.facts(GROUP)
        if live is None:
            assert replayed is None
            return
        assert (replayed.offsets if replayed else ()) == live.offsets
        if live.state in SETTLED and live.epoch:
            assert replayed is not None
            assert (replayed.members, replayed.epoch, replayed.state) == (live.members, live.epoch, live.state)
            assert self.described(machine) == self.described(self.kafka.machine)

    def described(self, machine: GroupMachine) -> object:
        """With subscriptions and assignments."""
        machine.take_effects()
        machine.handle(DescribeGroupsRequest(groups=[GROUP]), Caller(0, 6, "", ""), self.kafka.moment)
        ((_, response),) = machine.take_effects().replies
        return response

    def teardown(self) -> None:
        """Everybody who waits is answered in the end."""
        self.kafka.wait(400)
        while (effects := self.kafka.commit_one()) is not None:
            self.deliver(effects)
        assert not self.asked


class PatientClassicGroupModel(ClassicGroupModel):
    def config(self) -> GroupConfig:
        return GroupConfig(group_initial_rebalance_delay_ms=3_000, group_max_size=3)


SETTINGS = settings(max_examples=30, stateful_step_count=30, deadline=None)
TestClassicGroupModel = ClassicGroupModel.TestCase
TestClassicGroupModel.settings = SETTINGS
TestPatientClassicGroupModel = PatientClassicGroupModel.TestCase
TestPatientClassicGroupModel.settings = SETTINGS
