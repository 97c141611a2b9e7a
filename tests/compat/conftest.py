"""The clients that every test is run with, and clusters of three processes: one for the tests that do it no harm, and
others for those that kill brokers and start them again. A cluster takes seconds of processor time to start.
"""

from __future__ import annotations

import gc
import itertools
import os
from collections.abc import Iterator
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Protocol

import pytest
from attrs import evolve

from actors.cluster_file.config import KafkaConfig
from actors.harness import Cluster
from tests.actors.conftest import living_children, own_tmp  # noqa: F401  a fixture
from tests.actors.topics import leader_of
from tests.actors.waiting import wait_until
from tests.compat.aiokafka_client import AioKafka
from tests.compat.client import Client
from tests.compat.confluent import Confluent
from tests.compat.kafka_python import KafkaPython
from tests.compat.own_client import OwnClient

CLIENTS: dict[str, type[Client]] = {
    "confluent-kafka": Confluent, "kafka-python": KafkaPython, "aiokafka": AioKafka, "our own": OwnClient,
}  # fmt: skip
CONFIG = KafkaConfig(num_partitions=3, default_replication_factor=3, min_insync_replicas=2)
SESSION_MS = 2000
SHORT_SESSIONS = evolve(
    CONFIG, group_min_session_timeout_ms=500, group_consumer_session_timeout_ms=SESSION_MS,
    group_consumer_heartbeat_interval_ms=SESSION_MS // 4,
)  # fmt: skip
WAITING = evolve(SHORT_SESSIONS, group_initial_rebalance_delay_ms=500)
"""For kafka-python: members that start together wait for each other, as with Kafka's own default. If its SyncGroup is
refused because another one joins at that moment, kafka-python 3.0.12 now and then says nothing more after the next one
is answered: no heartbeat, no request at all."""
LONG_SESSION_MS = 300_000
LONG_SESSIONS = evolve(WAITING, group_consumer_session_timeout_ms=LONG_SESSION_MS)
"""For those that come back before their sessions end, however busy the machine is."""


class Topics(Protocol):
    def __call__(self, cluster: Cluster, partitions: int = 1) -> str:
        """Make a topic of three replicas that keeps everything, under a new name, and wait until it is led."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Some clients leave a socket to the garbage collector when its broker dies. That is theirs to mend."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.fixture(autouse=True, scope="module")
def _garbage_is_collected_here() -> Iterator[None]:
    """Else a socket that a client has left is found in a test that looks for its own."""
    yield
    gc.collect()


@pytest.fixture
def leaves_no_process(own_tmp: Path) -> Iterator[None]:  # noqa: F811  it is that one
    """Holds that the test leaves no process and no temporary file behind. Descriptors are the clients' own affair."""
    resource_tracker.ensure_running()
    children = living_children()
    yield
    wait_until(lambda: not living_children() - children, lambda: f"processes left: {living_children() - children}")
    left = sorted(str(path) for path in own_tmp.rglob("*"))
    assert not left, f"files left behind: {left}"


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> Client:
    return CLIENTS[request.param]()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, processes=True, config=CONFIG) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def mortal() -> Iterator[Cluster]:
    with Cluster(3, processes=True, config=SHORT_SESSIONS, log_level="error") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def mortal_and_waiting() -> Iterator[Cluster]:
    with Cluster(3, processes=True, config=WAITING, log_level="error") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def patient() -> Iterator[Cluster]:
    with Cluster(3, processes=True, config=LONG_SESSIONS, log_level="error") as cluster:
        yield cluster


@pytest.fixture
def victims(mortal: Cluster) -> Iterator[Cluster]:
    """For tests that kill brokers: all brokers run when a test begins."""
    yield mortal
    mend(mortal)


@pytest.fixture
def waiting_victims(mortal_and_waiting: Cluster) -> Iterator[Cluster]:
    yield mortal_and_waiting
    mend(mortal_and_waiting)


def mend(cluster: Cluster) -> None:
    """Resume and restart all brokers."""
    for broker in cluster.alive:
        cluster.resume(broker)
    for broker in cluster.brokers:
        if broker not in cluster.alive:
            cluster.restart(broker)


@pytest.fixture(scope="session")
def make_topic() -> Topics:
    numbers = itertools.count(1)

    def make(cluster: Cluster, partitions: int = 1) -> str:
        name = f"compat-{os.getpid()}-{next(numbers)}"
        cluster.admin.create_topic(name, partitions=partitions, replication_factor=3, configs={"retention.ms": "-1"})
        for partition in range(partitions):
            leader_of(cluster, name, partition)
        return name

    return make
