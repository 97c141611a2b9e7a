"""DescribeQuorum: the voters and observers of the metadata, and how far each is. The metadata's leader is asked."""

from __future__ import annotations

import uuid
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.messages.controller import DescribeQuorum, Outcome
from actors.serving.kafka.handlers.leaders import endpoints
from actors.serving.kafka.handlers.operations import SECONDS
from protocol.error_codes import ErrorCode
from protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)

if TYPE_CHECKING:
    from actors.serving.kafka.connection import Call

TOPIC = "__cluster_metadata"


def handle(call: Call[DescribeQuorumRequest]) -> DescribeQuorumResponse | None:
    wanted = [(topic.topic_name, one.partition_index) for topic in call.request.topics for one in topic.partitions]
    if wanted != [(TOPIC, 0)]:
        return _unknown(call.request)
    call.connection.controller.operate(DescribeQuorum(), SECONDS, partial(_described, call))
    return None


def _unknown(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    def refused(partition_index: int) -> PartitionData:
        return PartitionData(
            partition_index=partition_index,
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            error_message=f"only {TOPIC}-0 has a quorum to describe; ask for that alone",
            leader_id=-1,
        )

    return DescribeQuorumResponse(
        error_message=None,
        topics=[
            TopicData(
                topic_name=topic.topic_name, partitions=[refused(one.partition_index) for one in topic.partitions]
            )
            for topic in request.topics
        ],
    )


def _described(call: Call[DescribeQuorumRequest], outcome: Outcome) -> None:
    facts = outcome.facts
    if outcome.error:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER if outcome.error == ErrorCode.NOT_CONTROLLER else outcome.error
        partition = PartitionData(error_code=error, error_message=outcome.message, leader_id=-1)
        topic = TopicData(topic_name=TOPIC, partitions=[partition])
        call.answer(DescribeQuorumResponse(error_message=None, topics=[topic]))
        return
    partition = PartitionData(
        error_message=None,
        leader_id=facts["leader"],
        leader_epoch=facts["leader_epoch"],
        high_watermark=facts["high_watermark"],
        current_voters=[_state(call.version, one) for one in facts["voters"]],
        observers=[_state(call.version, one) for one in facts["observers"]],
    )
    response = DescribeQuorumResponse(error_message=None, topics=[TopicData(topic_name=TOPIC, partitions=[partition])])
    if call.version >= 2:
        response.nodes = [
            Node(node_id=one.broker, listeners=[Listener(name="PLAINTEXT", host=one.host, port=one.port)])
            for one in endpoints(call.serving, [voter["broker"] for voter in facts["voters"]])
        ]
    call.answer(response)


def _state(version: int, member: dict[str, Any]) -> ReplicaState:
    state = ReplicaState(
        replica_id=member["broker"],
        log_end_offset=member["end"],
        last_fetch_timestamp=member["heard_ms"],
        last_caught_up_timestamp=member["caught_up_ms"],
    )
    if version >= 2 and member["directory"]:
        state.replica_directory_id = uuid.UUID(member["directory"]).bytes
    return state
