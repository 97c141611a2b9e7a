"""Metadata: brokers that are alive or were just now, topics, and their leaders. A topic that is missing may be made.

A broker that was just started and is catching up knows neither all topics nor all brokers. Clients would believe it:
they would fail requests for missing topics, and forget missing brokers. So it does not answer until it has applied what
it knew before. If that takes long, it closes the connection, and the client asks another broker.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING

from actors.cluster_file.facts import GROUP
from actors.messages.controller import AwaitCaughtUp
from log.machines.metadata.metadata import INTERNAL_TOPICS
from log.machines.metadata.plans import topic_name_problem
from log.machines.metadata.topic_ids import id_bytes, id_text
from protocol.error_codes import ErrorCode
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from actors.runtime import Future
    from actors.serving.context import Serving
    from actors.serving.kafka.connection import Call
    from log.machines.metadata.metadata import Topic

BY_ID_FROM = 12
TOPIC_OPERATIONS = 0b1101_1111_1000  # read, write, create, delete, alter, describe, describe and alter configs
CLUSTER_OPERATIONS = 0b1_1111_1010_0000  # create, alter, describe, cluster action, configs, idempotent write
CATCH_UP_SECONDS = 2.0
_NOT_ASKED = -(1 << 31)


def handle(call: Call[MetadataRequest]) -> Generator[None, None, MetadataResponse] | None:
    if call.serving.metadata.catching_up:
        then = partial(_caught_up, call)
        call.connection.ask(call.serving.controller, AwaitCaughtUp(), then, timeout=CATCH_UP_SECONDS)
        return None
    return _answer(call)


def _caught_up(call: Call[MetadataRequest], future: Future[None]) -> None:
    if future.exception is None:
        call.go_on(_answer(call))
    else:
        call.connection.end("this broker is catching up, and does not know the cluster yet")


def _answer(call: Call[MetadataRequest]) -> Generator[None, None, MetadataResponse]:
    request, serving = call.request, call.serving
    metadata = serving.metadata
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=one.broker, host=one.host, port=one.port)
            for one in sorted(metadata.brokers.values(), key=lambda one: one.broker)
            if serving.listed(one.broker)
        ],
        cluster_id=metadata.cluster_id or None,
        controller_id=controller_id(serving),
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else _NOT_ASKED
        ),
    )
    if request.topics is None or (call.version == 0 and not request.topics):
        for topic in list(metadata.topics.values()):
            response.topics.append((yield from _described(serving, topic)))
    else:
        for wanted in {(one.name, one.topic_id): one for one in request.topics}.values():
            yield
            if call.version < BY_ID_FROM and (wanted.name is None or any(wanted.topic_id)):
                response.topics.append(
                    MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=wanted.name or "")
                )
            elif wanted.name is None or any(wanted.topic_id):  # beside an id, the Java client sends the name ""
                response.topics.append((yield from _by_id(serving, wanted.topic_id)))
            else:
                may_make = request.allow_auto_topic_creation
                response.topics.append((yield from _by_name(call, wanted.name, may_make=may_make)))
    if request.include_topic_authorized_operations:
        for told in response.topics:
            told.topic_authorized_operations = TOPIC_OPERATIONS
    return response


def controller_id(serving: Serving) -> int:
    led = serving.context.leadership.of(GROUP)
    return -1 if led is None or led.broker is None or not serving.alive(led.broker) else led.broker


def _by_name(call: Call[MetadataRequest], name: str, *, may_make: bool) -> Generator[None, None, MetadataResponseTopic]:
    topic = call.serving.metadata.topic(name)
    if topic is not None:
        return (yield from _described(call.serving, topic))
    if topic_name_problem(name):
        return MetadataResponseTopic(error_code=ErrorCode.INVALID_TOPIC_EXCEPTION, name=name)
    if may_make and call.serving.facts.auto_create_topics:
        call.serving.make_topic(name)
    return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name)


def _by_id(serving: Serving, topic_id: bytes) -> Generator[None, None, MetadataResponseTopic]:
    topic = serving.metadata.topics.get(id_text(topic_id))
    if topic is None:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
    return (yield from _described(serving, topic))


def _described(serving: Serving, topic: Topic) -> Generator[None, None, MetadataResponseTopic]:
    told = MetadataResponseTopic(
        name=topic.name, topic_id=id_bytes(topic.id), is_internal=topic.name in INTERNAL_TOPICS
    )
    for number in range(len(topic.partitions)):
        told.partitions.append(described_partition(serving, topic, number))
        yield
    return told


def described_partition(serving: Serving, topic: Topic, number: int) -> MetadataResponsePartition:
    replicas = topic.partitions[number].replicas
    led = serving.led(topic, number)
    leader = None if led is None else led.broker
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE if leader is not None else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=number,
        leader_id=-1 if leader is None else leader,
        leader_epoch=-1 if led is None else led.epoch,
        replica_nodes=list(replicas),
        isr_nodes=[] if led is None else [broker for broker in replicas if broker in led.in_sync],
        offline_replicas=[broker for broker in replicas if not serving.alive(broker)],
    )
