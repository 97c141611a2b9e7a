"""The lines of a file, as they are appended. What was rotated away meanwhile is read to its end first.

A position is the file's inode and the bytes that were read. A line counts when its end was written.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import field, frozen

from tools.pipeline.capture import CaptureError, Piece

_LINE_BYTES_MAX = 1 << 20


def absolute(path: str | Path) -> Path:
    return Path(path).absolute()


@frozen
class FileTail:
    """`path`, and what it was before it was renamed to `path.*` in the same directory."""

    path: Path = field(converter=absolute)

    @property
    def name(self) -> str:
        return f"file:{self.path}"

    def pieces(self, position: Any) -> Iterator[Piece]:
        current = _inode(self.path)
        if position is not None and position["inode"] != current:
            yield from self._rest_of_rotated(position)
            position = None
        if current is None:
            return
        begin = 0 if position is None else position["offset"]
        if begin > self.path.stat().st_size:
            begin = 0  # it was truncated, and is written anew
        yield from _lines(self.path, current, begin)

    def _rest_of_rotated(self, position: Any) -> Iterator[Piece]:
        """The rest of the file that was being read, then the files that came between it and the one there is now."""
        rotated = [one for one in self.path.parent.glob(f"{glob.escape(self.path.name)}.*") if one.is_file()]
        by_age = sorted(rotated, key=lambda one: one.stat().st_mtime_ns)
        inodes = [_inode(one) for one in by_age]
        if position["inode"] not in inodes:
            raise CaptureError(f"{self.path}: the file that was read up to byte {position['offset']} is gone")
        at = inodes.index(position["inode"])
        yield from _lines(by_age[at], position["inode"], position["offset"])
        for one in by_age[at + 1 :]:
            yield from _lines(one, one.stat().st_ino, 0)


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def _lines(path: Path, inode: int, begin: int) -> Iterator[Piece]:
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_ino != inode:
            return  # it was rotated just now: the next look finds it
        file.seek(begin)
        offset = begin
        while line := file.readline(_LINE_BYTES_MAX + 1):
            if len(line) > _LINE_BYTES_MAX:
                raise CaptureError(f"{path}: the line at byte {offset} has more than {_LINE_BYTES_MAX} bytes")
            if not line.endswith(b"\n"):
                return  # its end is still to come
            offset += len(line)
            yield Piece(None, line.rstrip(b"\r\n"), {"inode": inode, "offset": offset})
