"""Every advertised version of every API is answered, in a cluster with records."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from actors.harness import Cluster
from actors.serving.kafka.handlers import SERVED
from protocol.apis import FETCH, LIST_OFFSETS, PRODUCE, Api
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.batches import Record, build_batch
from tests.actors.serving.kafka.handlers.wire_client import WireClient

TOPIC = "orders"
NOW = 1_700_000_000_000
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3


@pytest.fixture(scope="module")
def client() -> Iterator[WireClient]:
    with Cluster(1, log_level="error") as cluster:
        cluster.admin.create_topic(TOPIC, partitions=1, replication_factor=1, configs={"retention.ms": "-1"})
        with WireClient(cluster) as client:
            client.until_led(TOPIC)
            client.produce(TOPIC, [b"first", b"second"])
            yield client


def spoken(*apis: Api) -> list[object]:
    return [
        pytest.param(api, version, id=f"{api.name} {version}")
        for api in apis
        for version in api.versions
        if version in api.advertised
    ]


@pytest.mark.parametrize(("api", "version"), spoken(*SERVED))
def test_an_empty_request_is_answered(client: WireClient, api: Api, version: int) -> None:
    client.ask(api.request(acks=1) if api is PRODUCE else api.request(), version)


@pytest.mark.parametrize(("api", "version"), spoken(LIST_OFFSETS))
def test_offsets_are_found(client: WireClient, api: Api, version: int) -> None:
    for timestamp, offset in {EARLIEST: 0, NOW: 0, MAX_TIMESTAMP: 0}.items():
        wanted = ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(timestamp=timestamp)])
        ((found,),) = (topic.partitions for topic in client.ask(ListOffsetsRequest(topics=[wanted]), version).topics)
        assert (found.error_code, found.offset) == (ErrorCode.NONE, offset)


@pytest.mark.parametrize(("api", "version"), spoken(FETCH))
@pytest.mark.parametrize("offset", [0, 1 << 40], ids=["there", "not there"])
def test_records_are_fetched(client: WireClient, api: Api, version: int, offset: int) -> None:
    by_id = {"topic_id": client.topic(TOPIC).topic_id} if version >= 13 else {"topic": TOPIC}
    wanted = FetchTopic(**by_id, partitions=[FetchPartition(fetch_offset=offset, partition_max_bytes=1 << 20)])
    answer = client.ask(FetchRequest(max_wait_ms=100, min_bytes=1, topics=[wanted]), version)
    ((found,),) = (topic.partitions for topic in answer.responses)
    assert found.error_code == (ErrorCode.OFFSET_OUT_OF_RANGE if offset else ErrorCode.NONE)
    assert bool(found.records) is not bool(offset)


@pytest.mark.parametrize(("api", "version"), spoken(PRODUCE))
@pytest.mark.parametrize("damage", [0, 1], ids=["good", "damaged"])
def test_records_are_taken_or_refused(client: WireClient, api: Api, version: int, damage: int) -> None:
    batch = build_batch([Record(0, NOW, None, b"more", ())])
    batch[-1] ^= damage
    by_id = {"topic_id": client.topic(TOPIC).topic_id} if version >= 13 else {"name": TOPIC}
    data = TopicProduceData(**by_id, partition_data=[PartitionProduceData(records=batch)])
    answer = client.ask(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data]), version)
    ((found,),) = (topic.partition_responses for topic in answer.responses)
    assert found.error_code == (ErrorCode.CORRUPT_MESSAGE if damage else ErrorCode.NONE)
