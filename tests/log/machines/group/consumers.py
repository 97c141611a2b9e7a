"""A new consumer group and its members, without a log and without time: what a test says happens."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Any

from log.machines.coordination import RECORD_BYTES_MAX, Caller, Effects, Moment, Write
from log.machines.group.config import GroupConfig
from log.machines.group.consumer.assignment import Assignment, assignment_of, by_topic
from log.machines.group.consumer.group import ConsumerGroup
from log.machines.group.group import Shared
from log.machines.metadata.metadata import Metadata
from log.machines.metadata.records import PartitionsPlaced, TopicDropped, TopicMade
from log.machines.metadata.topic_ids import id_bytes
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from protocol.messages.group_records import KEYS, VALUES
from protocol.schema.codec import decode_versioned, version_of
from tests.log.machines.clusters import registered

GROUP = "readers"


class Topics:
    """Metadata that holds topics alone."""

    def __init__(self, **topics: int) -> None:
        self.metadata = Metadata()
        self.metadata.apply(registered(1))
        self._made = 0
        for name, partitions in topics.items():
            self.make(name, partitions)

    def make(self, name: str, partitions: int) -> None:
        self._made += 1
        topic_id = urlsafe_b64encode(self._made.to_bytes(16, "big")).decode().rstrip("=")
        self.metadata.apply(TopicMade(topic_id, name, ()))
        self.metadata.apply(PartitionsPlaced(topic_id, 0, ((1,),) * partitions))
        self.metadata.applied += 2

    def grow(self, name: str, partitions: int) -> None:
        topic = self.metadata.topic(name)
        assert topic is not None
        added = partitions - len(topic.partitions)
        self.metadata.apply(PartitionsPlaced(topic.id, len(topic.partitions), ((1,),) * added))
        self.metadata.applied += 1

    def drop(self, name: str) -> None:
        topic = self.metadata.topic(name)
        assert topic is not None
        self.metadata.apply(TopicDropped(topic.id))
        self.metadata.applied += 1

    def partitions(self, name: str, *numbers: int) -> Assignment:
        topic = self.metadata.topic(name)
        assert topic is not None
        return frozenset((id_bytes(topic.id), number) for number in numbers)

    def all(self, *names: str) -> Assignment:
        return frozenset().union(
            *(self.partitions(name, *range(len(topic.partitions))) for name in names if (topic := self.topic(name)))
        )

    def topic(self, name: str) -> Any:
        return self.metadata.topic(name)


class Coordinator:
    """Drives one group as its coordinator does: effects after every call, records into a log, failover by replay."""

    def __init__(self, topics: Topics, config: GroupConfig | None = None) -> None:
        self.topics = topics
        self.log: list[Write] = []
        self.now = 1000.0
        self._ids = 0
        self.shared = Shared(topics.metadata, config or GroupConfig(), self._new_id, lambda: RECORD_BYTES_MAX)
        self.group = self._made()

    def _made(self) -> ConsumerGroup:
        return ConsumerGroup(GROUP, self.shared)

    def _new_id(self) -> str:
        self._ids += 1
        return f"made-{self._ids}"

    @property
    def moment(self) -> Moment:
        return Moment(self.now, round(self.now * 1000))

    def ask(self, request: ConsumerGroupHeartbeatRequest, version: int = 1) -> ConsumerGroupHeartbeatResponse:
        before = len(self.log)
        self.group.heartbeat(request, Caller("token", version, "client", "/127.0.0.1"), self.moment)
        ((token, response),) = self.taken()
        assert token == "token"
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        assert (response.error_code == 0) == (response.error_message is None)
        assert response.error_code == 0 or len(self.log) == before, "nothing is written of what is refused"
        return response

    def taken(self) -> list[tuple[object, object]]:
        effects, self.shared.effects = self.shared.effects, Effects()
        self.log.extend(effects.records)
        return effects.replies

    def tick(self, seconds: float) -> None:
        self.now += seconds
        self.group.tick(self.moment)
        assert not self.taken()

    def change_topics(self) -> None:
        self.group.metadata_changed(self.moment)
        assert not self.taken()

    def fail_over(self) -> None:
        """Another coordinator makes the group from the log, on another clock."""
        self.now += 12345
        self.group = replayed(self.log, self._made())
        self.group.loaded(self.moment)
        assert not self.taken()


def replayed(log: list[Write], group: ConsumerGroup) -> ConsumerGroup:
    for key, value in log:
        version = version_of(key)
        group.replay(
            decode_versioned(KEYS[version], key), None if value is None else decode_versioned(VALUES[version], value)
        )
    return group


class Consumer:
    """A member that does what it is told: takes, gives up, acknowledges with its next heartbeat."""

    def __init__(
        self, coordinator: Coordinator, member_id: str, *topics: str, instance_id: str | None = None, **others: Any
    ) -> None:
        self.coordinator = coordinator
        self.member_id = member_id
        self.topics = list(topics)
        self.instance_id = instance_id
        self.others = {"rebalance_timeout_ms": 60_000, **others}
        self.epoch = 0
        self.owned: Assignment = frozenset()
        self._said: Assignment | None = None

    def request(self, **changes: Any) -> ConsumerGroupHeartbeatRequest:
        """What it would send now."""
        fields: dict[str, Any] = {
            "group_id": GROUP,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "instance_id": self.instance_id,
        }
        if self.epoch == 0:
            fields.update(subscribed_topic_names=self.topics, topic_partitions=[], **self.others)
        elif self.owned != self._said:
            fields.update(topic_partitions=listed(self.owned))
        return ConsumerGroupHeartbeatRequest(**{**fields, **changes})

    def beat(self, **changes: Any) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat and do what the answer says."""
        return self.obey(self.coordinator.ask(self.request(**changes)))

    def beat_and_lose_the_answer(self, **changes: Any) -> None:
        self.coordinator.ask(self.request(**changes))

    def obey(self, response: ConsumerGroupHeartbeatResponse) -> ConsumerGroupHeartbeatResponse:
        assert response.error_code == 0, response.error_message
        self._said = self.owned
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.owned = assignment_of(response.assignment.topic_partitions)
        return response

    def refused(self, **changes: Any) -> ErrorCode:
        return ErrorCode(self.coordinator.ask(self.request(**changes)).error_code)

    def lose_everything(self) -> None:
        """It was fenced, or restarted."""
        self.epoch, self.owned, self._said = 0, frozenset(), None

    def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        response = self.coordinator.ask(self.request(member_epoch=epoch))
        self.lose_everything()
        return response


def listed(assignment: Assignment) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id=topic_id, partitions=numbers) for topic_id, numbers in by_topic(assignment)]


def settle(*consumers: Consumer) -> None:
    """Everybody heartbeats until nothing changes any more."""
    for _ in range(4 * len(consumers) + 4):
        before = [(one.epoch, one.owned) for one in consumers]
        for one in consumers:
            one.beat()
        if before == [(one.epoch, one.owned) for one in consumers]:
            return
    raise AssertionError("they never settle")
