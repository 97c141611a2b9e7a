"""Faults of the vote journal, at the start of a process: a bit flips in it, or the file is lost with both its copies.

A log that vanished in the same power loss is another fault: such a broker cannot know that it had voted at all. Each
broker's life draws from a generator of its own.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from log.disk.memory_filesystem import MemoryFilesystem
from log.recovery import checkpoint
from log.replica.vote_journal import read_votes
from tools.simulator.cluster.host import BrokerHost
from tools.simulator.settings.layout import DATA, JOURNAL

FLIPPED, LOST = "bit-flip", "lost-votes"
_FLIPPED_SHARE = 0.1
_LOST_SHARE = 0.25
_MAGIC_BYTES = 4
_GARBLED_EVERY_BYTES = 12
"""Less than any record has: every copy of every vote is damaged then."""


class DamagedVotes:
    """Strikes brokers that are about to start."""

    def __init__(self, seed: int, faults: tuple[str, ...], note: Callable[[str], None]) -> None:
        self._seed = seed
        self._faults = faults
        self._note = note
        self.doomed: set[int] = set()
        """Brokers that lose their votes before they start again."""
        self.counts: Counter[str] = Counter()

    def strike(self, broker: BrokerHost) -> None:
        """Damage what this broker knows of its votes, now and then."""
        flips = random.Random(f"damages votes {self._seed} {broker.id} {broker.lives}")
        loses = random.Random(f"loses votes {self._seed} {broker.id} {broker.lives}")
        if broker.id in self.doomed or (LOST in self._faults and loses.random() < _LOST_SHARE):
            self.doomed.discard(broker.id)
            self._lose(broker, loses)
        elif FLIPPED in self._faults and flips.random() <= _FLIPPED_SHARE:
            self._flip(broker, flips)

    def _flip(self, broker: BrokerHost, rng: random.Random) -> None:
        size = self._damageable_bytes(broker.disk)
        if size > _MAGIC_BYTES:
            broker.disk.corrupt(JOURNAL, rng.randrange(_MAGIC_BYTES, size), 1 << rng.randrange(8))
            self._note(f"flip a bit in the votes of {broker.id}")

    def _lose(self, broker: BrokerHost, rng: random.Random) -> None:
        """The file is gone, or no record of it can be read."""
        size = self._damageable_bytes(broker.disk)
        if size <= _MAGIC_BYTES:
            return
        if rng.random() < 0.5:
            for at in range(_MAGIC_BYTES, size, _GARBLED_EVERY_BYTES):
                broker.disk.corrupt(JOURNAL, at, 1 << rng.randrange(8))
        else:
            waiting, broker.disk.faults = broker.disk.faults, []
            broker.disk.remove(JOURNAL)
            broker.disk.faults = waiting
        self.counts[LOST] += 1
        self._note(f"lose the votes of {broker.id}")

    def _damageable_bytes(self, disk: MemoryFilesystem) -> int:
        """How long the journal is; 0 if there is none, or if some group has voted whose log is gone."""
        readable = disk.copy()
        readable.faults.clear()
        if not readable.exists(JOURNAL):
            return 0
        data = readable.read(JOURNAL)
        vanished = [group for group in read_votes(data).votes if not checkpoint.is_log(readable, f"{DATA}/{group}")]
        return 0 if vanished else min(len(data), len(disk.file(JOURNAL).durable))
