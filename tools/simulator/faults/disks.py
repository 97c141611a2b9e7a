"""What goes wrong with disks and clocks."""

from __future__ import annotations

import contextlib
import errno

from actors.cluster_file.facts import GROUP as METADATA
from log.disk.memory_filesystem import Fault
from log.errors import LogOffline
from log.recovery import checkpoint
from log.recovery.checkpoint import Offsets
from tools.simulator.faults.plan import FaultPlan
from tools.simulator.settings.layout import DATA, JOURNAL

INDEXES = (".index", ".timeindex")
_AHEAD_SECONDS_MAX = 40_000.0
"""Or behind: no two calendars are a day apart."""


def crash(faults: FaultPlan, broker: int) -> bool:
    """The process dies in the middle of an operation on its disk."""
    disk = faults.cluster.brokers[broker].disk
    disk.crash_at = disk.operations + faults.rng.choice((0, 1, 2, 5, 10, 30))
    disk.crash_share = faults.rng.choice((0.0, 0.5, 1.0))
    return True


def write_error(faults: FaultPlan, broker: int) -> bool:
    """One write to a log fails, perhaps in its middle."""
    path = f"{DATA}/{faults.rng.choice(faults.cluster.all_groups)}/*.log"
    fault = Fault("write", errno.EIO, path, written=faults.rng.choice((0, 0, 30)))
    faults.cluster.brokers[broker].disk.faults.append(fault)
    return True


def no_space(faults: FaultPlan, broker: int) -> bool:
    """For a while nothing can be written to the logs."""
    disk = faults.cluster.brokers[broker].disk
    path = f"{DATA}/{faults.rng.choice(faults.cluster.all_groups)}/*"
    disk.faults.append(Fault("write", errno.ENOSPC, path, times=None))

    def over() -> None:
        disk.faults[:] = [fault for fault in disk.faults if fault.path != path or fault.times is not None]

    faults.later(faults.rng.uniform(0.1, 2.0), over)
    return True


def sync_error(faults: FaultPlan, broker: int) -> bool:
    """One sync fails, of a log or of the votes; what it was for is never written.

    A process that dies before it has noted the failure leaves a log whose next sync succeeds and writes nothing. Such a
    log is written again where syncs are asked for. Elsewhere that would cost too much: no sync fails there.
    """
    group = faults.rng.choice((None, faults.rng.choice(faults.cluster.all_groups)))
    if group not in (None, METADATA) and not faults.cluster.settings.asks_for_syncs:
        return False
    path = JOURNAL if group is None else f"{DATA}/{group}/*.log"
    faults.cluster.brokers[broker].disk.faults.append(Fault("sync", errno.EIO, path))
    return True


def missing_index(faults: FaultPlan, broker: int) -> bool:
    """It dies, and comes back without some of its index files."""
    cluster, disk = faults.cluster, faults.cluster.brokers[broker].disk
    cluster.kill(broker)
    for group in cluster.all_groups:
        directory = f"{DATA}/{group}"
        for name in disk.list(directory) if disk.exists(directory) else ():
            if name.endswith(INDEXES) and faults.rng.random() < 0.5:
                disk.remove(f"{directory}/{name}")
                cluster.note(f"lose {directory}/{name} of {broker}")
    faults.later(faults.down_s(), lambda: faults.restart(broker))
    return True


def stale_checkpoint(faults: FaultPlan, broker: int) -> bool:
    """It dies, and comes back with the checkpoint that it had when this last happened, or at its beginning.

    Not where a bit is flipped: what is above the checkpoint is scanned, and damage there looks like a torn write.
    """
    cluster, disk = faults.cluster, faults.cluster.brokers[broker].disk
    if cluster.brokers[broker].damaged:
        return False
    cluster.kill(broker)
    for group in cluster.all_groups:
        directory = f"{DATA}/{group}"
        newer = checkpoint.read_offsets(disk, directory)
        if newer is not None:
            key = broker, directory, cluster.brokers[broker].directory
            older, faults.checkpoints[key] = faults.checkpoints.get(key), newer
            if older is not None and _may_be_left(older, newer):
                disk.faults.clear()
                checkpoint.write_offsets(disk, directory, older)
                cluster.note(f"restore an older checkpoint of {group} of {broker}")
    faults.later(faults.down_s(), lambda: faults.restart(broker))
    return True


def _may_be_left(older: Offsets, newer: Offsets) -> bool:
    """An older log start promises segments that are gone, which is damage and is said to be. And an older recovery
    point that is higher is of before the log was cut, where it is overwritten first.
    """
    return older.log_start_offset == newer.log_start_offset and older.recovery_point <= newer.recovery_point


def retention(faults: FaultPlan, broker: int) -> bool:
    """What is old is deleted, here and not elsewhere."""
    cluster = faults.cluster
    replica = cluster.replica(faults.rng.choice(cluster.data_groups), broker)
    if replica is None or broker in cluster.sim.paused:
        return False
    log = replica.member.log
    offset = min(log.high_watermark, log.end_offset) - faults.rng.choice((0, 0, 0, 1, 5, 30))
    if offset <= log.log_start_offset:
        return False
    cluster.note(f"raise the log start of {replica.address} to {offset}")
    with contextlib.suppress(LogOffline):  # the replica finds out by itself
        if offset == log.end_offset and faults.rng.random() < 0.7:
            log.roll()  # so that nothing of it is left
        log.raise_log_start(offset)
    return True


def clock(faults: FaultPlan, broker: int) -> bool:
    """The calendar jumps, by less than a day in all: after that producers expire, as they should."""
    seconds = faults.rng.choice((-20_000.0, -5.0, 5.0, 3600.0, 20_000.0))
    calendar = faults.cluster.calendar(broker)
    if abs(calendar.wall() + seconds - faults.cluster.sim.clock.wall()) > _AHEAD_SECONDS_MAX:
        return False
    calendar.jump_wall(seconds)
    faults.cluster.note(f"jump the clock of {broker} by {seconds} s")
    return True
