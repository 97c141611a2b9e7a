"""Fetch over the wire: how much, how long, and for whom."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from actors.harness import Cluster
from protocol.apis import FETCH
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from protocol.messages.produce import PartitionProduceResponse
from protocol.records.batches import check_batches, records
from protocol.records.compression import Codec
from tests.actors.serving.kafka.handlers.test_produce import batch
from tests.actors.serving.kafka.handlers.test_produce import produce as try_to_produce
from tests.actors.serving.kafka.handlers.wire_client import SECONDS, WireClient

PARTITIONS = 3
LONG_MS = 20_000
LONGER_THAN_CLIENTS_WAIT_MS = 2 * SECONDS * 1000


@pytest.fixture
def topic(cluster: Cluster, client: WireClient, name: str) -> MetadataResponseTopic:
    """All of it led by one broker."""
    cluster.admin.create_topic(name, assignment=[[1, 2, 3]] * PARTITIONS)
    return client.until_led(name)


@pytest.fixture
def leader(clients: dict[int, WireClient], topic: MetadataResponseTopic) -> WireClient:
    (broker,) = {partition.leader_id for partition in topic.partitions}
    return clients[broker]


def produce(
    client: WireClient, topic: MetadataResponseTopic, records: bytes, *, partition: int = 0, version: int = 13
) -> PartitionProduceResponse:
    """What is read later must have been written."""
    answer = try_to_produce(client, topic, records, partition=partition, version=version)
    assert answer.error_code == ErrorCode.NONE, answer
    return answer


def fetch(
    topic: MetadataResponseTopic, *partitions: FetchPartition, version: int = 18, wait_ms: int = 0, min_bytes: int = 1,
    max_bytes: int = 1 << 20, session: tuple[int, int] = (0, -1), isolation: int = 0,
) -> FetchRequest:  # fmt: skip
    wanted = FetchTopic(partitions=list(partitions))
    if version >= 13:
        wanted.topic_id = topic.topic_id
    else:
        wanted.topic = topic.name or ""
    made = FetchRequest(
        max_wait_ms=wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, topics=[wanted] if partitions else [],
        isolation_level=isolation,
    )  # fmt: skip
    if version >= 7:
        made.session_id, made.session_epoch = session
    return made


def part(
    number: int, offset: int = 0, *, max_bytes: int = 1 << 20, epoch: int = -1, last_epoch: int = -1
) -> FetchPartition:
    return FetchPartition(
        partition=number, fetch_offset=offset, partition_max_bytes=max_bytes, current_leader_epoch=epoch,
        last_fetched_epoch=last_epoch,
    )  # fmt: skip


def told(response: FetchResponse) -> dict[int, PartitionData]:
    return {one.partition_index: one for topic in response.responses for one in topic.partitions}


def values(answer: PartitionData) -> list[bytes | None]:
    data = bytes(answer.records or b"")
    batches = check_batches(data)
    return [record.value for position in batches.positions for record in records(data, position, limit=1 << 24)]


@pytest.mark.parametrize("version", list(FETCH.versions))
@pytest.mark.parametrize("size", [1, 5000])
def test_records_come_back_in_every_version(
    leader: WireClient, topic: MetadataResponseTopic, version: int, size: int
) -> None:
    sent = [bytes([at]) * size for at in range(5)]
    for value in sent:
        produce(leader, topic, batch(value))
    answer = told(leader.ask(fetch(topic, part(0), version=version), version))[0]
    assert (answer.error_code, answer.high_watermark, answer.last_stable_offset) == (0, 5, 5)
    assert values(answer) == sent
    later = told(leader.ask(fetch(topic, part(0, 3), version=version), version))[0]
    assert values(later) == sent[3:]


def test_a_fetch_waits_until_there_is_something(
    cluster: Cluster, leader: WireClient, topic: MetadataResponseTopic
) -> None:
    """By the order of answers: what comes behind it on its connection is answered after it."""
    with WireClient(cluster, leader.broker) as waiting:
        waiting.send(fetch(topic, *(part(number) for number in range(PARTITIONS)), wait_ms=LONG_MS))
        waiting.send(MetadataRequest(topics=[]))
        assert produce(leader, topic, batch(b"news"), partition=2).error_code == 0
        answer = told(waiting.next(FetchResponse))[2]
        assert values(answer) == [b"news"]
        assert waiting.next(MetadataResponse).brokers


def test_a_fetch_waits_until_there_is_enough(
    cluster: Cluster, leader: WireClient, topic: MetadataResponseTopic
) -> None:
    size = len(batch(b"12345678"))
    with WireClient(cluster, leader.broker) as waiting:
        waiting.send(fetch(topic, part(0), part(1), wait_ms=LONG_MS, min_bytes=2 * size))
        produce(leader, topic, batch(b"12345678"), partition=1)
        produce(leader, topic, batch(b"abcdefgh"), partition=0)
        answers = told(waiting.next(FetchResponse))
        assert [values(answers[number]) for number in (0, 1)] == [[b"abcdefgh"], [b"12345678"]]


def test_records_in_newer_segments_count_as_there(cluster: Cluster, client: WireClient, name: str) -> None:
    """An answer holds one segment's records, so it would otherwise wait for bytes that are there already."""
    size = len(batch(bytes(1000)))
    cluster.admin.create_topic(name, assignment=[[2]], configs={"segment.bytes": str(size)})
    topic = client.until_led(name)
    for _ in range(4):
        assert produce(client, topic, batch(bytes(1000))).error_code == ErrorCode.NONE
    answer = told(client.ask(fetch(topic, part(0), wait_ms=LONGER_THAN_CLIENTS_WAIT_MS, min_bytes=3 * size)))[0]
    assert values(answer) == [bytes(1000)]


@pytest.mark.parametrize("wait_ms", [0, 30])
def test_a_fetch_ends_when_its_time_is_over(leader: WireClient, topic: MetadataResponseTopic, wait_ms: int) -> None:
    answer = told(leader.ask(fetch(topic, part(0), wait_ms=wait_ms)))[0]
    assert (answer.error_code, len(answer.records or b"")) == (0, 0)


def test_an_error_is_answered_at_once(leader: WireClient, topic: MetadataResponseTopic) -> None:
    answers = told(leader.ask(fetch(topic, part(0), part(99), part(1, 5), wait_ms=LONG_MS)))
    assert {number: answer.error_code for number, answer in answers.items()} == {
        0: ErrorCode.NONE, 99: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 1: ErrorCode.OFFSET_OUT_OF_RANGE,
    }  # fmt: skip


def test_a_topic_that_is_not_there(leader: WireClient, topic: MetadataResponseTopic) -> None:
    unknown = MetadataResponseTopic(name="nowhere", topic_id=b"y" * 16)
    for version, error in ((18, ErrorCode.UNKNOWN_TOPIC_ID), (12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)):
        answer = told(leader.ask(fetch(unknown, part(0), version=version), version))[0]
        assert answer.error_code == error


def test_limits_leave_the_rest_for_later_but_never_everything(leader: WireClient, topic: MetadataResponseTopic) -> None:
    one = batch(bytes(3000))
    for number in range(PARTITIONS):
        for _ in range(4):
            produce(leader, topic, one, partition=number)

    def sizes(*limits: int, max_bytes: int) -> list[int]:
        asked = [part(number, max_bytes=limit) for number, limit in enumerate(limits)]
        answers = told(leader.ask(fetch(topic, *asked, max_bytes=max_bytes)))
        assert {one.error_code for one in answers.values()} == {ErrorCode.NONE}
        return [len(answers[number].records or b"") // len(one) for number in range(len(limits))]

    assert sizes(1 << 20, 1 << 20, 1 << 20, max_bytes=1 << 20) == [4, 4, 4]
    assert sizes(1, 1, 1, max_bytes=1 << 20) == [1, 1, 1]
    assert sizes(1 << 20, 1 << 20, 1 << 20, max_bytes=1) == [1, 0, 0]
    assert sizes(2 * len(one), 1 << 20, 1, max_bytes=3 * len(one)) == [2, 0, 1]


def test_an_epoch_that_is_not_the_leaders(leader: WireClient, topic: MetadataResponseTopic) -> None:
    epoch = topic.partitions[0].leader_epoch
    assert told(leader.ask(fetch(topic, part(0, epoch=epoch))))[0].error_code == ErrorCode.NONE
    for stated, error in ((epoch - 1, ErrorCode.FENCED_LEADER_EPOCH), (epoch + 1, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        answer = told(leader.ask(fetch(topic, part(0, epoch=stated))))[0]
        assert answer.error_code == error


def test_a_reader_whose_log_parts_from_ours_is_told_where(leader: WireClient, topic: MetadataResponseTopic) -> None:
    produce(leader, topic, batch(b"a", b"b"))
    epoch = topic.partitions[0].leader_epoch
    agreed = told(leader.ask(fetch(topic, part(0, 1, last_epoch=epoch))))[0]
    assert agreed.diverging_epoch is None
    parted = told(leader.ask(fetch(topic, part(0, 1, last_epoch=epoch + 5), wait_ms=LONG_MS)))[0]
    assert parted.diverging_epoch is not None
    assert (parted.diverging_epoch.epoch, parted.diverging_epoch.end_offset) == (epoch, 2)


def test_a_reader_that_knows_an_epoch_which_wrote_nothing_yet_has_not_diverged(
    leader: WireClient, topic: MetadataResponseTopic
) -> None:
    answer = told(leader.ask(fetch(topic, part(0, last_epoch=topic.partitions[0].leader_epoch))))[0]
    assert answer.diverging_epoch is None


def test_whoever_does_not_lead_says_who_does(
    clients: dict[int, WireClient], leader: WireClient, topic: MetadataResponseTopic
) -> None:
    other = next(client for client in clients.values() if client is not leader)
    response = other.ask(fetch(topic, part(0), wait_ms=LONG_MS))
    answer = told(response)[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.current_leader is not None
    assert answer.current_leader.leader_id == leader.broker
    assert [one.node_id for one in response.node_endpoints] == [leader.broker]


def test_a_session_says_only_what_is_new(leader: WireClient, topic: MetadataResponseTopic) -> None:
    everything = [part(number) for number in range(PARTITIONS)]
    first = leader.ask(fetch(topic, *everything, session=(0, 0)))
    session = first.session_id
    assert session > 0
    assert sorted(told(first)) == [0, 1, 2]
    assert told(leader.ask(fetch(topic, session=(session, 1)))) == {}
    produce(leader, topic, batch(b"x"), partition=1)
    third = leader.ask(fetch(topic, session=(session, 2), wait_ms=LONG_MS))
    assert {number: values(answer) for number, answer in told(third).items()} == {1: [b"x"]}
    assert told(leader.ask(fetch(topic, part(1, 1), session=(session, 3)))) == {}
    wrong = leader.ask(fetch(topic, session=(session, 9)))
    assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    closed = leader.ask(fetch(topic, part(0), session=(session, -1)))
    assert (closed.session_id, sorted(told(closed))) == (0, [0])
    gone = leader.ask(fetch(topic, session=(session, 4)))
    assert gone.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_zstd_came_with_a_later_version(leader: WireClient, topic: MetadataResponseTopic) -> None:
    produce(leader, topic, batch(codec=Codec.ZSTD))
    old = told(leader.ask(fetch(topic, part(0), version=9), 9))[0]
    assert (old.error_code, len(old.records or b"")) == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, 0)
    assert values(told(leader.ask(fetch(topic, part(0), version=10), 10))[0]) == [b"v"]


def test_replicas_do_not_fetch_here(leader: WireClient, topic: MetadataResponseTopic) -> None:
    asked = fetch(topic, part(0), version=12)
    asked.replica_id = 2
    assert leader.ask(asked, 12).error_code == ErrorCode.INVALID_REQUEST


def test_many_fetches_may_wait_at_once(cluster: Cluster, leader: WireClient, topic: MetadataResponseTopic) -> None:
    waiting: Sequence[WireClient] = [WireClient(cluster, leader.broker) for _ in range(20)]
    for client in waiting:
        client.send(fetch(topic, part(0), wait_ms=LONG_MS))
    produce(leader, topic, batch(b"for all"))
    for client in waiting:
        assert values(told(client.next(FetchResponse))[0]) == [b"for all"]
        client.close()
