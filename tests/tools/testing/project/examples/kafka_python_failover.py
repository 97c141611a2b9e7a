"""kafka-python goes on with the next leader."""

from kafka import KafkaConsumer, KafkaProducer

from tools.testing.kafka import KafkaClusterFactory


def test_kafka_python_loses_no_order_when_the_leader_dies(kafka_cluster_factory: KafkaClusterFactory) -> None:
    kafka = kafka_cluster_factory(brokers=3)
    topic = kafka.topic(partitions=1)
    with KafkaProducer(bootstrap_servers=kafka.bootstrap, acks="all", retries=100) as producer:
        producer.send(topic, b"before").get(30)
        kafka.kill_leader(topic)
        producer.send(topic, b"after").get(30)
    consumer = KafkaConsumer(topic, bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest")
    assert [next(consumer).value for _ in range(2)] == [b"before", b"after"]
    consumer.close()
