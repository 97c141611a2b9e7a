"""The clusters that are measured: ours, librdkafka's mock, and any other that listens on a port."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import psutil
from attrs import frozen
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from actors.cluster_file.config import KafkaConfig
from actors.harness import Cluster
from tools.bench.processes import cpu_seconds

MOCK = "mock"
_MADE_SECONDS = 20.0

Conf = dict[str, Any]


@frozen(slots=True)
class Topic:
    """Where records go."""

    name: str
    partitions: int


FEW = Topic("t", 4)
"""The topic that every contestant has."""
MANY = Topic("many", 12)


@frozen(slots=True)
class Contestant:
    """A cluster, and how a client reaches it."""

    name: str
    conf: Conf
    pids: tuple[int, ...] = ()

    def cpu_seconds(self) -> float | None:
        """What its processes have used so far, if they can be seen."""
        return cpu_seconds(self.pids) if self.pids else None

    def has(self, topic: Topic) -> bool:
        """Is this topic there, with all its partitions?"""
        known = AdminClient(self.conf).list_topics(topic.name, timeout=_MADE_SECONDS).topics.get(topic.name)
        return known is not None and known.error is None and len(known.partitions) >= topic.partitions


@contextmanager
def contestants(against: Sequence[str], *, brokers: Sequence[int] = (1, 3)) -> Iterator[list[Contestant]]:
    """Our clusters of so many processes with so many replicas, the mock, and those on other ports."""
    with ExitStack() as stack:
        found = []
        for count in brokers:
            name, cluster = our_cluster(stack, count, KafkaConfig(min_insync_replicas=min(count, 2)), (FEW, MANY))
            found.append(Contestant(name, {"bootstrap.servers": cluster.bootstrap}, tuple(cluster.pids.values())))
        found.append(Contestant(MOCK, {"bootstrap.servers": mock_address(stack, FEW.name)}))
        found += [Contestant(address, {"bootstrap.servers": address}, _who_listens(address)) for address in against]
        for one in found:
            for topic in (FEW, MANY):
                _make_topic(one, topic)
        yield found


def our_cluster(stack: ExitStack, count: int, config: KafkaConfig, topics: Iterable[Topic]) -> tuple[str, Cluster]:
    """A cluster of so many processes, with as many replicas of these topics, and its name in tables."""
    cluster = stack.enter_context(Cluster(count, processes=True, config=config))
    for topic in topics:
        cluster.admin.create_topic(topic.name, topic.partitions, count)
    return f"ours, {count} process{'es' if count > 1 else ''}", cluster


def mock_address(stack: ExitStack, topic: str) -> str:
    """Where librdkafka's mock listens, once it has this topic."""
    keeper = Producer({"test.mock.num.brokers": 1})  # the mock lives as long as this
    stack.callback(keeper.flush, 1)
    mock = keeper.list_topics(topic, timeout=_MADE_SECONDS).brokers[1]
    return f"{mock.host}:{mock.port}"


def _make_topic(one: Contestant, topic: Topic) -> None:
    """Make the topic where it is missing and topics can be made."""
    if one.has(topic):
        return
    for future in AdminClient(one.conf).create_topics([NewTopic(topic.name, topic.partitions, 1)]).values():
        try:
            future.result(_MADE_SECONDS)
        except KafkaException:  # the topic exists, or topics cannot be made: it is measured as it is
            return


def _who_listens(address: str) -> tuple[int, ...]:
    """The process that listens there, with its children; none if it is on another machine or may not be seen."""
    port = int(address.rpartition(":")[2])
    try:
        listening = [one for one in psutil.net_connections("tcp") if one.status == psutil.CONN_LISTEN]
    except psutil.AccessDenied:
        return ()
    pids = {one.pid for one in listening if one.laddr and one.laddr.port == port and one.pid is not None}
    return tuple(
        one.pid for pid in sorted(pids) for one in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True))
    )
