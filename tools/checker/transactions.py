"""What readers of committed records must not see, and what they must see together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tools.checker.anomalies import Anomaly, AnomalyKind
from tools.checker.facts import Facts, Fate, TransactionFacts
from tools.checker.history import OK, READ_COMMITTED, UNKNOWN, Poll, Send


def check_transactions(facts: Facts) -> Iterator[Anomaly]:
    lingering = _lingering(facts)
    yield from _seen_too_soon(facts, lingering)
    yield from _torn(facts, lingering)
    yield from _circles(facts)


Lingering = dict[str, dict[bool, TransactionFacts]]
"""Per transaction: an earlier one of the same producer whose commit (True) or abort (False) may still be under way."""


def _lingering(facts: Facts) -> Lingering:
    made: Lingering = {}
    for transactions in facts.in_order():
        earlier: dict[bool, TransactionFacts] = {}
        for one in transactions:
            made[one.name] = dict(earlier)
            for end in one.ends:
                if end.outcome == UNKNOWN:
                    earlier[end.commit] = one
    return made


def _seen_too_soon(facts: Facts, lingering: Lingering) -> Iterator[Anomaly]:
    told: set[tuple[str, AnomalyKind]] = set()
    for poll in facts.of(Poll):
        if poll.isolation != READ_COMMITTED:
            continue
        for offset, value in poll.records:
            one = facts.transaction_of(value)
            if one is None:
                continue
            kind = _wrong_to_see(one, poll)
            if kind is None or (one.name, kind) in told:
                continue
            told.add((one.name, kind))
            text = f"{value!r} of transaction {one.name}, in {poll.partition} at {offset}"
            late = lingering[one.name].get(True)
            if late is not None:
                text += f"; it was committed by what was meant for {late.name}"
                yield Anomaly(AnomalyKind.LATE_MARKER, text, (*late.ends, *one.ends, poll))
            else:
                yield Anomaly(kind, text, (*one.ends, poll))


def _wrong_to_see(one: TransactionFacts, poll: Poll) -> AnomalyKind | None:
    if one.fate is Fate.ABORTED:
        return AnomalyKind.ABORTED_READ
    return AnomalyKind.PRECOMMITTED_READ if poll.end < one.commit_begin else None


def _torn(facts: Facts, lingering: Lingering) -> Iterator[Anomaly]:
    """All records of a transaction are visible, or none. A reader behind a record knows its transaction's outcome."""
    for one in facts.transactions.values():
        if one.fate not in (Fate.COMMITTED, Fate.UNKNOWN):
            continue
        visible: list[Send] = []
        missing: list[Send] = []
        for send in one.sends:
            if send.outcome == OK and send.offset >= 0:
                seen = facts.partitions[send.partition].is_visible(send.offset)
                if seen is not None:
                    (visible if seen else missing).append(send)
        if not missing:
            continue
        if visible:
            text = f"{one.name}: {visible[0].value!r} is visible, {missing[0].value!r} is not"
            yield Anomaly(AnomalyKind.TORN_TRANSACTION, text, (*one.ends, visible[0], missing[0]))
        elif one.fate is Fate.COMMITTED:
            late = lingering[one.name].get(False)
            if late is not None:
                text = f"{one.name} was aborted by what was meant for {late.name}"
                yield Anomaly(AnomalyKind.LATE_MARKER, text, (*late.ends, *one.ends, missing[0]))
            for send in missing if late is None else ():
                text = f"{send.value!r} of the committed transaction {one.name}, in {send.partition} at {send.offset}"
                yield Anomaly(AnomalyKind.LOST_WRITE, text, (*one.ends, send))


def _circles(facts: Facts) -> Iterator[Anomaly]:
    """The reads between transactions as a graph, from which transactions on no cycle are removed."""
    readers: dict[str, set[str]] = defaultdict(set)
    writers: dict[str, set[str]] = defaultdict(set)
    example: dict[tuple[str, str], Poll] = {}
    for poll in facts.of(Poll):
        if poll.transaction is None:
            continue
        for _, value in poll.records:
            writer = facts.transaction_of(value)
            if writer is not None and writer.name != poll.transaction:
                readers[writer.name].add(poll.transaction)
                writers[poll.transaction].add(writer.name)
                example[writer.name, poll.transaction] = poll
    _trim(readers, writers)
    _trim(writers, readers)
    left = set(readers)
    while left:
        together, reached = set[str](), [left.pop()]
        while reached:
            name = reached.pop()
            if name not in together:
                together.add(name)
                reached += readers[name] | writers[name]
        left -= together
        polls = [poll for (writer, reader), poll in example.items() if writer in together and reader in together]
        yield Anomaly(AnomalyKind.CIRCULAR, " and ".join(sorted(together)), tuple(polls))


def _trim(forth: dict[str, set[str]], back: dict[str, set[str]]) -> None:
    """Remove the transactions without a successor."""
    names = set(forth) | set(back)
    gone = [name for name in names if not forth.get(name)]
    while gone:
        name = gone.pop()
        forth.pop(name, None)
        for before in back.pop(name, ()):
            forth[before].discard(name)
            if not forth[before]:
                gone.append(before)
