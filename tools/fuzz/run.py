"""One run, and its outcome."""

from __future__ import annotations

import os
import tempfile
import time
from base64 import urlsafe_b64decode
from collections import Counter
from pathlib import Path

from attrs import field, frozen

from tools.fuzz.attackers import Attacker
from tools.fuzz.good_clients import GoodClient
from tools.fuzz.victim import SOCKETS, Victim

BROKERS, GOOD_CLIENTS, ATTACKERS = 3, 3, 4
MEMORY_BYTES_MAX = 160 << 20
"""How much the memory of all brokers may grow after the first third of the time, in which caches fill."""
SOCKETS_MAX = 1
"""How many more sockets they may have at the end: the one that asks for their status."""
_SETTLE_SECONDS = 45.0  # a connection that is closed while an answer is due is kept for 30


@frozen
class Outcome:
    seed: str
    sent: Counter[str]
    good: int
    memory_bytes: tuple[int, ...]
    """At the start, after a third of the time, and at the end."""
    sockets: tuple[int, int]
    problems: list[str] = field(factory=list)
    slowest_seconds: float = 0.0
    """The longest time that a good client waited for an answer."""

    def __str__(self) -> str:
        sent = ", ".join(f"{count} {name}" for name, count in sorted(self.sent.items()))
        memory = " → ".join(f"{size >> 20} MB" for size in self.memory_bytes)
        facts = (
            f"seed {self.seed}: {sent}; {self.good} round trips of good clients, {self.slowest_seconds:.2f} s at most"
        )
        state = f"memory {memory}, sockets {' → '.join(map(str, self.sockets))}"
        return "\n".join([facts, state, *(self.problems or ["nothing was wrong"])])


def run(seed: str, seconds: float) -> Outcome:
    """Attack a cluster of our own for this long."""
    with tempfile.TemporaryDirectory(prefix="barnabas-fuzz-") as directory, Victim(Path(directory)) as victim:
        ids = tuple(_topic(victim, name, count) for name, count in (("fuzz-0", 1), ("fuzz-1", 3), ("fuzz-2", 100)))
        _topic(victim, "good", GOOD_CLIENTS)
        leaders = _leaders_of(victim, "good")
        goods = [GoodClient("good", at, victim.addresses[leader - 1]) for at, leader in enumerate(leaders)]
        attackers = [Attacker(number, seed, victim, ids) for number in range(ATTACKERS)]
        victim.begin()
        memory, before = [victim.memory_bytes], victim.descriptors
        for thread in (*goods, *attackers):
            thread.start()
        time.sleep(seconds / 3)
        memory.append(victim.memory_bytes if victim.is_the_same else 0)
        time.sleep(2 * seconds / 3)
        for attacker in attackers:
            attacker.end()
            attacker.join()
        for good in goods:
            good.end()
            good.join()
        after = _settled(victim, before)
        memory.append(victim.memory_bytes if victim.is_the_same else 0)
        problems = _problems(victim, goods, attackers, memory)
        problems += [f"{name} was left open {count} times" for name, count in leaked(before, after).items()]
    sent = sum((attacker.counts for attacker in attackers), Counter[str]())
    good_count = sum(good.count for good in goods)
    slowest = max(good.slowest_seconds for good in goods)
    return Outcome(seed, sent, good_count, tuple(memory), (before[SOCKETS], after[SOCKETS]), problems, slowest)


def _topic(victim: Victim, name: str, partitions: int) -> bytes:
    """Make the topic. Gives its id."""
    made = {"op": "create_topic", "name": name, "partitions": partitions, "replication_factor": BROKERS}
    return urlsafe_b64decode(victim.ask(made | {"configs": {"retention.ms": "-1"}})["topic_id"] + "==")


def _leaders_of(victim: Victim, topic: str) -> list[int]:
    """The leaders, once every partition is led by its preferred replica."""
    while True:
        (found,) = (one for one in victim.ask({"op": "topics"})["topics"] if one["name"] == topic)
        leaders = [partition["leader"] for partition in found["partitions"]]
        if leaders == [partition["replicas"][0] for partition in found["partitions"]]:
            return leaders
        time.sleep(0.05)


def _settled(victim: Victim, before: Counter[str]) -> Counter[str]:
    """The open descriptors once the connections of the attackers are closed."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    while True:
        found = victim.descriptors if victim.is_the_same else Counter[str]()
        if not leaked(before, found) or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def leaked(before: Counter[str], after: Counter[str]) -> Counter[str]:
    """Descriptors that are open more often than allowed. Logs that did not exist before (the coordinators' topics are
    made on first use) may have each of their files open once."""
    allowed = {SOCKETS: before[SOCKETS] + SOCKETS_MAX}
    return Counter({name: count for name, count in after.items() if count > allowed.get(name, max(before[name], 1))})


def _problems(
    victim: Victim,
    goods: list[GoodClient],
    attackers: list[Attacker],
    memory: list[int],
) -> list[str]:
    threads: list[GoodClient | Attacker] = [*goods, *attackers]
    problems = [f"{thread.name}: {thread.failure!r}" for thread in threads if thread.failure is not None]
    problems += [_circumstances(victim, good, attackers) for good in goods if good.failure is not None]
    problems += [f"{good.name} got nothing done" for good in goods if not good.count]
    if not victim.is_the_same:
        problems.append("a broker did not live through it")
    if memory[2] > memory[1] + MEMORY_BYTES_MAX:
        problems.append(f"memory grew by {(memory[2] - memory[1]) >> 20} MB")
    told = Counter(victim.complaints)
    problems += [f"{count} times in the log: {complaint}" for complaint, count in told.most_common(5)]
    return problems


def _circumstances(victim: Victim, good: GoodClient, attackers: list[Attacker]) -> str:
    """The log lines of the brokers around the failure of a good client, and the garbage sent before it."""
    at = time.strftime("%H:%M:%S", time.gmtime(good.failed_at))
    load = " ".join(f"{one:.1f}" for one in os.getloadavg())
    lines = [
        f"{good.name} failed at {at}; the machine's load is {load} on {os.cpu_count()} processors. Logs around it:"
    ]
    lines += victim.log_around(good.failed_at)
    for attacker in attackers:
        lines += [f"{attacker.name} sent {one}" for one in attacker.sent_before(good.failed_at)]
    return "\n    ".join(lines)
