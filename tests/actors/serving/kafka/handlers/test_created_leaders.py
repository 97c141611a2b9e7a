"""New partitions are answered when the broker that was asked can name their leaders."""

from __future__ import annotations

import time

import pytest

from actors.control.leader_waits import LeaderWait, LeaderWaits
from actors.harness import Cluster
from actors.messages.controller import AwaitLeaders
from actors.messages.replica import group_name
from actors.raft.leadership import Leadership
from actors.runtime import Future, Scheduler, SystemClock
from log.machines.metadata.metadata import Metadata
from log.machines.metadata.records import BrokerRegistered, PartitionsPlaced, TopicDropped, TopicMade
from protocol.error_codes import ErrorCode
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from tests.actors.json_lines import Lines
from tests.actors.serving.kafka.handlers.wire_client import WireClient
from tests.actors.topics import controller_of


def unled(client: WireClient, name: str) -> list[int]:
    return [one.partition_index for one in client.topic(name).partitions if one.leader_id < 0]


def never_led(client: WireClient, name: str) -> list[int]:
    """The partitions for which this broker has not known a leader yet.

    It may have known one and lost it: on a busy machine, a link falls silent for three seconds, or a leader is deposed
    in its first moments. The answer to a creation promises nothing of what happens after it; the epoch of the last
    leader stays known.
    """
    return [one.partition_index for one in client.topic(name).partitions if one.leader_epoch < 0]


def test_a_created_topic_has_leaders_at_every_broker_that_is_asked(clients: dict[int, WireClient], name: str) -> None:
    for turn in range(10):
        for broker, client in clients.items():
            topic = f"{name}-{turn}-{broker}"
            request = CreateTopicsRequest(
                topics=[CreatableTopic(name=topic, num_partitions=3, replication_factor=3)], timeout_ms=15_000
            )
            assert client.ask(request).topics[0].error_code == ErrorCode.NONE
            assert never_led(client, topic) == []


def test_created_partitions_have_leaders_at_every_broker_that_is_asked(
    cluster: Cluster, clients: dict[int, WireClient], name: str
) -> None:
    cluster.admin.create_topic(name, 1, 3)
    for count, client in zip(range(4, 40, 3), [*clients.values()] * 4, strict=True):
        request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=name, count=count)], timeout_ms=15_000)
        assert client.ask(request).results[0].error_code == ErrorCode.NONE
        assert never_led(client, name) == []


def test_newline_json_and_the_harness_wait_for_leaders_too(
    cluster: Cluster, clients: dict[int, WireClient], name: str
) -> None:
    for turn in range(10):
        cluster.admin.create_topic(f"{name}-{turn}", 4, 3)
        assert never_led(clients[cluster.alive[0]], f"{name}-{turn}") == []
        with Lines(cluster.bootstrap.split(",")[1]) as client:
            topic = f"{name}-json-{turn}"
            client.ask("create_topic", name=topic, partitions=2)
            assert never_led(clients[2], topic) == []
            client.ask("create_partitions", name=topic, count=6)
            assert never_led(clients[2], topic) == []


def test_a_topic_that_cannot_have_leaders_is_answered_with_success_when_the_time_is_up(name: str) -> None:
    with Cluster(3, processes=True, log_level="error") as cluster, WireClient(cluster, 1) as client:
        cluster.admin.create_topic("all-are-registered", 1, 3)
        silent = next(broker for broker in (2, 3) if broker != controller_of(cluster))
        cluster.pause(silent)  # the others take it for alive until it has been silent for 3 s
        alone = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[silent])],
        )
        began = time.monotonic()
        result = client.ask(CreateTopicsRequest(topics=[alone], timeout_ms=700)).topics[0]
        assert (result.error_code, unled(client, name)) == (ErrorCode.NONE, [0])
        assert 0.6 <= time.monotonic() - began < 5.0
        cluster.resume(silent)


# -- the waits themselves ------------------------------------------------------------------------------------------


@pytest.fixture
def metadata() -> Metadata:
    metadata = Metadata()
    metadata.apply(BrokerRegistered(1, "d1", "h", 1))
    return metadata


def place(metadata: Metadata, count: int) -> None:
    metadata.apply(TopicMade("id", "orders", ()))
    metadata.apply(PartitionsPlaced("id", 0, ((1,),) * count))


def begun(waits: LeaderWaits, first: int, end: int) -> Future[bool]:
    reply: Future[bool] = Future(Scheduler(SystemClock()))
    waits.add(LeaderWait(AwaitLeaders("id", first, end, 1.0), reply))
    return reply


def is_done(reply: Future[bool]) -> bool:
    return reply.done


def test_a_wait_ends_when_the_metadata_has_the_partitions_and_each_is_led(metadata: Metadata) -> None:
    leadership = Leadership()
    waits = LeaderWaits(metadata, leadership)
    reply = begun(waits, 1, 3)
    leadership.announced(group_name("orders", 1, "id"), 1, 1, (1,))
    place(metadata, 3)
    waits.metadata_changed({"id"})
    assert not is_done(reply)
    leadership.announced(group_name("orders", 2, "id"), 1, 1, (1,))
    assert is_done(reply)
    assert reply.get() is True
    assert len(waits) == 0


def test_a_wait_goes_on_if_a_leader_is_lost_before_the_last_one_is_known(metadata: Metadata) -> None:
    place(metadata, 2)
    leadership = Leadership()
    waits = LeaderWaits(metadata, leadership)
    reply = begun(waits, 0, 2)
    first, second = (group_name("orders", number, "id") for number in (0, 1))
    leadership.announced(first, 1, 1, (1,))
    leadership.resigned(first, 1)
    leadership.announced(second, 1, 1, (1,))
    assert not is_done(reply)
    leadership.announced(first, 1, 2, (1,))
    assert is_done(reply)


def test_a_wait_for_a_topic_that_is_deleted_ends_without_leaders(metadata: Metadata) -> None:
    place(metadata, 2)
    waits = LeaderWaits(metadata, Leadership())
    reply = begun(waits, 0, 2)
    metadata.apply(TopicDropped("id"))
    waits.metadata_changed({"id"})
    assert is_done(reply)
    assert reply.get() is False
    assert len(waits) == 0
