"""`running.json` is believed only while the directory's lock says the same."""

from __future__ import annotations

import os
from pathlib import Path

import attrs
import pytest

from actors.broker.directory_lock import DirectoryLock
from actors.cluster_file.config import BrokerConfig, ClusterConfig, KafkaConfig
from actors.process.running_file import FILE_NAME, RunningCluster


def running(data_dir: Path) -> RunningCluster:
    brokers = (BrokerConfig(1, 0, data_dir / "1"), BrokerConfig(2, 0, data_dir / "2"))
    return RunningCluster.of(ClusterConfig("test", "127.0.0.1", data_dir, KafkaConfig(), brokers, ()))


def test_a_cluster_that_runs_is_found_with_its_brokers(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path):
        made = attrs.evolve(running(tmp_path), bootstrap="127.0.0.1:9092")
        made.write(tmp_path)
        found = RunningCluster.read(tmp_path)
        assert found == made
        assert found.pid == os.getpid()
        assert found.brokers == {1: tmp_path / "1", 2: tmp_path / "2"}
        RunningCluster.remove(tmp_path)
        assert RunningCluster.read(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_cluster_has_left_is_not_believed(tmp_path: Path) -> None:
    running(tmp_path).write(tmp_path)
    assert RunningCluster.read(tmp_path) is None
    with DirectoryLock(tmp_path):
        attrs.evolve(running(tmp_path), pid=os.getpid() + 1).write(tmp_path)
        assert RunningCluster.read(tmp_path) is None


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"pid":1}', b"\xff"])
def test_a_damaged_file_is_as_good_as_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    assert RunningCluster.read(tmp_path) is None


def test_a_file_that_cannot_be_written_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    running(tmp_path).write(tmp_path / "missing")
    (record,) = caplog.records
    assert record.getMessage().endswith(
        "running.json cannot be written (No such file or directory): `barnabas down` will not find this cluster"
    )
