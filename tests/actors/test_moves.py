"""Partitions move from broker to broker while they are written to: nothing is lost, nothing is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.control.admin import AdminRefused
from actors.harness import Cluster
from protocol.error_codes import ErrorCode
from tests.actors.conftest import ClusterFactory
from tests.actors.topics import (
    Writer,
    controller_of,
    kept_by,
    replicas_of,
    values_of,
    view,
    wait_until_settled,
    write,
)
from tests.actors.waiting import wait_until


@pytest.fixture
def four(leaves_nothing: None, tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(4, data_dir=tmp_path) as cluster:
        yield cluster


def test_a_partition_moves_under_load_and_nothing_is_lost(cluster_factory: ClusterFactory, tmp_path: Path) -> None:
    """First a follower, then the leader; from three replicas to one that had none, and from one to three others."""
    with cluster_factory(4, data_dir=tmp_path) as cluster:
        cluster.admin.create_topic("orders", assignment=[[1, 2, 3]])
        wait_until_settled(cluster, tmp_path)
        with Writer(cluster, "orders") as writer:
            for replicas in ([1, 2, 4], [3, 2, 4], [1], [2, 3, 4]):
                writer.more(20)
                cluster.admin.move("orders", 0, replicas)
                wait_until_settled(cluster, tmp_path)
                assert replicas_of(cluster, "orders") == replicas
                writer.more(20)
        writer.check()
        assert kept_by(tmp_path, 1) == set()


def test_a_move_that_goes_on_is_cancelled_or_sent_elsewhere(four: Cluster, tmp_path: Path) -> None:
    """The newcomer can be reached by the controller, but not by those who should let it catch up."""
    controller = controller_of(four)
    a, b, new = (broker for broker in four.brokers if broker != controller)
    four.admin.create_topic("orders", assignment=[[a, b]])
    wait_until_settled(four, tmp_path)
    with Writer(four, "orders") as writer:
        assert refusal_of_cancel(four) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        four.cut(a, new)
        four.cut(b, new)
        four.admin.move("orders", 0, [a, new])
        wait_until(lambda: kept_by(tmp_path, new), lambda: "the newcomer has not begun")
        writer.more(20)
        assert [one["moved_from"] for one in view(four, controller)["topics"][0]["partitions"]] == [[a, b]]
        four.admin.cancel_move("orders", 0)
        four.heal()
        wait_until_settled(four, tmp_path)
        assert replicas_of(four, "orders") == [a, b]
        assert refusal_of_cancel(four) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        four.cut(a, new)
        four.cut(b, new)
        four.admin.move("orders", 0, [new, b])
        wait_until(lambda: kept_by(tmp_path, new), lambda: "the newcomer has not begun")
        four.kill(new)
        four.admin.move("orders", 0, [controller, b])
        wait_until_settled(four, tmp_path)
        assert kept_by(tmp_path, new), "it was down and has its files"
        four.heal()
        four.restart(new)
        wait_until_settled(four, tmp_path)
        assert replicas_of(four, "orders") == [controller, b]
        writer.more(20)
    writer.check()


def refusal_of_cancel(cluster: Cluster) -> ErrorCode:
    with pytest.raises(AdminRefused) as refused:
        cluster.admin.cancel_move("orders", 0)
    return refused.value.error


@pytest.mark.long
def test_a_move_goes_on_when_those_who_move_die(leaves_nothing: None, tmp_path: Path) -> None:
    with Cluster(4, processes=True, data_dir=tmp_path) as cluster:
        cluster.admin.create_topic("orders", assignment=[[1, 2, 3]])
        wait_until_settled(cluster, tmp_path)
        with Writer(cluster, "orders") as writer:
            writer.more(20)
            cluster.admin.move("orders", 0, [4, 2, 3])
            for victim in (4, 1, 2):
                cluster.kill(victim)
                cluster.restart(victim)
            wait_until_settled(cluster, tmp_path)
            assert replicas_of(cluster, "orders") == [4, 2, 3]
            writer.more(20)
        writer.check()


def test_a_broker_is_drained_and_taken_back(four: Cluster, tmp_path: Path) -> None:
    """The one that has most to give: controller, and preferred leader of what is written."""
    drained = controller_of(four)
    four.admin.create_topic("orders", 4, 3)
    four.admin.create_topic("single", assignment=[[drained]])
    write(four, "single", b"only one")
    wait_until_settled(four, tmp_path)
    led = next(number for number in range(4) if replicas_of(four, "orders", number)[0] == drained)
    with Writer(four, "orders", led) as writer:
        writer.more(20)
        assert four.admin.drain(drained)["moves"] == 4
        wait_until_settled(four, tmp_path)
        assert kept_by(tmp_path, drained) == set()
        writer.more(20)
        four.admin.create_topic("meanwhile", 4, 3)
        wait_until_settled(four, tmp_path)
        assert kept_by(tmp_path, drained) == set()
        four.admin.drain(drained, draining=False)
        four.admin.create_topic("later", 1, 4)
        wait_until_settled(four, tmp_path)
        assert len(kept_by(tmp_path, drained)) == 1
    writer.check()
    assert values_of(four, "single") == [b"only one"]


def test_a_move_that_cannot_be_is_refused_and_changes_nothing(four: Cluster, tmp_path: Path) -> None:
    four.admin.create_topic("orders", assignment=[[1, 2, 3]])
    before = wait_until_settled(four, tmp_path)
    four.kill(4)
    unknown, unfit = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_REPLICA_ASSIGNMENT
    for topic, partition, replicas, error in [
        ("nothing", 0, [1], unknown),
        ("orders", 1, [1], unknown),
        ("orders", -1, [1], unknown),
        ("orders", 0, [9, 1], unfit),
        ("orders", 0, [1, 1], unfit),
        ("orders", 0, [1, 2, 4], unfit),
    ]:
        with pytest.raises(AdminRefused) as refused:
            four.admin.move(topic, partition, replicas)
        assert refused.value.error == error, (topic, partition, replicas)
    with pytest.raises(AdminRefused) as refused:
        four.admin.drain(9)
    assert refused.value.error == ErrorCode.BROKER_ID_NOT_REGISTERED
    with pytest.raises(AdminRefused) as refused:
        four.admin.drain(3)
    assert refused.value.error == ErrorCode.INVALID_REPLICATION_FACTOR
    four.restart(4)
    after = wait_until_settled(four, tmp_path)
    assert [one["replicas"] for one in after["topics"][0]["partitions"]] == [[1, 2, 3]]
    assert not any(one["draining"] for one in after["brokers"])
    assert after["topics"][0]["topic_id"] == before["topics"][0]["topic_id"]
