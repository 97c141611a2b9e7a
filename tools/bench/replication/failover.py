"""Kill the process that leads, and see for each of its partitions how long it takes no appends.

The gap ends with the first acknowledged append with acks=all. A partition is tried at one survivor after the other, and
not as fast as can be: the tries of a thousand partitions would take the processors that elections need.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from statistics import fmean
from time import perf_counter

import pykka
import trio
from attrs import Factory, frozen

from actors.cluster_file.config import TopicConfig
from actors.messages.replica import ALL, AppendRecords, AppendResult
from actors.runtime import Payload, RuntimeFault
from protocol.error_codes import ErrorCode
from tools.bench.replication import Scale
from tools.bench.replication.brokers import (
    BROKERS,
    KB,
    PATIENCE_SECONDS,
    Brokers,
    batch_of,
    quantile,
    running,
    within,
)
from tools.bench.report import progress, table

FEW, MANY = 30, 1000
TRIES_PER_SECOND = 4000
APPEND_TIMEOUT_MS = 2000
AIM_P50_MS, AIM_P99_MS = 100, 500


@frozen(slots=True)
class Times:
    """How long each step took, and how many terms each gap used: more than one if votes were split or late."""

    start_s: list[float] = Factory(list)
    gap_ms: list[float] = Factory(list)
    terms: list[int] = Factory(list)
    restart_s: list[float] = Factory(list)
    hand_over_s: list[float] = Factory(list)
    stop_s: list[float] = Factory(list)


async def run(scale: Scale) -> None:
    lines = [_line(FEW, await _measure(FEW, scale.kills)), _line(MANY, await _measure(MANY, scale.kills_of_many))]
    head = ("partitions", "kills", "gaps", "p50 ms", "p90 ms", "p99 ms", "max ms", "tried every ms", "terms per gap",
            "start s", "restart s", "hand-over s", "stop s", "reached")  # fmt: skip
    table(f"Failover: no appends after a kill (aim: {AIM_P50_MS} ms, {AIM_P99_MS} ms at p99)", head, lines)


def _line(partitions: int, times: Times) -> tuple[str, ...]:
    gaps = times.gap_ms
    p50, p90, p99 = (quantile(gaps, share) for share in (0.5, 0.9, 0.99))
    seconds = (times.start_s, times.restart_s, times.hand_over_s, times.stop_s)
    return (
        f"{partitions:,}", f"{len(times.restart_s)}", f"{len(gaps):,}", f"{p50:.0f}", f"{p90:.0f}", f"{p99:.0f}",
        f"{max(gaps):.0f}", f"{_seconds_between_tries(partitions // len(BROKERS)) * 1e3:.1f}",
        f"{fmean(times.terms):.2f}", *(f"{quantile(values, 0.5):.2f}" for values in seconds),
        "yes" if p50 <= AIM_P50_MS and p99 <= AIM_P99_MS else "no",
    )  # fmt: skip


async def _measure(partitions: int, kills: int) -> Times:
    times = Times()
    homes = {f"t-{number}": BROKERS[number % len(BROKERS)] for number in range(partitions)}
    batch = batch_of(KB)
    with progress() as bar:
        task = bar.add_task(f"starting {partitions:,} partitions", total=kills)
        started = perf_counter()
        async with running([TopicConfig("t", partitions, 3)], min_insync_replicas=2) as brokers:
            await brokers.leaders(homes, in_sync=len(BROKERS))
            times.start_s.append(perf_counter() - started)
            await brokers.lead(homes)
            bar.update(task, description=f"killing leaders of {partitions:,} partitions")
            for kill in range(kills):
                victim = BROKERS[kill % len(BROKERS)]
                await _kill(brokers, victim, [group for group in homes if homes[group] == victim], batch, times)
                await _mend(brokers, victim, homes, times)
                bar.advance(task)
            bar.update(task, description=f"stopping {partitions:,} partitions")
            stopping = perf_counter()
        times.stop_s.append(perf_counter() - stopping)
    return times


async def _kill(brokers: Brokers, victim: int, groups: Sequence[str], batch: Payload, times: Times) -> None:
    """Kill a broker and wait until each of these groups, which it led, has taken an append."""
    survivors = [broker for broker in BROKERS if broker != victim]
    pause_s = _seconds_between_tries(len(groups))
    before = await brokers.describe(groups)

    async def measure(group: str, first_try_s: float) -> None:
        await trio.sleep(first_try_s)
        for broker in cycle(survivors):
            epoch = await _append(brokers, group, broker, batch)
            if epoch is not None:
                times.gap_ms.append((perf_counter() - killed_at) * 1e3)
                times.terms.append(epoch - before[group, victim].leader_epoch)
                return
            await trio.sleep(pause_s)

    with within(PATIENCE_SECONDS, f"{len(groups)} partitions led again after broker {victim} was killed"):
        async with trio.open_nursery() as nursery:
            killed_at = perf_counter()
            brokers.kill(victim)
            for at, group in enumerate(groups):
                nursery.start_soon(measure, group, pause_s * at / len(groups))


async def _mend(brokers: Brokers, victim: int, homes: dict[str, int], times: Times) -> None:
    """Start the killed broker again, wait until it has caught up, and give it back the partitions that it led."""
    killed = perf_counter()
    await brokers.restart(victim)
    await brokers.leaders(homes, in_sync=len(BROKERS))
    in_sync = perf_counter()
    await brokers.lead(homes)
    times.restart_s.append(in_sync - killed)
    times.hand_over_s.append(perf_counter() - in_sync)


async def _append(brokers: Brokers, group: str, broker: int, batch: Payload) -> int | None:
    """Try to append here; gives the leader's epoch if that was acknowledged."""
    replica = brokers.replica(group, broker)
    try:
        result: AppendResult = await replica.ask(AppendRecords(ALL, APPEND_TIMEOUT_MS, batch), block=False)
    except (pykka.ActorDeadError, RuntimeFault):
        return None
    return result.leader_epoch if result.error == ErrorCode.NONE else None


def _seconds_between_tries(partitions: int) -> float:
    return partitions / TRIES_PER_SECOND
