"""`barnabas doctor`: it names what is wrong with a machine and with a cluster, and what to do."""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from actors.broker.identity import DirectoryIdentity
from actors.cluster_file.config import BrokerConfig, ClusterConfig, KafkaConfig
from actors.harness import Cluster
from actors.process.running_file import RunningCluster
from tests.actors.waiting import wait_until
from tests.naming import unique
from tests.tools.cli.likeness import assert_like
from tests.tools.cli.operations.commands import terminal, told
from tools.cli.operations import cluster_checks, machine_checks
from tools.cli.operations.finding import Finding, Result
from tools.cli.shapes import SHAPES
from tools.client.admin import Admin
from tools.client.administration.brokers import BrokerQuestions
from tools.client.administration.transactions import Hanging, OpenTransaction, TransactionAdmin
from tools.client.metadata import TopicPartition
from tools.client.producer import Producer

MEGABYTE = 1_000_000


def config_of(data_dir: Path, port: int = 0, settings: KafkaConfig | None = None) -> ClusterConfig:
    broker = BrokerConfig(1, port, data_dir / "1")
    return ClusterConfig("test", "127.0.0.1", data_dir, settings or KafkaConfig(), (broker,), ())


def machine(config: ClusterConfig, running: RunningCluster | None = None) -> dict[str, Finding]:
    """What is not well, by subject."""
    return {one.subject: one for one in machine_checks.check(config, running) if one.result is not Result.OK}


def has_room(monkeypatch: pytest.MonkeyPatch, *, free: int, total: int = 1000 * MEGABYTE, files: int = 1 << 20) -> None:
    found = SimpleNamespace(f_bavail=free, f_frsize=1, f_blocks=total, f_files=1 << 20, f_favail=files)
    monkeypatch.setattr("os.statvfs", lambda _path: found)


# -- the machine ---------------------------------------------------------------------------------------------------


def test_a_good_machine_has_nothing_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _which: (1 << 16, 1 << 16))
    has_room(monkeypatch, free=900 * MEGABYTE)
    assert machine(config_of(tmp_path / "data")) == {}
    assert list(tmp_path.iterdir()) == []


def test_a_port_in_use_and_a_directory_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        found = machine(config_of(tmp_path / "file", port))
    assert found["port"].text == f"broker[1].port: {port} is in use on 127.0.0.1"
    remedy = "stop what uses it or give another port, or say where your cluster runs with --data or --file"
    assert found["port"].remedy == remedy
    assert found["directory"].text == f'cluster.data_dir: "{tmp_path}/file" is not a directory'


def test_few_open_files_are_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _which: (1024, 4096))
    found = machine(config_of(tmp_path))["open files"]
    assert (found.result, "LimitNOFILE=65536" in found.remedy) == (Result.WARNING, True)
    assert re.fullmatch(
        r"4096 open files allow \d+ connections to each broker, and max.connections is 10000", found.text
    )


def test_the_limit_of_a_running_cluster_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = RunningCluster.of(config_of(tmp_path))
    monkeypatch.setattr("resource.getrlimit", lambda _which: (1 << 16, 1 << 16))
    told = {os.getpid(): (1024, 2048)}
    monkeypatch.setattr("resource.prlimit", lambda pid, _which: told[pid], raising=False)
    assert machine(config_of(tmp_path), running)["open files"].text.startswith("2048 open files")


@pytest.mark.parametrize(
    ("free", "files", "result", "text"),
    [
        (10 * MEGABYTE, 1 << 20, Result.BAD, "10 MB of 1,000 MB are free; records are refused below 17 MB"),
        (40 * MEGABYTE, 1 << 20, Result.WARNING, "40 MB of 1,000 MB are free"),
        (900 * MEGABYTE, 3, Result.BAD, "only 3 more files can be made"),
    ],
)
def test_a_disk_that_is_almost_full_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, files: int, result: Result, text: str
) -> None:
    has_room(monkeypatch, free=free, files=files)
    found = machine(config_of(tmp_path))["disk"]
    assert (found.result, found.text) == (result, f"{tmp_path}: {text}")


def test_a_reserve_that_is_used_up_is_named(tmp_path: Path) -> None:
    DirectoryIdentity.of(tmp_path / "1", 1)
    (tmp_path / "1" / "reserve").write_bytes(bytes(100))
    found = [machine(config_of(tmp_path, settings=KafkaConfig(disk_reserve_bytes=size))) for size in (100, 101)]
    assert "reserve" not in found[0]
    assert found[1]["reserve"].text.startswith("broker 1 has not the 101 bytes in ")


def test_a_clock_that_went_back_is_named(tmp_path: Path) -> None:
    DirectoryIdentity.of(tmp_path / "1", 1)
    early = time.time() - 3600
    (found,) = [one for one in machine_checks.check(config_of(tmp_path), None, lambda: early) if one.subject == "clock"]
    assert found.result is Result.BAD
    assert re.fullmatch(r"files of the cluster were written 3\d{3} s from now: the clock went back", found.text)
    (found,) = [one for one in machine_checks.check(config_of(tmp_path), None, lambda: 0.0) if one.subject == "clock"]
    assert found.text == "it is 1970-01-01 00:00 by this machine's clock"


def test_a_directory_of_a_newer_version_is_named(tmp_path: Path) -> None:
    DirectoryIdentity.of(tmp_path / "1", 1)
    properties = tmp_path / "1" / "meta.properties"
    properties.write_text(properties.read_text().replace("version=3", "version=4"))
    found = machine(config_of(tmp_path))["format"]
    assert "version 4 is newer than this Barnabas knows" in found.text


def test_a_broker_of_a_running_cluster_that_does_not_run_is_named(tmp_path: Path) -> None:
    found = machine(config_of(tmp_path), RunningCluster.of(config_of(tmp_path)))
    assert found["broker"].text == "broker 1 does not run"
    assert found["cluster"].text == "it is not ready yet"


# -- a cluster -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, log_level="critical") as cluster:
        yield cluster


def diagnosis(cluster: Cluster) -> dict[str, Finding]:
    with Admin(cluster.bootstrap, seconds=10) as admin:
        return {one.subject: one for one in cluster_checks.check(admin, 900.0) if one.result is not Result.OK}


def test_a_healthy_cluster_has_nothing_wrong(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, "doctor", "--bootstrap", cluster.bootstrap)
    assert found.code == 0
    assert [line.split("\t")[:2] for line in found.lines] == [
        ["ok", subject] for subject in ("cluster", "partitions", "versions", "transactions")
    ]


def test_lone_replicas_and_records_from_the_future_are_warned_of(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    name = unique("topic")
    with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap) as producer:
        admin.create_topic(name, partitions=1, replication_factor=1)
        producer.send(name, b"x", timestamp_ms=int(time.time() * 1000) + 300_000).result()
    found = told(capsys, "doctor", "--bootstrap", cluster.bootstrap)
    assert found.code == 0, "warnings alone are nothing wrong"
    warnings = [line.split("\t")[1:3] for line in found.lines if line.startswith("warning\t")]
    assert warnings == [
        ["topics", f"one replica only: {name}"], ["clock", f"1 with records from the future: {name}-0"],
    ]  # fmt: skip
    with Admin(cluster.bootstrap) as admin:
        admin.delete_topic(name)


def test_a_dead_broker_and_what_it_leaves_are_named(cluster: Cluster) -> None:
    name = unique("topic")
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic(name, assignment=[[3, 1, 2]])
        admin.create_topic(f"{name}-alone", assignment=[[3]])
    cluster.kill(3)
    try:
        wait_until(lambda: "broker" in diagnosis(cluster), lambda: "broker 3 still counts as alive")

        def partitions() -> list[str]:
            with Admin(cluster.bootstrap, seconds=10) as admin:
                found = cluster_checks.check(admin, 900.0)
            return [one.text for one in found if one.subject == "partitions"]

        wanted = [f"1 without leader: {name}-alone-0", f"1 under-replicated: {name}-0"]
        wait_until(lambda: partitions() == wanted, lambda: str(partitions()))
    finally:
        cluster.restart(3)


def test_hanging_transactions_and_brokers_of_two_versions_are_named(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By stand-ins for the answers: tests of the client make real ones hang."""
    where = TopicPartition("orders", 2)
    hangs = [Hanging(OpenTransaction(where, 7, 0, 17, 0, 0), None, "no coordinator knows producer 7")] * 7
    monkeypatch.setattr(TransactionAdmin, "find_hanging", lambda *_: tuple(hangs))
    monkeypatch.setattr(BrokerQuestions, "versions", lambda _self, broker: {0: (0, broker // 3)})
    with Admin(cluster.bootstrap, seconds=10) as admin:
        found = [one for one in cluster_checks.check(admin, 900.0) if one.subject in ("transactions", "versions")]
    assert [one.result for one in found] == [Result.WARNING, *[Result.BAD] * 6]
    assert found[0].text == "brokers 1, 2 and 3 advertise different versions of Kafka's APIs"
    assert found[1].text == "one hangs in orders-2 since offset 17: no coordinator knows producer 7"
    assert found[1].remedy == "`transactions abort --topic orders --partition 2 --start-offset 17`"
    assert found[6].text == "2 more hang"


# -- the command ---------------------------------------------------------------------------------------------------


def test_nobody_there_and_a_wrong_file_are_bad(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    nobody = told(capsys, "doctor", "--bootstrap", "127.0.0.1:1", "--json")
    answer = json.loads(nobody.out)
    assert_like(SHAPES["doctor"].sample, answer)
    (finding,) = answer["findings"]
    assert (nobody.code, finding["result"], finding["subject"]) == (1, "bad", "cluster")
    assert finding["text"] == "nobody answers at 127.0.0.1:1 (Connection refused)"
    wrong = told(capsys, "doctor", "--file", tmp_path / "none.toml")
    assert (wrong.code, wrong.lines) == (
        1,
        [f"bad\tfile\t{tmp_path}/none.toml: no such file\tgive the path of a cluster file"],
    )
    assert told(capsys, "doctor", "--file", "f", "--data", "d").code == 2


def test_a_terminal_shows_remedies_below(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with terminal(monkeypatch, 80):
        found = told(capsys, "doctor", "--data", tmp_path / "file" / "data")
    text = re.sub(r"\x1b\[[0-9;?]*m", "", found.out)
    assert found.code == 1
    assert max(map(len, text.splitlines())) <= 80 or str(tmp_path) in text
    assert re.search(r"^bad +directory +", text, re.MULTILINE)
    assert re.search(r"^ {23}→ move it away or choose another directory$", text, re.MULTILINE)
    assert re.search(r"\n\n1 bad(, \d warning)?\n$", text)
