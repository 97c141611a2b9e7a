"""Which partition a key belongs to, by the rule of Kafka's Java client: murmur2, so that all clients agree."""

from __future__ import annotations

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Kafka's hash of some bytes, as an unsigned number of 32 bits."""
    size = len(data)
    whole = size & ~3
    digest = _SEED ^ size
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        digest = (digest * _MULTIPLIER & _MASK) ^ word
    if size != whole:
        digest = (digest ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    digest = (digest ^ digest >> 13) * _MULTIPLIER & _MASK
    return digest ^ digest >> 15


def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition of a key, of a topic with this many."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
