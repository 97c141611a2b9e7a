"""Every line of a file comes once, however the file is rotated, truncated and removed between two looks."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.pipeline.capture import CaptureError
from tools.pipeline.file_tail import FileTail
from tools.pipeline.read_file import ReadFile


class Reader:
    """Looks again and again, and after a restart with nothing but the position."""

    def __init__(self, path: Path) -> None:
        self.tail = FileTail(path)
        self.position: Any = None

    def look(self) -> list[str]:
        found = []
        for piece in self.tail.pieces(self.position):
            self.position = piece.position
            found.append((piece.value or b"").decode())
        return found

    def restart(self) -> None:
        self.tail.close()
        self.tail = FileTail(self.tail.path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.log"


@pytest.fixture
def reader(path: Path) -> Iterator[Reader]:
    made = Reader(path)
    yield made
    made.tail.close()


def again(_reader: Reader) -> None:
    """The same process looks again."""


RESTARTS = pytest.mark.parametrize("meanwhile", [again, Reader.restart])


@RESTARTS
def test_the_last_line_of_a_rotated_file_needs_no_end(
    path: Path, reader: Reader, meanwhile: Callable[[Reader], None]
) -> None:
    path.write_text("one\ntw")
    assert reader.look() == ["one"]
    meanwhile(reader)
    path.rename(path.with_name("app.log.1"))
    assert reader.look() == []
    path.touch()
    assert reader.look() == []  # nothing in the new one: the old one may still be written
    with path.with_name("app.log.1").open("a") as file:
        file.write("o")
    path.write_text("three\n")
    meanwhile(reader)
    assert reader.look() == ["two", "three"]


def test_a_file_that_is_rotated_before_its_first_line_ends_is_read(path: Path, reader: Reader) -> None:
    path.write_text("o")
    assert reader.look() == []
    with path.open("a") as file:
        file.write("ne\n")
    path.rename(path.with_name("app.log.1"))
    path.write_text("two\n")
    assert reader.look() == ["one", "two"]


def test_a_rotated_file_that_is_removed_while_the_new_one_is_empty_was_read(path: Path, reader: Reader) -> None:
    path.write_text("one\n")
    assert reader.look() == ["one"]
    rotated = path.rename(path.with_name("app.log.1"))
    path.touch()
    assert reader.look() == []
    with rotated.open("a") as file:
        file.write("two\n")
    rotated.unlink()
    assert reader.look() == ["two"]
    path.write_text("three\n")
    assert reader.look() == ["three"]


def test_a_removed_file_is_told_after_a_restart(path: Path, reader: Reader) -> None:
    path.write_text("one\n")
    assert reader.look() == ["one"]
    path.rename(path.with_name("other"))  # so that its inode is not used again
    reader.restart()
    path.write_text("two\n")
    with pytest.raises(CaptureError, match=r"read up to byte 4 is gone\. Put it back"):
        reader.look()
    compressed(path.with_name("app.log.1"), "else\n")
    with pytest.raises(CaptureError, match=r"is gone \(app\.log\.1\.gz cannot be it\)"):
        reader.look()


def compressed(path: Path, text: str) -> None:
    with gzip.open(f"{path}.gz", "wt") as file:
        file.write(text)
    path.unlink(missing_ok=True)


def test_a_file_that_is_compressed_while_it_is_open_was_read(path: Path, reader: Reader) -> None:
    path.write_text("one\n")
    assert reader.look() == ["one"]
    compressed(path.rename(path.with_name("app.log.1")), "one\n")
    path.write_text("two\n")
    assert reader.look() == ["two"]


def test_a_file_that_was_read_to_its_end_may_be_compressed(path: Path, reader: Reader) -> None:
    path.write_text("one\n")
    assert reader.look() == ["one"]
    reader.restart()
    path.rename(path.with_name("other"))
    ours = path.with_name("app.log.2")
    compressed(ours, "one\n")
    os.utime(f"{ours}.gz", ns=(1, 1))
    compressed(path.with_name("app.log.3"), "zero\n")
    os.utime(path.with_name("app.log.3.gz"), ns=(0, 0))
    path.write_text("three\n")
    compressed(path.with_name("app.log.1"), "two\n")
    with pytest.raises(CaptureError, match=r"app\.log\.1\.gz was compressed before it was read: gunzip it"):
        reader.look()
    path.with_name("app.log.1.gz").unlink()
    path.with_name("app.log.1").write_text("two\n")
    assert reader.look() == ["two", "three"]


def test_a_file_that_was_compressed_before_it_was_read_to_its_end_is_told(path: Path, reader: Reader) -> None:
    path.write_text("one\n")
    assert reader.look() == ["one"]
    reader.restart()
    path.rename(path.with_name("other"))
    compressed(path.with_name("app.log.1"), "one\ntwo\n")
    path.write_text("three\n")
    with pytest.raises(CaptureError, match=r"app\.log\.1\.gz was compressed when 4 bytes were read: gunzip it"):
        reader.look()


def test_a_copy_that_was_compressed_before_it_was_read_to_its_end_is_told(path: Path, reader: Reader) -> None:
    path.write_text("one\n")
    assert reader.look() == ["one"]
    compressed(path.with_name("app.log.1"), "one\ntwo\n")
    path.write_text("three\n")
    with pytest.raises(CaptureError, match="gunzip it"):
        reader.look()
    compressed(path.with_name("app.log.1"), "one\n")
    assert reader.look() == ["three"]


def test_a_file_that_came_between_and_was_compressed_is_told(path: Path, reader: Reader) -> None:
    path.write_text("one\n")
    assert reader.look() == ["one"]
    rotated = path.rename(path.with_name("app.log.2"))
    os.utime(rotated, ns=(0, 0))
    compressed(path.with_name("app.log.1"), "two\n")
    path.write_text("three\n")
    with pytest.raises(CaptureError, match=r"app\.log\.1\.gz was compressed before it was read"):
        reader.look()


@RESTARTS
@pytest.mark.parametrize("anew", ["8\n", "eight\nnine\nten\n"])
def test_a_file_that_was_truncated_is_read_from_its_beginning(
    path: Path, reader: Reader, anew: str, meanwhile: Callable[[Reader], None]
) -> None:
    path.write_text("one\ntwo\n")
    assert reader.look() == ["one", "two"]
    meanwhile(reader)
    path.write_text(anew)
    assert reader.look() == anew.split()


@RESTARTS
def test_what_was_copied_before_a_truncation_is_read_to_its_end(
    path: Path, reader: Reader, meanwhile: Callable[[Reader], None]
) -> None:
    path.write_text("one\n")
    assert reader.look() == ["one"]
    meanwhile(reader)
    path.with_name("app.log-20261231").write_text("one\ntwo\n")
    path.write_text("three\nfour\n")
    assert reader.look() == ["two", "three", "four"]


def test_another_file_with_the_same_inode_is_another_file(path: Path, reader: Reader) -> None:
    path.write_text("one\n")
    assert reader.look() == ["one"]
    reader.restart()
    rotated = path.rename(path.with_name("app.log.1"))
    rotated.write_text("not what was read\n")
    path.write_text("two\n")
    with pytest.raises(CaptureError, match="is gone"):
        reader.look()


def test_a_copy_with_another_suffix_is_no_rotation(path: Path, reader: Reader) -> None:
    path.write_text("one\n")
    assert reader.look() == ["one"]
    path.rename(path.with_name("app.log.1"))
    path.write_text("two\n")
    for name in ("app.log.bak", "app.log.1.swp", "app.log2", "app.logs"):
        path.with_name(name).write_text("not a line of the log\n")
    assert reader.look() == ["two"]


def test_files_that_were_changed_at_the_same_time_follow_by_their_numbers(path: Path, reader: Reader) -> None:
    path.write_text("one\n")
    assert reader.look() == ["one"]
    path.rename(path.with_name("app.log.11"))
    for number in range(10, 0, -1):
        path.with_name(f"app.log.{number}").write_text(f"{number}\n")
    path.write_text("now\n")
    for one in path.parent.iterdir():
        os.utime(one, ns=(0, 0))
    assert reader.look() == [*(str(number) for number in range(10, 0, -1)), "now"]


def test_a_rotation_while_files_are_opened_is_noticed(
    path: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read is renamed twice between the listing and the opening."""
    path.write_text("one\n")
    assert reader.look() == ["one"]
    reader.restart()
    with path.open("a") as file:
        file.write("two\n")
    path.rename(path.with_name("app.log.1"))
    path.write_text("three\n")
    opened = ReadFile.opened

    def rotates(found: Path) -> ReadFile | None:
        monkeypatch.setattr(ReadFile, "opened", opened)
        path.with_name("app.log.1").rename(path.with_name("app.log.2"))
        path.rename(path.with_name("app.log.1"))
        return opened(found)

    monkeypatch.setattr(ReadFile, "opened", rotates)
    assert reader.look() == ["two", "three"]
    path.write_text("four\n")
    assert reader.look() == ["four"]
