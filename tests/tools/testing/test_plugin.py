"""The pytest plugin, in sessions as other projects have them."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from actors.harness import Cluster
from tests.tools.testing.sessions import PROJECT, Session, command, environment, run
from tools.testing import plugin

EXAMPLES = sorted((PROJECT / "examples").glob("*.py"))
LINES_MAX = 15
pytestmark = pytest.mark.timeout(300)
LEFT_BY_PYTEST = {"pytest-of-" + (psutil.Process().username())}


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    """For temporary files: short enough for sockets in it."""
    with tempfile.TemporaryDirectory(prefix="bt-", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def succeeding(directory: Path) -> Session:
    """A session with two workers and a running cluster beside it."""
    with Cluster(1, log_level="error") as running:
        return run(
            directory, "-n", "2", "--dist", "loadfile", "--kafka-bootstrap", running.bootstrap, "styles.py",
            "sharing.py", *map(str, EXAMPLES),
        )  # fmt: skip


@pytest.fixture(scope="module")
def failing(directory: Path) -> Session:
    """A session without xdist."""
    return run(directory, "--kafka-brokers", "1", "failing.py")


def test_every_style_of_test_succeeds(succeeding: Session) -> None:
    assert len(succeeding.outcomes) > 30
    assert set(succeeding.outcomes.values()) == {"PASSED"}, succeeding.output


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_fits_on_a_card(example: Path) -> None:
    text = example.read_text(encoding="utf-8")
    test = text[text.index("def test_") :]
    assert len(test.splitlines()) <= LINES_MAX


def test_all_workers_use_one_cluster_which_ends_with_the_session(succeeding: Session) -> None:
    assert len({path.resolve() for path in succeeding.directory.glob("*/*/kafka.json")}) == 1
    assert not servers(succeeding.directory)
    assert {path.name for path in succeeding.directory.iterdir()} == LEFT_BY_PYTEST


def test_a_client_that_is_left_open_is_named_once(succeeding: Session) -> None:
    (line,) = succeeding.section(plugin.LEFT_OPEN)
    assert "test_a_client_that_is_left_open: till (port " in line


def test_a_refusal_is_one_line(failing: Session) -> None:
    assert failing.outcomes == {
        "test_with_the_shared_cluster": "FAILED",
        "test_with_a_cluster_of_its_own": "FAILED",
        "test_without_a_running_cluster": "ERROR",
    }, failing.output
    for line in (
        "kill_leader: this cluster is shared by all tests; take kafka_cluster_factory() for one of the test's own",
        "kafka_external: name a running cluster, as --kafka-bootstrap localhost:9092",
    ):
        assert re.search(rf"^E +\S+KafkaFixtureError: {re.escape(line)}$", failing.output, re.MULTILINE)
    assert "kafka.py:" not in failing.output


def test_the_report_of_a_failure_has_the_log_and_the_leaders(failing: Session) -> None:
    log = [line for line in failing.section(plugin.BROKER_LOG) if "leads test_with_a_cluster_of_its_own-" in line]
    history = [line for line in failing.section(plugin.LEADERS) if "test_with_a_cluster_of_its_own-" in line]
    assert len(log) >= 2
    first, second = (re.search(r"broker (\d) leads", line) for line in history)
    assert first is not None
    assert second is not None
    assert first[1] != second[1]


def test_the_cluster_ends_when_its_session_is_killed(directory: Path) -> None:
    with subprocess.Popen(
        command("-s", "styles.py", "-k", "test_plain", "--trace"), cwd=PROJECT, env=environment(directory),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as session:  # fmt: skip
        assert session.stdout is not None
        for line in session.stdout:
            if "test_plain()" in line:
                break
        (server,) = servers(directory)
        session.kill()
        server.wait(10)
    assert {path.name for path in directory.iterdir()} <= LEFT_BY_PYTEST


def servers(directory: Path) -> list[psutil.Process]:
    """The processes of shared clusters whose temporary files are in this directory."""
    found = []
    for process in psutil.process_iter():
        try:
            if any(part.endswith("testing.server") for part in process.cmdline()):
                found += [process] if process.environ().get("TMPDIR") == str(directory) else []
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue  # it has ended, or is another user's
    return found


def test_the_plugin_loads_neither_trio_nor_a_broker() -> None:
    """Warnings are errors."""
    program = (
        "import sys, time, pytest; before = set(sys.modules); start = time.process_time()\n"
        f"import {plugin.__name__}\n"
        "print(time.process_time() - start, *{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], env=environment(Path("/tmp")), check=True, capture_output=True,
        text=True,
    )  # fmt: skip
    seconds, *loaded = done.stdout.split()
    assert not {"trio", "attr", "attrs", "pykka", "actors", "log", "protocol", "asyncio"} & set(loaded)
    assert float(seconds) < 0.05, "10 ms on a quiet machine"
