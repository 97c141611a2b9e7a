"""What the machine may have against a cluster file, and that looking changes nothing on it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from actors.cluster_file.config import BrokerConfig, ClusterConfig, KafkaConfig
from actors.process.preflight import check_machine

FILE = Path("cluster.toml")


def config_of(data_dir: Path, *brokers: BrokerConfig, host: str = "127.0.0.1") -> ClusterConfig:
    return ClusterConfig("test", host, data_dir, KafkaConfig(), brokers, (), FILE)


def brokers_in(data_dir: Path, *ports: int) -> list[BrokerConfig]:
    return [BrokerConfig(number, port, data_dir / str(number)) for number, port in enumerate(ports, start=1)]


def test_a_good_machine_has_no_problems_and_gets_no_directories(tmp_path: Path) -> None:
    data_dir = tmp_path / "a" / "b"
    assert check_machine(config_of(data_dir, *brokers_in(data_dir, 0, 0))) == ()
    assert list(tmp_path.iterdir()) == []


def test_directories_that_exist_are_left_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    assert check_machine(config_of(tmp_path, *brokers_in(tmp_path, 0))) == ()
    assert list(tmp_path.rglob("*")) == [tmp_path / "1"]


def test_a_file_in_the_way_of_all_brokers_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    data_dir = tmp_path / "file" / "data"
    assert check_machine(config_of(data_dir, *brokers_in(data_dir, 0, 0))) == (
        (
            f'cluster.toml: cluster.data_dir: "{tmp_path}/file" is not a directory; '
            "move it away or choose another directory"
        ),
    )


def test_a_file_in_the_way_of_one_broker_is_told_at_that_broker(tmp_path: Path) -> None:
    (tmp_path / "2").touch()
    assert check_machine(config_of(tmp_path, *brokers_in(tmp_path, 0, 0))) == (
        (
            f'cluster.toml: broker[2].data_dir: "{tmp_path}/2" is not a directory; '
            "move it away or choose another directory"
        ),
    )


def test_a_directory_without_permission_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a stand-in for the refusal: root may write everywhere."""
    monkeypatch.setattr("os.access", lambda path, mode: path != tmp_path)
    data_dir = tmp_path / "data"
    assert check_machine(config_of(data_dir, *brokers_in(data_dir, 0))) == (
        f'cluster.toml: cluster.data_dir: "{tmp_path}" is not writable; allow it or choose another directory',
    )


def test_a_place_that_takes_no_directory_is_told_though_it_may_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in /proc, which root may write to, and in which nothing can be made."""

    def refuse(prefix: str, dir: Path) -> str:  # noqa: A002  as tempfile names it
        raise FileNotFoundError(2, "No such file or directory", str(dir / prefix))

    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    data_dir = tmp_path / "nope"
    assert check_machine(config_of(data_dir, *brokers_in(data_dir, 0))) == (
        (
            f'cluster.toml: cluster.data_dir: "{tmp_path}" takes no new directory (No such file or directory); '
            "choose another directory"
        ),
    )


def test_a_name_too_long_for_the_disk_is_told(tmp_path: Path) -> None:
    data_dir = tmp_path / ("x" * 256)
    (line,) = check_machine(config_of(data_dir, BrokerConfig(1, 0, tmp_path / "1")))
    assert line.startswith("cluster.toml: cluster.data_dir: ")
    assert line.endswith(" cannot be used (File name too long); choose another directory")


def test_a_port_in_use_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        assert check_machine(config_of(tmp_path, *brokers_in(tmp_path, 0, port))) == (
            f"cluster.toml: broker[2].port: {port} is in use on 127.0.0.1; stop what uses it or give another port",
        )


def test_a_port_in_use_is_told_for_a_host_name_and_for_all_interfaces(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        for host in ("localhost", "0.0.0.0"):
            (line,) = check_machine(config_of(tmp_path, *brokers_in(tmp_path, port), host=host))
            assert line.startswith(f"cluster.toml: broker[1].port: {port} is in use on {host}; ")


def test_a_free_port_is_free_again_after_the_look(tmp_path: Path) -> None:
    """The port is held, not listened on, by a socket that shares it: no other test can take it meanwhile."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        config = config_of(tmp_path, *brokers_in(tmp_path, held.getsockname()[1]))
        assert check_machine(config) == ()
        assert check_machine(config) == ()
        held.listen()
        assert len(check_machine(config)) == 1


def test_a_port_that_may_not_be_bound_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a stand-in for the refusal: root may bind low ports."""

    class Refusing(socket.socket):
        def bind(self, address: object) -> None:
            if isinstance(address, tuple) and address[1] != 0:
                raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("socket.socket", Refusing)
    assert check_machine(config_of(tmp_path, *brokers_in(tmp_path, 80))) == (
        "cluster.toml: broker[1].port: 80 cannot be bound on 127.0.0.1 (Permission denied); give another port",
    )


def test_an_address_of_another_machine_is_told_once(tmp_path: Path) -> None:
    config = config_of(tmp_path, *brokers_in(tmp_path, 9092, 9093), host="192.0.2.1")  # kept for documentation
    assert check_machine(config) == (
        (
            'cluster.toml: cluster.host: "192.0.2.1" cannot be bound (Cannot assign requested address); '
            "give an address of this machine"
        ),
    )


def test_a_host_without_an_address_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*args: object, **options: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", unknown)
    assert check_machine(config_of(tmp_path, *brokers_in(tmp_path, 9092), host="nowhere.invalid")) == (
        (
            'cluster.toml: cluster.host: "nowhere.invalid" cannot be resolved (Name or service not known); '
            "give an address of this machine"
        ),
    )


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        config = config_of(tmp_path / "file", BrokerConfig(1, port, tmp_path / "1"))
        assert [line.split(": ")[1] for line in check_machine(config)] == ["cluster.data_dir", "broker[1].port"]
