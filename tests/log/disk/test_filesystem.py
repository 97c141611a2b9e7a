"""What every `Filesystem` promises, asked of the real disk and of the one in memory, and what only a real disk does."""

import errno
import gc
import io
import os
import pickle
import shutil
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from log.disk import filesystem as module
from log.disk.filesystem import Buffer, DiskFile, DiskFilesystem, Filesystem, write_through_temporary
from log.disk.memory_filesystem import MemoryFilesystem


class Place(NamedTuple):
    """A filesystem, and an empty directory in it."""

    fs: Filesystem
    root: str

    def path(self, name: str) -> str:
        return os.path.join(self.root, name)

    def put(self, name: str, data: bytes) -> str:
        self.fs.create(self.path(name)).pwrite(data, 0)
        return self.path(name)


@pytest.fixture(params=["disk", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "disk":
        return Place(DiskFilesystem(), str(tmp_path))
    memory = MemoryFilesystem()
    memory.make_directory("/data/disk")
    return Place(memory, "/data/disk")


@pytest.fixture
def disk(tmp_path: Path) -> Place:
    return Place(DiskFilesystem(), str(tmp_path))


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


# Files


def test_opening_a_missing_file_fails_and_makes_nothing(place: Place) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        place.fs.open(place.path("missing"))
    assert caught.value.filename == place.path("missing")
    assert place.fs.list(place.root) == []


def test_create_makes_a_missing_file_and_keeps_an_existing_one(place: Place) -> None:
    path = place.path("a")
    file = place.fs.create(path)
    assert (file.path, file.size(), place.fs.exists(path)) == (path, 0, True)
    file.pwrite(b"kept", 0)
    assert place.fs.create(path).pread(10, 0) == b"kept"
    with pytest.raises(FileNotFoundError):
        place.fs.create(place.path("no/such/directory"))


def test_directories_are_no_files_and_files_no_directories(place: Place) -> None:
    place.put("file", b"")
    for operation in (place.fs.open, place.fs.create, place.fs.read, place.fs.remove):
        with pytest.raises(IsADirectoryError):
            operation(place.root)
    for directory_operation in (place.fs.list, place.fs.sync_directory, place.fs.remove_tree):
        with pytest.raises(NotADirectoryError):
            directory_operation(place.path("file"))
    for operation in (place.fs.open, place.fs.create):
        with pytest.raises(NotADirectoryError):
            operation(place.path("file/below"))
    assert not place.fs.exists(place.path("file/below"))


def test_reads_are_short_only_at_the_end_of_the_file(place: Place) -> None:
    file = place.fs.open(place.put("a", b"0123456789"))
    assert file.pread(4, 3) == b"3456"
    assert file.pread(4, 8) == b"89"
    assert file.pread(4, 10) == file.pread(4, 99) == file.pread(0, 0) == b""


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_every_kind_of_buffer_is_written(place: Place, kind: Callable[[bytes], Buffer]) -> None:
    file = place.fs.create(place.path("a"))
    file.pwrite(kind(b"abc"), 0)
    file.pwritev([kind(b"de"), kind(b""), kind(b"f")], 3)
    assert place.fs.read(place.path("a")) == b"abcdef"


def test_what_was_written_can_be_changed_in_place_by_its_owner(place: Place) -> None:
    buffer = bytearray(b"abc")
    file = place.fs.create(place.path("a"))
    file.pwrite(buffer, 0)
    buffer[:] = b"xyz"
    assert file.pread(3, 0) == b"abc"


def test_writing_behind_the_end_leaves_zeros_between(place: Place) -> None:
    file = place.fs.create(place.path("a"))
    file.pwrite(b"x", 5)
    file.pwrite(b"", 50)
    assert file.pread(99, 0) == bytes(5) + b"x"


@pytest.mark.parametrize("count", [0, 1, 1023, 1024, 1025, 3000])
def test_any_number_of_parts_is_written(place: Place, count: int) -> None:
    parts = [b"%d," % number for number in range(count)]
    file = place.fs.create(place.path("a"))
    file.pwritev(parts, 7)
    assert file.pread(1 << 20, 7) == b"".join(parts)


def test_truncate_cuts_and_extends_with_zeros(place: Place) -> None:
    file = place.fs.open(place.put("a", b"0123456789"))
    file.truncate(4)
    assert (file.size(), file.pread(99, 0)) == (4, b"0123")
    file.truncate(6)
    assert (file.size(), file.pread(99, 0)) == (6, b"0123\0\0")
    file.sync()
    assert place.fs.size(place.path("a")) == 6


def test_two_files_of_one_path_see_the_same_bytes(place: Place) -> None:
    one, two = place.fs.create(place.path("a")), place.fs.create(place.path("a"))
    one.pwrite(b"abc", 0)
    assert two.pread(3, 0) == b"abc"


def test_an_open_file_outlives_its_name(place: Place) -> None:
    removed, renamed = place.fs.open(place.put("a", b"removed")), place.fs.open(place.put("b", b"renamed"))
    place.fs.remove(place.path("a"))
    place.fs.rename(place.path("b"), place.path("c"))
    place.put("b", b"another")
    assert (removed.pread(99, 0), renamed.pread(99, 0)) == (b"removed", b"renamed")


def test_a_closed_file_refuses_everything_and_names_itself(place: Place) -> None:
    file = place.fs.create(place.path("a"))
    file.close()
    file.close()
    for operation in (
        file.size,
        file.sync,
        lambda: file.pread(1, 0),
        lambda: file.pwrite(b"x", 0),
        lambda: file.pwritev([b"x"], 0),
        lambda: file.truncate(0),
    ):
        with pytest.raises(OSError, match="Bad file descriptor") as caught:
            operation()
        assert (caught.value.errno, caught.value.filename) == (errno.EBADF, place.path("a"))


# Maps


def test_a_map_shows_the_whole_file_read_only(place: Place) -> None:
    mapped = place.fs.map(place.put("a", b"0123456789"))
    assert bytes(mapped.view) == b"0123456789"
    assert mapped.view.readonly
    mapped.close()
    mapped.close()
    with pytest.raises(ValueError, match="released"):
        bytes(mapped.view)


def test_the_map_of_an_empty_file_is_empty(place: Place) -> None:
    mapped = place.fs.map(place.put("a", b""))
    assert len(mapped.view) == 0
    mapped.close()
    with pytest.raises(FileNotFoundError):
        place.fs.map(place.path("missing"))


def test_closing_a_map_leaves_its_live_slices_readable(place: Place) -> None:
    mapped = place.fs.map(place.put("a", b"0123456789"))
    piece, whole = mapped.view[3:6], memoryview(mapped.view)
    mapped.close()
    mapped.close()
    assert (bytes(piece), bytes(whole)) == (b"345", b"0123456789")


def test_closing_a_map_that_something_reads_from_does_not_raise(place: Place) -> None:
    mapped = place.fs.map(place.put("a", b"0123456789"))
    held = pickle.PickleBuffer(mapped.view)  # unlike a slice, it holds on to the view itself
    mapped.close()
    assert bytes(held) == b"0123456789"
    held.release()


def test_a_map_outlives_the_name_of_its_file(place: Place) -> None:
    mapped = place.fs.map(place.put("a", b"abc"))
    place.fs.remove(place.path("a"))
    assert bytes(mapped.view) == b"abc"
    mapped.close()


# Names


def test_names_are_listed_in_order(place: Place) -> None:
    for name in ("b", "a", "c"):
        place.put(name, b"")
    place.fs.make_directory(place.path("a2"))
    assert place.fs.list(place.root) == ["a", "a2", "b", "c"]
    with pytest.raises(FileNotFoundError):
        place.fs.list(place.path("missing"))


def test_directories_are_made_with_their_parents_and_again(place: Place) -> None:
    for _ in range(2):
        place.fs.make_directory(place.path("x/y/z"))
    place.fs.make_directory(place.path("x/y2/"))
    assert place.fs.list(place.path("x")) == ["y", "y2"]
    assert place.fs.list(place.path("x/y/z")) == []
    assert place.fs.exists(place.path("x/y"))


def test_a_directory_does_not_replace_a_file(place: Place) -> None:
    place.put("a", b"abc")
    for path in ("a", "a/b"):
        with pytest.raises(FileExistsError):
            place.fs.make_directory(place.path(path))
    with pytest.raises(FileExistsError):
        place.fs.add_directory(place.path("a"))
    assert place.fs.read(place.path("a")) == b"abc"


def test_a_directory_is_added_to_one_that_is_there(place: Place) -> None:
    for _ in range(2):
        place.fs.add_directory(place.path("a"))
    assert place.fs.list(place.root) == ["a"]
    with pytest.raises(FileNotFoundError):
        place.fs.add_directory(place.path("b/c"))


def test_rename_replaces(place: Place) -> None:
    old, new = place.put("old", b"1"), place.put("new", b"2")
    place.fs.rename(old, new)
    assert (place.fs.list(place.root), place.fs.read(new)) == (["new"], b"1")
    place.fs.rename(new, new)
    assert place.fs.read(new) == b"1"
    with pytest.raises(FileNotFoundError):
        place.fs.rename(old, new)


def test_rename_moves_files_and_directories_between_directories(place: Place) -> None:
    place.fs.make_directory(place.path("x"))
    place.fs.make_directory(place.path("y/empty"))
    place.put("x/a", b"a")
    place.fs.rename(place.path("x/a"), place.path("y/b"))
    assert (place.fs.list(place.path("x")), place.fs.list(place.path("y"))) == ([], ["b", "empty"])
    place.fs.rename(place.path("y"), place.path("x"))  # an empty directory is replaced
    assert (place.fs.list(place.root), place.fs.read(place.path("x/b"))) == (["x"], b"a")


@pytest.mark.parametrize(
    ("old", "new", "number"),
    [
        ("directory", "file", errno.ENOTDIR),
        ("file", "directory", errno.EISDIR),
        ("empty", "directory", errno.ENOTEMPTY),
        ("directory", "directory/into/itself", errno.EINVAL),
        ("file", "missing/file", errno.ENOENT),
    ],
)
def test_impossible_renames_fail_and_change_nothing(place: Place, old: str, new: str, number: int) -> None:
    place.put("file", b"")
    place.fs.make_directory(place.path("directory/into"))
    place.fs.make_directory(place.path("empty"))
    with pytest.raises(OSError, match=os.strerror(number)) as caught:
        place.fs.rename(place.path(old), place.path(new))
    assert caught.value.errno == number
    assert place.fs.list(place.root) == ["directory", "empty", "file"]


def test_removing_what_is_missing_is_fine(place: Place) -> None:
    place.put("a", b"")
    for _ in range(2):
        place.fs.remove(place.path("a"))
        place.fs.remove_tree(place.path("tree"))
    place.fs.sync_directory(place.root)
    assert place.fs.list(place.root) == []


def test_a_tree_is_removed_with_all_in_it(place: Place) -> None:
    place.fs.make_directory(place.path("tree/branch/twig"))
    for name in ("tree/a", "tree/branch/b", "other"):
        place.put(name, b"")
    place.fs.remove_tree(place.path("tree"))
    assert place.fs.list(place.root) == ["other"]


def test_a_tree_that_could_not_be_removed_is_not_called_missing(disk: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    disk.fs.make_directory(disk.path("tree"))

    def lose_a_file_first(path: str) -> None:
        raise FileNotFoundError(errno.ENOENT, "removed by another process", f"{path}/a")

    monkeypatch.setattr(shutil, "rmtree", lose_a_file_first)
    with pytest.raises(FileNotFoundError):
        disk.fs.remove_tree(disk.path("tree"))


def test_existence_and_size(place: Place) -> None:
    path = place.put("a", b"abc")
    assert (place.fs.exists(path), place.fs.exists(place.root), place.fs.exists(place.path("b"))) == (True, True, False)
    assert place.fs.size(path) == 3
    with pytest.raises(FileNotFoundError):
        place.fs.size(place.path("b"))
    with pytest.raises(FileNotFoundError):
        place.fs.read(place.path("b"))
    with pytest.raises(FileNotFoundError):
        place.fs.sync_directory(place.path("b"))


# Writing atomically


def test_an_atomic_write_puts_the_whole_content_and_leaves_nothing_else(place: Place) -> None:
    path = place.path("a")
    place.put("a.tmp", b"left by a crash, and longer than the new content")
    for content in (b"first", b"", b"x" * 100_000):
        place.fs.write_atomically(path, content)
        assert (place.fs.read(path), place.fs.list(place.root)) == (content, ["a"])


def test_an_atomic_write_over_a_directory_fails_and_leaves_no_temporary_file(place: Place) -> None:
    place.fs.make_directory(place.path("a"))
    with pytest.raises(IsADirectoryError):
        place.fs.write_atomically(place.path("a"), b"abc")
    with pytest.raises(FileNotFoundError):
        place.fs.write_atomically(place.path("missing/a"), b"abc")
    assert place.fs.list(place.root) == ["a"]


# What only a real disk does


def test_both_kinds_of_filesystem_have_the_full_interface() -> None:
    filesystems: list[Filesystem] = [DiskFilesystem(), MemoryFilesystem()]  # the type checker does the test
    assert len(filesystems) == 2


def test_a_file_on_disk_shows_its_path_and_descriptor(disk: Place) -> None:
    file = disk.fs.open(disk.put("a", b""))
    assert repr(file) == f"<DiskFile {disk.path('a')!r} descriptor {file.fileno()}>"


def test_only_a_file_on_disk_has_a_descriptor(place: Place) -> None:
    file = place.fs.create(place.path("a"))
    if isinstance(file, DiskFile):
        assert not os.get_inheritable(file.fileno())
    else:
        with pytest.raises(io.UnsupportedOperation):
            file.fileno()


def test_descriptors_go_with_the_last_reference_and_without_a_warning(disk: Place) -> None:
    path = disk.put("a", b"abc")
    gc.collect()
    before = descriptors()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        file = disk.fs.open(path)
        held = file
        mapped = disk.fs.map(path)
        piece = mapped.view[1:]
        assert descriptors() == before + 2
        del file, mapped
        assert (descriptors(), held.pread(3, 0), bytes(piece)) == (before + 2, b"abc", b"bc")
        del held, piece
        assert descriptors() == before
        for operation in (disk.fs.read, disk.fs.sync_directory, lambda name: disk.fs.map(name).close()):
            operation(disk.root if operation == disk.fs.sync_directory else path)
        disk.fs.write_atomically(path, b"x")
        assert descriptors() == before


def test_short_reads_and_writes_are_continued(disk: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel may do less than it was asked for at any time: near a full disk, or with more than 2 GiB."""
    real_read, real_write, real_writev = os.pread, os.pwrite, os.pwritev
    monkeypatch.setattr(os, "pread", lambda fd, size, at: real_read(fd, min(size, 3), at))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real_write(fd, memoryview(data)[:2], at))
    monkeypatch.setattr(os, "pwritev", lambda fd, parts, at: real_writev(fd, [parts[0][:1]], at))
    file = disk.fs.create(disk.path("a"))
    file.pwrite(b"0123456", 0)
    file.pwritev([b"789", bytearray(b"abc"), memoryview(b"def")], 7)
    assert file.pread(99, 0) == b"0123456789abcdef"


def test_a_disk_that_takes_nothing_is_an_error_and_no_endless_loop(
    disk: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "pwrite", lambda _fd, _data, _at: 0)
    file = disk.fs.create(disk.path("a"))
    with pytest.raises(OSError, match="no progress") as caught:
        file.pwrite(b"abc", 0)
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, disk.path("a"))
    file.pwrite(b"", 0)


def test_parts_are_written_also_where_the_system_call_is_missing(disk: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HAS_PWRITEV", False)
    file = disk.fs.create(disk.path("a"))
    file.pwritev([b"ab", b"c"], 1)
    assert file.pread(9, 0) == b"\0abc"


def test_errors_of_a_descriptor_name_the_path(disk: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    file = disk.fs.create(disk.path("a"))
    for name in ("pwrite", "pwritev", "fsync"):
        monkeypatch.setattr(os, name, full)
    operations: Sequence[tuple[Callable[[], None], str]] = [
        (lambda: file.pwrite(b"x", 0), disk.path("a")),
        (lambda: file.pwritev([b"x"], 0), disk.path("a")),
        (lambda: disk.fs.sync_directory(disk.root), disk.root),
    ]
    for operation, path in operations:
        with pytest.raises(OSError, match="No space left") as caught:
            operation()
        assert caught.value.filename == path


def test_a_disk_that_cannot_tell_does_not_say_no(disk: Place) -> None:
    with pytest.raises(OSError, match="File name too long"):
        disk.fs.exists(disk.path("x" * 300))


@pytest.mark.parametrize("step", ["truncate", "pwrite", "sync", "rename"])
def test_a_failed_atomic_write_on_disk_keeps_the_old_file_and_no_temporary_one(
    disk: Place, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    path = disk.put("a", b"old")
    monkeypatch.setattr(DiskFilesystem if step == "rename" else DiskFile, step, fail)
    before = descriptors()
    with pytest.raises(OSError, match="Input/output error"):
        write_through_temporary(disk.fs, path, b"new")
    assert (disk.fs.read(path), disk.fs.list(disk.root), descriptors()) == (b"old", ["a"], before)


def test_made_directories_are_synced_from_the_top(disk: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(
        DiskFilesystem, "sync_directory", lambda _, path: synced.append(os.path.relpath(path, disk.root))
    )
    disk.fs.make_directory(disk.path("x/y"))
    assert synced == ["..", ".", "x"]
    synced.clear()
    disk.fs.make_directory(disk.path("x/y"))  # who made it may have been killed before it was synced
    assert synced == ["x"]
