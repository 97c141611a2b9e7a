"""What is searched. The bounds are those that can be exhausted in minutes; what is larger is walked at random."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from tools.explorer.scenario import Scenario, all_links

SEED = 1


def small() -> Iterator[Scenario]:
    """Seconds in all."""
    yield Scenario("3 replicas, 2 terms, elections", brokers=3, terms=2, elections_only=True)
    yield _move("one voter joins two", (0, 1), (0, 1, 2))
    yield generation()
    yield star()


def star() -> Scenario:
    """Only the last of four reaches a majority; the others reach it alone."""
    return _partition(((0, 3), (1, 3), (2, 3)))


def all_scenarios() -> Iterator[Scenario]:
    """Minutes in all; the longest first, so that no process is left alone with one of them."""
    yield from _crashes_and_faults()
    yield from _moves()
    yield from _generations()
    yield from _elections()
    yield from _partitions()


def _elections() -> Iterator[Scenario]:
    yield Scenario("3 replicas, 2 terms, elections", brokers=3, terms=2, elections_only=True)
    yield Scenario(
        "3 replicas, 1 term, elections, votes that are slow to save, 3 timers",
        brokers=3, terms=1, timers=3, elections_only=True, slow_votes=True,
    )  # fmt: skip


def _crashes_and_faults() -> Iterator[Scenario]:
    """Two timers are as many as two elections need. With three, one of them is repeated, or a message is sent again."""
    for flush, how in ((True, "flushed before acknowledged"), (False, "acknowledged before flushed")):
        yield Scenario(
            f"3 replicas, 2 terms, 1 batch, 2 timers, 1 crash and 1 lost or repeated message, {how}",
            brokers=3, terms=2, batches=1, timers=2, crashes=1, faults=1, flush=flush,
        )  # fmt: skip
    yield Scenario(
        "3 replicas, 2 terms, 1 batch, 3 timers, 1 crash, acknowledged before flushed",
        brokers=3, terms=2, batches=1, timers=3, crashes=1, flush=False,
    )  # fmt: skip
    yield Scenario(
        "3 replicas, 2 terms, 1 batch, 2 timers, 1 crash, a leader that commits nothing gives way",
        brokers=3, terms=2, batches=1, timers=2, crashes=1, flush=False, stalls=True,
    )  # fmt: skip


def _moves() -> Iterator[Scenario]:
    yield _move("one voter joins two", (0, 1), (0, 1, 2))
    yield _move("one of three voters leaves", (0, 1, 2), (0, 1))
    yield _move("the preferred one of three voters leaves", (0, 1, 2), (1, 2))
    yield joins_with_crash()
    yield _move("one voter is replaced", (0, 1), (0, 2))


def _generations() -> Iterator[Scenario]:
    """An operator gives up one of three replicas, which is alive all the time and hears of it last, or first."""
    yield generation(batches=1)
    yield generation(crashes=1, faults=1)


def generation(*, batches: int = 0, crashes: int = 0, faults: int = 0) -> Scenario:
    what = [", 1 batch"] * batches + [", 1 crash"] * crashes + [", 1 lost or repeated message"] * faults
    return Scenario(
        f"3 replicas, 2 generations, 1 term each, 2 timers{''.join(what)}",
        brokers=3, terms=1, timers=2, survivors=(0, 1), batches=batches, crashes=crashes, faults=faults,
    )  # fmt: skip


def joins_with_crash() -> Scenario:
    """What the newcomer and one old voter have committed must outlive a power loss of that voter."""
    return _move("one voter joins two, 1 crash", (0, 1), (0, 1, 2), crashes=1)


def _move(what: str, voters: tuple[int, ...], wanted: tuple[int, ...], crashes: int = 0) -> Scenario:
    return Scenario(
        f"3 replicas, 2 terms, 2 timers, {what}",
        brokers=3, terms=2, timers=2, voters=voters, wanted=wanted, crashes=crashes, flush=False,
    )  # fmt: skip


def _partitions() -> Iterator[Scenario]:
    """Four replicas, and every set of links between them."""
    links = sorted(all_links(4))
    for count in range(1, len(links) + 1):
        for kept in combinations(links, count):
            yield _partition(kept)


def _partition(links: tuple[tuple[int, int], ...]) -> Scenario:
    """With many links the replicas have more to say to each other: so many timers can be exhausted."""
    named = " ".join(f"{a}-{b}" for a, b in links)
    timers = {6: 2, 5: 2, 4: 4}.get(len(links), 5)
    return Scenario(
        f"4 replicas, 1 term, elections, {timers} timers, links {named}",
        brokers=4, terms=1, timers=timers, links=frozenset(links), elections_only=True,
    )  # fmt: skip


def walked() -> Iterator[tuple[Scenario, int]]:
    """What is too large to be exhausted, and how many walks are taken."""
    for flush, how in ((False, "acknowledged before flushed"), (True, "flushed before acknowledged")):
        yield Scenario(
            f"5 replicas, 3 terms, 2 batches, 1 crash, 2 lost or repeated messages, slow votes, {how}",
            brokers=5, terms=3, batches=2, crashes=1, faults=2, flush=flush, slow_votes=True,
        ), 150  # fmt: skip
    yield Scenario(
        "5 replicas, 3 terms, 1 batch, 1 crash, 1 lost or repeated message, two of three voters are replaced",
        brokers=5, terms=3, batches=1, crashes=1, faults=1, voters=(0, 1, 2), wanted=(2, 3, 4), flush=False,
    ), 150  # fmt: skip
    yield Scenario(
        "3 replicas, 2 terms, 1 batch, 1 crash and 1 lost or repeated message, slow votes",
        brokers=3, terms=2, batches=1, crashes=1, faults=1, slow_votes=True,
    ), 300  # fmt: skip
