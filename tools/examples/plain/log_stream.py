"""Three services write a log line for each step of a request, into one topic with the request's id as key. Two
collectors share the partitions; they put the lines of a request together, and keep those of failed requests in SQLite.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing

from tools.examples.envelope import Contract, Envelope, Reason
from tools.examples.poison import pills, with_pills
from tools.examples.service import Seen, Service, service
from tools.examples.stage import Events, Stage, must

LOG = "log"
COUNT = 1_000
SERVICES = ("web", "billing", "stock", "web")
"""The services that write the lines of a request, in the order of its steps."""
CONTRACT: Contract = {"line.logged": {"step": int, "level": str, "text": str}}
Traces = dict[str, list[tuple[int, str]]]
"""Step and level of the lines of each request, in the order of the log."""


def lines(seed: int, count: int) -> list[Envelope]:
    """Of `count` requests, which overlap."""
    chance = random.Random(seed)
    writers = {name: Events(seed, name, 1) for name in SERVICES}
    made = []
    for number in range(count):
        fails_at = chance.randrange(1, len(SERVICES) + 1) if chance.random() < 0.05 else None
        for step, name in enumerate(SERVICES, 1):
            level = "ERROR" if step == fails_at else "INFO"
            text = f"step {step} {'failed' if level == 'ERROR' else 'was done'}"
            request = f"request-{number:05}"
            event = writers[name].event("line.logged", request, step=step, level=level, text=text)
            made.append((number + 3 * step, step, event))
    return [event for _, _, event in sorted(made, key=lambda one: one[:2])]


def failed(some: Iterable[Envelope]) -> list[tuple[str, int, str]]:
    """Request, step and text of each ERROR, in order."""
    return sorted(
        (one.correlation_id, one.data["step"], one.data["text"]) for one in some if one.data["level"] == "ERROR"
    )


class Collector:
    """What both collectors found. Bounded by the number of requests."""

    def __init__(self) -> None:
        self.traces: Traces = {}
        self.errors: list[tuple[str, int, str]] = []
        self.count = 0

    def collect(self, event: Envelope) -> Iterable[tuple[str, Envelope]]:
        step, level = event.data["step"], event.data["level"]
        self.traces.setdefault(event.correlation_id, []).append((step, level))
        if level == "ERROR":
            self.errors.append((event.correlation_id, step, event.data["text"]))
        self.count += 1
        return []


def play(stage: Stage) -> str:
    """Two members of one group collect the lines."""
    some = lines(stage.seed, stage.counted(COUNT))
    stage.make_topics(LOG, partitions=6)
    stage.send(LOG, with_pills(some, pills(some[0])))
    collector, seen = Collector(), Seen(len(some))
    with (
        service(stage, "collectors", [LOG], CONTRACT, collector.collect) as one,
        service(stage, "collectors", [LOG], CONTRACT, collector.collect) as two,
    ):
        one.seen = two.seen = seen
        both: Sequence[Service] = (one, two)

        def step() -> None:
            for member in both:
                member.step()
            if collector.count >= len(some) // 2:
                stage.middle(LOG)

        def is_done() -> bool:
            return collector.count >= len(some) and len({*one.counts.refused, *two.counts.refused}) == len(Reason)

        stage.until(is_done, step, lambda: f"{collector.count:,} of {len(some):,} lines are collected")
        refused = one.counts.refused | two.counts.refused  # a line that came again is the same line
    steps = list(range(1, len(SERVICES) + 1))
    torn = [name for name, trace in collector.traces.items() if [number for number, _ in trace] != steps]
    must(not torn, f"requests whose lines are missing or out of order: {torn[:4]}")
    must(collector.count == len(some), f"{collector.count} lines instead of {len(some)}")
    wanted = failed(some)
    must(stored(stage, collector.errors) == wanted, "the errors in SQLite are not those of the log")
    return (
        f"{len(some):,} lines of {len(collector.traces):,} requests, each once and in order; {len(wanted)} failed "
        f"requests in SQLite; {len(refused)} kinds of wrong messages were counted"
    )


def stored(stage: Stage, errors: Iterable[tuple[str, int, str]]) -> list[tuple[str, int, str]]:
    """The errors as a SQLite table has them."""
    with closing(sqlite3.connect(stage.directory / "errors.db")) as database, database:
        database.execute("CREATE TABLE errors (request TEXT PRIMARY KEY, step INTEGER, text TEXT)")
        database.executemany("INSERT OR IGNORE INTO errors VALUES (?, ?, ?)", errors)
        return database.execute("SELECT request, step, text FROM errors ORDER BY request").fetchall()
