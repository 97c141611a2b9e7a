"""A cluster per module, clients of its brokers, and names that no other test has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from actors.cluster_file.config import KafkaConfig, TopicConfig
from actors.harness import Cluster
from tests.actors.serving.kafka.handlers.wire_client import WireClient
from tests.naming import unique

BROKERS = (1, 2, 3)
NEVER_MS = 1 << 40
"""Between two looks at retention: the records of these tests are old, and on a busy machine a module takes minutes."""
FIRST = TopicConfig("first", 1, 3)
"""A topic of the file is made once all brokers are registered: a cluster that has it is complete."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    config = KafkaConfig(log_retention_check_interval_ms=NEVER_MS)
    with Cluster(len(BROKERS), topics=[FIRST], config=config, log_level="error") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def clients(cluster: Cluster) -> Iterator[dict[int, WireClient]]:
    """One per broker."""
    made = {broker: WireClient(cluster, broker) for broker in BROKERS}
    yield made
    for client in made.values():
        client.close()


@pytest.fixture
def client(clients: dict[int, WireClient]) -> WireClient:
    return clients[2]


@pytest.fixture
def name() -> str:
    return unique("topic")
