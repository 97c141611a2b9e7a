"""One cluster per data directory: a lock file that names its owner.

The kernel's flock is the lock, so it ends with its process in any case; the file's text only names the holder and the
socket directory to remove if that process was killed. The file is removed when the lock is released. Another process
may remove it between opening and locking, so the lock counts only if the path still leads to the locked file.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Self

from log.disk.filesystem import DIRECTORY_MODE, FILE_MODE

LOCK_NAME = ".lock"


class DirectoryInUse(Exception):
    """Another cluster runs on this directory."""

    def __init__(self, directory: Path, owner: str) -> None:
        super().__init__(f"{directory} is in use by another cluster, {owner}; stop it or choose another data_dir")


def owner_of(directory: Path) -> str | None:
    """The holder of the directory, if there is one. Asking takes no lock and makes no file."""
    try:
        fd = os.open(directory / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None  # there is no lock file, or none that can be opened
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _owner(fd)
    else:
        return None
    finally:
        os.close(fd)


def _owner(fd: int) -> str:
    pid = os.pread(fd, 4096, 0).decode(errors="replace").partition("\n")[0]
    return f"pid {pid}" if pid else "which is just starting"


class DirectoryLock:
    """Holds a directory for this process. A context manager; `note` is kept for the next holder after a crash."""

    def __init__(self, directory: Path, note: str = "") -> None:
        self._directory = directory
        self._path = directory / LOCK_NAME
        self._note = note
        self._fd: int | None = None
        self.left_behind = ""
        """The note of an owner that was killed, if there was one."""

    def __enter__(self) -> Self:
        self._directory.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
        while self._fd is None:
            self._fd = self._try()
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._fd)
            self._fd = None

    def _try(self) -> int | None:
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = _owner(fd)
            os.close(fd)
            raise DirectoryInUse(self._directory, owner) from None
        if not self._still_there(fd):
            os.close(fd)
            return None
        self.left_behind = os.pread(fd, 4096, 0).decode(errors="replace").partition("\n")[2].strip()
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n{self._note}\n".encode(), 0)
        return fd

    def _still_there(self, fd: int) -> bool:
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(fd))
        except FileNotFoundError:
            return False
