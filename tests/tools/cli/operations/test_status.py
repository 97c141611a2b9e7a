"""`barnabas status`: what it finds out about a cluster, and what it prints where."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from actors.harness import Cluster
from tests.actors.waiting import wait_until
from tests.naming import unique
from tests.tools.cli.likeness import assert_like
from tests.tools.cli.operations.commands import Output, command, terminal, told
from tools.cli.operations.observation import BEHIND, UNLED, Observation
from tools.cli.operations.report import Report
from tools.cli.shapes import SHAPES
from tools.client.admin import Admin
from tools.client.administration.groups import ListedGroup
from tools.client.metadata import Partition, Topic, TopicPartition
from tools.client.producer import Producer

QUICK = ("--seconds", "0.1")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, log_level="critical") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def topic(cluster: Cluster) -> str:
    """With ten records, of which a group has read four."""
    name = unique("topic")
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic(name, partitions=2, replication_factor=3)
        with Producer(cluster.bootstrap) as producer:
            for number in range(10):
                producer.send(name, b"%d" % number, partition=0)
        admin.groups.alter_offsets("billing", {(name, 0): 4})
    return name


def status(cluster: Cluster, capsys: pytest.CaptureFixture[str], *arguments: str) -> Output:
    return told(capsys, "status", "--bootstrap", cluster.bootstrap, *QUICK, *arguments)


def test_a_healthy_cluster_is_shown_in_a_pipe(cluster: Cluster, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [line.split("\t") for line in status(cluster, capsys).lines]
    (head,) = [row for row in rows if row[0] == "cluster"]
    assert head[3] == "3"
    assert head[6:] == ["0", "0", "0.0"], "no partition without leader, none under-replicated, no records"
    brokers = [row for row in rows if row[0] == "broker"]
    assert [row[1:3] for row in brokers] == [
        [str(at), address] for at, address in enumerate(cluster.bootstrap.split(","), start=1)
    ]
    assert sum(int(row[3]) for row in brokers) == int(head[5])
    assert ["group", "billing", "Empty", "6", "0"] in rows
    (found,) = [row for row in rows if row[:2] == ["topic", topic]]
    assert (found[2], found[3], found[5]) == ("2", "0", "")
    assert not [row for row in rows if row[0] in ("partition", "unknown")]


def test_json_tells_everything(cluster: Cluster, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    answer = json.loads(status(cluster, capsys, "--json").out)
    assert_like(SHAPES["status"].sample, answer)
    assert [one["broker"] for one in answer["brokers"]] == [1, 2, 3]
    assert all(one["size_bytes"] > 0 and one["free_bytes"] > 0 for one in answer["brokers"])
    assert {"group": "billing", "state": "Empty", "lag": 6, "records_per_s": 0.0} in answer["groups"]
    assert answer["problems"] == []
    assert answer["unknown"] == {}


@pytest.mark.parametrize("columns", [80, 200])
def test_a_page_fits_into_the_terminal(
    cluster: Cluster, topic: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    with terminal(monkeypatch, columns):
        text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", status(cluster, capsys).out)
    assert max(map(len, text.splitlines())) <= columns
    assert text.startswith("3 brokers, controller ")
    assert "every partition has a leader and all its replicas in sync" in text
    assert all(f" {address} " in text for address in cluster.bootstrap.split(",")), "no address takes two lines"


def test_a_broker_that_is_gone_is_shown_and_what_it_had(
    topic: str, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.kill(3)
    try:
        wait_until(lambda: "broker\t3\tgone\t0\t" in status(cluster, capsys).out, lambda: "broker 3 is still shown")
        wait_until(lambda: f"partition\t{topic}\t1\t" in status(cluster, capsys).out, lambda: "no partition is shown")
        rows = [line.split("\t") for line in status(cluster, capsys).lines]
        assert {row[-1] for row in rows if row[:2] == ["partition", topic]} == {BEHIND}
        assert [row[-1] for row in rows if row[:2] == ["topic", topic]] == [f"2 {BEHIND}"]
    finally:
        cluster.restart(3)


def test_a_watched_cluster_is_shown_until_ctrl_c(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    def look_again(_seconds: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", look_again)
    assert status(cluster, capsys, "--watch").out.count("cluster\t") == 2
    looks = 0
    with terminal(monkeypatch, 80):
        page = status(cluster, capsys, "--watch").out
    assert page.startswith("\x1b[?1049h\x1b[?25l\x1b[H3 brokers")
    assert page.count("\x1b[H") == 2
    assert "\x1b[?1049l3 brokers" in page, "the last page stays"


def test_nobody_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    nobody = told(capsys, "status", "--bootstrap", "127.0.0.1:1")
    assert (nobody.code, nobody.out, nobody.err.count("\n")) == (1, "", 1)
    assert nobody.err.startswith("nobody answers at 127.0.0.1:1 (Connection refused); is the cluster running? ")
    with pytest.raises(SystemExit):
        command("status", "--seconds", "0")


# -- two looks -----------------------------------------------------------------------------------------------------


def observation(at: float, end: int, committed: int, *, leader: int | None = 1) -> Observation:
    partitions = (Partition(leader, 1, (1, 2), (1,)), Partition(2, 1, (2, 1), (2, 1)))
    topics = {"orders": Topic("orders", b"", partitions)}
    brokers = {1: ("h", 1), 2: ("h", 2)}
    ends = {TopicPartition("orders", 0): end, TopicPartition("orders", 1): 5}
    groups = {"g": ListedGroup("g", "consumer", "Stable", "classic")}
    offsets = {"g": {TopicPartition("orders", 0): committed}}
    return Observation(at, "id", 1, brokers, topics, ends, {}, groups, offsets)


def test_rates_are_of_the_time_between_two_looks() -> None:
    report = Report(observation(12.0, 130, 90), observation(10.0, 30, 50))
    assert report.cluster()["records_per_s"] == 50.0
    assert [one["records_per_s"] for one in report.brokers()] == [50.0, 0.0]
    assert [(one["lag"], one["records_per_s"]) for one in report.groups()] == [(40, 20.0)]
    alone = Report(observation(12.0, 130, 90))
    assert alone.topics()[0]["records_per_s"] is None


def test_a_log_that_began_again_has_no_negative_rate() -> None:
    assert Report(observation(11.0, 0, 0), observation(10.0, 30, 30)).topics()[0]["records_per_s"] == 0.0


def test_a_partition_is_led_by_a_broker_that_is_alive_or_by_none() -> None:
    for leader in (None, 3):
        (one,) = Report(observation(1.0, 0, 0, leader=leader)).problems()
        assert (one["partition"], one["problem"]) == (0, UNLED)
    (one,) = Report(observation(1.0, 0, 0)).problems()
    assert one["problem"] == BEHIND
