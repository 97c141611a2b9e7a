"""A disk in memory that keeps apart what is durable and what is only cached, and that fails on purpose.

Programs read and write the cache. `File.sync` and `sync_directory` bring it to the durable state, and `crash` brings
the durable state back, with as much of the rest as happened to reach the disk:

- A file is written in sectors of 512 bytes. Each sector holds what it held at some moment since the last sync, each on
  its own, because disks reorder. The size is one that the file had, or a sector boundary on the way from one to the
  next. What the size covers but no write reached reads as zeros, or as garbage where the disk held something before.
- A name stands for what it stood for at some moment since the directory was last synced. A rename happened to both of
  its names or to none, so that syncing either directory makes it durable.
- The two know nothing of each other: a synced file whose name was not is gone, and a name may survive its bytes.

After a failed `File.sync` the pages count as clean, as on Linux: they still read as written, but no later sync writes
them. `truncate` under a map, which would kill a real process some time later, fails an assertion at once.

Everything is deterministic: the same calls and the same seed leave the same bytes.
"""

import contextlib
import copy
import errno
import fnmatch
import io
import os
import random
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import attrs

from log.disk.filesystem import Buffer, Names, write_through_temporary
from log.disk.memory_nodes import Cloner, DirectoryNode, Edit, FileNode, NameChange, Node

Operation = Literal[
    "open", "map", "read", "list", "stat",
    "create", "write", "truncate", "sync", "rename", "remove", "make_directory", "sync_directory",
]  # fmt: skip

_ENDLESS_BYTES = 1 << 60
CrashMode = Literal["lose_all", "keep_all", "seeded"]


class SimulatedCrash(BaseException):
    """The machine stops here. Not an `Exception`, so that nothing between here and the test can handle it."""


@attrs.define
class Fault:
    """Fail operations of one kind on matching paths: after `after` of them went well, the next `times`."""

    operation: Operation | Literal["*"]
    error: int = errno.EIO
    path: str = "*"  # a shell pattern, whose * also matches /
    after: int = 0
    times: int | None = 1  # None: for ever, as a disk that is full or dead
    written: int = 0  # a short write: how many bytes are written before it fails

    def strikes(self, operation: Operation, path: str) -> bool:
        if self.times == 0 or self.operation not in (operation, "*") or not fnmatch.fnmatchcase(path, self.path):
            return False
        if self.after:
            self.after -= 1
            return False
        if self.times is not None:
            self.times -= 1
        return True


class MemoryFilesystem:
    """A `Filesystem` in memory; the working directory is the root.

    `faults` are asked before every operation. `operations` counts the ones that change something; to crash at each in
    turn, set `crash_at` to 0, 1, 2… and run the same program on a copy, until it comes through.
    """

    __slots__ = ("_down", "_edits", "_root", "capacity", "crash_at", "crash_share", "era", "faults", "operations")

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.capacity: int | None = None  # in bytes of files; a write that needs more fails with ENOSPC
        self.operations = 0
        self.crash_at: int | None = None  # the operation, counted as in `operations`, which raises SimulatedCrash
        self.crash_share = 0.0  # how much of that one is done: 0 nothing, 1 all; in between a write writes its share
        self.era = 0  # how often it crashed: files opened in an earlier era are invalid
        self._root = DirectoryNode()
        self._edits = 0
        self._down = False

    # What tests look at

    def file(self, path: str) -> FileNode:
        """A file, as it is now and as a power loss would leave it."""
        node = self._node(path)
        if not isinstance(node, FileNode):
            raise _error(errno.EISDIR, path)
        return node

    def durable_file(self, path: str) -> FileNode | None:
        """The file that would have this name after a power loss, if any would."""
        node: Node | None = self._root
        for name in _split(path):
            node = node.durable.get(name) if isinstance(node, DirectoryNode) else None
        return node if isinstance(node, FileNode) else None

    # What tests do to it

    @property
    def down(self) -> bool:
        """Did it crash, at `crash_at`, without a start since?"""
        return self._down

    def copy(self) -> "MemoryFilesystem":
        """The same state, with faults and pending changes; from here on the two are independent."""
        other = MemoryFilesystem()
        for name in ("operations", "crash_at", "crash_share", "era", "capacity", "_edits", "_down"):
            setattr(other, name, getattr(self, name))
        other.faults = [copy.copy(fault) for fault in self.faults]
        other._root = Cloner().directory(self._root)
        return other

    def crash(self, rng: random.Random | None = None, *, mode: CrashMode | None = None) -> None:
        """Stop and start again; `mode` is by default "seeded" if there is an `rng`, else "lose_all".

        "keep_all" is a killed process: the cache survives, and stays as far from durable as it was. The others are
        a power loss: "lose_all" keeps what is durable, "seeded" adds what `rng` picks of the rest.
        """
        self.era += 1
        self.crash_at = None
        self._down = False
        if mode is None:
            mode = "lose_all" if rng is None else "seeded"
        if mode == "keep_all":
            for file in self._root.files():
                file.data = bytearray(file.data)  # what was mapped went with the process
            return
        assert (mode == "seeded") == (rng is not None), "a seeded crash needs a random number generator, others none"
        self._root.settle(rng)
        for file in self._root.files():
            file.settle(rng)

    def corrupt(self, path: str, at: int, mask: int = 1) -> None:
        """Flip the bits of `mask` in one durable byte, as a failing disk does."""
        file = self.file(path)
        assert at < len(file.durable), (path, at, len(file.durable))
        file.durable[at] ^= mask
        file.data[at] ^= mask

    # What programs do with it

    def open(self, path: str) -> "MemoryFile":
        self.look("open", path)
        return MemoryFile(self, path, self.file(path))

    def create(self, path: str) -> "MemoryFile":
        with self.changing("create", path):
            directory, name = self._place(path)
            if name not in directory.entries:
                self._edit((directory, name, FileNode()))
        return MemoryFile(self, path, self.file(path))

    def map(self, path: str) -> "MemoryMap":
        self.look("map", path)
        return MemoryMap(memoryview(self.file(path).data).toreadonly())

    def read(self, path: str) -> bytes:
        self.look("read", path)
        return bytes(self.file(path).data)

    def write_atomically(self, path: str, data: Buffer) -> None:
        write_through_temporary(self, path, data)

    def exists(self, path: str) -> bool:
        self.look("stat", path)
        try:
            self._node(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def size(self, path: str) -> int:
        self.look("stat", path)
        return len(self.file(path).data)

    def free_bytes(self, path: str) -> int:
        self.look("stat", path)
        return _ENDLESS_BYTES if self.capacity is None else max(self.capacity - self._used_bytes(), 0)

    def _used_bytes(self) -> int:
        return sum(len(file.data) for file in self._root.files())

    def need(self, size: int, path: str) -> None:
        """Raise ENOSPC if the capacity does not allow `size` more bytes."""
        if self.capacity is not None and size > 0 and self._used_bytes() + size > self.capacity:
            raise _error(errno.ENOSPC, path)

    def list(self, directory: str) -> Names:
        self.look("list", directory)
        return sorted(self._directory(directory).entries)

    def make_directory(self, path: str) -> None:
        names = _split(path)
        there = len(names)
        while there and not self._is_directory("/".join(names[:there])):
            there -= 1
        # As on disk: an earlier call may have been killed here.
        self.sync_directory("/".join(names[: max(there - 1, 0)]))
        for depth in range(there, len(names)):
            parent, made = "/".join(names[:depth]), "/".join(names[: depth + 1])
            with self.changing("make_directory", made):
                directory = self._directory(parent)
                if names[depth] in directory.entries:
                    raise _error(errno.EEXIST, path)
                self._edit((directory, names[depth], DirectoryNode()))
            self.sync_directory(parent)

    def add_directory(self, path: str) -> None:
        with self.changing("make_directory", path):
            directory, name = self._place(path)
            there = directory.entries.get(name)
            if isinstance(there, FileNode):
                raise _error(errno.EEXIST, path)
            if there is None:
                self._edit((directory, name, DirectoryNode()))

    def rename(self, old: str, new: str) -> None:
        with self.changing("rename", old):
            (source, name), (target, new_name) = self._place(old), self._place(new)
            node, replaced = self._node(old), target.entries.get(new_name)
            if node is not replaced:
                if isinstance(node, DirectoryNode):
                    if _split(new)[: len(_split(old))] == _split(old):  # into itself
                        raise _error(errno.EINVAL, new)
                    if isinstance(replaced, FileNode):
                        raise _error(errno.ENOTDIR, new)
                    if replaced is not None and replaced.entries:
                        raise _error(errno.ENOTEMPTY, new)
                elif isinstance(replaced, DirectoryNode):
                    raise _error(errno.EISDIR, new)
                self._edit((source, name, None), (target, new_name, node))

    def remove(self, path: str) -> None:
        with self.changing("remove", path):
            try:
                self.file(path)
            except FileNotFoundError:
                pass
            else:
                self._edit((*self._place(path), None))

    def remove_tree(self, path: str) -> None:
        if not self.exists(path):
            return
        for name, child in list(self._directory(path).entries.items()):
            inner = os.path.join(path, name)
            if isinstance(child, DirectoryNode):
                self.remove_tree(inner)
            else:
                self.remove(inner)
        with self.changing("remove", path):
            self._edit((*self._place(path), None))

    def sync_directory(self, path: str) -> None:
        with self.changing("sync_directory", path):
            self._directory(path).sync()

    # How it goes wrong: `look` precedes what only reads, `begin` what changes something

    def look(self, operation: Operation, path: str) -> None:
        if self._down:
            raise SimulatedCrash("still down")
        for fault in self.faults:
            if fault.strikes(operation, path):
                raise _error(fault.error, path)

    def begin(self, operation: Operation, path: str, size: int = 0) -> "Interrupt | None":
        """Raise if nothing of the operation is to be done; return what to raise when it is done, as far as it is."""
        if self._down:
            raise SimulatedCrash("still down")
        number = self.operations
        self.operations += 1
        if number == self.crash_at:
            self._down = True
            crash = SimulatedCrash(f"operation {number}: {operation} {path}")
            if self.crash_share == 0 or (self.crash_share < 1 and operation != "write"):
                raise crash
            return Interrupt(int(size * self.crash_share), crash)
        for fault in self.faults:
            if fault.strikes(operation, path):
                error = _error(fault.error, path)
                if operation == "write" and fault.written:
                    return Interrupt(min(size, fault.written), error)
                raise error
        return None

    @contextlib.contextmanager
    def changing(self, operation: Operation, path: str) -> Iterator[None]:
        """Do an operation that is done as a whole or not at all, and raise what `begin` gives for afterwards."""
        interrupt = self.begin(operation, path)
        yield
        if interrupt:
            raise interrupt.error

    # Names

    def _node(self, path: str) -> Node:
        node: Node = self._root
        for name in _split(path):
            if not isinstance(node, DirectoryNode):
                raise _error(errno.ENOTDIR, path)
            if name not in node.entries:
                raise _error(errno.ENOENT, path)
            node = node.entries[name]
        return node

    def _is_directory(self, path: str) -> bool:
        try:
            return isinstance(self._node(path), DirectoryNode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _directory(self, path: str) -> DirectoryNode:
        node = self._node(path)
        if not isinstance(node, DirectoryNode):
            raise _error(errno.ENOTDIR, path)
        return node

    def _place(self, path: str) -> tuple[DirectoryNode, str]:
        """The directory that a name is in, or would be, and the name."""
        parent, name = os.path.split(os.path.normpath(path))
        return self._directory(parent), name

    def _edit(self, *changes: NameChange) -> None:
        self._edits += 1
        Edit(self._edits, changes).make()


class Interrupt(NamedTuple):
    """An operation that raises after it was done, as far as it was: a write only `size` of its bytes."""

    size: int
    error: BaseException


class MemoryFile:
    """An open file of a `MemoryFilesystem`; invalid after a crash."""

    __slots__ = ("__weakref__", "_era", "_filesystem", "_node", "path")

    def __init__(self, filesystem: MemoryFilesystem, path: str, node: FileNode) -> None:
        self.path = path
        self._filesystem = filesystem
        self._era: int | None = filesystem.era  # None once closed
        self._node = node

    def fileno(self) -> int:
        raise io.UnsupportedOperation("a file in memory has no descriptor")

    def size(self) -> int:
        self._check()
        self._filesystem.look("stat", self.path)
        return len(self._node.data)

    def pread(self, size: int, at: int) -> bytes:
        self._check()
        self._filesystem.look("read", self.path)
        return bytes(memoryview(self._node.data)[at : at + size])

    def pwrite(self, data: Buffer, at: int) -> None:
        self._check()
        self._filesystem.need(at + len(data) - len(self._node.data), self.path)
        interrupt = self._filesystem.begin("write", self.path, len(data))
        if interrupt:
            data = data[: interrupt.size]
        self._node.write(at, bytes(data))
        if interrupt:
            raise interrupt.error

    def pwritev(self, parts: Sequence[Buffer], at: int) -> None:
        self.pwrite(b"".join(parts), at)

    def truncate(self, size: int) -> None:
        self._check()
        with self._filesystem.changing("truncate", self.path):
            self._node.truncate(size)

    def allocate(self, size: int) -> None:
        self.pwrite(bytes(size), 0)

    def sync(self) -> None:
        self._check()
        try:
            with self._filesystem.changing("sync", self.path):
                self._node.sync()
        except OSError:
            self._node.pending.clear()  # the pages count as clean from now on: no later sync will write them
            raise

    def close(self) -> None:
        self._era = None

    def _check(self) -> None:
        if self._era != self._filesystem.era:
            raise _error(errno.EBADF, self.path)


class MemoryMap:
    """The bytes of a file of a `MemoryFilesystem`."""

    __slots__ = ("view",)

    def __init__(self, view: memoryview) -> None:
        self.view = view

    def close(self) -> None:
        with contextlib.suppress(BufferError):  # something other than a slice holds it
            self.view.release()


def _split(path: str) -> Names:
    return [name for name in path.split("/") if name not in ("", ".")]


def _error(number: int, path: str) -> OSError:
    """The subclass of `OSError` that the number calls for, with the system's words."""
    return OSError(number, os.strerror(number), path)
