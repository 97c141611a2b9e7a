"""A client reads a large partition from disk while another partition, led by the same broker, takes appends.

Both clients share this process and its link to that broker, so an append's answer may stand behind a megabyte of the
scan: the figure is of the broker and of the link. A scan of data in the page cache shows how much of it is the share of
the link and not of the disk. A plain read of the same file, as cold or warm, stands beside each scan.
"""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter

import trio
from attrs import Factory, frozen

from actors.cluster_file.config import TopicConfig
from actors.messages.replica import ALL, ReadRecords, ReadResult
from actors.runtime import AnyRef, Payload
from protocol.error_codes import ErrorCode
from protocol.records.batches import parse_batches
from tools.bench.replication import Scale
from tools.bench.replication.brokers import (
    BROKERS,
    KB,
    MB,
    Brokers,
    Stuck,
    append,
    batch_of,
    quantile,
    running,
)
from tools.bench.report import progress, table

PARTITIONS = len(BROKERS) + 1
SCANNED, APPENDED = "t-0", f"t-{PARTITIONS - 1}"
"""Of one partition more than there are brokers, the first and the last have the same preferred leader."""
READ_BYTES = MB


@frozen(slots=True)
class Times:
    """The figures of all rounds. The rates are MB per second of the scan and of a plain read; empty without a scan."""

    append_us: list[float] = Factory(list)
    scan_rates: list[float] = Factory(list)
    plain_rates: list[float] = Factory(list)


async def run(scale: Scale) -> None:
    alone, warm, cold = Times(), Times(), Times()
    async with running([TopicConfig("t", PARTITIONS, 3)], min_insync_replicas=2) as brokers:
        leader = await _preferred_leader(brokers)
        await brokers.lead({SCANNED: leader, APPENDED: leader})
        scanned, appended = brokers.replica(SCANNED, leader), brokers.replica(APPENDED, leader)
        with progress() as bar:
            large, small = batch_of(READ_BYTES), batch_of(KB)
            for _ in bar.track(range(-(-scale.scanned_bytes // len(large))), description="filling a partition"):
                await append(scanned, ALL, large)
            segments = sorted(brokers.directory(SCANNED, leader).glob("*.log"))
            epochs = await _epochs(brokers)
            for _ in bar.track(range(scale.rounds), description="scanning beside appends"):
                alone.append_us.extend([await append(appended, ALL, small) * 1e6 for _ in range(scale.small_appends)])
                for times, prepare in ((cold, _drop_from_cache), (warm, _plain_read)):
                    prepare(segments)
                    times.plain_rates.append(_plain_read(segments))
                    prepare(segments)
                    times.scan_rates.append(await _scan_beside(scanned, appended, small, times.append_us))
            epochs_after = await _epochs(brokers)
    lines = [_line("alone", alone), _line("beside a scan in memory", warm)]
    if hasattr(os, "posix_fadvise"):
        lines.append(_line("beside a cold scan", cold))
    else:
        print("this system cannot drop a file from the page cache: every scan was of data in memory")
    head = ("1 KB, RF 3, acks=all", "appends", "p50 µs", "p99 µs", "max µs", "scan MB/s", "plain read MB/s")
    size = f"{scale.scanned_bytes // MB} MB in reads of {READ_BYTES // MB} MB"
    table(f"Appends beside a scan of {size} on the same leader; rounds: {scale.rounds}", head, lines)
    elections = "none" if epochs == epochs_after else f"leader epochs were {epochs} and are {epochs_after}"
    print(f"elections during the scans (aim: none): {elections}")


def _line(name: str, times: Times) -> tuple[str, ...]:
    us = times.append_us
    rates = (f"{max(rates):,.0f}" if rates else "" for rates in (times.scan_rates, times.plain_rates))
    return (name, f"{len(us):,}", f"{quantile(us, 0.5):,.0f}", f"{quantile(us, 0.99):,.0f}", f"{max(us):,.0f}", *rates)


async def _scan_beside(scanned: AnyRef, appended: AnyRef, batch: Payload, append_us: list[float]) -> float:
    """Append one by one for as long as a scan takes. Gives the scan's MB per second."""
    rates: list[float] = []

    async def scan() -> None:
        rates.append(await _scan(scanned))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(scan)
        while not rates:
            append_us.append(await append(appended, ALL, batch) * 1e6)
    return rates[0]


async def _scan(leader: AnyRef) -> float:
    """Read the whole partition, read after read. Gives MB per second."""
    start, offset, size = perf_counter(), 0, 0
    while True:
        result: ReadResult = await leader.ask(ReadRecords(offset, READ_BYTES, 0, 0), block=False)
        if result.error != ErrorCode.NONE:
            raise Stuck(f"a read at {offset} was refused: {ErrorCode(result.error).name}")
        if not len(result.batches):
            assert offset == result.high_watermark, f"the scan ended at {offset}, before {result.high_watermark}"
            return size / 1e6 / (perf_counter() - start)
        size += len(result.batches)
        offset = parse_batches(result.batches).headers[-1].next_offset


async def _preferred_leader(brokers: Brokers) -> int:
    """The preferred leader of both partitions: another leader would hand over to it soon."""
    (topic,) = (await brokers.describe_cluster())["topics"]
    preferred = {topic["partitions"][number]["replicas"][0] for number in (0, PARTITIONS - 1)}
    if len(preferred) != 1:
        raise Stuck(f"{SCANNED} and {APPENDED} prefer {preferred}")
    return int(preferred.pop())


async def _epochs(brokers: Brokers) -> dict[str, int]:
    """The leader epochs: every election raises one."""
    facts = await brokers.describe((SCANNED, APPENDED))
    return {group: max(facts[group, broker].leader_epoch for broker in BROKERS) for group in (SCANNED, APPENDED)}


def _drop_from_cache(files: list[Path]) -> None:
    """Drop these files from the page cache where the system can; only synced pages can be dropped."""
    for file in files:
        fd = os.open(file, os.O_RDONLY)
        try:
            os.fsync(fd)
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def _plain_read(files: list[Path]) -> float:
    """MB per second of a plain read of the same bytes."""
    start, size = perf_counter(), 0
    for file in files:
        with file.open("rb", buffering=0) as stream:
            while data := stream.read(READ_BYTES):
                size += len(data)
    return size / 1e6 / (perf_counter() - start)
