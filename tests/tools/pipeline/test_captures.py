"""External data is written to a topic once, even if a capture is killed in between."""

from __future__ import annotations

import json
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from actors.harness import Cluster
from tools.client.consumer import Consumer
from tools.client.offsets import EARLIEST
from tools.client.producer import Producer
from tools.pipeline.capture import Capture, CaptureError, Piece
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
    """What readers of committed records see."""
    with Consumer(cluster.bootstrap, isolation="read_committed") as consumer:
        wheres = consumer.partitions(topic)
        ends = consumer.end_offsets(wheres)
        consumer.assign(dict.fromkeys(wheres, EARLIEST))
        found: list[bytes | None] = []
        while any(consumer.position(where) < end for where, end in ends.items()):
            for records in consumer.poll(0.2).values():
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
    path.write_text("8\n")  # truncated and written again
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
        assert database.execute("SELECT * FROM barnabas_changes_items").fetchall() == []
        assert capture.once() == 0
        database.execute("DELETE FROM items WHERE id = 2")
        assert capture.once() == 1
    found = [json.loads(value or b"") for value in values(cluster, "changes")]
    assert [one["op"] for one in found] == ["insert", "insert", "update", "delete", "delete"]
    assert found[0]["after"] == {"id": 1, "name": "there before", "raw": "00FF"}
    assert (found[2]["before"]["name"], found[2]["after"]["name"]) == ("new", "newer")
    assert found[3]["after"] is None


def test_changes_wait_for_the_slowest_of_several_topics(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("CREATE TABLE items (id INTEGER PRIMARY KEY)")
        database.execute("INSERT INTO items VALUES (1), (2), (3)")
    one, two = (SqliteChanges(path, "items", topic) for topic in ("one", "two"))
    one.install()
    two.install()
    one.captured(3)
    assert [piece.position for piece in two.pieces(None)] == [1, 2, 3]
    two.captured(2)
    late = SqliteChanges(path, "items", "late")
    late.install()
    with pytest.raises(CaptureError, match="changes 1 to 2 were captured by others and are gone"):
        list(late.pieces(None))
    assert [piece.position for piece in two.pieces(2)] == [3]


def test_a_table_whose_changes_begin_anew_is_not_taken_for_the_one_it_was(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    changes = SqliteChanges(path, "items")
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("CREATE TABLE items (id INTEGER PRIMARY KEY)")
        database.execute("INSERT INTO items VALUES (1), (2), (3)")
        changes.install()
        changes.captured(3)
        database.execute("DROP TABLE barnabas_changes_items")
        for op in ("insert", "update", "delete"):
            database.execute(f"DROP TRIGGER barnabas_changes_items_{op}")
        changes.install()
        assert [piece.position for piece in changes.pieces(None)] == [1, 2, 3]
        with pytest.raises(CaptureError, match="change 17 was captured, and there were never so many"):
            list(changes.pieces(17))


class Interrupted(FileTail):
    """A file during whose capture something happens, after the first line."""

    def __init__(self, path: Path, happens: Callable[[], object]) -> None:
        super().__init__(path)
        self._happens = happens

    def pieces(self, position: Any) -> Iterator[Piece]:
        for piece in super().pieces(position):
            yield piece
            self._happens()


def test_what_a_predecessor_still_has_under_way_is_refused(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if it ran on another machine: it read a line, another captured the file, then it goes on to write."""
    cluster.admin.create_topic("fenced", partitions=1, replication_factor=1)
    path = tmp_path / "app.log"
    path.write_text("one\n")

    def another_captures() -> None:
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(tempfile, "tempdir", str(tmp_path / "elsewhere"))
            assert Capture(cluster.bootstrap, "fenced", FileTail(path)).once() == 1

    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(CaptureError, match="is now captured into fenced by another"):
        Capture(cluster.bootstrap, "fenced", Interrupted(path, another_captures)).once()
    assert values(cluster, "fenced") == [b"one"]


def test_records_behind_an_open_transaction_of_another_are_waited_for(cluster: Cluster, tmp_path: Path) -> None:
    cluster.admin.create_topic("open", partitions=1, replication_factor=1)
    path = tmp_path / "app.log"
    path.write_text("one\n")
    with Producer(cluster.bootstrap, transactional_id="another") as producer:
        producer.init_transactions()
        producer.begin()
        producer.send("open", b"another's").result()
        capture = Capture(cluster.bootstrap, "open", FileTail(path))
        ending = threading.Timer(0.3, producer.commit)
        ending.start()
        assert capture.once() == 1
        assert capture.once() == 0
        ending.join()
    assert values(cluster, "open") == [b"another's", b"one"]


def test_a_source_is_captured_by_one_at_a_time(cluster: Cluster, tmp_path: Path) -> None:
    cluster.admin.create_topic("alone", partitions=1, replication_factor=1)
    capture = Capture(cluster.bootstrap, "alone", FileTail(tmp_path / "x.log"))
    with capture._alone(), pytest.raises(CaptureError, match="already"):
        capture.once()
