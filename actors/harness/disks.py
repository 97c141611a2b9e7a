"""The disk of one broker, which a test fills or slows down.

A full disk has no room for anything more; what is removed or cut makes room again, as on a real one. A slow disk takes
so much longer for every write and every sync: a write holds up the whole broker, as a blocking system call does.

In a temporary directory nothing is synced: it ends with the test, and only a loss of power could tell the difference.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Sequence

from log.disk.filesystem import FILE_MODE, Buffer, DiskFile, DiskFilesystem, write_through_temporary


class BrokerDisk:
    """What is wrong with the disk; nothing, at first."""

    def __init__(self, hold: Callable[[float], bool], *, is_temporary: bool) -> None:
        """`hold`: keep the broker from working for so long. False on a thread that is not the broker's own."""
        self.is_temporary = is_temporary
        self.room: int | None = None
        """The bytes that may still be written; None for all that there are."""
        self.delay_seconds = 0.0
        self._hold = hold
        self._changing = threading.Lock()

    @property
    def is_sound(self) -> bool:
        return self.room is None and not self.delay_seconds

    def grow(self, path: str, count: int) -> None:
        """A file gets so many bytes more, or fewer."""
        with self._changing:
            if self.room is None:
                return
            if count > self.room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
            self.room -= count

    def take_time(self) -> None:
        if self.delay_seconds and not self._hold(self.delay_seconds):
            time.sleep(self.delay_seconds)


class TroubledFile(DiskFile):
    """A file on such a disk."""

    __slots__ = ("_disk",)

    def __init__(self, path: str, descriptor: int, disk: BrokerDisk) -> None:
        super().__init__(path, descriptor)
        self._disk = disk

    def pwrite(self, data: Buffer, at: int) -> None:
        if not self._disk.is_sound:
            self._write_up_to(at + len(data))
        super().pwrite(data, at)

    def pwritev(self, parts: Sequence[Buffer], at: int) -> None:
        if not self._disk.is_sound:
            self._write_up_to(at + sum(map(len, parts)))
        super().pwritev(parts, at)

    def truncate(self, size: int) -> None:
        if not self._disk.is_sound:
            self._disk.grow(self.path, min(size - self.size(), 0))
        super().truncate(size)

    def allocate(self, size: int) -> None:
        if not self._disk.is_sound:
            self._write_up_to(size)
        super().allocate(size)

    def sync(self) -> None:
        self._disk.take_time()
        if not self._disk.is_temporary:
            super().sync()

    def _write_up_to(self, end: int) -> None:
        self._disk.take_time()
        self._disk.grow(self.path, max(end - self.size(), 0))


class TroubledFilesystem(DiskFilesystem):
    """All files of such a disk."""

    __slots__ = ("_disk",)

    def __init__(self, disk: BrokerDisk) -> None:
        self._disk = disk

    def open(self, path: str) -> TroubledFile:
        return TroubledFile(path, os.open(path, os.O_RDWR | os.O_CLOEXEC), self._disk)

    def create(self, path: str) -> TroubledFile:
        return TroubledFile(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE), self._disk)

    def write_atomically(self, path: str, data: Buffer) -> None:
        write_through_temporary(self, path, data)

    def free_bytes(self, path: str) -> int:
        room, free = self._disk.room, super().free_bytes(path)
        return free if room is None else min(room, free)

    def rename(self, old: str, new: str) -> None:
        replaced = self._size_of(new)
        super().rename(old, new)
        self._disk.grow(new, -replaced)

    def remove(self, path: str) -> None:
        removed = self._size_of(path)
        super().remove(path)
        self._disk.grow(path, -removed)

    def remove_tree(self, path: str) -> None:
        removed = 0
        if not self._disk.is_sound:
            removed = sum(self._size_of(os.path.join(at, name)) for at, _, names in os.walk(path) for name in names)
        super().remove_tree(path)
        self._disk.grow(path, -removed)

    def sync_directory(self, path: str) -> None:
        self._disk.take_time()
        if not self._disk.is_temporary:
            super().sync_directory(path)

    def _size_of(self, path: str) -> int:
        return self.size(path) if not self._disk.is_sound and os.path.isfile(path) else 0
