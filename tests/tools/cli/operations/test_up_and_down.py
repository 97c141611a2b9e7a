"""`barnabas up` and `down`: what they print, what they refuse, and how they end."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.broker.directory_lock import DirectoryLock
from actors.broker.identity import DirectoryIdentity
from actors.cluster_file.config import ClusterConfig, KafkaConfig
from actors.harness import Cluster
from actors.process.running_file import RunningCluster
from actors.process.service_manager import VARIABLE
from tests.tools.cli.operations.commands import told
from tools import cli

ROOT = Path(__file__).parents[4]


@pytest.fixture
def service_manager() -> Iterator[socket.socket]:
    """Hears what systemd would. Its path must be short."""
    with (
        tempfile.TemporaryDirectory(prefix="bt-", dir="/tmp") as directory,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager,
    ):
        manager.bind(f"{directory}/notify")
        manager.settimeout(60)
        yield manager


@pytest.mark.slow
def test_a_cluster_needs_no_file_and_is_stopped_by_its_directory(
    tmp_path: Path, service_manager: socket.socket, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    arguments = ["up", "--brokers", "1", "--port", "0", "--data", str(data)]
    arguments += ["--log-format", "json", "--log-level", "info"]
    up = subprocess.Popen(
        [sys.executable, "-m", cli.__name__, *arguments],
        cwd=ROOT, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, VARIABLE: service_manager.getsockname()},
    )  # fmt: skip
    try:
        assert up.stdout is not None
        ready, where, *steps = [up.stdout.readline() for _ in range(8)]
        bootstrap = ready.split()[-1]
        assert ready == f"ready: bootstrap {bootstrap}\n"
        assert where == f"the data is in {data}\n"
        assert service_manager.recv(1024) == f"READY=1\nSTATUS=bootstrap {bootstrap}".encode()
        again = told(capsys, "up", "--data", data)
        assert (again.code, again.out) == (2, "")
        assert again.err.startswith(f"--data: {data} is in use by another cluster, pid {up.pid}; ")
        well = told(capsys, "doctor", "--data", data)
        assert f"ok\tcluster\truns in {data} since " in well.out
        assert "ok\tpartitions\tall 0 have a leader" in well.out, "the cluster that runs there is looked at too"
        down = told(capsys, "down", "--data", data)
        assert (down.code, down.err) == (0, "")
        assert down.lines[-2:] == ["stopping, brokers: 0 left", f"stopped; the data is kept in {data}"]
        _, log = up.communicate(timeout=60)
        assert up.returncode == 0
        assert service_manager.recv(1024) == b"STOPPING=1\nSTATUS=the brokers are stopping"
        assert steps[1] == f"  export BARNABAS_BOOTSTRAP={bootstrap}\n"
        assert steps[-1] == f"  python -m {cli.__name__} status\n"
        told_lines = [line for line in log.splitlines() if not line.startswith("{")]
        assert told_lines == ["stopping; a second Ctrl-C does not wait", f"stopped; the data is kept in {data}"]
        assert {path.name for path in data.iterdir()} == {"1", "formation"}
        logged = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
        assert {one.get("broker") for one in logged} == {None, 1}
    finally:
        up.kill()
        up.communicate()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--brokers", 0], "--brokers: 0 is out of range; give 1 to 64"),
        (["--port", -1], "--port: -1 is no port; give 1 to 65535, or 0 for free ones"),
        (["--port", 65534], "--port: 65534 leaves no room for 3 brokers; give 65533 or less"),
        (["--file", "cluster.toml", "--port", 1], "--file: the file says where data, brokers and ports are; leave out"),
        (["--file", "/nowhere.toml"], "/nowhere.toml: no such file; give the path of a cluster file"),
    ],
)
def test_a_wrong_option_is_told_in_one_line(
    arguments: list[object], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    refused = told(capsys, "up", *arguments)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith(line)
    assert refused.err.count("\n") == 1
    answer = json.loads(told(capsys, "up", *arguments, "--json").out)
    assert answer["error"]["message"] == refused.err.strip()
    assert list(tmp_path.iterdir()) == []


def test_a_port_in_use_and_a_file_in_the_way_are_told_by_their_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        refused = told(capsys, "up", "--brokers", 1, "--port", port, "--data", tmp_path / "file")
    assert refused.code == 2
    in_the_way, in_use = refused.err.splitlines()
    assert in_the_way == f'--data: "{tmp_path}/file" is not a directory; move it away or choose another directory'
    assert in_use == f"--port: {port} is in use on 127.0.0.1; stop what uses it or give another port"


@pytest.mark.parametrize(
    ("known", "arguments", "line"),
    [
        (3, ["--brokers", 2], "--brokers: {} has data of brokers 3; start at least 3, or give another --data"),
        (0, [], "--data: {} has data of brokers 0, of a cluster with a file; give it with --file"),
    ],
)
def test_a_directory_of_another_cluster_is_not_started(
    known: int, arguments: list[object], line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    DirectoryIdentity.of(tmp_path / str(known), known)
    refused = told(capsys, "up", "--data", tmp_path, *arguments)
    assert (refused.code, refused.err) == (2, line.format(tmp_path) + "\n")


def test_there_is_nothing_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    nothing = told(capsys, "down")
    hint = "--data or --file says where one runs"
    assert (nothing.code, nothing.err) == (1, f"no cluster runs in {tmp_path}/barnabas-data; {hint}\n")
    answer = json.loads(told(capsys, "down", "--json").out)
    assert answer["error"]["message"] == nothing.err.strip()
    assert told(capsys, "down", "--data", "d", "--file", "f").code == 2


def test_a_cluster_inside_another_program_is_not_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(1, data_dir=tmp_path):
        refused = told(capsys, "down", "--data", tmp_path)
    assert refused.code == 1
    assert "in use, but not by a cluster that `down` stops; end its process, which is pid " in refused.err


def test_a_cluster_that_does_not_end_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a stand-in for one that ignores the signal."""
    monkeypatch.setattr("os.kill", lambda *_: None)
    with DirectoryLock(tmp_path):
        running = RunningCluster.of(ClusterConfig("test", "127.0.0.1", tmp_path, KafkaConfig(), (), ()))
        running.write(tmp_path)
        late = told(capsys, "down", "--data", tmp_path, "--seconds", 0)
    told_line = f"pid {running.pid} still runs after 0 s; `kill {running.pid}` once more ends it without waiting\n"
    assert (late.code, late.err) == (1, told_line)
