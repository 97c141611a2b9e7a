"""Each scenario checks its own result; here with a few events, with both clients, and with a broker that dies."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.cluster_file.config import KafkaConfig
from actors.harness import Cluster
from tests.actors.waiting import wait_until
from tools.client.admin import Admin
from tools.examples import audit_ledger as audit_ledger_program
from tools.examples import clients, program
from tools.examples import iot_telemetry as iot_telemetry_program
from tools.examples import log_stream as log_stream_program
from tools.examples import order_saga as order_saga_program
from tools.examples import topology_audit as topology_audit_program
from tools.examples.clients import CLIENTS, ClientMissing
from tools.examples.plain import audit_ledger, iot_telemetry, log_stream, order_saga, topology_audit
from tools.examples.service import Seen
from tools.examples.stage import ScenarioFailed, Stage

Play = Callable[[Stage], str]
PLAYS = {
    "order_saga": order_saga.play,
    "log_stream": log_stream.play,
    "audit_ledger": audit_ledger.play,
    "iot_telemetry": iot_telemetry.play,
    "topology_audit": topology_audit.play,
}
USUAL: list[Any] = ["order_saga", "audit_ledger"]
LONG = [pytest.param(name, marks=pytest.mark.long) for name in PLAYS if name not in USUAL]
PROGRAMS = {
    "order_saga": order_saga_program,
    "log_stream": log_stream_program,
    "audit_ledger": audit_ledger_program,
    "iot_telemetry": iot_telemetry_program,
    "topology_audit": topology_audit_program,
}
CONFIG = KafkaConfig(default_replication_factor=3, min_insync_replicas=2, group_initial_rebalance_delay_ms=0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, config=CONFIG, log_level="error") as cluster:
        yield cluster


@pytest.fixture
def stage(cluster: Cluster, tmp_path: Path) -> Iterator[Stage]:
    """Its topics are removed, and a broker that died is back, before the next test."""
    dead: list[int] = []

    def kill(broker: int) -> None:
        dead.append(broker)
        cluster.kill(broker)

    stage = Stage(cluster.bootstrap, tmp_path, count=100, prefix=f"{tmp_path.name}.", kill=kill)
    yield stage
    for broker in dead:
        cluster.restart(broker)
    stage.remove_topics()


@pytest.mark.parametrize("name", ["log_stream", "iot_telemetry", "topology_audit"])
def test_the_result_is_right(name: str, stage: Stage) -> None:
    stage.kill = None
    assert PLAYS[name](stage)


@pytest.mark.slow
@pytest.mark.parametrize("name", USUAL + LONG)
def test_the_result_is_right_though_a_broker_dies(name: str, stage: Stage) -> None:
    assert PLAYS[name](stage)
    assert stage.kill is None, "no broker died"


@pytest.mark.slow
@pytest.mark.parametrize("name", USUAL + LONG)
def test_the_result_is_right_with_confluent_kafka(name: str, stage: Stage) -> None:
    stage.kill = None
    stage.client = CLIENTS["confluent"]()
    assert PLAYS[name](stage)


def test_a_program_runs_on_a_given_cluster_and_leaves_nothing_there(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--bootstrap", cluster.bootstrap, "--count", "100", "--seed", "3"]
    assert program.main("Audit ledger: balances.", audit_ledger.play, no_spark, options) == 0
    told = capsys.readouterr()
    assert told.out.startswith("100 transfers in an unbroken chain: ")
    assert "112 messages are in example-" in told.err
    with Admin(cluster.bootstrap) as admin:
        wait_until(
            lambda: not [name for name in admin.list_topics() if name.startswith("example-")],
            lambda: "a topic of the program is still there",
        )


def no_spark() -> program.SparkPlay:
    raise AssertionError("not with --engine plain")


@pytest.mark.parametrize(
    ("options", "mistake"),
    [
        (
            ["--bootstrap", "a:1", "--kill-broker"],
            "--kill-broker needs brokers of this run's own: no --bootstrap",
        ),
        (["--bootstrap", "a:b"], "--bootstrap: 'a:b' is no address; write host:port, such as 127.0.0.1:9092"),
        (["--master", "local[2]"], "--master is for --engine spark"),
        (["--count", "9"], "argument --count: a number from 100 on, not '9'"),
    ],
)
def test_a_mistake_in_the_options_is_told(options: list[str], mistake: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        program.main("Audit ledger: balances.", audit_ledger.play, no_spark, options)
    assert capsys.readouterr().err.endswith(f"error: {mistake}\n")


def test_a_client_that_is_not_installed_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(clients, "find_spec", lambda _name: None)
    assert program.main("Audit ledger: balances.", audit_ledger.play, no_spark, ["--client", "confluent"]) == 1
    told = "Audit ledger: confluent-kafka is not installed: pip install confluent-kafka\n"
    assert capsys.readouterr().err == told
    with pytest.raises(ClientMissing):
        CLIENTS["confluent"]()


def test_a_wrong_result_is_one_line_and_an_exit_code(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    def wrong(_: Stage) -> str:
        raise ScenarioFailed("one cent is missing")

    assert program.main("Audit ledger: balances.", wrong, no_spark, ["--bootstrap", cluster.bootstrap]) == 1
    assert capsys.readouterr().err.splitlines()[1:] == ["Audit ledger: one cent is missing"]


@pytest.mark.parametrize("name", PLAYS)
def test_each_is_a_program(name: str) -> None:
    assert PROGRAMS[name].play is PLAYS[name]


def test_no_step_is_silent_for_long() -> None:
    lines: list[str] = []
    reminded = threading.Event()

    def show(text: str) -> None:
        lines.append(text)
        if len(lines) == 3:
            reminded.set()

    with program.Progress(0.05, show) as progress:
        progress.say("Spark starts")
        assert reminded.wait(30)
    assert lines[0].endswith(" s  Spark starts")
    assert all(one.endswith(" s  still at it; the last step: Spark starts") for one in lines[1:])


def test_what_a_service_remembers_is_bounded() -> None:
    seen = Seen(2)
    for event_id in "abc":
        seen.add(event_id)
    assert [event_id in seen for event_id in "abc"] == [False, True, True]
