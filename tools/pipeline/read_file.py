"""An open file that is read line by line, also after it was renamed or removed."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, Self

from attrs import define

from tools.pipeline.capture import CaptureError, Piece

_LINE_BYTES_MAX = 1 << 20
_TRACE_BYTES = 1_024
_NUMBER = re.compile(r"\.(\d{1,4})$")


@define(eq=False)
class ReadFile:
    path: Path | None
    """None after it was removed."""
    inode: int
    size: int
    changed_ns: int
    _file: BinaryIO
    _offset: int = 0
    _before: bytes = b""
    """The last bytes before the offset."""

    @classmethod
    def opened(cls, path: Path) -> Self | None:
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return None
        status = os.fstat(file.fileno())
        return cls(path, status.st_ino, status.st_size, status.st_mtime_ns, file)

    def look(self, path: Path | None) -> None:
        """Update path, size and time of change."""
        status = os.fstat(self._file.fileno())
        self.path, self.size, self.changed_ns = path, status.st_size, status.st_mtime_ns

    def close(self) -> None:
        self._file.close()

    @property
    def number(self) -> int:
        """The number of a rotated file; the higher, the older."""
        found = _NUMBER.search(self.path.name) if self.path is not None else None
        return int(found[1]) if found else 0

    def was_read(self, offset: int, trace: str | None) -> bool:
        """Was this the file that was read up to here? Positions of older versions have no trace."""
        return self.size >= offset and trace in (None, _trace(self._bytes_before(offset)))

    def lines(self, begin: int) -> Iterator[Piece]:
        """The complete lines."""
        self._before, self._offset = self._bytes_before(begin), begin
        while (line := self._file.readline(_LINE_BYTES_MAX + 1)).endswith(b"\n") or len(line) > _LINE_BYTES_MAX:
            yield self._piece(line)

    def unfinished_line(self) -> Iterator[Piece]:
        """The rest after the last complete line."""
        self._file.seek(self._offset)
        if line := self._file.read(_LINE_BYTES_MAX + 1):
            yield self._piece(line)

    def _piece(self, line: bytes) -> Piece:
        if len(line) > _LINE_BYTES_MAX:
            raise CaptureError(f"{self.path}: the line at byte {self._offset} has more than {_LINE_BYTES_MAX} bytes")
        self._offset += len(line)
        self._before = (self._before + line)[-_TRACE_BYTES:]
        position = {"inode": self.inode, "offset": self._offset, "trace": _trace(self._before)}
        return Piece(None, line.rstrip(b"\r\n"), position)

    def _bytes_before(self, offset: int) -> bytes:
        """The last bytes before this offset, to which the file is positioned then."""
        begin = max(offset - _TRACE_BYTES, 0)
        self._file.seek(0, os.SEEK_END)  # drops the buffer, which may be outdated
        self._file.seek(begin)
        return self._file.read(offset - begin)


def bytes_left(path: Path, offset: int, trace: str | None) -> bool | None:
    """Has a compressed file more bytes than were read of it? None if it is not the file that was read."""
    begin = max(offset - _TRACE_BYTES, 0)
    try:
        with gzip.open(path) as file:
            file.seek(begin)
            before = file.read(offset - begin)
            return bool(file.read(1)) if _trace(before) == trace else None
    except (EOFError, gzip.BadGzipFile) as error:
        raise CaptureError(f"{path} cannot be read: {error}") from error


def _trace(data: bytes) -> str:
    return blake2b(data, digest_size=8).hexdigest()
