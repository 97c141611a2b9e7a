"""Lost, unseen, doubled, moved, invented records; and sends that changed their order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tools.checker.anomalies import Anomaly, AnomalyKind
from tools.checker.facts import Facts, Fate
from tools.checker.history import FAILED, OK, PLAIN, Poll, Send


def check_writes(facts: Facts) -> Iterator[Anomaly]:
    yield from _places(facts)
    yield from _acknowledged(facts)
    yield from _order(facts)


def _places(facts: Facts) -> Iterator[Anomaly]:
    """Every record that was read: was it sent, is it in its partition, is it there once?"""
    told: set[tuple[str, int, str]] = set()
    for poll in facts.of(Poll):
        read = facts.partitions[poll.partition].read
        for offset, value in poll.records:
            if read[offset] != value and (poll.partition, offset, value) not in told:
                told.add((poll.partition, offset, value))
                text = f"{poll.partition} at {offset} showed {read[offset]!r} and {value!r}"
                yield Anomaly(
                    AnomalyKind.INCONSISTENT_OFFSETS, text, (facts.partitions[poll.partition].seen_by[offset], poll)
                )
    for name, partition in facts.partitions.items():
        where: dict[str, int] = {}
        for offset, value in partition.read.items():
            send, poll = facts.sends.get(value), partition.seen_by[offset]
            if send is None or send.partition != name:
                yield Anomaly(AnomalyKind.INVENTED_RECORD, f"{value!r} in {name} at {offset}", (poll,))
                continue
            if send.outcome == FAILED:
                yield Anomaly(AnomalyKind.REFUSED_WRITE, f"{value!r} in {name} at {offset}", (send, poll))
            before = where.setdefault(value, offset)
            if before != offset and send.kind != PLAIN:
                text = f"{value!r} in {name} at {before} and at {offset}"
                yield Anomaly(AnomalyKind.DUPLICATE, text, (send, partition.seen_by[before], poll))


def _acknowledged(facts: Facts) -> Iterator[Anomaly]:
    """Records of transactions are looked at in `transactions`."""
    found: dict[str, frozenset[str]] = {}
    for send in facts.of(Send):
        if send.outcome != OK:
            continue
        partition = facts.partitions[send.partition]
        if send.offset < 0:  # its offset is unknown, but it must be there in the end
            is_settled = send.end < facts.settled_at < float("inf") and not partition.deleted_below
            if is_settled and send.transaction is None:
                if send.partition not in found:
                    found[send.partition] = frozenset(partition.read.values())
                if send.value not in found[send.partition]:
                    yield Anomaly(AnomalyKind.UNSEEN, f"{send.value!r} anywhere in {send.partition}", (send,))
            continue
        seen = partition.read.get(send.offset)
        if seen is not None and seen != send.value:
            text = f"{send.value!r} was acknowledged at {send.offset} in {send.partition}, where {seen!r} was read"
            yield Anomaly(AnomalyKind.INCONSISTENT_OFFSETS, text, (send, partition.seen_by[send.offset]))
            continue
        if send.transaction is not None and facts.transactions[send.transaction].fate is not Fate.COMMITTED:
            continue
        visible = partition.is_visible(send.offset)
        if visible is False and send.transaction is None:
            yield Anomaly(AnomalyKind.LOST_WRITE, f"{send.value!r} in {send.partition} at {send.offset}", (send,))
        if visible is None and send.end < facts.settled_at < float("inf") and send.offset >= partition.deleted_below:
            yield Anomaly(AnomalyKind.UNSEEN, f"{send.value!r} in {send.partition} at {send.offset}", (send,))


def _order(facts: Facts) -> Iterator[Anomaly]:
    """Idempotent sends lie in the order of their calls; plain ones only if one had ended before the next began."""
    grouped: dict[tuple[str, str], list[Send]] = defaultdict(list)
    for send in facts.of(Send):
        if send.outcome == OK and send.offset >= 0:
            grouped[send.producer, send.partition].append(send)
    for sends in grouped.values():
        sends.sort(key=lambda send: send.begin)
        by_end = sorted(sends, key=lambda send: send.end)
        done, highest_done, highest = 0, None, None
        for send in sends:
            while done < len(by_end) and by_end[done].end < send.begin:
                if highest_done is None or by_end[done].offset > highest_done.offset:
                    highest_done = by_end[done]
                done += 1
            before: Send | None = highest_done if send.kind == PLAIN else highest
            if before is not None and send.offset <= before.offset and send.value != before.value:
                text = f"{send.producer} sent {before.value!r} before {send.value!r} to {send.partition}"
                yield Anomaly(AnomalyKind.NON_MONOTONIC_SEND, f"{text}; {before.offset}, {send.offset}", (before, send))
            if highest is None or send.offset > highest.offset:
                highest = send
