"""Memberships with a coordinator without actors: real messages, virtual time, answers that are lost on demand."""

from __future__ import annotations

from typing import Any

from log.machines.metadata.topic_ids import id_bytes
from protocol.error_codes import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from tests.log.machines.group.coordinator import GROUP, Coordinator
from tools.client.errors import ConnectionLost
from tools.client.membership.member import Membership, Task
from tools.client.metadata import Partition, Topic, TopicPartition, View

_COMMIT_VERSION = 9


def view_of(coordinator: Coordinator) -> View:
    """The cluster of a coordinator, as a client sees it."""
    topics = {
        topic.name: Topic(topic.name, id_bytes(topic.id), tuple(Partition(1, 0) for _ in topic.partitions))
        for topic in coordinator.world.metadata.topics.values()
    }
    return View(brokers={1: ("127.0.0.1", 1)}, topics=topics)


class Driven:
    """A membership, its unanswered request, and a user who does the tasks on demand."""

    def __init__(self, coordinator: Coordinator, membership: Membership) -> None:
        self.coordinator = coordinator
        self.membership = membership
        self.tasks: list[Task] = []
        self._waiting: int | None = None

    @property
    def owned(self) -> frozenset[TopicPartition]:
        return self.membership.reconciliation.owned

    def speak(self) -> None:
        self.membership.seen(view_of(self.coordinator))
        say = self.membership.say(self.coordinator.now)
        if say is not None:
            version = say.api.versions.last
            message = say.message(version) if callable(say.message) else say.message
            self._waiting = self.coordinator.send(message, version)

    def hear(self) -> Any:
        """Returns the answer, if there was one."""
        if self._waiting is None or self._waiting not in self.coordinator.answers:
            return None
        answer = self.coordinator.answers[self._waiting]
        self._waiting = None
        self.membership.told(answer, self.coordinator.now)
        return answer

    def lose_touch(self) -> None:
        """The connection breaks: what it said may have been heard, and what is answered it will not hear."""
        if self._waiting is not None:
            self._waiting = None
            self.membership.unheard(ConnectionLost("the test cut it"), self.coordinator.now)

    def work(self) -> Task | None:
        task = self.membership.reconciliation.task()
        if task is not None:
            self.tasks.append(task)
            self.membership.done(task)
        return task

    def leave(self) -> None:
        say = self.membership.leave("the test wants it")
        self._waiting = None
        if say is not None:
            version = say.api.versions.last
            message = say.message(version) if callable(say.message) else say.message
            self.coordinator.send(message, version)

    def may_commit(self, where: TopicPartition) -> bool:
        """Does the coordinator take an offset from it?"""
        identity = self.membership.identity
        if identity is None:
            return False
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=identity.generation,
            member_id=identity.member_id,
            group_instance_id=identity.instance_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=where.topic,
                    partitions=[OffsetCommitRequestPartition(partition_index=where.partition, committed_offset=1)],
                )
            ],
        )
        answer = self.coordinator.ask(request, _COMMIT_VERSION)
        return bool(answer.topics[0].partitions[0].error_code == ErrorCode.NONE)


def settle(members: list[Driven], seconds: float = 0.0) -> None:
    """Run until no member has a request or a task, and then for so long."""
    coordinator = members[0].coordinator
    end = coordinator.now + seconds
    while True:
        moved = True
        while moved:
            moved = False
            for one in members:
                one.speak()
                moved = bool(one.hear()) | bool(one.work()) | moved
        if coordinator.now >= end:
            return
        coordinator.wait(min(0.5, end - coordinator.now))
