"""The bounds of one search."""

from __future__ import annotations

from itertools import combinations

from attrs import Factory, frozen

NO_BOUND = 1 << 30
Link = tuple[int, int]


def all_links(brokers: int) -> frozenset[Link]:
    return frozenset(combinations(range(brokers), 2))


@frozen
class Scenario:
    """Replicas are 0, 1, 2 …; the preferred leader is the first of `wanted`.

    A replica's timer fires only when its earlier questions and their answers have arrived or are lost. Else they would
    be without number.
    """

    name: str
    brokers: int
    terms: int
    """No timer leads to a later term than this one of a generation. What follows in later terms counts for liveness."""
    links: frozenset[Link] = Factory(lambda self: all_links(self.brokers), takes_self=True)
    voters: tuple[int, ...] = Factory(lambda self: tuple(range(self.brokers)), takes_self=True)
    wanted: tuple[int, ...] = Factory(lambda self: self.voters, takes_self=True)
    """The voters after the membership change, which each replica hears of at any time; the same if there is none."""
    survivors: tuple[int, ...] = ()
    """An operator gives up all other replicas: each replica hears of the next generation at any time; () if none is."""
    batches: int = 0
    crashes: int = 0
    faults: int = 0
    """So many messages are lost or repeated."""
    flush: bool = True
    """flush.messages=1: only what is on disk is acknowledged. Else a power loss makes a replica ineligible."""
    timers: int = NO_BOUND
    """So many timers fire, of all replicas together."""
    stalls: bool = False
    """A leader may find that it has committed nothing for long, and transfer its leadership."""
    slow_votes: bool = False
    """A replica goes on while its vote is on its way to the disk. Else it is there at once."""
    elections_only: bool = False
    """Nothing but votes travels, and an elected leader stays one."""
