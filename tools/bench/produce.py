"""`python -m tools.bench produce`: records a second from one client into each cluster, acks=all."""

from __future__ import annotations

from collections.abc import Sequence

from tools.bench.report import figure, progress, table
from tools.bench.wire.contestants import MANY, MOCK, Contestant, contestants
from tools.bench.wire.produce import Rate, least_cpu, produce

SIZES = {100: 1_000_000, 1000: 200_000}
OURS, OURS_REPLICATED = "ours, 1 process", "ours, 3 processes"
AIMS = {(OURS, 100): 0.8, (OURS, 1000): 0.5, (OURS_REPLICATED, 100): 0.6}
AIM_OF_OTHERS = {(OURS_REPLICATED, 1000): 0.6}
"""Of the first `--against`, which should be one that replicates as well."""
SMALL_BATCH_BYTES = 16 << 10
SMALL_BATCH_RECORDS = 250_000
QUICK_SHARE = 0.01

Rates = dict[tuple[str, int], list[Rate]]


def run(*, rounds: int, against: Sequence[str], quick: bool) -> None:
    times, share = (1, QUICK_SHARE) if quick else (rounds, 1.0)
    rates: Rates = {}
    small: dict[str, list[Rate]] = {}
    with contestants(against) as found, progress() as bar:
        able = [one for one in found if one.has(MANY)]
        task = bar.add_task("producing", total=times * (len(found) * len(SIZES) + len(able)))
        for _ in range(times):
            for size, count in SIZES.items():
                for one in found:
                    rates.setdefault((one.name, size), []).append(produce(one, int(count * share), size))
                    bar.advance(task)
            for one in able:
                count = int(SMALL_BATCH_RECORDS * share)
                rate = produce(one, count, 100, MANY, batch_bytes=SMALL_BATCH_BYTES)
                small.setdefault(one.name, []).append(rate)
                bar.advance(task)
    head = ("cluster", "record bytes", "records/s", "MB/s", "CPU s per million", "of the mock's",
            *(f"of {name}'s" for name in against), "aim", "reached")  # fmt: skip
    lines = [_line(one, size, rates, against) for size in SIZES for one in found]
    table("produce, acks=all, the best round of each", head, lines)
    head = ("cluster", "records/s", "CPU s per million")
    cpu = [(name, figure(_best(made).records_per_s), least_cpu(made)) for name, made in small.items()]
    table(f"records of 100 bytes in batches of 16 KB, {MANY.partitions} partitions", head, cpu)


def _best(rates: Sequence[Rate]) -> Rate:
    return max(rates, key=lambda rate: rate.records_per_s)


def _line(one: Contestant, size: int, rates: Rates, against: Sequence[str]) -> tuple[str, ...]:
    rate = _best(rates[one.name, size])
    ratios = [rate.records_per_s / _best(rates[other, size]).records_per_s for other in (MOCK, *against)]
    aim, ratio = AIMS.get((one.name, size)), ratios[0]
    if aim is None and against:
        aim, ratio = AIM_OF_OTHERS.get((one.name, size)), ratios[1]
    return (
        one.name, str(size), figure(rate.records_per_s), figure(rate.bytes_per_s / 1e6),
        least_cpu(rates[one.name, size]), *(f"{ratio:.2f}" for ratio in ratios),
        "" if aim is None else f"{aim:.1f}", "" if aim is None else "yes" if ratio >= aim else "no",
    )  # fmt: skip
