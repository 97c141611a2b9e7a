"""Members of consumer groups: what those of both protocols have in common.

A member finds its coordinator, reads the partitions that it was given from where its group had got to, commits how far
it is, and now and then leaves, dies, or is paused until the others have given it up. It holds what it is told against
what is committed (group_view.py).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from attrs import define, frozen

from actors.runtime import handles
from protocol.apis import FETCH, FIND_COORDINATOR, METADATA, OFFSET_COMMIT, OFFSET_FETCH, Api
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tools.simulator.clients.client import ClientServices, Finish
from tools.simulator.clients.kafka_client import KafkaClient
from tools.simulator.groups.view import CommitRequest, GroupView
from tools.simulator.settings.groups import CONSUMER, ConsumerGroupSettings, MemberSettings

REQUEST_SECONDS = 0.6
FETCH_WAIT_MS = 300
RETRY_SECONDS = (0.02, 0.15)
_RECORDS_BYTES_MAX = 1 << 20
_FETCH_BYTES = (1, 1, 300, 1 << 20)
_COMMIT_SAME_SHARE = 0.5
COORDINATOR, LEADERS, ANYBODY = "coordinator", "leaders", "anybody"
MOVED = frozenset(
    (
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
    )
)
"""The request is repeated, perhaps at another broker."""


@frozen(slots=True)
class SpokenVersions:
    """What a client speaks."""

    fetch: int
    metadata: int
    find_coordinator: int
    offset_commit: int
    offset_fetch: int
    join: int
    sync: int
    heartbeat: int
    leave: int


OLD = SpokenVersions(11, 4, 2, 7, 5, 5, 3, 3, 1)
MIDDLE = SpokenVersions(12, 9, 4, 8, 8, 7, 5, 4, 4)
MODERN = SpokenVersions(17, 12, 6, 9, 9, 9, 5, 4, 5)


@frozen(slots=True)
class ConsumerServices:
    """What consumers share."""

    clients: ClientServices
    view: GroupView
    settings: ConsumerGroupSettings
    topic: str
    topic_id: bytes


@frozen(slots=True)
class Vanish:
    """Vanish at the end without leaving the group: the others have to notice."""


@define(slots=True, eq=False)
class OwnedPartition:
    """A partition for as long as this member has it."""

    position: int | None = None
    """Where it reads on, once it knows."""
    committed: int = -1


class SimulatedConsumer(KafkaClient):
    """See the module's docstring."""

    def __init__(self, services: ConsumerServices, rng: random.Random, member: MemberSettings) -> None:
        super().__init__(rng)
        self.services = services
        self.settings = services.settings
        self.view = services.view
        self.member = member
        self.group = member.group
        self.versions = MODERN if member.is_modern or member.kind == CONSUMER else rng.choice((OLD, MIDDLE))
        self.member_id = ""
        self.epoch = -1
        """The generation, or the member epoch."""
        self.owned: dict[int, OwnedPartition] = {}
        self.coordinator: int | None = None
        self.stable = False
        """Has it what it was given, as far as it knows?"""
        self.away = True
        self.finishing = False
        self.gone = False
        """For good?"""
        self._leaders: dict[int, int] = {}
        self._fetching: set[int] = set()
        self._asks_metadata = False
        self._commits = 0

    # -- lives -----------------------------------------------------------------------------------------------------

    def on_start(self) -> None:
        super().on_start()
        self.later(self.rng.uniform(0, 0.5 if not self.member.is_double else 3.0), self.begin_life)

    def begin_life(self) -> None:
        """A new process of this member."""
        self.away = False
        self.member_id, self.epoch = "", -1
        self.forget_all()
        self.later(self.rng.uniform(0, self.settings.poll_s), self._poll)
        self.later(self.rng.uniform(0, self.settings.commit_s), self._commit_now_and_then)
        self.later(self.rng.expovariate(1 / self.settings.mischief_s), self._mischief)
        self.join()

    def die(self, *, silently: bool) -> None:
        """Die without leaving the group."""
        self.end_life(silently=silently)
        self.away, self.stable = True, False
        self._fetching.clear()
        self._asks_metadata = False
        self.coordinator = None
        self.forget_all()
        if not self.gone:
            self.later(self._away_s(), self.begin_life)

    def _away_s(self) -> float:
        if self.finishing:
            return 0.05
        return self.rng.choice((0.5, 4.0) if self.member.is_double else (0.01, 0.5, 2.0)) * self.settings.session_s

    @handles(Finish)
    def finish(self, _message: Finish) -> None:
        self.finishing = True

    @handles(Vanish)
    def vanish(self, _message: Vanish) -> None:
        """Die, and never come back."""
        self.finishing = self.gone = True
        self.die(silently=self.rng.random() < 0.5)

    def _mischief(self) -> None:
        if self.finishing:
            return
        settings, chance = self.settings, self.rng.random()
        self.later(self.rng.expovariate(1 / settings.mischief_s), self._mischief)
        if chance < 0.2:
            self.leave()
        elif chance < 0.45:
            self.die(silently=self.rng.random() < 0.5)
        elif chance < 0.75:
            self.later(0.0, self.commit)  # the first thing that it does when it goes on
            self.pause(self.rng.choice((0.3, 1.2, 2.0)) * settings.session_s)

    # -- what each protocol does -------------------------------------------------------------------------------------

    def join(self) -> None:
        """Become a member."""
        raise NotImplementedError

    def leave(self) -> None:
        """Say goodbye, then `die`."""
        raise NotImplementedError

    def refused(self, error: int, member_id: str, epoch: int) -> None:
        """Something was refused to it under this name: it is a member no more, or not as it believes."""
        raise NotImplementedError

    # -- the coordinator ---------------------------------------------------------------------------------------------

    def ask_coordinator(
        self, api: Api, message: object, version: int, then: Callable[[Any], None], *, seconds: float = REQUEST_SECONDS
    ) -> None:
        """Ask it, wherever it is; `then` gets None if the outcome is unknown."""
        if self.coordinator is not None:
            asked = partial(self._coordinator_answered, self.coordinator, then)
            self.request(self.coordinator, COORDINATOR, api, message, version, asked, seconds=seconds)
            return
        version_of_find = self.versions.find_coordinator
        keys = {"coordinator_keys": [self.group]} if version_of_find >= 4 else {"key": self.group}
        broker = self.rng.choice(self.services.clients.brokers)

        def found(response: FindCoordinatorResponse | None) -> None:
            if response is None:
                then(None)
                return
            one: Any = response.coordinators[0] if version_of_find >= 4 else response
            if one.error_code != ErrorCode.NONE:
                then(None)
                return
            self.coordinator = one.node_id
            self.ask_coordinator(api, message, version, then, seconds=seconds)

        self.request(
            broker, ANYBODY, FIND_COORDINATOR, FindCoordinatorRequest(**keys), version_of_find, found,
            seconds=REQUEST_SECONDS,
        )  # fmt: skip

    def _coordinator_answered(self, broker: int, then: Callable[[Any], None], response: Any) -> None:
        if response is None and self.coordinator == broker:
            self.coordinator = None
        then(response)

    def has_moved(self, error: int) -> bool:
        """Does this say that the coordinator is another one, or not there yet?"""
        if error not in MOVED:
            return False
        if error != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self.coordinator = None
        return True

    def again(self, work: Callable[[], None]) -> None:
        """After a short while."""
        self.later(self.rng.uniform(*RETRY_SECONDS), work)

    # -- partitions that come and go -----------------------------------------------------------------------------------

    def forget_all(self) -> None:
        self.owned = {}

    def take(self, partitions: Iterable[int]) -> None:
        """These are its own from now on; it reads on where its group has got to."""
        new = [number for number in sorted(partitions) if number not in self.owned]
        for number in new:
            self.owned[number] = OwnedPartition()
        self._find_positions()

    def _find_positions(self) -> None:
        lost = {number: one for number, one in self.owned.items() if one.position is None}
        if lost:
            self._fetch_offsets(lost)

    def _fetch_offsets(self, wanted: dict[int, OwnedPartition]) -> None:
        version, asked_at = self.versions.offset_fetch, self.now
        member_id, epoch = self.member_id, self.epoch
        numbers = sorted(wanted)
        if version >= 8:
            topics = [OffsetFetchRequestTopics(name=self.services.topic, partition_indexes=numbers)]
            one = OffsetFetchRequestGroup(group_id=self.group, topics=topics)
            if self.member.kind == CONSUMER:
                one.member_id, one.member_epoch = member_id, epoch
            request = OffsetFetchRequest(groups=[one])
        else:
            old = [OffsetFetchRequestTopic(name=self.services.topic, partition_indexes=numbers)]
            request = OffsetFetchRequest(group_id=self.group, topics=old)

        def told(response: OffsetFetchResponse | None) -> None:
            found: Any = None if response is None else response.groups[0] if version >= 8 else response
            if found is None or found.error_code != ErrorCode.NONE:
                if found is not None and not self.has_moved(found.error_code):
                    self.refused(found.error_code, member_id, epoch)
                self.again(self._find_positions)
                return
            for one in found.topics[0].partitions:
                self._position_told(one.partition_index, wanted[one.partition_index], one.committed_offset, asked_at)

        self.ask_coordinator(OFFSET_FETCH, request, version, told)

    def _position_told(self, number: int, owned: OwnedPartition, offset: int, asked_at: float) -> None:
        self.view.fetched(self.group, number, offset, asked_at)
        if self.owned.get(number) is owned and owned.position is None:
            owned.position = max(offset, 0)
            owned.committed = offset

    # -- reading -----------------------------------------------------------------------------------------------------

    def _poll(self) -> None:
        self._fetch_all()
        self.later(self.rng.uniform(0.5, 1.5) * self.settings.poll_s, self._poll)

    def _fetch_all(self) -> None:
        by_leader: dict[int, dict[int, OwnedPartition]] = {}
        for number, owned in sorted(self.owned.items()):
            if owned.position is None:
                continue
            if number not in self._leaders:
                self._find_leaders()
                break
            by_leader.setdefault(self._leaders[number], {})[number] = owned
        else:
            for leader, wanted in by_leader.items():
                if leader not in self._fetching:
                    self._fetch(leader, wanted)

    def _fetch(self, leader: int, wanted: dict[int, OwnedPartition]) -> None:
        version = self.versions.fetch
        bytes_max = 1 << 20 if self.finishing else self.rng.choice(_FETCH_BYTES)
        topic = FetchTopic(
            partitions=[
                FetchPartition(partition=number, fetch_offset=owned.position or 0, partition_max_bytes=bytes_max)
                for number, owned in wanted.items()
            ]
        )
        if version >= 13:
            topic.topic_id = self.services.topic_id
        else:
            topic.topic = self.services.topic
        request = FetchRequest(max_wait_ms=FETCH_WAIT_MS, min_bytes=1, max_bytes=1 << 22, topics=[topic])
        self._fetching.add(leader)

        def fetched(response: FetchResponse | None) -> None:
            self._fetching.discard(leader)
            if response is None or response.error_code != ErrorCode.NONE:
                self._leaders.clear()
                return
            for answer in response.responses[0].partitions:
                self._take_answer(leader, answer, wanted[answer.partition_index])
            if self.finishing and any(answer.records for answer in response.responses[0].partitions):
                self._fetch_all()  # an answer ends with its segment, and segments are small here

        self.request(leader, LEADERS, FETCH, request, version, fetched, seconds=REQUEST_SECONDS)

    def _take_answer(self, leader: int, answer: PartitionData, owned: OwnedPartition) -> None:
        number = answer.partition_index
        if self.owned.get(number) is not owned:
            return  # it was taken away meanwhile
        assert owned.position is not None
        group, history = self.services.clients.groups[number], self.services.clients.history
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and owned.position < answer.log_start_offset:
            history.skipped[group].update(range(owned.position, answer.log_start_offset))
            owned.position = answer.log_start_offset
        elif answer.error_code != ErrorCode.NONE:
            self._leaders.pop(number, None)
        elif answer.records:
            clients = self.services.clients
            batches = clients.batches(answer.records, self.address, leader, group)
            if batches is None:
                self._leaders.pop(number, None)
            else:
                owned.position = clients.note_read(group, owned.position, batches, self.address, "poll skip")

    def _find_leaders(self) -> None:
        if self._asks_metadata:
            return
        self._asks_metadata = True
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=self.services.topic)], allow_auto_topic_creation=False
        )

        def told(response: MetadataResponse | None) -> None:
            self._asks_metadata = False
            if response is not None:
                for one in response.topics[0].partitions:
                    if one.leader_id >= 0:
                        self._leaders[one.partition_index] = one.leader_id

        broker = self.rng.choice(self.services.clients.brokers)
        self.request(broker, ANYBODY, METADATA, request, self.versions.metadata, told, seconds=REQUEST_SECONDS)

    # -- committing --------------------------------------------------------------------------------------------------

    def _commit_now_and_then(self) -> None:
        self.commit()
        self.later(self.rng.uniform(0.5, 1.5) * self.settings.commit_s, self._commit_now_and_then)

    def commit(self, then: Callable[[], None] | None = None) -> None:
        """Commit the positions that have changed; now and then all of them, until the run finishes."""
        all_of_it = self.rng.random() < _COMMIT_SAME_SHARE and not self.finishing
        done = {
            number: owned
            for number, owned in sorted(self.owned.items())
            if owned.position is not None and (all_of_it or owned.position > max(owned.committed, 0))
        }
        if not done:
            if then is not None:
                then()
            return
        offsets = {number: owned.position or 0 for number, owned in done.items()}
        self._commits += 1
        tag = f"{self.address.name}.{self.life}.{self._commits}"
        commit = CommitRequest(tag, self.group, self.member_id, self.epoch, offsets, self.now)
        self.view.begin(commit)
        request = OffsetCommitRequest(
            group_id=self.group, generation_id_or_member_epoch=self.epoch, member_id=self.member_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=self.services.topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=number, committed_offset=offset, committed_metadata=tag
                        )
                        for number, offset in offsets.items()
                    ],
                )
            ],
        )  # fmt: skip
        if self.versions.offset_commit >= 7:
            request.group_instance_id = self.member.instance_id

        def told(response: OffsetCommitResponse | None) -> None:
            for one in () if response is None else response.topics[0].partitions:
                if one.error_code == ErrorCode.NONE:
                    self.view.acknowledged(commit, one.partition_index)
                    done[one.partition_index].committed = offsets[one.partition_index]
                elif not self.has_moved(one.error_code):
                    self.refused(one.error_code, commit.member_id, commit.epoch)
                    break
            if then is not None:
                then()

        self.ask_coordinator(OFFSET_COMMIT, request, self.versions.offset_commit, told)
