"""What the log asks of a disk, and the real disk behind it.

The log never touches `os` itself. It is given a `Filesystem`, so that the same log code runs on `DiskFilesystem` in a
broker and on `MemoryFilesystem` in the simulator, where disks fill up, lie and lose power on purpose.

Durability is spelled out, because a crash keeps exactly what was asked for and nothing else:

- bytes and size of a file are durable after `File.sync`;
- a directory entry (a file made, renamed or removed) is durable after `sync_directory` of the directory it is in;
- `write_atomically` and `make_directory` do both themselves.

After a failed `sync` it is unknown which bytes reached the disk, and the kernel may have marked the lost pages clean:
a second `sync` would succeed without having written them. A failed `sync` is therefore never tried again.

Errors are plain `OSError`s which name the path, also where the system call knows only a descriptor.
"""

import contextlib
import errno
import mmap
import os
import shutil
from collections.abc import Iterator, Sequence
from typing import Protocol

Buffer = bytes | bytearray | memoryview  # a memoryview is one of bytes: its length is its size
Names = list[str]  # inside the classes below, `list` is a method

TEMPORARY_SUFFIX = ".tmp"  # what `write_atomically` may leave behind in a crash; always safe to remove at start

DIRECTORY_MODE, FILE_MODE = 0o700, 0o600  # records are for their owner alone
PARTS_PER_CALL_MAX = 1024  # IOV_MAX of Linux, macOS and the BSDs: more parts in one pwritev fail with EINVAL
HAS_PWRITEV = hasattr(os, "pwritev")
_CLOSED = 2**31 - 1  # no process can have this descriptor: every call fails with EBADF; with -1 some raise ValueError
_sync_data = getattr(os, "fdatasync", os.fsync)  # fdatasync leaves out only what no reader needs, such as times


class File(Protocol):
    """An open file; closed by `close()`, or when the last reference to it goes.

    A reference to a `File` keeps its bytes: it stays readable after its name was removed or renamed.
    """

    @property
    def path(self) -> str:
        """The name it was opened by; it may have another one by now."""

    def fileno(self) -> int:
        """The descriptor, for sendfile. A file without one raises `io.UnsupportedOperation`."""

    def size(self) -> int: ...

    def pread(self, size: int, at: int) -> bytes:
        """`size` bytes from position `at`; fewer only where the file ends."""

    def pwrite(self, data: Buffer, at: int) -> None:
        """Write all of `data`, or raise: what a failed write left behind is unknown."""

    def pwritev(self, parts: Sequence[Buffer], at: int) -> None:
        """Write the parts one after the other, as `pwrite` of their concatenation would, but without making it."""

    def truncate(self, size: int) -> None:
        """Cut, or extend with zeros. The file must not be mapped then: touching the map would kill the process."""

    def allocate(self, size: int) -> None:
        """Reserve `size` bytes of disk space for the file. Their content is undefined."""

    def sync(self) -> None:
        """Make bytes and size durable. Not the name: see `Filesystem.sync_directory`."""

    def close(self) -> None:
        """Close the descriptor. A second call does nothing."""


class Map(Protocol):
    """A sealed file's bytes, mapped into memory, read-only."""

    @property
    def view(self) -> memoryview:
        """The bytes; empty for an empty file, released once the map is closed."""

    def close(self) -> None:
        """Unmap; a second call does nothing. While slices of the view live, the memory stays mapped."""


class Filesystem(Protocol):
    """Files by path. Paths are as the operating system has them, with `/`."""

    def open(self, path: str) -> File:
        """Open to read and write a file that must exist."""

    def create(self, path: str) -> File:
        """Open to read and write; makes the file if it is missing and keeps its content if it is not."""

    def map(self, path: str) -> Map:
        """Map a whole file that is not written any more."""

    def read(self, path: str) -> bytes:
        """All of a small file."""

    def write_atomically(self, path: str, data: Buffer) -> None:
        """Put a small file in place, durably: a reader, also after a crash, sees the old content or all of the new.

        If it raises, the content is the old one, unless only the last step failed (syncing the directory): then
        it is the new one, and a crash may bring the old one back. There is one writer per path at any time.
        """

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory. A disk that cannot answer raises: "unknown" must not read as "no"."""

    def size(self, path: str) -> int: ...

    def free_bytes(self, path: str) -> int:
        """How many bytes may still be written to the disk that this directory is on."""

    def list(self, directory: str) -> Names:
        """The names in a directory, sorted."""

    def make_directory(self, path: str) -> None:
        """Make it durably, with its parents; fine if it is there."""

    def add_directory(self, path: str) -> None:
        """Make it in a directory that is there; fine if it is there. Durable after `sync_directory` of that one."""

    def rename(self, old: str, new: str) -> None:
        """Rename, replacing what is there; durable after `sync_directory` (of both parents, if they differ)."""

    def remove(self, path: str) -> None:
        """Remove a file; fine if it is missing. Durable after `sync_directory`."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory and all in it; fine if it is missing. A crash may leave any part of it."""

    def sync_directory(self, path: str) -> None:
        """Make durable which names are in the directory, and which files they stand for."""


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """An error of a system call on a descriptor does not name the path."""
    try:
        yield
    except OSError as error:
        error.filename = path
        raise


class DiskFile:
    """A descriptor that closes itself.

    The descriptor goes with the last reference and not at a set time, because a slice of the file may be on its way
    to a client through sendfile while the log has long forgotten the file.
    """

    __slots__ = ("__weakref__", "_descriptor", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def __repr__(self) -> str:
        return f"<DiskFile {self.path!r} descriptor {self._descriptor}>"

    def __del__(self) -> None:
        with contextlib.suppress(OSError):  # no caller is left, and only `sync` promises durability
            self.close()

    def fileno(self) -> int:
        return self._descriptor

    def size(self) -> int:
        with _naming(self.path):
            return os.fstat(self._descriptor).st_size

    def pread(self, size: int, at: int) -> bytes:
        try:
            data = os.pread(self._descriptor, size, at)
            while len(data) < size and (more := os.pread(self._descriptor, size - len(data), at + len(data))):
                data += more
        except OSError as error:
            error.filename = self.path
            raise
        return data

    def pwrite(self, data: Buffer, at: int) -> None:
        try:
            written = os.pwrite(self._descriptor, data, at)
            while written < len(data):
                written += self._progress(os.pwrite(self._descriptor, memoryview(data)[written:], at + written))
        except OSError as error:
            error.filename = self.path
            raise

    def pwritev(self, parts: Sequence[Buffer], at: int) -> None:
        if not HAS_PWRITEV:
            self.pwrite(b"".join(parts), at)
            return
        for first in range(0, len(parts), PARTS_PER_CALL_MAX):
            some = parts[first : first + PARTS_PER_CALL_MAX]
            size = sum(map(len, some))
            try:
                written = os.pwritev(self._descriptor, some, at)
            except OSError as error:
                error.filename = self.path
                raise
            if written < size:  # the rare short write is not worth a loop of its own
                self.pwrite(memoryview(b"".join(some))[written:], at + written)
            at += size

    def truncate(self, size: int) -> None:
        with _naming(self.path):
            os.ftruncate(self._descriptor, size)

    def allocate(self, size: int) -> None:
        with _naming(self.path):
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._descriptor, 0, size)
            else:
                os.pwrite(self._descriptor, bytes(size), 0)

    def sync(self) -> None:
        with _naming(self.path):
            _sync_data(self._descriptor)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, _CLOSED
        if descriptor != _CLOSED:
            os.close(descriptor)

    def _progress(self, written: int) -> int:
        """A disk that takes nothing and reports no error would keep the loop going for ever."""
        if not written:
            raise OSError(errno.EIO, "write made no progress", self.path)
        return written


class DiskMap:
    """A memory map; it keeps a descriptor of its own, because `mmap` duplicates the one it is given."""

    __slots__ = ("_mapped", "view")

    def __init__(self, mapped: mmap.mmap | None) -> None:
        self._mapped = mapped  # None for an empty file: mmap refuses to map nothing
        self.view = memoryview(mapped or b"")

    def close(self) -> None:
        mapped, self._mapped = self._mapped, None
        with contextlib.suppress(BufferError):  # slices are alive: the last one to go unmaps
            self.view.release()
            if mapped is not None:
                mapped.close()


class DiskFilesystem:
    """The operating system's files."""

    __slots__ = ()

    def open(self, path: str) -> DiskFile:
        return DiskFile(path, os.open(path, os.O_RDWR | os.O_CLOEXEC))

    def create(self, path: str) -> DiskFile:
        return DiskFile(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))

    def map(self, path: str) -> DiskMap:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(descriptor).st_size
            return DiskMap(mmap.mmap(descriptor, size, access=mmap.ACCESS_READ) if size else None)
        finally:
            os.close(descriptor)

    def read(self, path: str) -> bytes:
        with open(path, "rb", buffering=0) as file:
            return file.read()

    def write_atomically(self, path: str, data: Buffer) -> None:
        write_through_temporary(self, path, data)

    def exists(self, path: str) -> bool:
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def free_bytes(self, path: str) -> int:
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize

    def list(self, directory: str) -> Names:
        return sorted(os.listdir(directory))

    def make_directory(self, path: str) -> None:
        path = os.path.normpath(path)
        missing: Names = []
        while not os.path.isdir(path) and path != parent_of(path):
            missing.append(path)
            path = parent_of(path)
        # An earlier call may have been killed between making the deepest one there is and syncing its parent. A parent
        # this process may not read was not made by it.
        with contextlib.suppress(PermissionError):
            self.sync_directory(parent_of(path))
        for directory in reversed(missing):
            try:
                os.mkdir(directory, DIRECTORY_MODE)
            except FileExistsError:
                if not os.path.isdir(directory):  # else another process was faster
                    raise
            self.sync_directory(parent_of(directory))

    def add_directory(self, path: str) -> None:
        try:
            os.mkdir(path, DIRECTORY_MODE)
        except FileExistsError:
            if not os.path.isdir(path):
                raise

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_tree(self, path: str) -> None:
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            if self.exists(path):
                raise

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with _naming(path):
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_through_temporary(filesystem: Filesystem, path: str, data: Buffer) -> None:
    """`Filesystem.write_atomically`, step by step; one code, so that the simulator crashes in the one brokers run."""
    temporary = path + TEMPORARY_SUFFIX
    try:
        file = filesystem.create(temporary)
        try:
            file.truncate(0)  # a crash may have left an earlier one
            file.pwrite(data, 0)
            file.sync()
        finally:
            file.close()
        filesystem.rename(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):  # the first error is the one to report
            filesystem.remove(temporary)
        raise
    filesystem.sync_directory(parent_of(path))


def parent_of(path: str) -> str:
    return os.path.dirname(path) or "."
