"""Open files and maps, kept open for the next use, up to a limit.

A broker has many more segments than it may have descriptors, and opening one costs more than a small read from it. So
a log asks `Handles` for a file each time it needs it, and keeps none but the segment it is writing to.

Dropping a handle only drops the reference that is held here. A `File` without any other reference is closed by that, at
once; a file that is in use (by a slice on its way to a client) stays readable until its last reference goes. Nothing
here closes a file that is in use, and nothing has to know whether one is. But files that outlive their place here are
counted, so that slow clients do not take all descriptors of the process: while there are too many of them, no more
slices are handed out.

A `Map` is used only within the call that asked for it. `forget` closes it even if it is referenced, because the next
thing to happen may be a truncation, and to touch a mapped page behind the new end kills the process.
"""

import weakref
from collections import OrderedDict

from log.disk.filesystem import File, Filesystem, Map
from log.disk.reserve import Reserve

LIMIT = 512  # well below the common limit of 1,024 descriptors per process; connections want some too
LENT_MAX = 512


class Handles:
    """The most recently used files and maps of one filesystem.

    What is cached goes by path, so a path must be forgotten before what it stands for changes: before a truncation,
    removal or rename. A caller that gets a file or map here must not close it.
    """

    __slots__ = (
        "_handles", "_lent", "filesystem", "lent_max", "limit", "open_count", "reserve", "unnamed", "unnoted_syncs",
    )  # fmt: skip

    def __init__(self, filesystem: Filesystem, limit: int = LIMIT, reserve: Reserve | None = None) -> None:
        # A lookup goes through the offset index or the time index and then the log: they must fit side by side.
        assert limit >= 4, limit
        self.limit = limit
        self.open_count = 0  # descriptors held here: a path both opened and mapped counts twice
        self.filesystem = filesystem
        self.reserve = Reserve(filesystem, "", 0) if reserve is None else reserve
        self.unnoted_syncs: dict[str, int] = {}
        """Logs whose failed sync could not be written down, and the offsets up to which they were durable."""
        self.unnamed: dict[str, set[str]] = {}
        """Directories of logs whose names may not be on disk yet, by parent: one sync of that is for all of them."""
        self._handles: OrderedDict[str, _Handle] = OrderedDict()  # the least recently used first
        self._lent: set[weakref.ref[File]] = set()
        self.lent_max = LENT_MAX

    @property
    def lent_count(self) -> int:
        """The number of files that are not kept here any more and still in use."""
        return len(self._lent)

    @property
    def are_many_lent(self) -> bool:
        """Are so many files lent that a caller that may hold one for long must not take one?"""
        return len(self._lent) >= self.lent_max

    def note_failed_sync(self, directory: str, flushed_offset: int) -> None:
        """A sync of this log failed, and only this process knows: it is written down when the log is opened again."""
        known = self.unnoted_syncs.get(directory, flushed_offset)
        self.unnoted_syncs[directory] = min(known, flushed_offset)

    def file(self, path: str) -> File:
        """The open file at `path`, which must exist."""
        handle = self._handles.get(path)
        if handle is not None and handle.file is not None:
            self._handles.move_to_end(path)
            return handle.file
        file = self.filesystem.open(path)
        self._slot(path).file = file
        self._evict()
        return file

    def map(self, path: str) -> Map:
        """The map of the sealed file at `path`, for use within this call of the caller."""
        handle = self._handles.get(path)
        if handle is not None and handle.map is not None:
            self._handles.move_to_end(path)
            return handle.map
        mapped = self.filesystem.map(path)
        self._slot(path).map = mapped
        self._evict()
        return mapped

    def forget(self, path: str) -> None:
        """Drop the file and unmap the map, if there are any: what `path` stands for is about to change."""
        handle = self._handles.pop(path, None)
        if handle is not None:
            self._let_go(handle)
            if handle.map is not None:
                handle.map.close()

    def close_all(self) -> None:
        """Forget everything."""
        for path in list(self._handles):
            self.forget(path)
        assert self.open_count == 0, self.open_count

    def _slot(self, path: str) -> "_Handle":
        """Where a file or map that was just opened goes, as the most recently used."""
        handle = self._handles.get(path)
        if handle is None:
            handle = self._handles[path] = _Handle()
        else:
            self._handles.move_to_end(path)
        self.open_count += 1
        return handle

    def _evict(self) -> None:
        while self.open_count > self.limit:
            self._let_go(self._handles.popitem(last=False)[1])

    def _let_go(self, handle: "_Handle") -> None:
        """This handle was taken out. Its file is counted as long as it is in use; most are closed at once."""
        self.open_count -= handle.count()
        if handle.file is not None:
            self._lent.add(weakref.ref(handle.file, self._lent.discard))
            handle.file = None


class _Handle:
    """What is open of one path."""

    __slots__ = ("file", "map")

    def __init__(self) -> None:
        self.file: File | None = None
        self.map: Map | None = None

    def count(self) -> int:
        return (self.file is not None) + (self.map is not None)
