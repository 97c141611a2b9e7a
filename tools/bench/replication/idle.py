"""The cost of a thousand partitions with three replicas each while no client uses them."""

from __future__ import annotations

from time import perf_counter

import psutil
import trio

from actors.cluster_file.config import TopicConfig
from tools.bench.processes import cpu_seconds, memory_bytes
from tools.bench.replication import Scale
from tools.bench.replication.brokers import BROKERS, Brokers, running
from tools.bench.report import progress, table

PARTITIONS = 1000
SETTLE_SECONDS = 2.0
AIM_CPU, AIM_KB, AIM_DESCRIPTORS = 0.05, 40, 0


async def run(scale: Scale) -> None:
    with progress() as bar:
        task = bar.add_task("measuring empty brokers", total=3)
        async with running([]) as brokers:
            await trio.sleep(SETTLE_SECONDS)
            empty = _sizes(brokers)
        bar.update(task, description=f"starting {PARTITIONS:,} partitions", advance=1)
        started = perf_counter()
        async with running([TopicConfig("t", PARTITIONS, 3)]) as brokers:
            linked_s = perf_counter() - started
            await brokers.leaders([f"t-{number}" for number in range(PARTITIONS)], in_sync=len(BROKERS))
            started_s = perf_counter() - started
            await trio.sleep(SETTLE_SECONDS)
            bar.update(task, description=f"watching {PARTITIONS:,} partitions at rest", advance=1)
            full, before = _sizes(brokers), _cpu(brokers)
            await trio.sleep(scale.idle_seconds)
            after = _cpu(brokers)
            stopping = perf_counter()
        stopped_s = perf_counter() - stopping
    lines = []
    for broker in BROKERS:
        cpu = (after[broker] - before[broker]) / scale.idle_seconds
        kilobytes = (full[broker][0] - empty[broker][0]) / PARTITIONS / 1e3
        descriptors = full[broker][1] - empty[broker][1]
        reached = cpu <= AIM_CPU and kilobytes <= AIM_KB and descriptors <= AIM_DESCRIPTORS
        figures = (f"{cpu:.1%}", f"{kilobytes:.1f}", f"{descriptors / PARTITIONS:.3f}")
        lines.append((f"{broker}", *figures, "yes" if reached else "no"))
    head = ("broker", "CPU of one core", "KB per replica", "descriptors per replica", "reached")
    aims = f"aim: {AIM_CPU:.0%}, {AIM_KB} KB, {AIM_DESCRIPTORS} descriptors"
    table(f"{PARTITIONS:,} idle partitions × {len(BROKERS)} replicas ({aims})", head, lines)
    print(f"started in {linked_s:.1f} s, led and in sync after {started_s:.1f} s, stopped in {stopped_s:.1f} s")


def _sizes(brokers: Brokers) -> dict[int, tuple[int, int]]:
    """Memory in bytes and open descriptors of each broker's process."""
    return {broker: (memory_bytes([pid]), psutil.Process(pid).num_fds()) for broker, pid in brokers.pids.items()}


def _cpu(brokers: Brokers) -> dict[int, float]:
    return {broker: cpu_seconds([pid]) for broker, pid in brokers.pids.items()}
