"""Outside data comes into a topic once, whatever ends in between."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from actors.harness import Cluster
from tools.client.consumer import Consumer
from tools.client.offsets import EARLIEST
from tools.client.producer import Producer
from tools.pipeline.capture import Capture, CaptureError
from tools.pipeline.file_tail import FileTail
from tools.pipeline.sqlite_changes import SqliteChanges


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def lock_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Are where they go when the test is over."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def values(cluster: Cluster, topic: str) -> list[bytes | None]:
    with Consumer(cluster.bootstrap) as consumer:
        wheres = consumer.partitions(topic)
        count = sum(consumer.end_offsets(wheres).values())
        consumer.assign(dict.fromkeys(wheres, EARLIEST))
        found: list[bytes | None] = []
        while len(found) < count:
            for records in consumer.poll(1.0).values():
                found += [record.value for record in records]
    return found


def test_lines_are_captured_once_through_restarts_and_rotation(cluster: Cluster, tmp_path: Path) -> None:
    cluster.admin.create_topic("lines", partitions=3, replication_factor=1)
    path = tmp_path / "app.log"
    path.write_text("one\ntwo\nthr")

    def captured() -> int:
        return Capture(cluster.bootstrap, "lines", FileTail(path)).once()  # as after a restart

    assert captured() == 2
    assert captured() == 0
    with path.open("a") as file:
        file.write("ee\nfour\n")
    path.rename(tmp_path / "app.log.2")
    (tmp_path / "app.log.1").write_text("five\n")  # came and went between two looks
    path.write_text("six\nseven\n")
    assert captured() == 5
    path.write_text("8\n")  # truncated and written anew
    assert captured() == 1
    assert values(cluster, "lines") == [b"one", b"two", b"three", b"four", b"five", b"six", b"seven", b"8"]


def test_the_last_position_is_found_behind_records_of_others(cluster: Cluster, tmp_path: Path) -> None:
    cluster.admin.create_topic("shared", partitions=1, replication_factor=1)
    path = tmp_path / "a.log"
    path.write_text("one\n")
    capture = Capture(cluster.bootstrap, "shared", FileTail(path))
    assert capture.once() == 1
    with Producer(cluster.bootstrap) as producer:
        for _ in range(2_500):
            producer.send("shared", b"x")
    assert capture.once() == 0


def test_changes_of_a_table_are_captured_once_and_in_order(cluster: Cluster, tmp_path: Path) -> None:
    cluster.admin.create_topic("changes", partitions=2, replication_factor=1)
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT, raw BLOB)")
        database.execute("INSERT INTO items VALUES (1, 'there before', x'00ff')")
        changes = SqliteChanges(path, "items")
        changes.install()
        changes.install()
        capture = Capture(cluster.bootstrap, "changes", changes)
        assert capture.once() == 1
        database.execute("INSERT INTO items VALUES (2, 'new', NULL)")
        database.execute("BEGIN")
        database.execute("INSERT INTO items VALUES (3, 'rolled back', NULL)")
        database.execute("ROLLBACK")
        database.execute("UPDATE items SET name = 'newer' WHERE id = 2")
        database.execute("DELETE FROM items WHERE id = 1")
        assert capture.once() == 3
        changes.forget(4)
        assert capture.once() == 0
        database.execute("DELETE FROM items WHERE id = 2")
        assert capture.once() == 1
    found = [json.loads(value or b"") for value in values(cluster, "changes")]
    assert [one["op"] for one in found] == ["insert", "insert", "update", "delete", "delete"]
    assert found[0]["after"] == {"id": 1, "name": "there before", "raw": "00FF"}
    assert (found[2]["before"]["name"], found[2]["after"]["name"]) == ("new", "newer")
    assert found[3]["after"] is None


def test_a_source_is_captured_by_one_at_a_time(cluster: Cluster, tmp_path: Path) -> None:
    cluster.admin.create_topic("alone", partitions=1, replication_factor=1)
    capture = Capture(cluster.bootstrap, "alone", FileTail(tmp_path / "x.log"))
    with capture._alone(), pytest.raises(CaptureError, match="already"):
        capture.once()
