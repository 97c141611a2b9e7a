"""Consumers that subscribe, against Barnabas: assignments, committed offsets, callbacks, and administration."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer as ConfluentConsumer

from actors.cluster_file.config import KafkaConfig
from actors.harness import Cluster
from protocol.error_codes import ErrorCode
from tests.actors.waiting import wait_until
from tests.naming import unique
from tools.client.admin import Admin
from tools.client.consumer import Consumer
from tools.client.errors import CommitFailed, KafkaError, NoCommittedOffset
from tools.client.group_offsets import Committed
from tools.client.metadata import TopicPartition
from tools.client.network.broker import Patience
from tools.client.producer import Producer

PARTITIONS = 4
SECONDS = 30.0
CONFIG = KafkaConfig(
    group_min_session_timeout_ms=500, group_consumer_session_timeout_ms=2000, group_consumer_heartbeat_interval_ms=100
)
Make = Callable[..., Consumer]
Read = list[tuple[TopicPartition, int]]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Cluster(1, log_level="critical", config=CONFIG) as cluster:
        yield cluster.bootstrap


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> Iterator[Admin]:
    with Admin(bootstrap) as admin:
        yield admin


@pytest.fixture
def topic(admin: Admin) -> str:
    name = unique("orders")
    admin.create_topic(name, partitions=PARTITIONS, replication_factor=1)
    return name


@pytest.fixture
def group() -> str:
    return unique("group")


@pytest.fixture
def make(bootstrap: str, group: str) -> Iterator[Make]:
    with ExitStack() as stack:

        def made(protocol: str = "classic", **changes: object) -> Consumer:
            given = {
                "group_id": group,
                "group_protocol": protocol,
                "auto_offset_reset": "earliest",
                "session_timeout": 2.0,
                "heartbeat_interval": 0.1,
                "auto_commit_interval": None,
                "block": SECONDS,
                **changes,
            }
            return stack.enter_context(Consumer(bootstrap, **given))  # type: ignore[arg-type]

        yield made


def write(bootstrap: str, topic: str, count: int) -> None:
    with Producer(bootstrap) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=number % PARTITIONS)


def poll_until(condition: Callable[[], object], *consumers: Consumer) -> Read:
    """What was read until then."""
    read: Read = []
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"assigned: {[one.assignment for one in consumers]}"
        for one in consumers:
            read += [(where, record.offset) for where, some in one.poll(0.02).items() for record in some]
    return read


def read_all(count: int, *consumers: Consumer) -> Read:
    read: Read = []
    deadline = time.monotonic() + SECONDS
    while len(read) < count:
        assert time.monotonic() < deadline, f"only {len(read)} records came"
        for one in consumers:
            read += [(where, record.offset) for where, some in one.poll(0.02).items() for record in some]
    return read


def shared(*consumers: Consumer) -> Callable[[], bool]:
    def condition() -> bool:
        owned = [where for one in consumers for where in one.assignment]
        return len(owned) == len(set(owned)) == PARTITIONS and all(one.assignment for one in consumers)

    return condition


both = pytest.mark.parametrize("protocol", ["classic", "consumer"])


@both
def test_members_share_a_topic_and_nothing_is_read_twice(bootstrap: str, topic: str, make: Make, protocol: str) -> None:
    write(bootstrap, topic, 100)
    first, second = make(protocol), make(protocol)
    first.subscribe([topic])
    read = read_all(100, first)
    first.commit()
    second.subscribe([topic])
    read += poll_until(shared(first, second), first, second)
    write(bootstrap, topic, 100)
    read += read_all(100, first, second)
    first.commit()
    second.commit()
    second.unsubscribe()
    read += poll_until(shared(first), first)
    write(bootstrap, topic, 100)
    read += read_all(100, first)
    assert len(read) == len(set(read)) == 300
    assert second.assignment == []


@both
def test_callbacks_are_told_what_comes_and_goes(bootstrap: str, topic: str, make: Make, protocol: str) -> None:
    told: list[tuple[str, int]] = []
    first, second = make(protocol, assignors=["cooperative-sticky"]), make(protocol, assignors=["cooperative-sticky"])
    first.subscribe(
        [topic],
        on_assigned=lambda wheres: told.append(("assigned", len(wheres))),
        on_revoked=lambda wheres: told.append(("revoked", len(wheres))),
        on_lost=lambda wheres: told.append(("lost", len(wheres))),
    )
    poll_until(shared(first), first)
    second.subscribe([topic])
    poll_until(shared(first, second), first, second)
    second.close()
    poll_until(shared(first), first)
    first.close()
    assert told == [("assigned", 4), ("revoked", 2), ("assigned", 2), ("revoked", 4)]


@both
def test_it_begins_where_the_group_stopped_or_where_its_user_seeks(
    bootstrap: str, topic: str, make: Make, protocol: str
) -> None:
    write(bootstrap, topic, 40)
    one = make(protocol)
    one.commit({(topic, 0): Committed(4), (topic, 1): Committed(6, metadata="here")})
    assert one.committed([(topic, 0), (topic, 1), (topic, 2)]) == {
        TopicPartition(topic, 0): Committed(4),
        TopicPartition(topic, 1): Committed(6, metadata="here"),
    }
    one.subscribe([topic], on_assigned=lambda _: one.seek((topic, 3), 9))
    read = sorted((where.partition, offset) for where, offset in read_all(6 + 4 + 10 + 1, one))
    assert read == [
        *[(0, offset) for offset in range(4, 10)],
        *[(1, offset) for offset in range(6, 10)],
        *[(2, offset) for offset in range(10)],
        (3, 9),
    ]


def test_without_an_offset_and_without_a_reset_it_says_so(topic: str, make: Make) -> None:
    one = make(auto_offset_reset="none")
    one.subscribe([topic])
    with pytest.raises(NoCommittedOffset, match="auto_offset_reset"):
        poll_until(lambda: False, one)


@both
def test_what_polls_gave_is_committed_by_itself(
    bootstrap: str, topic: str, group: str, admin: Admin, make: Make, protocol: str
) -> None:
    write(bootstrap, topic, 40)
    one = make(protocol, auto_commit_interval=0.05)
    one.subscribe([topic])
    taken: dict[TopicPartition, int] = {}
    deadline = time.monotonic() + SECONDS
    while sum(taken.values()) < 24:
        assert time.monotonic() < deadline
        for where, records in one.poll(0.1, max_records=8).items():
            taken[where] = records[-1].offset + 1
    one.close()
    assert {where: at.offset for where, at in admin.groups.offsets(group).items() if at.offset} == taken


def test_commits_without_waiting_tell_how_they_went(topic: str, make: Make) -> None:
    one = make()
    told: list[object] = []
    one.commit_soon({(topic, 0): 3}, told.append)
    one.commit_soon({}, told.append)
    wait_until(lambda: len(told) == 2, lambda: f"{told}")
    assert told == [None, None]
    assert one.committed([(topic, 0)]) == {TopicPartition(topic, 0): Committed(3)}


@both
def test_another_members_partitions_cannot_be_committed(topic: str, make: Make, protocol: str) -> None:
    first, second = make(protocol), make(protocol)
    first.subscribe([topic])
    second.subscribe([topic])
    poll_until(shared(first, second), first, second)
    with pytest.raises(CommitFailed, match="not this member's"):
        first.commit({second.assignment[0]: 1})


@both
def test_who_does_not_poll_leaves_and_comes_back_when_he_does(topic: str, make: Make, protocol: str) -> None:
    lost: list[TopicPartition] = []
    slow, other = make(protocol, max_poll_interval=1.0), make(protocol)
    slow.subscribe([topic], on_lost=lost.extend)
    poll_until(shared(slow), slow)
    other.subscribe([topic])
    poll_until(shared(other), other)
    with pytest.raises(CommitFailed, match="no member"):
        slow.commit({(topic, 0): 1})
    assert slow.generation == -1
    poll_until(shared(slow, other), slow, other)
    assert len(lost) == PARTITIONS


@both
def test_a_pattern_finds_topics_that_are_made_later(admin: Admin, topic: str, make: Make, protocol: str) -> None:
    one = make(protocol, patience=Patience(metadata_age=0.2))
    one.subscribe(re.compile(re.escape(topic) + ".*"))
    poll_until(lambda: len(one.assignment) == PARTITIONS, one)
    admin.create_topic(f"{topic}-more", partitions=2, replication_factor=1)
    poll_until(lambda: len(one.assignment) == PARTITIONS + 2, one)


@both
def test_more_partitions_are_read_too(admin: Admin, topic: str, make: Make, protocol: str) -> None:
    one = make(protocol, patience=Patience(metadata_age=0.2))
    one.subscribe([topic])
    poll_until(shared(one), one)
    admin.create_partitions(topic, PARTITIONS + 3)
    poll_until(lambda: len(one.assignment) == PARTITIONS + 3, one)


def test_a_static_member_that_was_replaced_is_told(topic: str, make: Make) -> None:
    first, second = make(group_instance_id="one"), make(group_instance_id="one")
    first.subscribe([topic])
    poll_until(shared(first), first)
    second.subscribe([topic])
    poll_until(shared(second), second)
    with pytest.raises(KafkaError, match="FENCED_INSTANCE_ID"):
        poll_until(lambda: False, first)
    assert first.assignment == []


def test_a_failing_callback_is_raised_and_not_called_again(topic: str, make: Make) -> None:
    calls: list[object] = []

    def fail(wheres: list[TopicPartition]) -> None:
        calls.append(wheres)
        raise RuntimeError("the user's own mistake")

    one = make()
    one.subscribe([topic], on_assigned=fail)
    with pytest.raises(RuntimeError, match="own mistake"):
        poll_until(lambda: False, one)
    poll_until(shared(one), one)
    assert len(calls) == 1


@both
def test_what_was_just_assigned_can_be_committed(topic: str, make: Make, protocol: str) -> None:
    one = make(protocol)
    one.subscribe([topic], on_assigned=lambda wheres: one.commit(dict.fromkeys(wheres, 0)))
    poll_until(shared(one), one)
    assert len(one.committed(one.assignment)) == PARTITIONS


def test_misuse_is_told(topic: str, make: Make, bootstrap: str) -> None:
    one = make()
    with pytest.raises(ValueError, match="a list of topics"):
        one.subscribe(topic)
    one.assign({(topic, 0): 0})
    with pytest.raises(ValueError, match="was assigned"):
        one.subscribe([topic])
    one.assign({})
    one.subscribe([topic])
    with pytest.raises(ValueError, match="unsubscribe"):
        one.assign({(topic, 0): 0})
    with Consumer(bootstrap) as groupless, pytest.raises(ValueError, match="group_id"):
        groupless.subscribe([topic])
    with pytest.raises(ValueError, match="classic, consumer"):
        make("other")


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_librdkafka_and_we_are_in_one_group(bootstrap: str, topic: str, group: str, make: Make, strategy: str) -> None:
    """With either leader of the group: first this client, then the other one."""
    theirs = ConfluentConsumer({
        "bootstrap.servers": bootstrap, "group.id": group, "partition.assignment.strategy": strategy,
        "heartbeat.interval.ms": 100, "session.timeout.ms": 2000, "auto.offset.reset": "earliest",
    })  # fmt: skip
    try:
        for _ in range(2):
            ours = make(assignors=[strategy])
            ours.subscribe([topic])

            def both_have() -> bool:
                theirs.poll(0.02)
                mine = {where.partition for where in ours.assignment}  # noqa: B023  it is called before the next
                others = {one.partition for one in theirs.assignment()}
                return mine | others == set(range(PARTITIONS)) and not mine & others and len(mine) == len(others)

            theirs.subscribe([topic])
            poll_until(both_have, ours)
            ours.close()
    finally:
        theirs.close()


@both
def test_groups_are_administered(
    bootstrap: str, topic: str, group: str, admin: Admin, make: Make, protocol: str
) -> None:
    write(bootstrap, topic, 8)
    one = make(protocol, client_id="somebody")
    one.subscribe([topic])
    read_all(8, one)
    one.commit()
    described = admin.groups.describe(group)
    assert (described.type, described.state) == (protocol, "Stable")
    (member,) = described.members
    assert (member.client_id, member.topics, len(member.partitions)) == ("somebody", (topic,), PARTITIONS)
    assert (group, protocol) in [(listed.group_id, listed.type) for listed in admin.groups.list()]
    assert admin.groups.offsets(group)[TopicPartition(topic, 2)].offset == 2
    with pytest.raises(KafkaError) as refused:
        admin.groups.alter_offsets(group, {(topic, 0): 0})
    assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    with pytest.raises(KafkaError) as refused:
        admin.groups.delete_offsets(group, [(topic, 0)])
    assert refused.value.code is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    with pytest.raises(KafkaError) as refused:
        admin.groups.delete(group)
    assert refused.value.code is ErrorCode.NON_EMPTY_GROUP
    one.close()
    admin.groups.alter_offsets(group, {(topic, 0): 1})
    assert admin.groups.offsets(group)[TopicPartition(topic, 0)].offset == 1
    admin.groups.delete_offsets(group, [(topic, 0)])
    assert TopicPartition(topic, 0) not in admin.groups.offsets(group)
    admin.groups.delete(group)
    with pytest.raises(KafkaError) as refused:
        admin.groups.describe(group)
    assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_members_are_removed(topic: str, group: str, admin: Admin, make: Make) -> None:
    lost: list[TopicPartition] = []
    one = make(group_instance_id="desk")
    one.subscribe([topic], on_lost=lost.extend)
    poll_until(shared(one), one)
    admin.groups.remove_members(group, instance_ids=["desk"])
    assert admin.groups.describe(group).members == ()
    poll_until(lambda: lost, one)
    with pytest.raises(KafkaError):
        admin.groups.remove_members(group, member_ids=["nobody"])
