"""Administration against a broker that answers by script: what is asked for, and what becomes of the answers."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

from protocol.apis import (
    ALTER_PARTITION_REASSIGNMENTS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_RECORDS,
    DELETE_TOPICS,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    ELECT_LEADERS,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_PARTITION_REASSIGNMENTS,
)
from protocol.error_codes import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from protocol.messages.create_partitions import CreatePartitionsResponse, CreatePartitionsTopicResult
from protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from protocol.messages.elect_leaders import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from protocol.messages.incremental_alter_configs import AlterConfigsResourceResponse, IncrementalAlterConfigsResponse
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from tests.tools.client.scripted_broker import ScriptedBroker
from tools.client.admin import Admin, Reassignment
from tools.client.errors import KafkaError, TimedOut
from tools.client.metadata import TopicPartition
from tools.client.network.broker import Patience
from tools.client.network.cluster import Cluster
from tools.client.offsets import LATEST

HASTY = Patience(retry=0.001, retry_max=0.01)
WHERE = TopicPartition("orders", 0)


def created(code: int = 0, message: str | None = None) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[CreatableTopicResult(name="orders", error_code=code, error_message=message)])


def test_topic_is_made_as_it_was_asked_for() -> None:
    with ScriptedBroker({CREATE_TOPICS: lambda *_: created()}, {}) as broker, Admin(broker.bootstrap) as admin:
        admin.create_topic("orders", partitions=6, replication_factor=3, configs={"retention.ms": "1"})
        admin.create_topic("orders", assignment=[[1, 2], [2, 3]], validate_only=True)
        first, second = broker.requests(CREATE_TOPICS)
        assert (first.topics[0].num_partitions, first.topics[0].replication_factor) == (6, 3)
        assert [(one.name, one.value) for one in first.topics[0].configs] == [("retention.ms", "1")]
        assert second.validate_only
        assert (second.topics[0].num_partitions, second.topics[0].replication_factor) == (-1, -1)
        assert [one.broker_ids for one in second.topics[0].assignments] == [[1, 2], [2, 3]]


def test_refusal_is_raised_with_kafkas_name_and_the_brokers_words() -> None:
    refusal = created(ErrorCode.TOPIC_ALREADY_EXISTS, "there is one")
    with ScriptedBroker({CREATE_TOPICS: lambda *_: refusal}, {}) as broker, Admin(broker.bootstrap) as admin:
        with pytest.raises(KafkaError, match="topic orders: TOPIC_ALREADY_EXISTS: there is one") as raised:
            admin.create_topic("orders")
        assert raised.value.name == "TOPIC_ALREADY_EXISTS"


def test_cluster_without_a_controller_is_asked_again() -> None:
    codes = [ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE]
    answers: Any = {CREATE_TOPICS: lambda *_: created(codes.pop(0))}
    with ScriptedBroker(answers, {}) as broker, Admin(broker.bootstrap, patience=HASTY) as admin:
        admin.create_topic("orders")
        assert len(broker.requests(CREATE_TOPICS)) == 3


def test_what_does_not_come_about_in_time_is_told_with_the_reason() -> None:
    answers: Any = {CREATE_TOPICS: lambda *_: created(ErrorCode.NOT_CONTROLLER)}
    with (
        ScriptedBroker(answers, {}) as broker,
        Admin(broker.bootstrap, patience=HASTY, seconds=0.1) as admin,
        pytest.raises(TimedOut, match="NOT_CONTROLLER"),
    ):
        admin.create_topic("orders")


def test_a_reason_is_told_though_there_was_no_time_to_look_around_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(_cluster: Cluster, seconds: float) -> NoReturn:
        raise TimedOut(f"the cluster was not reached within {seconds:g} s: None")

    def refuse(*_: object) -> CreateTopicsResponse:
        monkeypatch.setattr(Cluster, "refreshed", late)
        return created(ErrorCode.NOT_CONTROLLER)

    with (
        ScriptedBroker({CREATE_TOPICS: refuse}, {}) as broker,
        Admin(broker.bootstrap, patience=HASTY) as admin,
        pytest.raises(TimedOut, match="NOT_CONTROLLER"),
    ):
        admin.create_topic("orders")


def test_topics_are_deleted_and_grow() -> None:
    deleted = DeleteTopicsResponse(responses=[DeletableTopicResult(name="orders", error_code=3)])
    grown = CreatePartitionsResponse(results=[CreatePartitionsTopicResult(name="orders")])
    answers: Any = {DELETE_TOPICS: lambda *_: deleted, CREATE_PARTITIONS: lambda *_: grown}
    with ScriptedBroker(answers, {}) as broker, Admin(broker.bootstrap) as admin:
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            admin.delete_topic("orders")
        assert broker.requests(DELETE_TOPICS)[0].topic_names == ["orders"]
        admin.create_partitions("orders", 9, assignment=[[1]])
        (asked,) = broker.requests(CREATE_PARTITIONS)
        assert (asked.topics[0].count, asked.topics[0].assignments[0].broker_ids) == (9, [1])


def test_configs_are_told_and_changed() -> None:
    found = DescribeConfigsResult(
        resource_name="orders",
        configs=[
            DescribeConfigsResourceResult(name="retention.ms", value="7", config_source=1),
            DescribeConfigsResourceResult(name="cleanup.policy", value="delete", config_source=5),
        ],
    )
    changed = IncrementalAlterConfigsResponse(responses=[AlterConfigsResourceResponse(resource_name="orders")])
    answers: Any = {
        DESCRIBE_CONFIGS: lambda *_: DescribeConfigsResponse(results=[found]),
        INCREMENTAL_ALTER_CONFIGS: lambda *_: changed,
    }
    with ScriptedBroker(answers, {}) as broker, Admin(broker.bootstrap) as admin:
        configs = admin.describe_configs("orders")
        assert {name: one.value for name, one in configs.items() if not one.is_default} == {"retention.ms": "7"}
        assert admin.describe_broker_configs(1).keys() == configs.keys()
        admin.alter_configs("orders", {"retention.ms": "8", "cleanup.policy": None})
        (asked,) = broker.requests(INCREMENTAL_ALTER_CONFIGS)
        assert [(one.name, one.config_operation, one.value) for one in asked.resources[0].configs] == [
            ("retention.ms", 0, "8"),
            ("cleanup.policy", 1, None),
        ]
        admin.alter_broker_configs(None, {"num.partitions": "8"}, validate_only=True)
        asked = broker.requests(INCREMENTAL_ALTER_CONFIGS)[-1]
        (resource,) = asked.resources
        assert (resource.resource_type, resource.resource_name, asked.validate_only) == (4, "", True)


def test_records_are_deleted_by_the_leader() -> None:
    told = DeleteRecordsTopicResult(
        name="orders", partitions=[DeleteRecordsPartitionResult(partition_index=0, low_watermark=5)]
    )
    answers: Any = {DELETE_RECORDS: lambda *_: DeleteRecordsResponse(topics=[told])}
    with ScriptedBroker(answers, {"orders": 1}) as broker, Admin(broker.bootstrap) as admin:
        assert admin.delete_records({WHERE: 5}) == {WHERE: 5}
        admin.delete_records({WHERE: LATEST})
        offsets = [one.topics[0].partitions[0].offset for one in broker.requests(DELETE_RECORDS)]
        assert offsets == [5, -1]


def test_cluster_is_described() -> None:
    described = DescribeClusterResponse(
        cluster_id="castle", controller_id=2, brokers=[DescribeClusterBroker(broker_id=2, host="village", port=9092)]
    )
    with ScriptedBroker({DESCRIBE_CLUSTER: lambda *_: described}, {}) as broker, Admin(broker.bootstrap) as admin:
        found = admin.describe_cluster()
        assert (found.cluster_id, found.controller, found.brokers) == ("castle", 2, {2: ("village", 9092)})
    with ScriptedBroker({}, {}) as broker, Admin(broker.bootstrap) as admin:
        assert admin.describe_cluster().brokers == {1: ("127.0.0.1", broker.port)}


def test_elections_say_what_became_of_each_partition() -> None:
    results = [
        PartitionResult(partition_id=0, error_code=0),
        PartitionResult(partition_id=1, error_code=ErrorCode.ELECTION_NOT_NEEDED),
        PartitionResult(partition_id=2, error_code=ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
    ]
    told = ElectLeadersResponse(
        replica_election_results=[ReplicaElectionResult(topic="orders", partition_result=results)]
    )
    with ScriptedBroker({ELECT_LEADERS: lambda *_: told}, {}) as broker, Admin(broker.bootstrap) as admin:
        found = admin.elect_leaders([("orders", at) for at in range(3)])
        assert [where.partition for where, error in found.items() if error is None] == [0, 1]
        assert found["orders", 2] is not None  # type: ignore[index]
        admin.elect_leaders()
        asked, everything = broker.requests(ELECT_LEADERS)
        assert asked.topic_partitions[0].partitions == [0, 1, 2]
        assert everything.topic_partitions is None


def test_moves_are_begun_listed_and_taken_back() -> None:
    partition = ReassignablePartitionResponse(partition_index=0, error_code=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    answers = [
        AlterPartitionReassignmentsResponse(),
        AlterPartitionReassignmentsResponse(
            responses=[ReassignableTopicResponse(name="orders", partitions=[partition])]
        ),
    ]
    ongoing = OngoingPartitionReassignment(replicas=[1, 2, 3], adding_replicas=[3], removing_replicas=[1])
    listed = ListPartitionReassignmentsResponse(topics=[OngoingTopicReassignment(name="orders", partitions=[ongoing])])
    script: Any = {
        ALTER_PARTITION_REASSIGNMENTS: lambda *_: answers.pop(0),
        LIST_PARTITION_REASSIGNMENTS: lambda *_: listed,
    }
    with ScriptedBroker(script, {}) as broker, Admin(broker.bootstrap) as admin:
        admin.reassign({WHERE: [2, 3]})
        assert admin.list_reassignments() == {WHERE: Reassignment((1, 2, 3), (3,), (1,))}
        with pytest.raises(KafkaError, match="NO_REASSIGNMENT_IN_PROGRESS"):
            admin.reassign({WHERE: None})
        asked = [one.topics[0].partitions[0].replicas for one in broker.requests(ALTER_PARTITION_REASSIGNMENTS)]
        assert asked == [[2, 3], None]
