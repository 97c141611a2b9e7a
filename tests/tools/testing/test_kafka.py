"""What a test gets, without pytest: names, and clusters of its own in other test frameworks."""

from __future__ import annotations

import io
import unittest
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from actors.harness import Cluster
from tools.testing.kafka import Kafka, KafkaFixtureError, is_of
from tools.testing.local import LocalBackend


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1, log_level="error") as cluster:
        yield cluster


def test_names_of_one_test_are_not_another_ones() -> None:
    scope = Kafka(LocalBackend(Cluster(1)), "test_orders[1-a b]", "gw1_1").client_id
    assert scope == "test_orders_1_a_b-gw1_1"
    assert is_of(scope, scope)
    assert is_of(scope, f"{scope}-orders")
    assert not is_of(scope, "test_orders_1_a_b-gw1_11")
    assert not is_of(scope, "orders")


def test_what_a_test_has_made_is_gone_when_it_is_forgotten(cluster: Cluster) -> None:
    kafka = Kafka(LocalBackend(cluster), "test", "1")
    topic = kafka.topic("orders", partitions=2, config={"unclean.leader.election.enable": False})
    assert topic == "test-1-orders"
    fault = kafka.delay("Produce", seconds=1, times=None)
    with pytest.raises(KafkaFixtureError, match="TOPIC_ALREADY_EXISTS"):
        kafka.topic("orders")
    kafka.forget()
    kafka.forget()
    assert topic not in {one["name"] for one in cluster.admin.describe()["topics"]}
    fault.undo()
    with pytest.raises(KafkaFixtureError, match="the test of this fault has ended"):
        _ = fault.struck
    assert kafka.cluster is cluster


def test_unittest_needs_no_plugin() -> None:
    class Orders(unittest.TestCase):
        cluster: Cluster

        @classmethod
        def setUpClass(cls) -> None:
            cls.cluster = cls.enterClassContext(Cluster(1, log_level="error"))

        def test_an_order(self) -> None:
            producer = Producer({"bootstrap.servers": self.cluster.bootstrap})
            producer.produce("orders", b"42")
            self.assertEqual(producer.flush(10), 0)  # noqa: PT009  as unittest has it

    result = unittest.TextTestRunner(io.StringIO()).run(unittest.defaultTestLoader.loadTestsFromTestCase(Orders))
    assert result.testsRun == 1
    assert result.wasSuccessful()
