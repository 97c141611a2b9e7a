"""What a broker says of topics before it knows again all that it knew before it was started."""

from __future__ import annotations

import pytest

from actors.harness import Cluster
from actors.serving.kafka.handlers import metadata
from protocol.error_codes import ErrorCode
from protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.actors.serving.kafka.handlers.conftest import BROKERS, FIRST
from tests.actors.serving.kafka.handlers.wire_client import WireClient


def asked(name: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)


def error_of(client: WireClient, name: str) -> ErrorCode:
    described = client.ask(DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name)]))
    return ErrorCode(described.topics[0].error_code)


def test_a_broker_that_is_alone_after_all_were_killed_calls_nothing_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    with Cluster(len(BROKERS), topics=[FIRST], log_level="error") as cluster:
        for broker in BROKERS:
            cluster.kill(broker)
        cluster.restart(1)
        with WireClient(cluster, 1) as client, WireClient(cluster, 1) as waiting:
            assert error_of(client, FIRST.name) == ErrorCode.LEADER_NOT_AVAILABLE
            client.send(asked(FIRST.name))
            assert client.is_closed_by_peer(), "there is nothing that it could say of the cluster"
            monkeypatch.setattr(metadata, "CATCH_UP_SECONDS", 200.0)
            waiting.send(asked(FIRST.name))
            cluster.restart(2)  # two are a majority, and know what is committed
            told = waiting.next(MetadataResponse)
            assert [one.node_id for one in told.brokers] == list(BROKERS)
            assert [one.error_code for one in told.topics] == [ErrorCode.NONE]
            assert error_of(waiting, FIRST.name) == ErrorCode.NONE
            assert error_of(waiting, "nowhere") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
