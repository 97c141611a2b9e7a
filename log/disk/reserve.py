"""Room on the disk that a broker keeps for what must be written even when the disk is full.

All brokers of a machine usually share one filesystem, so a full disk stops metadata, votes and the removal of topics
too, and nothing could free any space. So each broker holds a file of a fixed size. Records never get that room: if a
write of records finds no space, the disk counts as full (`is_full`), and records are refused without another try until
there is room for the whole reserve and as much again. Everything else that finds no space (votes, checkpoints, control
batches, the metadata log) takes the reserve piece by piece and is tried again.

Free bytes alone do not say that there is room: a quota may be used up, or the table of files. So a disk counts as full
until a trial file could be written, too.

`release` may be called from any thread: of two at once, each tries again if the other one took its piece.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from typing import TypeVar

from log.disk.filesystem import Buffer, File, Filesystem, Map, Names, write_through_temporary

FILE_NAME = "reserve"
TRIAL_SUFFIX = ".trial"
PIECE_BYTES = 64 << 10
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)

T = TypeVar("T")


class Reserve:
    """The reserve of one broker."""

    __slots__ = ("_files", "_path", "_size", "is_full")

    def __init__(self, files: Filesystem, data_dir: str, size: int) -> None:
        self._files = files
        self._path = f"{data_dir}/{FILE_NAME}"
        self._size = size
        self.is_full = False
        """Records are refused: a write found no space."""

    @property
    def size(self) -> int:
        """What is held now."""
        return self._files.size(self._path) if self._files.exists(self._path) else 0

    def hold(self) -> None:
        """Hold as much as is asked for. Without the space for it the disk is full."""
        try:
            if self._size == 0 and self._files.exists(self._path):
                self._files.remove(self._path)
            elif self.size != self._size:
                file = self._files.create(self._path)
                try:
                    file.truncate(min(self._size, file.size()))
                    file.allocate(self._size)
                finally:
                    file.close()
            self.is_full = False
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            self.is_full = True

    def release(self) -> bool:
        """Give up a piece of the reserve for a write that finds no space. False if nothing is left of it."""
        self.is_full = True
        try:
            file = self._files.open(self._path)
        except FileNotFoundError:
            return False
        try:
            held = file.size()
            file.truncate(max(held - PIECE_BYTES, 0))
        finally:
            file.close()
        return held > 0

    def look(self) -> None:
        """While the disk is full: is there room again?"""
        if not self.is_full or self._files.free_bytes(os.path.dirname(self._path)) < 2 * self._size - self.size:
            return
        if self._takes_trial():
            self.hold()

    def _takes_trial(self) -> bool:
        """Can a file be written that is as large as a piece of the reserve?"""
        path = f"{self._path}{TRIAL_SUFFIX}"
        try:
            file = self._files.create(path)
            try:
                file.allocate(PIECE_BYTES)
            finally:
                file.close()
                self._files.remove(path)
        except OSError:
            return False
        return True


def may_use_reserve(path: str) -> bool:
    """May this file take the reserve? All may but those of records: `x.log`, and `x.log.cleaned` of compaction."""
    return ".log" not in os.path.basename(path)


class ReservedFilesystem:
    """A filesystem whose small files take the reserve when there is no space."""

    __slots__ = ("files", "reserve")

    def __init__(self, files: Filesystem, reserve: Reserve) -> None:
        self.files = files
        self.reserve = reserve

    def open(self, path: str) -> File:
        file = self.files.open(path)
        return ReservedFile(file, self.reserve) if may_use_reserve(path) else file

    def create(self, path: str) -> File:
        file = _with_reserve(self.reserve, lambda: self.files.create(path))
        return ReservedFile(file, self.reserve) if may_use_reserve(path) else file

    def map(self, path: str) -> Map:
        return self.files.map(path)

    def read(self, path: str) -> bytes:
        return self.files.read(path)

    def write_atomically(self, path: str, data: Buffer) -> None:
        write_through_temporary(self, path, data)

    def exists(self, path: str) -> bool:
        return self.files.exists(path)

    def size(self, path: str) -> int:
        return self.files.size(path)

    def free_bytes(self, path: str) -> int:
        return self.files.free_bytes(path)

    def list(self, directory: str) -> Names:
        return self.files.list(directory)

    def make_directory(self, path: str) -> None:
        _with_reserve(self.reserve, lambda: self.files.make_directory(path))

    def add_directory(self, path: str) -> None:
        _with_reserve(self.reserve, lambda: self.files.add_directory(path))

    def rename(self, old: str, new: str) -> None:
        _with_reserve(self.reserve, lambda: self.files.rename(old, new))

    def remove(self, path: str) -> None:
        _with_reserve(self.reserve, lambda: self.files.remove(path))

    def remove_tree(self, path: str) -> None:
        _with_reserve(self.reserve, lambda: self.files.remove_tree(path))

    def sync_directory(self, path: str) -> None:
        self.files.sync_directory(path)


class ReservedFile:
    """A small file that takes the reserve when there is no space."""

    __slots__ = ("__weakref__", "_file", "_reserve")

    def __init__(self, file: File, reserve: Reserve) -> None:
        self._file = file
        self._reserve = reserve

    @property
    def path(self) -> str:
        return self._file.path

    def fileno(self) -> int:
        return self._file.fileno()

    def size(self) -> int:
        return self._file.size()

    def pread(self, size: int, at: int) -> bytes:
        return self._file.pread(size, at)

    def pwrite(self, data: Buffer, at: int) -> None:
        _with_reserve(self._reserve, lambda: self._file.pwrite(data, at))

    def pwritev(self, parts: Sequence[Buffer], at: int) -> None:
        _with_reserve(self._reserve, lambda: self._file.pwritev(parts, at))

    def truncate(self, size: int) -> None:
        _with_reserve(self._reserve, lambda: self._file.truncate(size))

    def allocate(self, size: int) -> None:
        self._file.allocate(size)

    def sync(self) -> None:
        self._file.sync()

    def close(self) -> None:
        self._file.close()


def _with_reserve(reserve: Reserve, work: Callable[[], T]) -> T:
    while True:
        try:
            return work()
        except OSError as error:
            if error.errno not in NO_SPACE or not reserve.release():
                raise
