"""The file that stands for the beginning of a machine's log: whole, or refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log.disk.memory_filesystem import MemoryFilesystem
from log.errors import DamagedFile
from log.recovery.checkpoint import read_snapshot, write_snapshot

PATH = "/data/snapshot"


def written(data: bytes) -> MemoryFilesystem:
    files = MemoryFilesystem()
    files.make_directory("/data")
    write_snapshot(files, PATH, data)
    return files


@given(st.binary())
def test_what_was_written_is_read(data: bytes) -> None:
    assert read_snapshot(written(data), PATH) == data


@given(st.binary(min_size=1), st.data())
def test_no_flipped_bit_passes(data: bytes, draw: st.DataObject) -> None:
    files = written(data)
    at = draw.draw(st.integers(0, files.size(PATH) - 1))
    files.corrupt(PATH, at, 1 << draw.draw(st.integers(0, 7)))
    with pytest.raises(DamagedFile, match=f"{PATH} has (no )?checksum"):
        read_snapshot(files, PATH)


def test_one_that_is_not_there() -> None:
    assert read_snapshot(MemoryFilesystem(), PATH) is None


def test_one_from_before_there_were_checksums_is_read_and_half_of_one_is_not() -> None:
    files = MemoryFilesystem()
    files.write_atomically("/old", b'{"version":1}')
    files.write_atomically("/half", b'{"versi')
    assert read_snapshot(files, "/old") == b'{"version":1}'
    with pytest.raises(DamagedFile, match="/half has no checksum"):
        read_snapshot(files, "/half")
