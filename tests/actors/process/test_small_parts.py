"""Parts of processes that ordinary clusters seldom reach: odd signals, limits of the system, extra actors."""

from __future__ import annotations

import resource
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing

from actors import cluster
from actors.broker.broker import ExtraActor, dialled
from actors.broker.directory_lock import DirectoryInUse
from actors.cluster import FAILED, main
from actors.process import disks, hosts, launcher, logs
from actors.process.errors import FormationError
from actors.process.formation import FILE_NAME, read_formation
from actors.process.launcher import BACKOFF_SECONDS, STEADY_SECONDS, UNREADY_DEATHS_MAX, BrokerGivenUp, Launcher


def test_a_signal_is_named_if_it_has_a_name() -> None:
    assert hosts._signal_name(signal.SIGKILL) == "SIGKILL"
    assert hosts._signal_name(signal.SIGRTMIN + 3) == f"signal {signal.SIGRTMIN + 3}"


@pytest.mark.parametrize(
    ("limits", "raised_to"),
    [((1024, 4096), 4096), ((1024, resource.RLIM_INFINITY), hosts.DESCRIPTORS_WANTED), ((4096, 4096), None)],
)
def test_the_limit_of_descriptors_is_raised_as_far_as_the_system_allows(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], raised_to: int | None
) -> None:
    raised: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _which: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _which, wanted: raised.append(wanted))
    hosts._allow_descriptors()
    assert raised == ([] if raised_to is None else [(raised_to, limits[1])])


@pytest.mark.parametrize("error", [ValueError("current limit exceeds maximum limit"), OSError(22, "Invalid argument")])
@pytest.mark.parametrize(("allowed", "raised_to"), [(10_240, [8192]), (1024, [])])
def test_a_system_that_allows_fewer_descriptors_than_its_hard_limit_says_is_asked_for_fewer(
    monkeypatch: pytest.MonkeyPatch, error: Exception, allowed: int, raised_to: list[int]
) -> None:
    raised: list[int] = []

    def raise_to(_which: int, wanted: tuple[int, int]) -> None:
        if wanted[0] > allowed:
            raise error
        raised.append(wanted[0])

    monkeypatch.setattr(resource, "getrlimit", lambda _which: (1024, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", raise_to)
    hosts._allow_descriptors()
    assert raised == raised_to


def test_an_extra_actor_must_be_an_actor() -> None:
    with pytest.raises(TypeError, match="collections:OrderedDict is no actor class"):
        ExtraActor(kind="extra", path="collections:OrderedDict").load()


@pytest.mark.parametrize(("host", "told"), [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("10.1.2.3", "10.1.2.3")])
def test_clients_are_not_sent_to_a_wildcard(host: str, told: str) -> None:
    assert dialled(host) == told


@pytest.mark.parametrize(
    ("error", "said", "code"),
    [
        (DirectoryInUse(cast("Any", "data"), "process 7"), "data is in use by another cluster, process 7", 2),
        (BrokerGivenUp("broker 1 died 5 times"), "broker 1 died 5 times", FAILED),
    ],
)
def test_what_ends_a_cluster_is_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, said: str, code: int
) -> None:
    def fail(*_: object) -> None:
        raise ExceptionGroup("", [error])

    monkeypatch.setattr(cluster, "load", lambda _file: SimpleNamespace(file="cluster.toml", log_format="text"))
    monkeypatch.setattr(cluster, "check_machine", lambda _config: [])
    monkeypatch.setattr(logs, "configure", lambda _level, form: None)
    monkeypatch.setattr(trio, "run", fail)
    assert main(["cluster.toml"]) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


class Lives:
    """What `Launcher.keep_alive` looks at: lives that last so long, and whether they got ready."""

    def __init__(self, *lives: tuple[float, bool]) -> None:
        self._lives = list(lives)
        self._stopping = trio.Event()
        self.pauses: list[float] = []
        self._node = SimpleNamespace(log=SimpleNamespace(warning=lambda *said: self.pauses.append(said[-1])))

    async def live_once(self, _broker: int) -> bool:
        if not self._lives:
            self._stopping.set()
            return True
        seconds, was_ready = self._lives.pop(0)
        await trio.sleep(seconds)
        return was_ready


async def test_a_broker_that_never_gets_ready_ends_the_cluster(autojump_clock: trio.testing.MockClock) -> None:
    assert autojump_clock.autojump_threshold == 0
    lives = Lives((1.0, True), *[(0.1, False)] * UNREADY_DEATHS_MAX)
    with pytest.raises(BrokerGivenUp, match=f"broker 1 died {UNREADY_DEATHS_MAX} times without getting ready"):
        await Launcher.keep_alive(cast("Any", lives), 1)


async def test_a_broker_that_lived_for_a_while_is_restarted_soon(autojump_clock: trio.testing.MockClock) -> None:
    assert autojump_clock.autojump_threshold == 0
    lives = Lives((0.1, True), (0.1, True), (STEADY_SECONDS, True), (0.1, True))
    await Launcher.keep_alive(cast("Any", lives), 1)
    assert lives.pauses == [BACKOFF_SECONDS, 2 * BACKOFF_SECONDS, BACKOFF_SECONDS, 2 * BACKOFF_SECONDS]
    assert launcher.BACKOFF_SECONDS_MAX > 2 * BACKOFF_SECONDS


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"version":1}', b'{"version":1,"voters":[[1]]}'])
def test_a_damaged_formation_is_not_taken_for_a_new_cluster(tmp_path: Path, data: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(data)
    with pytest.raises(FormationError, match=f"{FILE_NAME} is damaged .*; restore it from a copy"):
        read_formation(tmp_path)


@pytest.mark.parametrize("data", [b"", b"[]", b'{"version":1}'])
def test_a_damaged_note_of_where_the_data_was_is_named(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "cluster.toml"
    (tmp_path / f"cluster.toml{disks.SUFFIX}").write_bytes(data)
    with pytest.raises(FormationError, match=f"cluster.toml{disks.SUFFIX} is damaged .*; remove it if"):
        disks._noted_mount(disks._note_beside(file), tmp_path / "data")


def test_a_note_of_a_later_version_is_not_read(tmp_path: Path) -> None:
    note = disks._note_beside(tmp_path / "cluster.toml")
    note.write_bytes(b'{"version":99}')
    with pytest.raises(FormationError, match="has version 99; this Barnabas knows"):
        disks._noted_mount(note, tmp_path / "data")
