"""What a connection reads as a member of a group, while the group changes under it. Its requests end here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from actors.messages.replica import EARLIEST
from actors.serving.json.group_reader import GroupReader, Poll
from log.slices import finish
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tests.actors.test_json_membership import Coordinated

POLL_SECONDS_MAX = 300.0


class Read(Coordinated):
    """A reader that was assigned the first partition of a topic that nobody leads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch)
        self.answers: list[Any] = []
        self.refusals: list[tuple[ErrorCode, str]] = []
        self.led = 0
        self.asked.clear()
        for topic in self.connection.serving.metadata.topics.values():
            topic.id = "id"
        self.connection.serving.led = self._led
        self.connection.in_slices = finish
        self.reader = GroupReader(
            cast("Any", self.connection), "g", ("orders",), EARLIEST, POLL_SECONDS_MAX, read_committed=False
        )
        self.membership = self.reader.membership
        self.reader.subscribed(self.call)
        self.join(0)
        _, answer = self.next(OffsetFetchRequest)
        partition = OffsetFetchResponsePartitions(partition_index=0, committed_offset=7)
        topics = [OffsetFetchResponseTopics(name="orders", partitions=[partition])]
        answer(OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=topics)]), ErrorCode.NONE)
        self.answers.clear()

    @property
    def call(self) -> Any:
        return SimpleNamespace(
            answer=self.answers.append,
            answer_long=lambda facts, name, pieces: self.answers.append({**facts, name: pieces}),
            refuse=lambda *error: self.refusals.append(error),
        )

    def poll(self, seconds: float) -> None:
        self.reader.poll(Poll(self.call, 10, self.connection.now + seconds, lambda record: {"value": record.value}))

    def _led(self, _topic: Any, _number: int) -> None:
        self.led += 1


def test_a_poll_of_a_member_that_is_taken_out_of_its_group_meanwhile_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = Read(monkeypatch)
    read.connection.serving.metadata.topics["id"] = SimpleNamespace(name="orders")
    read.poll(2 * POLL_SECONDS_MAX)
    assert read.led == 1, "somebody to read from is looked for"
    read.connection.now += POLL_SECONDS_MAX + 1
    request, _ = read.next(ConsumerGroupHeartbeatRequest)
    assert request.member_epoch == -1
    ((error, text),) = read.refusals
    assert error == ErrorCode.UNKNOWN_MEMBER_ID
    assert "was taken out of its group" in text
    while read.later:  # the read that was under way ends
        read.later.pop(0)()
    read.poll(1.0)
    assert read.refusals == [(error, text)] * 2
    assert read.answers == []


def test_a_topic_that_is_deleted_before_its_first_read_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Read(monkeypatch)
    read.connection.serving.metadata.topics.clear()
    read.poll(10.0)
    assert (read.led, read.answers) == (0, [])
    _, answer = read.heartbeat()
    gone = ConsumerGroupHeartbeatResponse(
        member_epoch=7, heartbeat_interval_ms=5000, assignment=Assignment(topic_partitions=[])
    )
    answer(gone, ErrorCode.NONE)
    assert read.answers == [{"records": [], "assignment": []}]
