"""Fetch sessions without a wire: what each fetch is answered, and when a session is over."""

from __future__ import annotations

import random
from collections.abc import Generator
from typing import TypeVar

import pytest

from actors.serving import fetch_sessions
from actors.serving.fetch_sessions import EVICT_SECONDS, FetchSession, FetchSessions, Wanted, partitions_of
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, PartitionData

BY_NAME, BY_ID = 12, 13
T = TypeVar("T")


def asks(session_id: int, epoch: int, *partitions: int, forget: tuple[int, ...] = ()) -> FetchRequest:
    topic = FetchTopic(topic="t", partitions=[FetchPartition(partition=number) for number in partitions])
    forgotten = [ForgottenTopic(topic="t", partitions=list(forget))] if forget else []
    return FetchRequest(session_id=session_id, session_epoch=epoch, topics=[topic], forgotten_topics_data=forgotten)


def opened(sessions: FetchSessions, *partitions: int, now: float = 0.0) -> int:
    return sessions.open(list(partitions_of(asks(0, 0, *partitions))), BY_NAME, now)


def numbers(found: object) -> list[int]:
    assert isinstance(found, FetchSession)
    return [wanted.partition.partition for wanted in found.partitions.values()]


def updated(sessions: FetchSessions, request: FetchRequest, now: float = 0.0) -> list[int] | None:
    """The partitions of a session after this request, None if it is over."""
    found = sessions.find(request, BY_NAME, now)
    assert isinstance(found, FetchSession)
    return numbers(found) if result_of(sessions.update(found, request)) else None


def result_of(steps: Generator[None, None, T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result


@pytest.fixture
def sessions() -> FetchSessions:
    return FetchSessions(random.Random(1))


def test_partitions_come_and_go(sessions: FetchSessions) -> None:
    session = opened(sessions, 0, 1)
    assert updated(sessions, asks(session, 1)) == [0, 1]
    assert updated(sessions, asks(session, 2, 2, forget=(0,))) == [1, 2]
    assert updated(sessions, asks(session, 3, 1)) == [1, 2]


def test_an_epoch_that_is_not_the_next_ends_nothing_and_is_refused(sessions: FetchSessions) -> None:
    session = opened(sessions, 0)
    assert sessions.find(asks(session, 7), BY_NAME, 0.0) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert numbers(sessions.find(asks(session, 1), BY_NAME, 0.0)) == [0]
    assert sessions.find(asks(session, 1), BY_NAME, 0.0) is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_epochs_begin_again_at_one(sessions: FetchSessions) -> None:
    session = opened(sessions, 0)
    found = sessions.find(asks(session, 1), BY_NAME, 0.0)
    assert isinstance(found, FetchSession)
    found.epoch = (1 << 31) - 1
    found.next_epoch()
    assert found.epoch == 1


@pytest.mark.parametrize(("begun", "goes_on"), [(BY_NAME, BY_ID), (BY_ID, BY_NAME)])
def test_a_session_has_names_or_ids_and_never_both(sessions: FetchSessions, begun: int, goes_on: int) -> None:
    session = sessions.open(list(partitions_of(asks(0, 0, 0))), begun, 0.0)
    assert sessions.find(asks(session, 1, 1), goes_on, 0.0) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert numbers(sessions.find(asks(session, 1), begun, 0.0)) == [0], "the refused request changed nothing"


@pytest.mark.parametrize("epoch", [0, -1])
def test_the_first_and_the_last_epoch_end_a_session(sessions: FetchSessions, epoch: int) -> None:
    session = opened(sessions, 0)
    assert sessions.find(asks(session, epoch), BY_NAME, 0.0) is None
    assert sessions.find(asks(session, 1), BY_NAME, 0.0) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(sessions) == 0


def test_there_are_so_many_and_the_one_that_rests_longest_makes_room(
    sessions: FetchSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_sessions, "SESSIONS_MAX", 2)
    first, second = opened(sessions, 0, now=0.0), opened(sessions, 0, now=0.0)
    assert opened(sessions, 0, now=EVICT_SECONDS - 1) == 0
    assert isinstance(sessions.find(asks(first, 1), BY_NAME, EVICT_SECONDS), FetchSession)
    assert opened(sessions, 0, now=EVICT_SECONDS) != 0
    assert sessions.find(asks(second, 1), BY_NAME, EVICT_SECONDS) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(sessions) == 2


def test_a_session_that_gets_too_many_partitions_is_over(
    sessions: FetchSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_sessions, "PARTITIONS_MAX", 3)
    assert opened(sessions, 0, 1, 2, 3) == 0, "the client goes on without one"
    session = opened(sessions, 0, 1)
    assert updated(sessions, asks(session, 1, 2)) == [0, 1, 2]
    assert updated(sessions, asks(session, 2, 3, forget=(0,))) == [1, 2, 3]
    assert updated(sessions, asks(session, 3, 4)) is None
    assert sessions.find(asks(session, 4), BY_NAME, 0.0) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_all_sessions_together_have_so_many_partitions(
    sessions: FetchSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_sessions, "PARTITIONS_IN_ALL_MAX", 5)
    first, second = opened(sessions, 0, 1), opened(sessions, 0, 1)
    assert opened(sessions, 0, 1) == 0
    assert updated(sessions, asks(first, 1, 2), now=1.0) == [0, 1, 2]
    assert updated(sessions, asks(second, 1, 2), now=1.0) is None, "that would be one too many"
    assert sessions.partitions == 3
    assert opened(sessions, 0, 1, 2, now=EVICT_SECONDS) == 0, "the first was used a moment ago"
    assert opened(sessions, 0, 1, 2, now=EVICT_SECONDS + 1.0) != 0
    assert sessions.partitions == 3


def test_only_news_are_told() -> None:
    (wanted,) = partitions_of(asks(0, 0, 0))
    quiet = PartitionData(high_watermark=5, log_start_offset=1, records=b"")
    assert wanted.is_news(quiet)
    assert not wanted.is_news(quiet)
    assert wanted.is_news(PartitionData(high_watermark=6, log_start_offset=1, records=b""))
    assert wanted.is_news(PartitionData(high_watermark=6, log_start_offset=2, records=b""))
    assert wanted.is_news(PartitionData(high_watermark=6, log_start_offset=2, records=b"x"))
    failed = PartitionData(error_code=6, high_watermark=-1, records=b"")
    assert wanted.is_news(failed)
    assert wanted.is_news(failed)
    assert wanted.is_news(PartitionData(high_watermark=6, log_start_offset=2, records=b"")), "it works again"


def test_a_partition_is_known_by_name_or_id() -> None:
    by_name = Wanted("t", bytes(16), FetchPartition(partition=1))
    by_id = Wanted("", b"1" * 16, FetchPartition(partition=1))
    assert by_name.key != by_id.key


def test_no_two_sessions_have_one_id() -> None:
    rng = random.Random(1)
    drawn = iter((7, 7, 7, 8))
    rng.randint = lambda *_: next(drawn)  # type: ignore[method-assign]
    sessions = FetchSessions(rng)
    assert [opened(sessions, 0), opened(sessions, 1)] == [7, 8]
