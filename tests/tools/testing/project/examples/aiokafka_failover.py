"""aiokafka goes on with the next leader."""

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from tools.testing.kafka import KafkaClusterFactory


@pytest.mark.asyncio
async def test_aiokafka_loses_no_order_when_the_leader_dies(kafka_cluster_factory: KafkaClusterFactory) -> None:
    kafka = kafka_cluster_factory(brokers=3)
    topic = kafka.topic(partitions=1)
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, acks="all") as producer:
        await producer.send_and_wait(topic, b"before")
        kafka.kill_leader(topic)
        await producer.send_and_wait(topic, b"after")
    async with AIOKafkaConsumer(topic, bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest") as consumer:
        assert [(await consumer.getone()).value for _ in range(2)] == [b"before", b"after"]
