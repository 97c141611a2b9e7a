"""Lasting faults: disks that stay full or slow, wall clocks that jump by years, settings of topics that change.

One broker at a time has a disk that stays full or slow, for seconds or until everything heals: the others are a
majority. Settings of the topic that all clients write to change during the run; earlier promises still hold.

It draws from a generator of its own: a seed without such faults is the run that it was before there were any.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable

from actors.cluster_file.facts import GROUP as METADATA
from actors.runtime import Address
from log.config import NEVER
from log.disk.memory_filesystem import Fault
from log.machines.metadata.plans import AlterConfigs
from tools.simulator.faults.plan import FaultPlan
from tools.simulator.settings.faults import LASTING_FAULTS
from tools.simulator.settings.layout import DATA, TOPIC

_LASTING_S = (1.0, 3.0, 3600.0)
_DAY = 86_400.0
_JUMPS = (-3650 * _DAY, -30 * _DAY, -_DAY, -60.0, 60.0, _DAY, 30 * _DAY, 3650 * _DAY)
_CONFIGS: dict[str, tuple[str, ...]] = {
    "flush.messages": ("1", "1", "5", str(NEVER)),
    "flush.ms": ("0", "100", str(NEVER)),
    "segment.bytes": ("400", "2000", "1000000"),
    "segment.ms": ("100", "604800000"),
    "index.interval.bytes": ("0", "100", "4096"),
    "cleanup.policy": ("delete", "compact", "compact,delete"),
    "min.cleanable.dirty.ratio": ("0.01", "0.5"),
    "max.compaction.lag.ms": ("1", str(NEVER)),
    "compression.type": ("producer", "gzip", "zstd", "uncompressed"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
}
"""None of these deletes a record that a client wrote: every record has a key of its own."""


class LastingFaults:
    """Done beside all the others."""

    def __init__(self, faults: FaultPlan) -> None:
        self._faults = faults
        self._cluster = faults.cluster
        self._rng = random.Random(f"lasting faults {self._cluster.settings.seed}")
        self._kinds = [kind for kind in LASTING_FAULTS if kind in self._cluster.settings.faults]
        self._works = {
            "full-disk": self._fill, "slow-disk": self._slow_down, "calendar": self._jump, "configure": self._configure,
        }  # fmt: skip
        flushes = self._cluster.settings.flushes
        self._configs = sorted(name for name in _CONFIGS if not (flushes and name.startswith("flush.")))
        """Where every group syncs first, whatever its topic says, flush.messages stays 1: else no sync would come."""
        self._bad_until = 0.0
        """Until then some broker has a bad disk."""
        self._configured = 0

    def begin(self) -> None:
        if self._kinds:
            self._plan()

    def _plan(self) -> None:
        self._faults.later(self._rng.expovariate(1 / self._cluster.settings.fault_interval_s), self._strike)

    def _strike(self) -> None:
        kind = self._rng.choice(self._kinds)
        if self._cluster.living and self._works[kind](self._rng.choice(self._cluster.living)):
            self._faults.counts[kind] += 1
        self._plan()

    # -- the kinds ---------------------------------------------------------------------------------------------

    def _fill(self, broker: int) -> bool:
        """Nothing can be written, no log, no vote and no metadata."""
        if self._cluster.now < self._bad_until:
            return False
        disk, fault = self._cluster.brokers[broker].disk, Fault("write", errno.ENOSPC, f"{DATA}/*", times=None)
        self._cluster.note(f"fill the disk of {broker}")
        disk.faults.append(fault)

        def over() -> None:
            disk.faults[:] = [one for one in disk.faults if one is not fault]

        self._lasts(over)
        return True

    def _slow_down(self, broker: int) -> bool:
        if self._cluster.now < self._bad_until:
            return False
        self._cluster.slowness[broker] = self._rng.choice((20.0, 100.0, 400.0))
        self._cluster.note(f"slow down the disk of {broker} {self._cluster.slowness[broker]:.0f} times")
        self._lasts(lambda: self._cluster.slowness.pop(broker, None))
        return True

    def _lasts(self, over: Callable[[], object]) -> None:
        seconds = self._rng.choice(_LASTING_S)
        self._bad_until = self._cluster.now + seconds
        self._faults.later(seconds, over)

    def _jump(self, broker: int) -> bool:
        """The calendar of one broker: nothing that clients wrote may go, or be accepted twice, for that."""
        seconds, calendar = self._rng.choice(_JUMPS), self._cluster.calendar(broker)
        if calendar.wall() + seconds < _DAY:
            return False
        calendar.jump_wall(seconds)
        self._cluster.note(f"jump the calendar of {broker} by {seconds} s")
        return True

    def _configure(self, _broker: int) -> bool:
        controller = self._cluster.leader(METADATA)
        if controller is None or controller in self._cluster.sim.paused:
            return False
        names = self._rng.sample(self._configs, self._rng.choice((1, 1, 2, 3)))
        configs = tuple((name, self._rng.choice(_CONFIGS[name])) for name in names)
        self._configured += 1
        request = AlterConfigs(f"configure {self._configured}", TOPIC, configs)
        self._cluster.note(f"configure {dict(configs)}")
        self._cluster.sim.nodes[controller].tell_local(Address("controller", "", controller), request)
        return True
