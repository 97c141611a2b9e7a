"""`Handles` keeps few descriptors open and takes none away from anybody."""

import gc
import os
import timeit
from pathlib import Path

import pytest

from log.disk.filesystem import DiskFilesystem
from log.disk.handles import Handles
from log.disk.memory_filesystem import MemoryFilesystem


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture
def fs() -> DiskFilesystem:
    gc.collect()
    return DiskFilesystem()


def put(fs: DiskFilesystem, directory: Path, count: int) -> list[str]:
    paths = [str(directory / f"{number:020}.log") for number in range(count)]
    for path in paths:
        fs.create(path).pwrite(path.encode(), 0)
    return paths


def test_the_same_handle_is_given_until_it_is_forgotten(fs: DiskFilesystem, tmp_path: Path) -> None:
    (path,) = put(fs, tmp_path, 1)
    handles = Handles(fs)
    file, mapped = handles.file(path), handles.map(path)
    assert handles.file(path) is file
    assert handles.map(path) is mapped
    assert handles.open_count == 2
    handles.forget(path)
    assert handles.open_count == 0
    assert handles.file(path) is not file


def test_the_limit_holds_with_thousands_of_paths(fs: DiskFilesystem, tmp_path: Path) -> None:
    paths = put(fs, tmp_path, 2_000)
    handles = Handles(fs, limit=50)
    before = descriptors()
    for path in paths:
        assert handles.file(path).pread(999, 0) == path.encode()
        assert bytes(handles.map(path).view) == path.encode()
        assert handles.open_count <= 50
    assert descriptors() <= before + 50
    handles.close_all()
    assert (handles.open_count, descriptors()) == (0, before)


def test_the_least_recently_used_goes_first(fs: DiskFilesystem, tmp_path: Path) -> None:
    paths = put(fs, tmp_path, 5)
    handles = Handles(fs, limit=4)
    files = [handles.file(path) for path in paths[:4]]
    handles.file(paths[0])
    handles.file(paths[4])  # evicts paths[1]
    assert handles.file(paths[0]) is files[0]
    assert handles.file(paths[2]) is files[2]
    assert handles.file(paths[1]) is not files[1]


def test_file_and_map_of_one_path_age_together(fs: DiskFilesystem, tmp_path: Path) -> None:
    paths = put(fs, tmp_path, 4)
    handles = Handles(fs, limit=4)
    file = handles.file(paths[0])
    handles.file(paths[1])
    handles.map(paths[0])
    handles.file(paths[2])
    handles.file(paths[3])  # five: paths[1] goes
    assert (handles.open_count, handles.file(paths[0]) is file) == (4, True)


def test_a_held_file_survives_eviction_removal_and_rename(fs: DiskFilesystem, tmp_path: Path) -> None:
    paths = put(fs, tmp_path, 12)
    handles = Handles(fs, limit=4)
    held = [handles.file(path) for path in paths[:2]]
    for path in paths[2:]:
        handles.file(path)
    for path in paths[:2]:
        handles.forget(path)
    fs.remove(paths[0])
    fs.rename(paths[1], paths[0])
    assert [file.pread(999, 0).decode() for file in held] == paths[:2]
    assert handles.file(paths[0]).pread(999, 0).decode() == paths[1]


def test_no_descriptor_leaks_when_files_are_held_and_let_go(fs: DiskFilesystem, tmp_path: Path) -> None:
    paths = put(fs, tmp_path, 40)
    before = descriptors()
    handles = Handles(fs, limit=8)
    held = [handles.file(path) for path in paths]
    assert descriptors() == before + 40
    held.clear()
    assert descriptors() == before + 8
    del handles
    assert descriptors() == before


def test_an_evicted_map_is_unmapped_at_once_unless_in_use(fs: DiskFilesystem, tmp_path: Path) -> None:
    paths = put(fs, tmp_path, 9)
    handles = Handles(fs, limit=4)
    before = descriptors()
    in_use = handles.map(paths[0])
    for path in paths[1:]:
        handles.map(path)
    assert (bytes(in_use.view), descriptors()) == (paths[0].encode(), before + 5)


def test_forgetting_unmaps_before_a_truncation(fs: DiskFilesystem, tmp_path: Path) -> None:
    (path,) = put(fs, tmp_path, 1)
    handles = Handles(fs)
    before = descriptors()
    mapped = handles.map(path)
    handles.forget(path)
    assert descriptors() == before
    with pytest.raises(ValueError, match="released"):
        bytes(mapped.view)
    handles.forget(path)
    handles.file(path).truncate(0)
    assert len(handles.map(path).view) == 0


def test_a_truncation_without_forgetting_is_caught_in_memory() -> None:
    memory = MemoryFilesystem()
    file = memory.create("a")
    file.pwrite(b"0123456789", 0)
    handles = Handles(memory)
    handles.map("a")
    with pytest.raises(AssertionError, match="live map"):
        file.truncate(5)
    handles.forget("a")
    file.truncate(5)
    assert bytes(handles.map("a").view) == b"01234"


def test_a_failed_open_leaves_no_trace(fs: DiskFilesystem, tmp_path: Path) -> None:
    handles = Handles(fs)
    for _ in range(2):
        for opener in (handles.file, handles.map):
            with pytest.raises(FileNotFoundError):
                opener(str(tmp_path / "missing"))
    assert handles.open_count == 0


def test_a_hit_costs_next_to_nothing(fs: DiskFilesystem, tmp_path: Path) -> None:
    paths = put(fs, tmp_path, 100)
    handles = Handles(fs)

    def touch_all() -> None:
        for path in paths:
            handles.file(path)

    touch_all()
    seconds = min(timeit.repeat(touch_all, number=50, repeat=10)) / 50 / len(paths)
    assert seconds < 2e-6, f"{seconds * 1e9:.0f} ns"  # about 0.15 µs when nothing else runs


def test_files_that_somebody_holds_are_counted_once_they_are_not_kept_here(fs: DiskFilesystem, tmp_path: Path) -> None:
    paths = put(fs, tmp_path, 20)
    handles = Handles(fs, limit=4)
    handles.lent_max = 6
    held = [handles.file(path) for path in paths[:8]]
    assert (handles.lent_count, handles.are_many_lent) == (4, False)
    handles.forget(paths[7])
    handles.forget(paths[6])
    assert (handles.lent_count, handles.are_many_lent) == (6, True)
    for path in paths[8:]:
        handles.file(path)
    assert handles.lent_count == 8, "what nobody else holds is not lent"
    del held[0]
    assert handles.lent_count == 7
    held.clear()
    assert (handles.lent_count, handles.are_many_lent) == (0, False)
