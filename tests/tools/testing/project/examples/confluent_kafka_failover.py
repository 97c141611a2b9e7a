"""confluent-kafka goes on with the next leader."""

from confluent_kafka import Consumer, Producer

from tools.testing.kafka import KafkaClusterFactory


def test_confluent_kafka_loses_no_order_when_the_leader_dies(kafka_cluster_factory: KafkaClusterFactory) -> None:
    kafka = kafka_cluster_factory(brokers=3)
    topic = kafka.topic(partitions=1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(topic, b"before")
    assert producer.flush(30) == 0
    kafka.kill_leader(topic)
    producer.produce(topic, b"after")
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "till", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    assert [message.value() for message in consumer.consume(2, timeout=30)] == [b"before", b"after"]
    consumer.close()
