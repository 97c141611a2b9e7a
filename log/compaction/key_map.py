"""The newest offset of every key: what a compaction knows while it rewrites the log.

A flat hash table of 24 bytes per slot: a 128-bit digest of the key and an offset. At most three quarters of the slots
are used, so a key costs 32 bytes however long it is, and the table never takes more than it was given. A dict would
take 120 bytes per key and more, and a compaction that holds a quarter of the keys has to rewrite the log four times.

Two keys with the same digest would count as one, and the older one's record would be lost. As in Kafka, 128 bits are
taken to be enough; unlike with Kafka's MD5, such a pair cannot be found on purpose with BLAKE2b.
"""

from __future__ import annotations

import struct
from array import array
from hashlib import blake2b

SLOT_BYTES = 24
NOT_FOUND = -1
_SLOTS_MIN = 5
_DIGEST = struct.Struct("=QQ")


class KeyMap:
    """Keys to offsets, for at most `memory_bytes`, or less if `keys_max` keys are all that can come."""

    __slots__ = ("_count", "_firsts", "_keys_max", "_offsets", "_seconds", "_slots")

    def __init__(self, memory_bytes: int, keys_max: int) -> None:
        # A prime number of slots lets any step from slot to slot reach all of them.
        self._slots = _prime_up_to(max(min(memory_bytes // SLOT_BYTES, keys_max * 3 // 2 + 16), _SLOTS_MIN))
        self._keys_max = self._slots * 3 // 4
        self._count = 0
        self._firsts = array("Q", (0,)) * self._slots
        self._seconds = array("Q", (0,)) * self._slots
        self._offsets = array("Q", (0,)) * self._slots  # one more than the offset; 0 is an unused slot

    def __len__(self) -> int:
        return self._count

    @property
    def size(self) -> int:
        """Bytes."""
        return self._slots * SLOT_BYTES

    def put(self, key: bytes, offset: int) -> bool:
        """Note that this offset is the key's newest. False if the key is new and there is no room."""
        first, second = _DIGEST.unpack(blake2b(key, digest_size=16).digest())
        slots, offsets, seconds = self._slots, self._offsets, self._seconds
        slot = first % slots
        if offsets[slot] and (seconds[slot] != second or self._firsts[slot] != first):
            step = 1 + second % (slots - 1)
            slot = (slot + step) % slots
            while offsets[slot] and (seconds[slot] != second or self._firsts[slot] != first):
                slot = (slot + step) % slots
        if not offsets[slot]:
            if self._count == self._keys_max:
                return False
            self._count += 1
            self._firsts[slot], seconds[slot] = first, second
        offsets[slot] = offset + 1
        return True

    def get(self, key: bytes) -> int:
        """The newest offset that was put for this key, or NOT_FOUND."""
        first, second = _DIGEST.unpack(blake2b(key, digest_size=16).digest())
        slots, offsets, seconds = self._slots, self._offsets, self._seconds
        slot = first % slots
        if offsets[slot] and (seconds[slot] != second or self._firsts[slot] != first):
            step = 1 + second % (slots - 1)
            slot = (slot + step) % slots
            while offsets[slot] and (seconds[slot] != second or self._firsts[slot] != first):
                slot = (slot + step) % slots
        found: int = offsets[slot]
        return found - 1  # an unused slot holds 0


def _prime_up_to(number: int) -> int:
    """The largest prime that is no larger."""
    while any(number % divisor == 0 for divisor in range(2, int(number**0.5) + 1)):
        number -= 1
    return number
