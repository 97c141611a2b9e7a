"""How fast replicas that are being made may be filled, all of one broker's together.

A partition that moves is copied as a whole. At full speed that would take the disk, the loop and the links from those
who are being served meanwhile.
"""

from __future__ import annotations


class Pacer:
    """Says when more may be sent. A batch is never split: its bytes are waited for after it is sent."""

    __slots__ = ("_bytes_per_s", "_free_at")

    def __init__(self, bytes_per_s: float = float("inf")) -> None:
        self._bytes_per_s = bytes_per_s
        self._free_at = 0.0

    def spend(self, size: int, now: float) -> float:
        """So much goes out now: when may more?"""
        self._free_at = max(self._free_at, now) + size / self._bytes_per_s
        return self._free_at
