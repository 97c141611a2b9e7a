"""A machine of the simulated cluster: a broker's disk, which outlives the broker's processes."""

from __future__ import annotations

from attrs import define, frozen

from log.disk.memory_filesystem import MemoryFilesystem
from log.disk.memory_nodes import FileNode


@frozen(slots=True)
class BitFlip:
    """A bit of a file that is not as it was written."""

    path: str
    file: FileNode
    at: int
    mask: int


@define(slots=True)
class BrokerHost:
    """A machine: its disk outlives its processes."""

    id: int
    disk: MemoryFilesystem
    directory: str
    alive: bool = False
    flip: BitFlip | None = None
    was_damaged: bool = False
    is_stopping: bool = False
    """Was this process told to end cleanly?"""
    lives: int = 0
    boots: int = 0

    @property
    def damaged(self) -> bool:
        return self.flip is not None

    def damage(self, path: str, at: int, mask: int) -> None:
        """Flip bits of a byte that was written long ago."""
        self.disk.corrupt(path, at, mask)
        self.flip = BitFlip(path, self.disk.file(path), at, mask)
        self.was_damaged = True

    def repair(self) -> None:
        """Let the disk be as it was written."""
        flip, self.flip = self.flip, None
        if flip is None or not self.disk.exists(flip.path) or self.disk.file(flip.path) is not flip.file:
            return
        if flip.at < len(flip.file.durable):  # else it was cut away
            self.disk.corrupt(flip.path, flip.at, flip.mask)
