"""The senders that follow each other, and the leaders of partitions: an audit of services by their events.

The events of a request go from service to service. The correlation id says which belong together and the sender says
who sent them, so a replay shows each way that was really used. Ways that nobody declared are found. The audit of the
cluster checks that each partition has a leader and replicas, and that a key is always in one partition.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

from attrs import frozen

from tools.client.admin import Admin
from tools.examples.envelope import Contract, Envelope, Reason, Refused, read
from tools.examples.poison import pills, with_pills
from tools.examples.stage import Events, Stage, must

EVENTS = "events"
COUNT, PARTITIONS = 1_000, 6
CONTRACT: Contract = {"step.done": {"step": int}}
DECLARED = (("shop", "bank"), ("bank", "depot"), ("depot", "mail"))
UNDECLARED = ("shop", "depot")
"""Some requests go past the bank."""
Way = tuple[str, str]


@frozen
class ClusterAudit:
    """Partitions by broker."""

    led: dict[int, int]
    copies: int
    in_sync: int
    leaderless: int

    def __str__(self) -> str:
        led = ", ".join(f"broker {broker} leads {count}" for broker, count in sorted(self.led.items()))
        return f"{led}; {self.in_sync} of {self.copies} replicas in sync, {self.leaderless} partitions without a leader"


def events(seed: int, count: int) -> list[Envelope]:
    """Of `count` requests, which overlap."""
    chance = random.Random(seed)
    usual = ("shop", "bank", "depot", "mail")
    past_the_bank = set(chance.sample(range(count), max(count // 50, 1)))
    senders = {name: Events(seed, name) for name in usual}
    made = []
    for number in range(count):
        path = ("shop", "depot", "mail") if number in past_the_bank else usual
        request = f"request-{number:05}"
        for step, name in enumerate(path):
            event = senders[name].event("step.done", request, Events.BEGIN + number * 10 + step, step=step)
            made.append((number + 5 * step, event))
    return [event for _, event in sorted(made, key=lambda one: one[0])]


def ways(some: Iterable[Envelope]) -> Counter[Way]:
    """How often each service was the next one. The events of a request are in order."""
    last: dict[str, str] = {}
    found: Counter[Way] = Counter()
    for one in some:
        if one.correlation_id in last:
            found[last[one.correlation_id], one.sender] += 1
        last[one.correlation_id] = one.sender
    return found


def undeclared(found: Iterable[Way]) -> list[Way]:
    return sorted(way for way in found if way not in DECLARED)


def shown(found: Counter[Way]) -> str:
    return ", ".join(f"{one} → {two} {count}×" for (one, two), count in sorted(found.items()))


def audit_cluster(stage: Stage) -> ClusterAudit:
    with Admin(stage.bootstrap) as admin:
        brokers = admin.describe_cluster().brokers
        partitions = admin.describe_topic(stage.topic(EVENTS)).partitions
    led = dict.fromkeys(brokers, 0)
    copies = in_sync = leaderless = 0
    for partition in partitions:
        if partition is None or partition.leader is None:
            leaderless += 1
            continue
        led[partition.leader] = led.get(partition.leader, 0) + 1
        copies += len(partition.replicas)
        in_sync += len(partition.isr)
    return ClusterAudit(led, copies, in_sync, leaderless)


def play(stage: Stage) -> str:
    """An audit of the cluster before and after, and of the services in a replay."""
    some = events(stage.seed, stage.counted(COUNT))
    stage.make_topics(EVENTS, partitions=PARTITIONS)
    before = audit_cluster(stage)
    stage.say(str(before))
    stage.send(EVENTS, stage.interrupted(EVENTS, list(with_pills(some, pills(some[0])))))
    after = audit_cluster(stage)
    stage.say(str(after))
    must(after.leaderless == 0, f"the cluster is not whole: {after}")
    replayed: list[Envelope] = []
    refused: Counter[Reason] = Counter()
    places: dict[str, set[int]] = {}
    for message in stage.client.replay(stage.bootstrap, stage.topic(EVENTS)):
        event = read(message.value, CONTRACT)
        if isinstance(event, Refused):
            refused[event.reason] += 1
        else:
            replayed.append(event)
            places.setdefault(event.correlation_id, set()).add(message.partition)
    must(refused == Counter(Reason), f"refused were {dict(refused)}")
    spread = sorted(name for name, where in places.items() if len(where) > 1)
    must(not spread, f"requests in more than one partition: {spread[:4]}")
    found, wanted = ways(replayed), ways(some)
    must(found == wanted, f"the ways are {shown(found)}, and must be {shown(wanted)}")
    must(undeclared(found) == [UNDECLARED], f"undeclared ways: {undeclared(found)}")
    return told(found, f"{len(some):,} events of {len(places):,} requests") + f"; {after}"


def told(found: Counter[Way], what: str) -> str:
    return f"{what}: {shown(found)}; nobody declared {' → '.join(UNDECLARED)}"
