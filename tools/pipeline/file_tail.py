"""The lines of a file, as they are appended. What was rotated away meanwhile is read to its end first.

A position is the file's inode, the bytes that were read, and a hash of the last of them: an inode is used again, and a
file that was truncated may have grown past where it was, but then other bytes stand there. A copy that was made before
the truncation (logrotate's copytruncate) is found by the same hash.

Files follow each other by the time of their last change, and one with a successor in which something stands is written
no more. So a line counts when its end was written, or when its file has such a successor. The file that is being read
stays open: it may be renamed or removed, and is still read to its end. What was rotated before a capture began is not
read. What was compressed is not read either, but told: delaycompress leaves a capture time to read a file.
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
"""What a name gets: a number or a date."""
_COMPRESSED = re.compile(_ROTATED.pattern + r"\.gz")


def absolute(path: str | Path) -> Path:
    return Path(path).absolute()


@define
class FileTail:
    """`path`, and what it was before it was renamed in the same directory, to `path.1` or `path-20261231`, say."""

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
        """Nothing is kept for those who read a file."""

    def close(self) -> None:
        if self._reading is not None:
            self._reading.close()
            self._reading = None

    def _all(self) -> list[ReadFile]:
        """The files that are there and the one that was being read, from the oldest to the one that is written to.

        All are opened before one is read: what has a successor then is written no more when it is read.
        """
        while True:
            there = self._listing()
            found = {} if self._reading is None else {self._reading.inode: self._reading}
            for path, inode in there.items():
                if inode not in found and (file := ReadFile.opened(path)) is not None:
                    found[file.inode] = file
            if self._listing() == there and found.keys() >= set(there.values()):
                break
            for file in found.values():  # some were renamed meanwhile
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
                    continue  # it was renamed just now: the second listing differs
                if S_ISREG(status.st_mode):
                    found[path] = status.st_ino
        return found

    def _left(self, files: list[ReadFile], position: Any) -> list[tuple[ReadFile, int]]:
        """What is to be read, and from where. At the end is no empty file: its predecessor may still be written."""
        at, begin = self._begin(files, position)
        left = files[at:]
        while len(left) > 1 and not left[-1].size:
            left.pop()
        if len(left) > 1 and position is not None:
            self._refuse_compressed(left[0].changed_ns, position)
        return [(file, 0 if number else begin) for number, file in enumerate(left)]

    def _begin(self, files: list[ReadFile], position: Any) -> tuple[int, int]:
        """Which file comes first, and from where it is read."""
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
        if is_truncated:  # it is written anew
            return same[0], 0
        told = f" ({', '.join(one.name for one in compressed)} cannot be it)" if compressed else ""
        raise CaptureError(
            f"{self.path}: the file that was read up to byte {offset} is gone{told}. Put it back as "
            f"{self.path.name}.1, or capture into another topic"
        )

    def _behind(self, files: list[ReadFile], read: Path, position: Any) -> int:
        """The first file that came after one that was read to its end, and compressed."""
        since_ns = read.stat().st_mtime_ns
        self._refuse_compressed(since_ns, position)
        later = [number for number, one in enumerate(files) if one.path == self.path or one.changed_ns > since_ns]
        return later[0] if later else len(files)

    def _compressed(self) -> list[Path]:
        """Files that were rotated and compressed; not those of which the original is still there."""
        return [
            path
            for path in sorted(self.path.parent.glob("*"))
            if path.name.startswith(self.path.name)
            and _COMPRESSED.fullmatch(path.name.removeprefix(self.path.name))
            and not path.with_suffix("").exists()
        ]

    def _refuse_compressed(self, since_ns: int, position: Any) -> None:
        """One that came later than the file that is left now, and is not a copy of it, would be missed."""
        for path in self._compressed():
            is_later = path.stat().st_mtime_ns > since_ns
            if is_later and bytes_left(path, position["offset"], position.get("trace")) is None:
                raise CaptureError(f"{path} was compressed before it was read: gunzip it, and capture again")
