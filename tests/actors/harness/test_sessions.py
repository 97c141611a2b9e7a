"""The session of one member of a consumer group is ended; the others take over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer

from actors.harness import Cluster, HarnessError
from tests.actors.waiting import wait_until
from tests.naming import unique


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(config={"group.consumer.heartbeat.interval.ms": 200}) as cluster:
        cluster.admin.create_topic("orders", 2)
        yield cluster


def consumer(cluster: Cluster, group: str, protocol: str, **settings: str) -> Consumer:
    made = Consumer({
        "bootstrap.servers": cluster.bootstrap, "group.id": group, "group.protocol": protocol, **settings,
        **({"heartbeat.interval.ms": "200"} if protocol == "classic" else {}),
    })  # fmt: skip
    made.subscribe(["orders"])
    return made


@pytest.mark.parametrize(
    ("protocol", "name"),
    [("classic", "member"), ("classic", "client"), ("consumer", "instance"), ("consumer", "member")],
)
def test_the_others_take_over_from_a_member_whose_session_ends(cluster: Cluster, protocol: str, name: str) -> None:
    group = unique("group")
    expired = consumer(cluster, group, protocol, **{"group.instance.id": "i-1", "client.id": "c-1"})
    other = consumer(cluster, group, protocol, **{"client.id": "c-2"})
    both = (expired, other)

    def shared() -> bool:
        for one in both:
            one.poll(0.01)
        return [len(one.assignment()) for one in both] == [1, 1]

    def taken_over() -> bool:
        other.poll(0.01)
        return len(other.assignment()) == 2

    wait_until(shared, lambda: "the partitions are not shared")
    cluster.expire(group, {"member": expired.memberid() or "", "instance": "i-1", "client": "c-1"}[name])
    wait_until(taken_over, lambda: "the partition of the expired member is not taken over")
    for one in both:
        one.close()


def test_without_any_group_there_is_no_member_that_could_expire() -> None:
    with Cluster(1) as cluster, pytest.raises(HarnessError, match="its members: none"):
        cluster.expire("group", "member")


def test_a_member_that_is_not_there_cannot_expire(cluster: Cluster) -> None:
    group = unique("group")
    one = consumer(cluster, group, "classic", **{"client.id": "mine"})
    wait_until(lambda: one.poll(0.01) is None and bool(one.assignment()), lambda: "nothing is assigned")
    with pytest.raises(HarnessError, match=rf"group {group} has no one member 'yours'; its members: mine-"):
        cluster.expire(group, "yours")
    with pytest.raises(HarnessError, match="its members: none"):
        cluster.expire(unique("group"), "yours")
    one.close()
