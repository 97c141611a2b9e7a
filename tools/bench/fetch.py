"""`python -m tools.bench fetch`: records a second from each cluster into one client, and cold data beside sendfile."""

from __future__ import annotations

from collections.abc import Sequence

from tools.bench.report import figure, progress, table
from tools.bench.wire.cold import cold_rates
from tools.bench.wire.consume import consume
from tools.bench.wire.contestants import MOCK, contestants
from tools.bench.wire.produce import Rate, least_cpu, produce

SIZES = {100: 1_000_000, 1000: 200_000}
QUICK_SHARE = 0.01
COLD_BATCHES, QUICK_COLD_BATCHES = 128, 8
COLD_AIM = 0.5


def run(*, rounds: int, against: Sequence[str], quick: bool) -> None:
    times, share, batches = (1, QUICK_SHARE, QUICK_COLD_BATCHES) if quick else (rounds, 1.0, COLD_BATCHES)
    with progress() as bar:
        task = bar.add_task("fetching", total=None)
        lines = []
        for size, usual in SIZES.items():
            count = int(usual * share)
            with contestants(against) as found:
                rates: dict[str, list[Rate]] = {}
                for one in found:
                    produce(one, count, size)
                for _ in range(times):
                    for one in found:
                        rates.setdefault(one.name, []).append(consume(one, count))
                        bar.advance(task)
            best = {name: max(made, key=lambda rate: rate.records_per_s) for name, made in rates.items()}
            for name, rate in best.items():
                ratio = rate.records_per_s / best[MOCK].records_per_s
                lines.append((name, str(size), figure(rate.records_per_s), figure(rate.bytes_per_s / 1e6),
                              f"{ratio:.2f}", least_cpu([rate])))  # fmt: skip
        cold = [cold_rates(batches) for _ in range(times)]
    head = ("cluster", "record bytes", "records/s", "MB/s", "of the mock's", "CPU s per million")
    table("fetch by confluent-kafka, the best round of each", head, lines)
    ratio = sorted(one.ours / one.plain for one in cold)[len(cold) // 2]
    table(
        "cold data, evicted from memory, to a reader that only counts bytes, round by round",
        ("ours MB/s", "sendfile MB/s", "ratio"),
        [(figure(one.ours / 1e6), figure(one.plain / 1e6), f"{one.ours / one.plain:.2f}") for one in cold],
    )
    print(f"the median ratio (aim: {COLD_AIM}): {ratio:.2f}, {'reached' if ratio >= COLD_AIM else 'not reached'}")
