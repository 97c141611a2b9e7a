"""A run of whole batches in a segment file, handed out to be sent or read.

It holds its file open: the bytes stay readable while segments roll, close or are deleted. Only a truncation may shorten
it, and then a send comes up short and the connection is closed.
"""

from __future__ import annotations

from log.disk.filesystem import File
from protocol.late_attrs import frozen


@frozen(slots=True)
class Slice:
    """`size` bytes of `file` from `position`; the first batch holds or follows the offset that was asked for, and the
    last one ends at `end_offset` or below."""

    file: File | None
    position: int
    size: int
    end_offset: int
    beyond: int = 0
    """The bytes that the same read could have had from later segments: a slice is of one file."""
    copy: bytes = b""
    """The bytes, if they were read already and no file is held."""

    def __len__(self) -> int:
        return self.size

    def fileno(self) -> int:
        """The descriptor of the file, for sendfile."""
        assert self.file is not None, "an empty slice has no file"
        return self.file.fileno()

    def read(self) -> bytes:
        """The bytes themselves."""
        return self.file.pread(self.size, self.position) if self.file is not None else self.copy

    def copied(self) -> Slice:
        """The same, in memory."""
        return Slice(None, 0, self.size, self.end_offset, self.beyond, self.read())

    def withheld(self) -> Slice:
        """An empty slice that says how many bytes are there."""
        return Slice(None, 0, 0, self.end_offset, self.size + self.beyond)


EMPTY = Slice(None, 0, 0, 0)
