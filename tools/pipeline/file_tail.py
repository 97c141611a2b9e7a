"""The lines of a file, as they are appended. Rotated files are read to their ends first.

A position is the file's inode, the number of bytes read, and a hash of the last of them: inodes are reused, and a
truncated file may have grown past the position, but then it has other bytes there. A copy that was made before the
truncation (logrotate's copytruncate) is found by the same hash.

Files are ordered by the time of their last change. A file with a non-empty successor is no longer written to. So a line
counts when its end is written, or when its file has such a successor. The file being read stays open: it may be renamed
or removed, and is still read to its end. Files that were rotated before the capture began are not read. A file that was
compressed before it was read is an error: with delaycompress a capture has the time to read it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISREG
from typing import Any

from attrs import define, field

from tools.pipeline.capture import CaptureError, Piece
from tools.pipeline.read_file import ReadFile, bytes_left

_ROTATED = re.compile(r"[.-]\d[\d._T:-]*")
"""The suffix of a rotated file: a number or a date."""
_COMPRESSED = re.compile(_ROTATED.pattern + r"\.gz")


def absolute(path: str | Path) -> Path:
    return Path(path).absolute()


@define
class FileTail:
    """`path` and its rotated files in the same directory, such as `path.1` or `path-20261231`."""

    path: Path = field(converter=absolute)
    _reading: ReadFile | None = field(default=None, init=False, repr=False, eq=False)

    @property
    def name(self) -> str:
        return f"file:{self.path}"

    def pieces(self, position: Any) -> Iterator[Piece]:
        opened = self._all()
        try:
            left = self._left(opened, position)
            for at, (file, begin) in enumerate(left):
                self._reading = file
                yield from file.lines(begin)
                if at < len(left) - 1:
                    yield from file.unfinished_line()
        finally:
            for file in opened:
                if file is not self._reading:
                    file.close()

    def captured(self, position: Any) -> None:
        """A file keeps no state of its captures."""

    def close(self) -> None:
        if self._reading is not None:
            self._reading.close()
            self._reading = None

    def _all(self) -> list[ReadFile]:
        """The existing files and the one being read, from the oldest to the one that is written to.

        All are opened before one is read: a file that has a successor then is no longer written to when it is read.
        """
        while True:
            there = self._listing()
            found = {} if self._reading is None else {self._reading.inode: self._reading}
            for path, inode in there.items():
                if inode not in found and (file := ReadFile.opened(path)) is not None:
                    found[file.inode] = file
            if self._listing() == there and found.keys() >= set(there.values()):
                break
            for file in found.values():  # some were renamed in between
                if file is not self._reading:
                    file.close()
        paths = {inode: path for path, inode in there.items()}
        for file in found.values():
            file.look(paths.get(file.inode))
        return sorted(found.values(), key=lambda one: (one.path == self.path, one.changed_ns, -one.number))

    def _listing(self) -> dict[Path, int]:
        """The files and their inodes."""
        found: dict[Path, int] = {}
        for path in self.path.parent.glob("*"):
            suffix = path.name.removeprefix(self.path.name)
            if path.name == self.path.name or (suffix != path.name and _ROTATED.fullmatch(suffix)):
                try:
                    status = path.stat()
                except FileNotFoundError:
                    continue  # it was renamed in between: the second listing differs
                if S_ISREG(status.st_mode):
                    found[path] = status.st_ino
        return found

    def _left(self, files: list[ReadFile], position: Any) -> list[tuple[ReadFile, int]]:
        """The files to read, each with its first byte. Empty files at the end are left out."""
        at, begin = self._begin(files, position)
        left = files[at:]
        while len(left) > 1 and not left[-1].size:
            left.pop()
        if len(left) > 1 and position is not None:
            self._refuse_compressed(left[0].changed_ns, position)
        return [(file, 0 if number else begin) for number, file in enumerate(left)]

    def _begin(self, files: list[ReadFile], position: Any) -> tuple[int, int]:
        """The first file to read, and its first byte."""
        if position is None:
            at = [number for number, one in enumerate(files) if one is self._reading or one.path == self.path]
            return (at[0] if at else len(files)), 0
        inode, offset, trace = position["inode"], position["offset"], position.get("trace")
        same = [number for number, one in enumerate(files) if one.inode == inode]
        if same and files[same[0]].was_read(offset, trace):
            return same[0], offset
        is_truncated = bool(same) and files[same[0]].path == self.path
        copies = [number for number, one in enumerate(files[:-1]) if is_truncated and one.was_read(offset, trace)]
        if copies:
            return copies[-1], offset
        compressed = self._compressed()
        for path in compressed:
            is_more = bytes_left(path, offset, trace)
            if is_more:
                raise CaptureError(f"{path} was compressed when {offset} bytes were read: gunzip it, and capture again")
            if is_more is False:
                return self._behind(files, path, position), 0
        if is_truncated:  # it was truncated and is written again
            return same[0], 0
        told = f" ({', '.join(one.name for one in compressed)} cannot be it)" if compressed else ""
        raise CaptureError(
            f"{self.path}: the file that was read up to byte {offset} is gone{told}. Put it back as "
            f"{self.path.name}.1, or capture into another topic"
        )

    def _behind(self, files: list[ReadFile], read: Path, position: Any) -> int:
        """The first file after one that was read to its end and then compressed."""
        since_ns = read.stat().st_mtime_ns
        self._refuse_compressed(since_ns, position)
        later = [number for number, one in enumerate(files) if one.path == self.path or one.changed_ns > since_ns]
        return later[0] if later else len(files)

    def _compressed(self) -> list[Path]:
        """Rotated and compressed files whose original does not exist any more."""
        return [
            path
            for path in sorted(self.path.parent.glob("*"))
            if path.name.startswith(self.path.name)
            and _COMPRESSED.fullmatch(path.name.removeprefix(self.path.name))
            and not path.with_suffix("").exists()
        ]

    def _refuse_compressed(self, since_ns: int, position: Any) -> None:
        """Raise CaptureError for a compressed file that is later than this time and was not read."""
        for path in self._compressed():
            is_later = path.stat().st_mtime_ns > since_ns
            if is_later and bytes_left(path, position["offset"], position.get("trace")) is None:
                raise CaptureError(f"{path} was compressed before it was read: gunzip it, and capture again")
