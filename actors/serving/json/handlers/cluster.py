"""Operations that this broker answers alone: status, versions, metadata, describe_topic; and ids for producers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from actors.runtime import LAUNCHER_ID
from actors.serving.json.handlers.handler import TIMEOUT_MS, Handler
from actors.serving.kafka.handlers import served as apis_served
from actors.serving.kafka.handlers.metadata import controller_id
from log.machines.metadata.metadata import INTERNAL_TOPICS
from protocol.error_codes import ErrorCode
from protocol.json.fields import BadField, Field, Fields, word, words
from protocol.json.lines import DEPTH_MAX, LINE_BYTES_MAX, Facts, refusal

if TYPE_CHECKING:
    from actors.serving.context import Serving
    from actors.serving.json.connection import JsonCall, Served
    from log.machines.metadata.metadata import Topic

NAMES_MAX = 10_000
"""The most topics of one request. Each is described once."""


def _status(call: JsonCall) -> None:
    node = call.connection.node
    peers = sorted(peer for peer in node.links if peer != LAUNCHER_ID)
    call.answer({"broker": node.broker, "pid": os.getpid(), "linked": peers, "actors": len(node.addresses)})


STATUS = Handler(Fields({}), _status)


def versions(served: Mapping[str, Served]) -> Handler:
    """The operations, limits and Kafka APIs of this broker."""

    def handle(call: JsonCall) -> None:
        call.answer(
            {
                "json": 1,
                "ops": {op: list(one.fields.known) for op, one in served.items()},
                "limits": {"line_bytes": LINE_BYTES_MAX, "depth": DEPTH_MAX},
                "kafka": {
                    api.name: [api.advertised.first, api.advertised.last]
                    for api in apis_served(call.serving.facts.transactions)
                },
            }
        )

    return Handler(Fields({}), handle)


def _metadata(call: JsonCall, names: tuple[str, ...] | None) -> None:
    serving = call.serving
    metadata = serving.metadata
    topics = list(metadata.topics.values())
    if names is None:
        told = [_topic(serving, topic) for topic in sorted(topics, key=lambda topic: topic.name)]
    else:
        told = [_topic_named(serving, name) for name in dict.fromkeys(names)]
    brokers = sorted(metadata.brokers.values(), key=lambda one: one.broker)
    call.answer(
        {
            "cluster_id": metadata.cluster_id,
            "controller": _or_none(controller_id(serving)),
            "brokers": [
                {"broker": one.broker, "host": one.host, "port": one.port, "alive": serving.alive(one.broker)}
                for one in brokers
            ],
            "topics": told,
        }
    )


def _names(path: str, given: Any) -> tuple[str, ...]:
    names = words(path, given)
    if len(names) > NAMES_MAX:
        raise BadField(f"{path}: has {len(names)} names, of which {NAMES_MAX} are allowed; ask in several requests")
    return names


METADATA = Handler(Fields({"topics": Field(_names, None)}), _metadata)


def _describe_topic(call: JsonCall, name: str, timeout_ms: int) -> None:
    def found(topic: Topic) -> None:
        call.answer({**_topic(call.serving, topic), "configs": topic.configs})

    call.connection.topic_search.find(call, name, timeout_ms, found)


DESCRIBE_TOPIC = Handler(Fields({"topic": Field(word), "timeout_ms": TIMEOUT_MS}), _describe_topic)


def _init_producer(call: JsonCall) -> None:
    def taken(producer_id: int | None) -> None:
        if producer_id is None:
            call.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no controller gives a producer id; try again")
        else:
            call.answer({"producer": producer_id})

    call.serving.take_producer_id(call.connection.controller, taken)


INIT_PRODUCER = Handler(Fields({}), _init_producer)


def _topic_named(serving: Serving, name: str) -> Facts:
    topic = serving.metadata.topic(name)
    if topic is None:
        return {"name": name, **refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")}
    return _topic(serving, topic)


def _topic(serving: Serving, topic: Topic) -> Facts:
    return {
        "name": topic.name,
        "topic_id": topic.id,
        "internal": topic.name in INTERNAL_TOPICS,
        "partitions": [_partition(serving, topic, number) for number in range(len(topic.partitions))],
    }


def _partition(serving: Serving, topic: Topic, number: int) -> dict[str, Any]:
    state, led = topic.partitions[number], serving.led(topic, number)
    return {
        "partition": number,
        "leader": None if led is None else led.broker,
        "leader_epoch": -1 if led is None else led.epoch,
        "replicas": state.replicas,
        "isr": () if led is None else led.in_sync,
        "offline": [broker for broker in state.replicas if not serving.alive(broker)],
        "moved_from": state.moved_from,
    }


def _or_none(broker: int) -> int | None:
    return None if broker < 0 else broker
