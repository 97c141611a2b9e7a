"""`python -m actors.cluster cluster.toml`, as a user types it: what it prints, how it ends, what it leaves behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from actors import cluster as command_module
from actors.broker.identity import DirectoryIdentity
from actors.process.launcher import STOP_SECONDS, UNREADY_DEATHS_MAX
from actors.runtime.links.link import SILENCE_SECONDS
from protocol.apis import API_VERSIONS
from protocol.framing import ClientConnection
from protocol.messages.api_versions import ApiVersionsRequest
from tests.actors.waiting import wait_until

ROOT = Path(__file__).parents[2]
READY = re.compile(r"ready: bootstrap 127\.0\.0\.1:\d+(,127\.0\.0\.1:\d+)*\n")
LOG_LINE = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (INFO|WARNING|ERROR|CRITICAL) +(launcher|broker=\d+) \S.*"
)


class Command:
    """A running `python -m actors.cluster`, its output in files, and every process that it started."""

    def __init__(self, directory: Path, *arguments: str | Path, group: bool = False) -> None:
        directory.mkdir(exist_ok=True)
        self._out, self._err = directory / "out", directory / "err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.launcher = psutil.Popen(
                [sys.executable, "-m", command_module.__name__, *map(str, arguments)],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=group,
            )
        self.seen: set[psutil.Process] = set()

    @property
    def stdout(self) -> str:
        return self._out.read_text()

    @property
    def stderr(self) -> str:
        return self._err.read_text()

    def ready(self) -> str:
        """Wait for the ready line; gives the bootstrap addresses."""
        wait_until(lambda: "\n" in self.stdout or self.over, lambda: self.stderr, seconds=60)
        assert READY.fullmatch(self.stdout), self.stdout + self.stderr
        self.look()
        return self.stdout.split()[-1]

    @property
    def over(self) -> bool:
        return self.launcher.poll() is not None

    def look(self) -> None:
        """Remember the processes that there are."""
        if not self.over:
            self.seen.update(self.launcher.children(recursive=True))

    def ended(self, seconds: float = 60.0) -> int:
        """Wait for the end; gives the exit code."""
        self.look()
        code = self.launcher.wait(timeout=seconds)
        assert code is not None
        return int(code)

    def left(self) -> list[psutil.Process]:
        """The processes that live."""
        self.look()
        return [process for process in self.seen if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]

    def logged(self, text: str, *, times: int = 1) -> None:
        """Wait for a log line."""
        wait_until(lambda: self.stderr.count(text) >= times, lambda: f"{text!r} is not in:\n{self.stderr}", seconds=60)

    def pid_of(self, broker: int) -> int:
        """The process of a broker, as the log last named it."""
        return int(re.findall(rf"broker {broker} started, pid (\d+)", self.stderr)[-1])

    def end_everything(self) -> None:
        for process in [self.launcher, *self.left()]:
            if process.is_running():
                process.kill()
        self.launcher.wait(timeout=10)


Start = Callable[..., Command]


@pytest.fixture
def start(tmp_path: Path, own_tmp: Path) -> Iterator[Start]:
    """Starts the command; ends, in the end, whatever of it still runs."""
    commands: list[Command] = []

    def run(*arguments: str | Path, group: bool = False) -> Command:
        commands.append(Command(tmp_path / f"command-{len(commands)}", *arguments, group=group))
        return commands[-1]

    yield run
    for command in commands:
        command.end_everything()


@pytest.fixture
def cluster_file(tmp_path: Path) -> Path:
    """Three brokers on free ports."""
    return written(tmp_path, brokers=3)


def written(directory: Path, *, brokers: int, data_dir: str = "data", more: str = "") -> Path:
    file = directory / "cluster.toml"
    tables = [f'[cluster]\ndata_dir = "{data_dir}"', *(f"[[broker]]\nid = {i + 1}\nport = 0" for i in range(brokers))]
    file.write_text("\n".join(tables) + "\n" + more)
    return file


def status(address: str) -> Any:
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as client, client.makefile("rwb") as lines:
        lines.write(b'{"op":"status"}\n')
        lines.flush()
        return json.loads(lines.readline())


def linked(address: str) -> list[int]:
    try:
        return list(status(address)["linked"])
    except (OSError, ValueError):
        return []


def files_of(data_dir: Path) -> list[str]:
    return sorted(str(path.relative_to(data_dir)) for path in data_dir.rglob("*") if path.is_file())


def assert_gone(command: Command, own_tmp: Path, data_dir: Path) -> None:
    """No process, no socket, no lock; only what the brokers are to keep."""
    wait_until(lambda: not command.left(), lambda: f"left: {command.left()}")
    assert list(own_tmp.iterdir()) == []
    kept = ("boot", "meta.properties", "reserve", "votes")
    found = [name for name in files_of(data_dir) if "/__cluster_metadata-0/" not in name]
    assert found == [*(f"{broker}/{name}" for broker in (1, 2, 3) for name in kept), "formation"]


# -- starting ------------------------------------------------------------------------------------------------------


def test_a_cluster_starts_says_so_once_and_stops_on_sigterm(
    start: Start, cluster_file: Path, own_tmp: Path, tmp_path: Path
) -> None:
    command = start(cluster_file)
    addresses = command.ready().split(",")
    answers = [status(address) for address in addresses]
    assert [answer["broker"] for answer in answers] == [1, 2, 3]
    assert [answer["linked"] for answer in answers] == [[2, 3], [1, 3], [1, 2]]
    assert len({command.launcher.pid, *(answer["pid"] for answer in answers)}) == 4
    command.launcher.send_signal(signal.SIGTERM)
    assert command.ended() == 0
    assert READY.fullmatch(command.stdout)
    assert_gone(command, own_tmp, tmp_path / "data")
    lines = command.stderr.splitlines()
    assert all(LOG_LINE.fullmatch(line) for line in lines), command.stderr
    assert {"launcher", "broker=1", "broker=2", "broker=3"} <= {line.split()[2] for line in lines}


def test_ctrl_c_reaches_every_process_and_stops_the_cluster_cleanly(
    start: Start, cluster_file: Path, own_tmp: Path, tmp_path: Path
) -> None:
    command = start(cluster_file, group=True)
    command.ready()
    os.killpg(command.launcher.pid, signal.SIGINT)
    assert command.ended() == 0
    assert "Traceback" not in command.stderr
    assert_gone(command, own_tmp, tmp_path / "data")


def test_sigterm_for_every_process_at_once_stops_the_cluster_cleanly(
    start: Start, cluster_file: Path, own_tmp: Path, tmp_path: Path
) -> None:
    """As a service manager does: some broker may be gone before the launcher knows that it is to stop."""
    command = start(cluster_file, group=True)
    command.ready()
    os.killpg(command.launcher.pid, signal.SIGTERM)
    assert command.ended() == 0
    assert "did not end within" not in command.stderr
    assert_gone(command, own_tmp, tmp_path / "data")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_for_every_process_while_the_cluster_starts_stops_it_too(
    start: Start, cluster_file: Path, own_tmp: Path, tmp_path: Path, number: signal.Signals
) -> None:
    command = start(cluster_file, group=True)
    command.logged("broker 3 started")
    command.look()
    os.killpg(command.launcher.pid, number)
    assert command.ended() == 0
    assert command.stdout == ""
    assert "Traceback" not in command.stderr
    wait_until(lambda: not command.left(), lambda: f"left: {command.left()}")
    assert list(own_tmp.iterdir()) == []
    assert not list((tmp_path / "data").rglob(".lock"))


def test_a_signal_between_a_brokers_death_and_its_restart_stops_the_cluster_at_once(
    start: Start, cluster_file: Path, own_tmp: Path
) -> None:
    command = start(cluster_file)
    command.ready()
    os.kill(command.pid_of(2), signal.SIGSTOP)  # keeps the cluster stopping for as long as the test needs it to
    os.kill(command.pid_of(1), signal.SIGKILL)
    command.logged("restarting broker 1")
    command.launcher.send_signal(signal.SIGTERM)
    wait_until(lambda: not psutil.pid_exists(command.pid_of(3)), lambda: "broker 3 does not stop")
    os.kill(command.pid_of(2), signal.SIGCONT)
    assert command.ended() == 0
    assert "did not end within" not in command.stderr, "nobody was waited for"
    assert list(own_tmp.iterdir()) == []


@pytest.mark.slow
def test_ports_and_directories_are_kept_when_the_cluster_is_started_again(
    start: Start, cluster_file: Path, tmp_path: Path
) -> None:
    def life() -> tuple[str, list[DirectoryIdentity]]:
        command = start(cluster_file)
        bootstrap = command.ready()
        identities = [DirectoryIdentity.of(tmp_path / "data" / str(broker), broker) for broker in (1, 2, 3)]
        command.launcher.terminate()
        assert command.ended() == 0
        return bootstrap, identities

    assert life() == life()


def test_help_and_version(start: Start) -> None:
    command = start("--help")
    assert command.ended() == 0
    assert "cluster.toml" in command.stdout
    assert "--check" in command.stdout
    command = start("--version")
    assert command.ended() == 0
    assert command.stdout.startswith("barnabas ")


def test_check_of_a_good_file_starts_nothing(start: Start, cluster_file: Path, own_tmp: Path, tmp_path: Path) -> None:
    command = start(cluster_file, "--check")
    assert command.ended() == 0
    assert command.stdout == f"{cluster_file}: ok: 3 brokers, 0 topics, 0 partitions\n"
    assert command.stderr == ""
    assert list(own_tmp.iterdir()) == []
    assert not (tmp_path / "data").exists()


# -- bad files, bad machines ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", [(), ("--check",)], ids=["start", "check"])
def test_every_mistake_in_the_file_is_told_in_a_line_and_nothing_starts(
    start: Start, tmp_path: Path, own_tmp: Path, check: tuple[str, ...]
) -> None:
    file = written(tmp_path, brokers=2, more='[[broker]]\nid = 2\nport = "9092"\n[[topic]]\nnam = "orders"\n')
    command = start(file, *check)
    assert command.ended() == 2
    assert command.stdout == ""
    lines = command.stderr.splitlines()
    keys = ["broker[3].port", "broker[3].id", "topic[1].nam", "topic[1].name"]
    assert sorted(line.split(": ")[1] for line in lines) == sorted(keys)
    assert all(line.startswith(f"{file}: ") for line in lines)
    assert list(own_tmp.iterdir()) == []
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(None, "no such file"), ("[[broker]\n", "not TOML"), ("", "broker: ")],
    ids=["missing", "not TOML", "empty"],
)
def test_an_unusable_file_is_told_in_one_line(
    start: Start, tmp_path: Path, content: str | None, complaint: str
) -> None:
    file = tmp_path / "some.toml"
    if content is not None:
        file.write_text(content)
    command = start(file)
    assert command.ended() == 2
    assert command.stdout == ""
    assert len(command.stderr.splitlines()) == 1
    assert command.stderr.startswith(f"{file}: ")
    assert complaint in command.stderr


def test_a_port_in_use_and_a_file_in_the_way_are_told_together(start: Start, tmp_path: Path, own_tmp: Path) -> None:
    (tmp_path / "data").touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        file = written(tmp_path, brokers=1, more=f"[[broker]]\nid = 2\nport = {port}\n")
        command = start(file)
        assert command.ended() == 2
    assert command.stdout == ""
    in_the_way, in_use = command.stderr.splitlines()
    assert in_the_way.startswith(f'{file}: cluster.data_dir: "{tmp_path}/data" is not a directory')
    assert in_use == (f"{file}: broker[2].port: {port} is in use on 127.0.0.1; stop what uses it or give another port")
    assert list(own_tmp.iterdir()) == []


def test_a_second_cluster_on_the_same_directory_is_refused_and_the_first_one_untouched(
    start: Start, cluster_file: Path, own_tmp: Path
) -> None:
    first = start(cluster_file)
    addresses = first.ready().split(",")
    second = start(cluster_file)
    assert second.ended() == 2
    assert second.stdout == ""
    (line,) = second.stderr.splitlines()
    assert line.startswith(f"{cluster_file}: cluster.data_dir: ")
    assert f"in use by another cluster, pid {first.launcher.pid};" in line
    assert [status(address)["linked"] for address in addresses] == [[2, 3], [1, 3], [1, 2]]
    assert len(list(own_tmp.iterdir())) == 1


def test_a_directory_of_another_broker_is_refused_in_one_line_before_anything_starts(
    start: Start, cluster_file: Path, own_tmp: Path, tmp_path: Path
) -> None:
    DirectoryIdentity.of(tmp_path / "data" / "2", 7)
    command = start(cluster_file)
    assert command.ended() == 2
    assert command.stdout == ""
    (line,) = command.stderr.splitlines()
    assert line.startswith(f"{cluster_file}: data_dir: ")
    assert "belongs to broker 7, not 2; give broker 2 its own data_dir" in line
    assert list(own_tmp.iterdir()) == []


@pytest.mark.slow
def test_a_broker_that_can_never_start_is_given_up_and_the_cluster_with_it(
    start: Start, cluster_file: Path, own_tmp: Path, tmp_path: Path
) -> None:
    (tmp_path / "data" / "2").mkdir(parents=True)
    (tmp_path / "data" / "2" / "votes").write_text("no vote journal")
    command = start(cluster_file)
    assert command.ended() == 1
    assert command.stdout == ""
    assert command.stderr.splitlines()[-1].startswith(f"broker 2 died {UNREADY_DEATHS_MAX} times without getting ready")
    assert command.stderr.count("is no vote journal of a version known here") == UNREADY_DEATHS_MAX
    assert "Traceback" not in command.stderr
    wait_until(lambda: not command.left(), lambda: f"left: {command.left()}")
    assert list(own_tmp.iterdir()) == []
    assert not list((tmp_path / "data").rglob(".lock"))


# -- deaths ----------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_killed_broker_comes_back_however_often_it_is_killed(start: Start, cluster_file: Path) -> None:
    """More often than a broker that never gets ready may die: this one was."""
    command = start(cluster_file)
    bootstrap = command.ready()
    addresses = bootstrap.split(",")
    for death in range(1, UNREADY_DEATHS_MAX + 2):
        pid = command.pid_of(2)
        os.kill(pid, signal.SIGKILL)
        command.logged("broker 2 ended: killed by SIGKILL", times=death)
        for broker in (1, 3):
            command.logged(f"broker={broker} link: broker 2 is down", times=death)
        wait_until(lambda: linked(addresses[1]) == [1, 3], lambda: command.stderr)
        assert status(addresses[1])["pid"] == command.pid_of(2) != pid
        wait_until(lambda: [linked(a) for a in addresses] == [[2, 3], [1, 3], [1, 2]], lambda: command.stderr)
    waits = [float(wait) for wait in re.findall(r"restarting broker 2 in ([\d.]+) s", command.stderr)]
    for before, wait in pairwise(waits):  # it begins again with a broker that lived long enough, as on a busy machine
        assert wait in (2 * before, waits[0]), "a broker that dies again and again is restarted more and more slowly"
    assert len(command.left()) == 4, "three brokers and the tracker of multiprocessing"
    command.launcher.terminate()
    assert command.ended() == 0
    assert command.stdout == f"ready: bootstrap {bootstrap}\n"


@pytest.mark.slow
def test_a_paused_broker_is_given_up_by_its_peers_and_linked_again_when_it_goes_on(
    start: Start, cluster_file: Path
) -> None:
    command = start(cluster_file)
    addresses = command.ready().split(",")
    os.kill(command.pid_of(2), signal.SIGSTOP)
    for broker in (1, 3):
        command.logged(f"broker={broker} link: broker 2 is down: silent for")
    silences = re.findall(r"broker 2 is down: silent for ([\d.]+) s", command.stderr)
    assert all(float(silent_s) >= SILENCE_SECONDS for silent_s in silences)
    assert [linked(addresses[0]), linked(addresses[2])] == [[3], [1]]
    os.kill(command.pid_of(2), signal.SIGCONT)
    wait_until(lambda: [linked(a) for a in addresses] == [[2, 3], [1, 3], [1, 2]], lambda: command.stderr)
    assert "launcher: broker 2 ended" not in command.stderr
    command.launcher.terminate()
    assert command.ended() == 0


def test_a_paused_launcher_does_not_end_its_cluster(start: Start, cluster_file: Path) -> None:
    command = start(cluster_file)
    addresses = command.ready().split(",")
    command.launcher.suspend()
    os.kill(command.pid_of(2), signal.SIGKILL)
    wait_until(lambda: linked(addresses[0]) == [3], lambda: command.stderr)
    command.launcher.resume()
    wait_until(lambda: [linked(a) for a in addresses] == [[2, 3], [1, 3], [1, 2]], lambda: command.stderr)
    command.launcher.terminate()
    assert command.ended() == 0


@pytest.mark.slow
def test_brokers_end_when_their_launcher_is_killed_and_the_next_start_clears_up(
    start: Start, cluster_file: Path, own_tmp: Path, tmp_path: Path
) -> None:
    command = start(cluster_file)
    bootstrap = command.ready()
    (left_behind,) = own_tmp.iterdir()
    command.launcher.kill()
    wait_until(lambda: not command.left(), lambda: f"left: {command.left()}")
    for broker in (1, 2, 3):
        assert f"broker={broker} broker: the launcher is gone; ending" in command.stderr
    assert [path.name for path in left_behind.iterdir()] == ["launcher.sock"]
    again = start(cluster_file)
    assert again.ready() == bootstrap
    assert not left_behind.exists()
    again.launcher.terminate()
    assert again.ended() == 0
    assert_gone(again, own_tmp, tmp_path / "data")


def test_brokers_that_are_still_starting_end_when_their_launcher_is_killed(
    start: Start, cluster_file: Path, tmp_path: Path
) -> None:
    command = start(cluster_file)
    command.logged("broker 3 started")
    command.look()
    command.launcher.kill()
    wait_until(lambda: not command.left(), lambda: f"left: {command.left()}")
    assert command.stdout == ""


# -- a broker that does not stop -------------------------------------------------------------------------------------


def test_a_second_signal_does_not_wait_for_a_broker_that_does_not_stop(
    start: Start, cluster_file: Path, own_tmp: Path
) -> None:
    command = start(cluster_file)
    command.ready()
    os.kill(command.pid_of(2), signal.SIGSTOP)
    command.launcher.send_signal(signal.SIGTERM)
    wait_until(lambda: not psutil.pid_exists(command.pid_of(3)), lambda: "broker 3 does not stop")
    assert not command.over
    command.launcher.send_signal(signal.SIGTERM)
    assert command.ended() == 1
    assert "did not end within" not in command.stderr, "nobody was waited for"
    wait_until(lambda: not command.left(), lambda: f"left: {command.left()}")
    assert list(own_tmp.iterdir()) == []


@pytest.mark.slow
def test_a_broker_that_does_not_stop_is_killed_in_the_end(start: Start, cluster_file: Path, own_tmp: Path) -> None:
    command = start(cluster_file)
    command.ready()
    os.kill(command.pid_of(2), signal.SIGSTOP)
    command.launcher.send_signal(signal.SIGTERM)
    assert command.ended() == 0
    assert f"broker 2 did not end within {STOP_SECONDS:g} s; killing it" in command.stderr
    wait_until(lambda: not command.left(), lambda: f"left: {command.left()}")
    assert list(own_tmp.iterdir()) == []


def test_the_requests_of_a_client_are_logged_if_asked_for_and_no_others(start: Start, tmp_path: Path) -> None:
    command = start(written(tmp_path, brokers=1), "--trace", "order-service")
    host, _, port = command.ready().partition(":")
    for client_id in ("somebody", "order-service"):
        client = ClientConnection(client_id)
        with socket.create_connection((host, int(port)), timeout=20) as sock:
            sock.sendall(b"".join(client.send(API_VERSIONS, ApiVersionsRequest(), 0)))
            assert sock.recv(1)
    command.logged("request: api=ApiVersions version=0 correlation=0 client=order-service from=127.0.0.1:")
    assert "client=somebody" not in command.stderr


def test_a_cluster_whose_log_nobody_reads_serves_and_stops(tmp_path: Path) -> None:
    """Its stderr is a pipe that is full from the beginning, as of a harness that does not read it."""
    file = written(tmp_path, brokers=3)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, bytes(4096))
    os.set_blocking(writer, True)
    out = tmp_path / "out"
    with out.open("wb") as output:
        command = [sys.executable, "-m", command_module.__name__, str(file), "--log-level", "debug"]
        launcher = psutil.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=writer)
    try:
        wait_until(lambda: READY.fullmatch(out.read_text()) is not None, out.read_text, seconds=60)
        addresses = out.read_text().split()[-1].split(",")
        assert [len(status(address)["linked"]) for address in addresses] == [2, 2, 2]
        launcher.send_signal(signal.SIGTERM)
        assert launcher.wait(timeout=30) == 0
    finally:
        for process in [*(launcher.children(recursive=True) if launcher.is_running() else []), launcher]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        os.close(reader)
        os.close(writer)
