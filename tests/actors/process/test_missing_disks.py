"""A disk that is not mounted is not taken for a new one: no empty cluster is formed in its place."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from actors.broker.identity import FILE_NAME as IDENTITY
from actors.cluster_file.config import BrokerConfig, ClusterConfig, KafkaConfig
from actors.cluster_file.facts import GROUP, ClusterFacts
from actors.process import disks
from actors.process.errors import FormationError
from actors.process.formation import FILE_NAME, facts_of

Mount = Callable[..., None]


@pytest.fixture
def mounted(monkeypatch: pytest.MonkeyPatch) -> Mount:
    """From now on filesystems are mounted here, and at /."""

    def mount(*places: Path) -> None:
        points = {"/", *map(str, places)}
        monkeypatch.setattr(os.path, "ismount", lambda path: str(path) in points)

    mount()
    return mount


def start(data_dir: Path, file: Path | None = None, *, own: Path | None = None) -> ClusterFacts:
    """As the launcher does; then every broker has a log of metadata."""
    data_dir.mkdir(parents=True, exist_ok=True)  # its lock is in it
    brokers = tuple(BrokerConfig(number, 0, (own or data_dir) / str(number)) for number in (1, 2, 3))
    facts = facts_of(ClusterConfig("c", "127.0.0.1", data_dir, KafkaConfig(), brokers, (), file))
    for broker in brokers:
        (broker.data_dir / GROUP).mkdir(exist_ok=True)
    return facts


def written(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir()) if directory.exists() else []


def test_a_cluster_whose_brokers_lost_everything_is_not_formed_anew(tmp_path: Path) -> None:
    data, own = tmp_path / "data", tmp_path / "disk"
    formed = start(data, own=own)
    shutil.rmtree(own)
    with pytest.raises(FormationError) as caught:
        start(data, own=own)
    assert str(caught.value) == (
        f"{data / FILE_NAME} says that a cluster was formed with brokers 1, 2, 3, and no broker's directory has any "
        f"data; mount their disks, or remove {data / FILE_NAME} to form a new, empty cluster"
    )
    assert not own.exists(), "nothing is written where a disk is missing"
    (data / FILE_NAME).unlink()
    assert start(data, own=own).first_voters != formed.first_voters


def test_a_first_start_that_was_interrupted_goes_on(tmp_path: Path) -> None:
    formed = start(tmp_path)
    for broker in (1, 2, 3):
        shutil.rmtree(tmp_path / str(broker) / GROUP)
    assert start(tmp_path).first_voters == formed.first_voters


def test_a_broker_with_an_empty_directory_begins_anew_where_it_was_and_is_refused_where_its_disk_is_missing(
    tmp_path: Path, mounted: Mount
) -> None:
    places = [tmp_path / str(broker) for broker in (1, 2, 3)]
    mounted(*places)
    formed = start(tmp_path)
    shutil.rmtree(places[1])
    assert start(tmp_path).first_voters == formed.first_voters, "the disk is there, and somebody has emptied it"
    shutil.rmtree(places[1])
    mounted(places[0], places[2])
    with pytest.raises(FormationError, match=f"{places[1]} is empty: it was on the filesystem mounted at {places[1]}"):
        start(tmp_path)
    assert written(places[1]) == []
    mounted(*places)
    start(tmp_path)


def test_a_directory_that_went_to_another_filesystem_with_its_data_is_taken_and_noted(
    tmp_path: Path, mounted: Mount
) -> None:
    start(tmp_path)
    mounted(tmp_path / "2")
    start(tmp_path)
    shutil.rmtree(tmp_path / "2")
    mounted()
    with pytest.raises(FormationError, match="mount it, or give the broker another data_dir"):
        start(tmp_path)


def test_a_data_directory_whose_disk_is_missing_is_found_out_by_a_note_beside_the_clusters_file(
    tmp_path: Path, mounted: Mount
) -> None:
    data, file = tmp_path / "disk" / "data", tmp_path / "etc" / "cluster.toml"
    file.parent.mkdir()
    file.touch()
    mounted(data.parent)
    start(data, file)
    note = file.with_name("cluster.toml.mount")
    shutil.rmtree(data.parent)
    mounted()
    with pytest.raises(FormationError) as caught:
        start(data, file)
    assert str(caught.value) == (
        f"{data} is empty: it was on the filesystem mounted at {data.parent} and is on / now; mount it, or remove "
        f"{note} to form a new, empty cluster here"
    )
    assert written(data) == []
    elsewhere = tmp_path / "elsewhere"
    start(elsewhere, file)
    note.unlink()
    start(data, file)


def test_who_removes_the_data_beside_the_clusters_file_gets_a_new_cluster_and_no_note(
    tmp_path: Path, mounted: Mount
) -> None:
    file = tmp_path / "cluster.toml"
    file.touch()
    formed = start(tmp_path / "data", file)
    assert written(tmp_path) == ["cluster.toml", "data"]
    shutil.rmtree(tmp_path / "data")
    assert start(tmp_path / "data", file).first_voters != formed.first_voters


def test_a_note_that_cannot_be_written_is_warned_of(
    tmp_path: Path, mounted: Mount, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "cluster.toml"
    mounted(tmp_path / "disk")

    class ReadOnly:
        def write_atomically(self, path: str, _data: bytes) -> None:
            raise OSError(30, "Read-only file system", path)

    monkeypatch.setattr(disks, "DiskFilesystem", ReadOnly)
    with caplog.at_level(logging.WARNING, "barnabas"):
        start(tmp_path / "disk" / "data", file)
    assert f"{file}.mount cannot be written (Read-only file system)" in caplog.text


def test_what_an_earlier_version_wrote_is_read(tmp_path: Path) -> None:
    formed = start(tmp_path)
    voters = [[voter.broker, voter.directory] for voter in formed.first_voters]
    (tmp_path / FILE_NAME).write_bytes(orjson.dumps({"version": 1, "voters": voters}))
    assert start(tmp_path).first_voters == formed.first_voters
    assert orjson.loads((tmp_path / FILE_NAME).read_bytes())["version"] == 3
    (tmp_path / FILE_NAME).write_bytes(orjson.dumps({"version": 9, "voters": voters}))
    with pytest.raises(FormationError, match="has version 9; this Barnabas knows 3"):
        start(tmp_path)
    assert (tmp_path / "1" / IDENTITY).exists()
