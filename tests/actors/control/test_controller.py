"""Topics are made, changed and deleted, once and everywhere, whichever broker dies meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from actors.cluster_file.config import KafkaConfig, TopicConfig
from actors.control import metadata_snapshots
from actors.control.admin import AdminRefused
from actors.control.bootstrap import log_start
from actors.harness import Cluster
from actors.messages.controller import OperationAnswer
from actors.messages.replica import group_name
from log.config import LogConfig
from log.disk.handles import Handles
from log.disk.memory_filesystem import MemoryFilesystem
from log.machines.metadata.plans import CreateTopic, DeleteTopic, MoveReplicas, Request
from log.partition.partition_log import PartitionLog
from protocol.error_codes import ErrorCode
from protocol.records.batches import Record, build_batch, check_batches, parse_batches
from tests.actors.conftest import ClusterFactory
from tests.actors.topics import (
    UNREACHABLE,
    View,
    Writer,
    batch_of,
    controller_of,
    kept_by,
    leader_of,
    replicas_of,
    topic_in,
    try_append,
    values_of,
    view,
    wait_until_settled,
    write,
)
from tests.actors.waiting import wait_until


def refusal(operation: Callable[[], object]) -> ErrorCode:
    with pytest.raises(AdminRefused) as refused:
        operation()
    return refused.value.error


# -- topics --------------------------------------------------------------------------------------------------------


def test_a_topic_is_made_as_asked_or_not_at_all(leaves_nothing: None, tmp_path: Path) -> None:
    config = KafkaConfig(num_partitions=4, default_replication_factor=2)
    with Cluster(data_dir=tmp_path, config=config) as cluster:
        admin = cluster.admin
        assert admin.create_topic("defaults")["partitions"] == 4
        admin.create_topic("own", 2, 3, configs={"retention.ms": "1000"})
        admin.create_topic("manual", assignment=[[3, 1], [2, 3]])
        planned = admin.create_topic("planned", 7, 1, validate_only=True)
        assert (planned["partitions"], planned["replication_factor"]) == (7, 1)
        wrong: list[tuple[ErrorCode, Callable[[], object]]] = [
            (ErrorCode.TOPIC_ALREADY_EXISTS, lambda: admin.create_topic("own")),
            (ErrorCode.TOPIC_ALREADY_EXISTS, lambda: admin.create_topic("own", validate_only=True)),
            (ErrorCode.INVALID_TOPIC_EXCEPTION, lambda: admin.create_topic("not a name")),
            (ErrorCode.INVALID_CONFIG, lambda: admin.create_topic("bad", configs={"retention.ms": "soon"})),
            (ErrorCode.INVALID_REPLICATION_FACTOR, lambda: admin.create_topic("bad", 1, 4)),
            (ErrorCode.INVALID_PARTITIONS, lambda: admin.create_topic("bad", 0)),
            (ErrorCode.INVALID_REPLICA_ASSIGNMENT, lambda: admin.create_topic("bad", assignment=[[1, 9]])),
            (ErrorCode.INVALID_REPLICA_ASSIGNMENT, lambda: admin.create_topic("bad", assignment=[[1, 1]])),
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, lambda: admin.delete_topic("nobody")),
        ]
        for error, operation in wrong:
            assert refusal(operation) == error
        seen = wait_until_settled(cluster, tmp_path)
        assert [topic["name"] for topic in seen["topics"]] == ["defaults", "manual", "own"]
        assert [len(one["replicas"]) for one in admin.topic("defaults")["partitions"]] == [2] * 4
        assert [one["replicas"] for one in admin.topic("manual")["partitions"]] == [[3, 1], [2, 3]]
        assert admin.topic("own")["configs"] == {"retention.ms": "1000"}
        for number, name in enumerate(("defaults", "manual", "own")):
            assert write(cluster, name, b"%d" % number, partition=1) == 0
            assert values_of(cluster, name, 1) == [b"%d" % number]


def test_partitions_are_added_and_what_was_there_stays(leaves_nothing: None, tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path) as cluster:
        admin = cluster.admin
        admin.create_topic("orders", 2, 3)
        write(cluster, "orders", b"old", partition=1)
        assert refusal(lambda: admin.create_partitions("orders", 2)) == ErrorCode.INVALID_PARTITIONS
        admin.create_partitions("orders", 9, validate_only=True)
        admin.create_partitions("orders", 4)
        admin.create_partitions("orders", 5, assignment=[[3, 2, 1]])
        wait_until_settled(cluster, tmp_path)
        assert len(admin.topic("orders")["partitions"]) == 5
        assert replicas_of(cluster, "orders", 4) == [3, 2, 1]
        assert write(cluster, "orders", b"new", partition=4) == 0
        assert [values_of(cluster, "orders", number) for number in range(5)] == [[], [b"old"], [], [], [b"new"]]


def test_altered_configs_take_effect_while_the_topic_is_used(leaves_nothing: None) -> None:
    with Cluster() as cluster:
        admin = cluster.admin
        admin.create_topic("orders", assignment=[[1, 2, 3]])

        def takes(error: ErrorCode) -> None:
            """Every broker hears of it for itself, so wait; from then on it must stay so."""
            said = [ErrorCode.NONE]

            def is_so() -> bool:
                said[0] = ErrorCode(try_append(cluster, "orders", batch_of(b"x" * 1000)).error)
                return said[0] == error

            wait_until(is_so, lambda: f"{said[0].name} instead of {error.name}")
            assert try_append(cluster, "orders", batch_of(b"x" * 1000)).error == error

        takes(ErrorCode.NONE)
        admin.alter_configs("orders", {"max.message.bytes": "500"}, validate_only=True)
        takes(ErrorCode.NONE)
        admin.alter_configs("orders", {"max.message.bytes": "500"})
        takes(ErrorCode.MESSAGE_TOO_LARGE)
        assert try_append(cluster, "orders", batch_of(b"small")).error == ErrorCode.NONE
        assert refusal(lambda: admin.alter_configs("orders", {"max.message": "1"})) == ErrorCode.INVALID_CONFIG
        takes(ErrorCode.MESSAGE_TOO_LARGE)
        admin.alter_configs("orders", {"max.message.bytes": None, "min.insync.replicas": "3"})
        takes(ErrorCode.NONE)
        cluster.kill(3)
        takes(ErrorCode.NOT_ENOUGH_REPLICAS)
        admin.alter_configs("orders", {"min.insync.replicas": "2"})
        takes(ErrorCode.NONE)


def test_a_deleted_topic_goes_everywhere_and_never_comes_back_under_its_name(
    cluster_factory: ClusterFactory, tmp_path: Path
) -> None:
    with cluster_factory(data_dir=tmp_path) as cluster:
        admin = cluster.admin
        for name in ("gone", "again", "stays"):
            admin.create_topic(name, assignment=[[3, 1, 2], [1, 2, 3]])
            write(cluster, name, b"old of " + name.encode())
        wait_until_settled(cluster, tmp_path)
        cluster.kill(3)
        before = admin.topic("again")["topic_id"]
        admin.delete_topic("gone")
        admin.delete_topic("again")
        admin.create_topic("again", assignment=[[1, 2], [2, 1]])
        assert write(cluster, "again", b"new") == 0
        wait_until_settled(cluster, tmp_path)
        assert admin.topic("again")["topic_id"] != before
        assert any(before in group for group in kept_by(tmp_path, 3)), "broker 3 was down and has the old files"
        cluster.restart(3)
        wait_until_settled(cluster, tmp_path)
        admin.move("again", 0, [3, 1, 2])
        wait_until_settled(cluster, tmp_path)
        admin.elect_leaders("again")
        wait_until(lambda: leader_of(cluster, "again") == 3, lambda: f"{leader_of(cluster, 'again')} leads")
        assert values_of(cluster, "again") == [b"new"]
        assert values_of(cluster, "stays") == [b"old of stays"]
        assert [topic["name"] for topic in admin.describe()["topics"]] == ["again", "stays"]


def test_a_broker_that_gets_a_snapshot_drops_what_was_deleted_meanwhile(
    leaves_nothing: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It never sees the record that deletes, only a state without the topic."""
    monkeypatch.setattr(metadata_snapshots, "SNAPSHOT_LOG_BYTES", 500)
    with Cluster(3, data_dir=tmp_path) as cluster:
        admin = cluster.admin
        for name in ("gone", "stays"):
            admin.create_topic(name, 1, 3)
        for number in range(5):
            admin.create_topic(f"filler-{number}", 1, 1)
        wait_until_settled(cluster, tmp_path)
        cluster.kill(3)
        admin.delete_topic("gone")
        for number in range(5, 20):
            admin.create_topic(f"filler-{number}", assignment=[[1]])
        cluster.restart(3)
        wait_until_settled(cluster, tmp_path)


def test_what_an_interrupted_removal_left_goes_and_what_is_kept_stays(leaves_nothing: None, tmp_path: Path) -> None:
    """A broker dies while it removes files: some of them are gone, and not always those that tell what it was."""
    with Cluster(3, data_dir=tmp_path) as cluster:
        kept = group_name("kept", 0, cluster.admin.create_topic("kept", 1, 3)["topic_id"])
        gone = group_name("gone", 0, cluster.admin.create_topic("gone", 1, 3)["topic_id"])
        write(cluster, "kept", b"one")
        cluster.admin.delete_topic("gone")
        wait_until_settled(cluster, tmp_path)
        cluster.kill(3)
        for name in (gone, f"{gone}.gone", f"{kept}.gone"):
            (tmp_path / "3" / name).mkdir()
            (tmp_path / "3" / name / f"{0:020d}.log").write_bytes(b"half of it")
        cluster.restart(3)
        wait_until_settled(cluster, tmp_path)
        cluster.admin.move("kept", 0, [3])
        wait_until_settled(cluster, tmp_path)
        assert values_of(cluster, "kept") == [b"one"]


@pytest.mark.slow
def test_everything_survives_the_death_of_the_whole_cluster(leaves_nothing: None, tmp_path: Path) -> None:
    with Cluster(4, processes=True, data_dir=tmp_path) as cluster:
        admin = cluster.admin
        admin.create_topic("orders", 2, 3, configs={"retention.ms": "99000000"})
        admin.create_topic("gone", 2, 3)
        admin.create_partitions("orders", 3)
        admin.alter_configs("orders", {"min.insync.replicas": "2"})
        admin.delete_topic("gone")
        admin.drain(4)
        first_ids = admin.take_producer_ids()
        for number in range(3):
            write(cluster, "orders", b"%d" % number, partition=number)
        before = wait_until_settled(cluster, tmp_path)
        for broker in cluster.brokers:
            cluster.kill(broker)
        for broker in cluster.brokers:
            cluster.restart(broker)
        after = wait_until_settled(cluster, tmp_path)
        assert lasting(after) == lasting(before)
        assert [values_of(cluster, "orders", number) for number in range(3)] == [[b"0"], [b"1"], [b"2"]]
        assert admin.take_producer_ids()["first"] >= first_ids["first"] + first_ids["count"]
        admin.create_topic("gone", 3, 3)
        assert not any(4 in replicas_of(cluster, "gone", number) for number in range(3)), "it is drained"


def lasting(seen: View) -> object:
    """What does not depend on who leads now."""
    return (
        seen["cluster_id"],
        [(one["broker"], one["port"], one["draining"]) for one in seen["brokers"]],
        [
            (one["name"], one["topic_id"], one["configs"], [each["replicas"] for each in one["partitions"]])
            for one in seen["topics"]
        ],
    )


# -- deaths --------------------------------------------------------------------------------------------------------

AnswerOf = Callable[[], dict[str, Any]]


def ask_and_kill(cluster: Cluster, request: Request, when: Callable[[AnswerOf], object]) -> dict[str, Any]:
    """Ask the controller, kill it at some moment, and ask the others until one of them has answered."""
    victim = controller_of(cluster)
    future = cluster.ref(f"controller@{victim}").ask(request, block=False)
    when(lambda: decoded(future.get(timeout=10)))
    cluster.kill(victim)
    answers: list[dict[str, Any]] = []

    def is_answered() -> bool:
        for broker in cluster.alive:
            try:
                answers.append(decoded(cluster.ask(f"controller@{broker}", request)))
            except UNREACHABLE:
                continue
            if answers[-1]["error"] not in (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT):
                return True
        return False

    wait_until(is_answered, lambda: f"{answers[-3:]}")
    cluster.restart(victim)
    return answers[-1]


def decoded(answer: OperationAnswer) -> dict[str, Any]:
    value: dict[str, Any] = orjson.loads(answer.answer)
    return value


def seen_by_any(cluster: Cluster, condition: Callable[[View], object]) -> Callable[[AnswerOf], None]:
    """The moment from which some broker's metadata is so."""

    def when(_answer: AnswerOf) -> None:
        wait_until(
            lambda: any(condition(seen) for broker in cluster.alive if (seen := view(cluster, broker))),
            lambda: "no broker says so",
        )

    return when


def at_once(_answer: AnswerOf) -> None:
    """Nothing is known but that it was asked."""


def answered(answer: AnswerOf) -> None:
    assert answer()["error"] == ErrorCode.NONE


def test_what_was_refused_is_not_done_when_a_copy_of_it_comes_late(leaves_nothing: None, tmp_path: Path) -> None:
    request = DeleteTopic("its asker heard the answer", "orders")
    with Cluster(data_dir=tmp_path) as cluster:
        cluster.admin.create_topic("others")  # from here on somebody is the controller
        controller = f"controller@{controller_of(cluster)}"
        refused = decoded(cluster.ask(controller, request))
        assert refused["error"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        made = cluster.admin.create_topic("orders")
        assert decoded(cluster.ask(controller, request)) == refused
        assert cluster.admin.topic("orders")["topic_id"] == made["topic_id"]


def test_many_operations_that_change_nothing_are_few_batches_and_those_around_them_keep_their_order(
    leaves_nothing: None, tmp_path: Path
) -> None:
    with Cluster(1, data_dir=tmp_path) as cluster:
        cluster.admin.create_topic("others")
        asked: list[Request] = [DeleteTopic(f"refused {number}", f"unknown-{number}") for number in range(300)]
        asked.insert(200, CreateTopic("made", "orders", 1, 1))
        asked.append(DeleteTopic("deleted", "orders"))
        asked.append(DeleteTopic("deleted too late", "orders"))
        before = metadata_batches(tmp_path)
        ref = cluster.ref("controller@1")
        futures = [ref.ask(request, block=False) for request in asked]
        errors = [decoded(future.get(timeout=30))["error"] for future in futures]
        refused = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert errors == [refused] * 200 + [ErrorCode.NONE] + [refused] * 100 + [ErrorCode.NONE, refused]
        assert metadata_batches(tmp_path) - before < 100
        assert decoded(cluster.ask("controller@1", asked[7]))["error"] == refused, "its answer is kept"


def metadata_batches(data_dir: Path) -> int:
    logs = sorted((data_dir / "1" / "__cluster_metadata-0").glob("*.log"))
    return sum(len(parse_batches(log.read_bytes()).headers) for log in logs)


@pytest.mark.slow
def test_a_topic_is_made_once_and_deleted_once_though_the_controller_dies(leaves_nothing: None, tmp_path: Path) -> None:
    with Cluster(3, processes=True, data_dir=tmp_path) as cluster:
        partly_made = disk_shows(lambda: any(kept_by(tmp_path, broker) for broker in cluster.alive))
        partly_gone = disk_shows(lambda: any(len(kept_by(tmp_path, broker)) < 4 for broker in cluster.alive))
        moments = {"asked": (at_once, at_once), "partly": (partly_made, partly_gone), "answered": (answered, answered)}
        for name, (when_made, when_gone) in moments.items():
            made = ask_and_kill(cluster, CreateTopic(f"make, {name}", "orders", 6, 2), when_made)
            assert made["error"] == ErrorCode.NONE, made
            seen = wait_until_settled(cluster, tmp_path)
            assert [(one["topic_id"], len(one["partitions"])) for one in seen["topics"]] == [(made["topic_id"], 6)]
            assert write(cluster, "orders", b"one") == 0

            request = DeleteTopic(f"delete, {name}", "orders")
            deleted = ask_and_kill(cluster, request, when_gone)
            assert (deleted["error"], deleted["topic_id"]) == (ErrorCode.NONE, made["topic_id"])
            assert wait_until_settled(cluster, tmp_path)["topics"] == []

            again = cluster.admin.create_topic("orders", 1, 3)["topic_id"]
            assert decoded(cluster.ask(f"controller@{controller_of(cluster)}", request)) == deleted
            left = [topic["topic_id"] for topic in wait_until_settled(cluster, tmp_path)["topics"]]
            assert left == [again], "a retry must not delete what is new"
            cluster.admin.delete_topic("orders")
            wait_until_settled(cluster, tmp_path)


@pytest.mark.slow
def test_a_partition_is_moved_once_though_the_controller_dies(leaves_nothing: None, tmp_path: Path) -> None:
    with Cluster(4, processes=True, data_dir=tmp_path) as cluster:
        made = cluster.admin.create_topic("orders", assignment=[[1, 2, 3]])
        group = group_name("orders", 0, made["topic_id"])
        wait_until_settled(cluster, tmp_path)

        def partition(seen: View) -> View:
            topic = topic_in(seen, "orders")
            assert topic is not None
            found: View = topic["partitions"][0]
            return found

        with Writer(cluster, "orders") as writer:
            for number, name in enumerate(("asked", "known", "on the new disk", "over")):
                old = replicas_of(cluster, "orders")
                new = next(broker for broker in cluster.brokers if broker not in old)
                replicas = (*old[1:], new)
                moments = {
                    "asked": at_once,
                    "known": seen_by_any(cluster, lambda seen: partition(seen)["moved_from"]),
                    "on the new disk": disk_shows(lambda: group in kept_by(tmp_path, new)),  # noqa: B023
                    "over": seen_by_any(
                        cluster,
                        lambda seen: (
                            partition(seen)["replicas"] == list(replicas) and not partition(seen)["moved_from"]  # noqa: B023
                        ),
                    ),
                }
                request = MoveReplicas(f"move {number}", "orders", 0, replicas)
                assert ask_and_kill(cluster, request, moments[name])["error"] == ErrorCode.NONE
                assert partition(wait_until_settled(cluster, tmp_path))["replicas"] == list(replicas)
                writer.more(20)
        writer.check()


def disk_shows(condition: Callable[[], bool]) -> Callable[[AnswerOf], None]:
    return lambda _answer: wait_until(condition, lambda: "the disks do not show it")


@pytest.mark.slow
def test_no_broker_is_special(leaves_nothing: None, tmp_path: Path) -> None:
    """Whichever broker is missing, everything goes on: make, write, move, read, delete."""
    with Cluster(3, processes=True, data_dir=tmp_path) as cluster:
        cluster.admin.create_topic("always", 3, 3)
        wait_until_settled(cluster, tmp_path)
        for victim in cluster.brokers:
            cluster.kill(victim)
            a, b = cluster.alive
            cluster.admin.create_topic("orders", assignment=[[a], [b]])
            write(cluster, "orders", b"one")
            cluster.admin.move("orders", 0, [b])
            wait_until_settled(cluster, tmp_path)
            write(cluster, "orders", b"two")
            assert values_of(cluster, "orders") == [b"one", b"two"]
            for number in range(3):
                write(cluster, "always", b"without %d" % victim, partition=number)
            cluster.admin.delete_topic("orders")
            cluster.restart(victim)
            wait_until_settled(cluster, tmp_path)
        for number in range(3):
            assert values_of(cluster, "always", number) == [b"without %d" % victim for victim in cluster.brokers]


# -- the cluster file ------------------------------------------------------------------------------------------------


def test_brokers_that_are_added_take_part_in_everything(leaves_nothing: None, tmp_path: Path) -> None:
    with Cluster(1, data_dir=tmp_path) as cluster:
        cluster.admin.create_topic("old", 2, 1)
        for number in range(2):
            write(cluster, "old", b"%d" % number, partition=number)
        before = cluster.admin.describe()["cluster_id"]
    with Cluster(3, data_dir=tmp_path) as cluster:
        seen = wait_until_settled(cluster, tmp_path)
        assert seen["cluster_id"] == before
        assert [values_of(cluster, "old", number) for number in range(2)] == [[b"0"], [b"1"]]
        wait_until(lambda: len(cluster.admin.describe()["brokers"]) == 3, lambda: f"{cluster.admin.describe()}")
        cluster.admin.create_topic("new", 3, 3)
        wait_until_settled(cluster, tmp_path)
        cluster.kill(1)
        cluster.admin.create_topic("newer", 2, 2)
        for name in ("new", "newer"):
            write(cluster, name, b"without 1")
            assert values_of(cluster, name) == [b"without 1"]
        cluster.restart(1)
        wait_until_settled(cluster, tmp_path)
        assert values_of(cluster, "old") == [b"0"]


def test_topics_of_the_file_are_made_at_start_and_never_changed(
    leaves_nothing: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    orders, rare = TopicConfig("orders", 3, 3), TopicConfig("rare", 1, 1)
    with Cluster(3, data_dir=tmp_path, topics=[orders]) as cluster:
        before = wait_until_settled(cluster, tmp_path)
        assert [(one["name"], len(one["partitions"])) for one in before["topics"]] == [("orders", 3)]
        write(cluster, "orders", b"one")
    assert "keeps them" not in caplog.text
    with Cluster(3, data_dir=tmp_path, topics=[TopicConfig("orders", 5, 2), rare]) as cluster:
        after = wait_until_settled(cluster, tmp_path)
        assert [(one["name"], len(one["partitions"])) for one in after["topics"]] == [("orders", 3), ("rare", 1)]
        assert lasting({**after, "topics": after["topics"][:1]}) == lasting(before)
        assert values_of(cluster, "orders") == [b"one"]
    assert "topic 'orders' has 3 partitions with 3 replicas and keeps them; the file says 5 and 2" in caplog.text


def test_where_a_metadata_log_begins_is_known_by_its_segments_if_its_offsets_are_damaged() -> None:
    files = MemoryFilesystem()
    assert log_start(files, "/data/m") == 0
    log = PartitionLog.open("/data/m", LogConfig(segment_bytes=100), Handles(files))
    for _ in range(3):
        log.append(check_batches(build_batch([Record(0, 1, None, b"x" * 50, ())])), epoch=0, now_ms=0)
    log.high_watermark = 3
    log.raise_log_start(2)
    log.close()
    assert log_start(files, "/data/m") == 2
    files.write_atomically("/data/m/offsets-checkpoint", b"damaged")
    assert log_start(files, "/data/m") == 2
