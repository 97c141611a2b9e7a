"""`python -m tools.bench latency`: one record at a time, from handing it over until it is acknowledged by all."""

from __future__ import annotations

from collections.abc import Sequence

from tools.bench.report import figure, progress, table
from tools.bench.wire.contestants import MOCK, contestants
from tools.bench.wire.produce import produce_one_by_one

COUNT, QUICK_COUNT, SIZE = 2000, 100, 100
AIMS = {"ours, 1 process": 2.5, "ours, 3 processes": 4.5}


def run(*, rounds: int, against: Sequence[str], quick: bool) -> None:
    times, count = (1, QUICK_COUNT) if quick else (rounds, COUNT)
    took: dict[str, list[list[float]]] = {}
    with contestants(against) as found, progress() as bar:
        task = bar.add_task("one at a time", total=times * len(found))
        for _ in range(times):
            for one in found:
                took.setdefault(one.name, []).append(sorted(produce_one_by_one(one, count, SIZE)))
                bar.advance(task)
    best = {name: min(made, key=lambda one: one[count // 2]) for name, made in took.items()}
    lines = []
    for name, sorted_times in best.items():
        p50, p99, p999 = (sorted_times[int(count * share)] * 1e6 for share in (0.5, 0.99, 0.999))
        ratio, aim = sorted_times[count // 2] / best[MOCK][count // 2], AIMS.get(name)
        reached = "" if aim is None else "yes" if ratio <= aim else "no"
        lines.append((name, figure(p50), figure(p99), figure(p999), f"{ratio:.2f}",
                      "" if aim is None else f"at most {aim}", reached))  # fmt: skip
    head = ("cluster", "p50 µs", "p99 µs", "p99.9 µs", "p50 of the mock's", "aim", "reached")
    table(f"one record of {SIZE} bytes, acks=all, the round with the best median", head, lines)
