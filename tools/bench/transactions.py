"""`python -m tools.bench transactions`: transactions a second, and what they cost a producer of many records."""

from __future__ import annotations

from collections.abc import Sequence

from tools.bench.report import figure, progress, table
from tools.bench.wire.contestants import FEW, contestants
from tools.bench.wire.transactions import records_per_s, transactions_per_s

SECONDS, QUICK_SECONDS = 4.0, 0.3
AIM = 0.8


def run(*, rounds: int, against: Sequence[str], quick: bool) -> None:
    times, seconds = (1, QUICK_SECONDS) if quick else (rounds, SECONDS)
    many: dict[tuple[str, int], list[float]] = {}
    rates: dict[tuple[str, bool], list[float]] = {}
    with contestants(against) as found, progress() as bar:
        task = bar.add_task("transactions", total=times * len(found) * 4)
        for _ in range(times):
            for one in found:
                for partitions in (1, FEW.partitions):
                    many.setdefault((one.name, partitions), []).append(transactions_per_s(one, seconds, partitions))
                    bar.advance(task)
                for transactional in (False, True):
                    measured = records_per_s(one, seconds, transactional=transactional)
                    rates.setdefault((one.name, transactional), []).append(measured)
                    bar.advance(task)
    lines = [(one.name, *(figure(max(many[one.name, count])) for count in (1, FEW.partitions))) for one in found]
    head = ("cluster", "1 partition", f"{FEW.partitions} partitions")
    table("transactions/s, a record for each partition, the best round", head, lines)
    shown = []
    for one in found:
        plain, in_transactions = max(rates[one.name, False]), max(rates[one.name, True])
        ratio = in_transactions / plain
        reached = "yes" if ratio >= AIM else "no"
        shown.append((one.name, figure(plain), figure(in_transactions), f"{ratio:.2f}", f"{AIM:.1f}", reached))
    table(
        "records/s of 100 bytes, idempotent and in transactions of 100 ms, the best round of each",
        ("cluster", "idempotent", "transactional", "ratio", "aim", "reached"),
        shown,
    )
