"""Tests in every style use the same fixtures."""

from __future__ import annotations

import asyncio
import functools
import unittest

import anyio.to_thread
import pytest
import trio
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tools.testing.kafka import Kafka


def partitions(kafka: Kafka, topic: str) -> int:
    return len(
        AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(topic, timeout=10).topics[topic].partitions
    )


def write(kafka: Kafka, topic: str) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(topic, b"42")
    assert producer.flush(10) == 0


def test_plain(kafka: Kafka) -> None:
    write(kafka, kafka.topic())


def test_a_topic_has_the_partitions_that_were_asked_for(barnabas: Kafka) -> None:
    assert partitions(barnabas, barnabas.topic(partitions=3)) == 3


def test_the_ini_file_configures_the_cluster(kafka: Kafka) -> None:
    assert partitions(kafka, kafka.topic()) == 2


@pytest.mark.asyncio
async def test_asyncio(kafka: Kafka) -> None:
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
        await producer.send_and_wait(kafka.topic(), b"42")
    await asyncio.sleep(0)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_anyio(kafka: Kafka, anyio_backend: str) -> None:
    await anyio.to_thread.run_sync(write, kafka, kafka.topic())


@pytest.mark.trio
async def test_trio(kafka: Kafka) -> None:
    await trio.to_thread.run_sync(functools.partial(write, kafka, kafka.topic()))


class TestOfUnittest(unittest.TestCase):
    kafka: Kafka

    @pytest.fixture(autouse=True)
    def _cluster(self, kafka: Kafka) -> None:
        self.kafka = kafka

    def test_unittest(self) -> None:
        write(self.kafka, self.kafka.topic())
