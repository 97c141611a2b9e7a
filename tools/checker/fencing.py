"""Clients that should have been fenced: old producers, members of former generations, expelled members."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator

from tools.checker.anomalies import Anomaly, AnomalyKind
from tools.checker.facts import NEVER, Facts
from tools.checker.history import OK, Expelled, Init, Joined, OffsetCommit, Send, TransactionEnded


def check_fencing(facts: Facts) -> Iterator[Anomaly]:
    yield from _producers(facts)
    yield from _generations(facts)
    yield from _expelled(facts)


def _producers(facts: Facts) -> Iterator[Anomaly]:
    """A producer is fenced when a later one of its transactional id has started, until it initialises again."""
    by_id: dict[str, list[Init]] = defaultdict(list)
    for init in facts.of(Init):
        if init.outcome == OK:
            by_id[init.transactional_id].append(init)
    own: dict[str, list[tuple[float, float, Init]]] = defaultdict(list)
    """Per producer: when it had started, when it was fenced, and by which producer."""
    for inits in by_id.values():
        inits.sort(key=lambda init: init.begin)
        begins, soonest = [init.begin for init in inits], _soonest(inits)
        for init in inits:
            others = (one for one in soonest[bisect_right(begins, init.end)] if one.producer != init.producer)
            fence = next(others, None)
            own[init.producer].append((init.end, NEVER if fence is None else fence.end, fence or init))
    for periods in own.values():
        periods.sort(key=lambda period: period[0])
    done: list[Send | TransactionEnded] = [send for send in facts.of(Send) if send.transaction is not None]
    done += facts.of(TransactionEnded)
    for one in done:
        periods = own.get(one.producer, [])
        at = bisect_right(periods, one.begin, key=lambda period: period[0]) - 1
        if one.outcome == OK and at >= 0 and periods[at][1] < one.begin:
            text = f"{one.producer} was fenced by {periods[at][2].producer}"
            yield Anomaly(AnomalyKind.ZOMBIE, text, (periods[at][2], one))


def _soonest(inits: list[Init]) -> list[tuple[Init, ...]]:
    """For each place the two operations that ended first among it and all later ones, of two different producers."""
    made: list[tuple[Init, ...]] = [()]
    for init in reversed(inits):
        first: dict[str, Init] = {}
        for one in sorted((init, *made[-1]), key=lambda one: one.end):
            first.setdefault(one.producer, one)
        made.append(tuple(first.values())[:2])
    made.reverse()
    return made


def _generations(facts: Facts) -> Iterator[Anomaly]:
    joined: dict[str, list[Joined]] = defaultdict(list)
    for one in facts.of(Joined):
        if one.classic:
            joined[one.group].append(one)
    ends: dict[str, list[float]] = {}
    newest: dict[str, list[Joined]] = {}
    for group, known in joined.items():
        known.sort(key=lambda one: one.end)
        ends[group] = [one.end for one in known]
        newest[group] = known[:1]
        for one in known[1:]:
            last = newest[group][-1]
            newest[group].append(one if one.generation > last.generation else last)
    for commit in facts.of(OffsetCommit):
        if commit.outcome != OK or commit.generation < 0 or commit.group not in ends:
            continue
        at = bisect_left(ends[commit.group], commit.begin) - 1
        if at >= 0 and newest[commit.group][at].generation > commit.generation:
            current = newest[commit.group][at]
            text = f"{commit.member} of generation {commit.generation}, and {commit.group} is in {current.generation}"
            yield Anomaly(AnomalyKind.ZOMBIE, text, (current, commit))


def _expelled(facts: Facts) -> Iterator[Anomaly]:
    events: dict[tuple[str, str], list[Expelled | Joined]] = defaultdict(list)
    for expelled in facts.of(Expelled):
        events[expelled.group, expelled.member].append(expelled)
    for joined in facts.of(Joined):
        if (joined.group, joined.member) in events:
            events[joined.group, joined.member].append(joined)
    for known in events.values():
        known.sort(key=_since)
    for commit in facts.of(OffsetCommit):
        known = events.get((commit.group, commit.member), [])
        at = bisect_left(known, commit.begin, key=_since) - 1
        if commit.outcome == OK and at >= 0 and isinstance(known[at], Expelled):
            yield Anomaly(AnomalyKind.ZOMBIE, f"{commit.member} was out of {commit.group}", (known[at], commit))


def _since(event: Expelled | Joined) -> float:
    """When the member was certainly out of the group; when it may have been in again."""
    return event.end if isinstance(event, Expelled) else event.begin
