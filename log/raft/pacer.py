"""The rate at which one broker catches up new replicas, all of them together.

A partition that moves is copied as a whole. At full speed that would take the disk, the loop and the links from the
clients that are served meanwhile.
"""

from __future__ import annotations


class Pacer:
    """Says when more may be sent. A batch is never split: it is sent at once, and paid for by the pause after it."""

    __slots__ = ("_bytes_per_s", "_free_at")

    def __init__(self, bytes_per_s: float = float("inf")) -> None:
        self._bytes_per_s = bytes_per_s
        self._free_at = 0.0

    def spend(self, size: int, now: float) -> float:
        """`size` bytes are sent now. Gives the time from which more may be sent."""
        self._free_at = max(self._free_at, now) + size / self._bytes_per_s
        return self._free_at
