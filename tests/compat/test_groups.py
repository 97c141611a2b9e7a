"""Groups as clients' users know them: members that join, leave, crash, sleep and come back, under brokers that die.

Every member is a process. Nothing is skipped; something is read twice only where its reader had not committed it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from actors.harness import Cluster
from actors.messages.coordinator import GROUPS_TOPIC, partition_of
from tests.actors.topics import leader_of
from tests.actors.waiting import wait_until
from tests.compat.confluent import Confluent
from tests.compat.conftest import LONG_SESSION_MS, SESSION_MS, Topics
from tests.naming import unique

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
PARTITIONS = 4
SECONDS = 90.0
Kind = tuple[str, str]
KINDS: list[Kind] = [
    ("confluent-kafka", "classic"), ("confluent-kafka", "consumer"), ("kafka-python", "classic"),
    ("aiokafka", "classic"), ("our own", "consumer"),
]  # fmt: skip
SELDOM: list[Kind] = [("our own", "classic"), ("our own", "cooperative")]
CLASSIC, CONSUMER = ("confluent-kafka", "classic"), ("confluent-kafka", "consumer")
COOPERATIVE = ("confluent-kafka", "cooperative")


class Member:
    """A process that joins a group when it reads a line, and the lines that it has printed."""

    def __init__(
        self, kind: Kind, bootstrap: str, group: str, topic: str, instance: str = "", *, session_ms: int = SESSION_MS
    ) -> None:
        more = [instance] if instance else []
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  closed in `end`
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.compat.group_member", *kind, bootstrap, group, topic, str(session_ms), *more],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, cwd=Path(__file__).parents[2],
        )  # fmt: skip
        self.is_ready = False
        self._is_told_to_end = False
        self.assigned: list[int] = []
        self.assignments = 0
        self.read: list[tuple[int, int, str]] = []
        self.committed: dict[int, int] = {}
        self.refused: list[str] = []
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told: dict[str, Any] = json.loads(line)
            self.is_ready = True
            if "assigned" in told:
                self.assigned = told["assigned"]
                self.assignments += 1
            self.read += [(partition, offset, value) for partition, offset, value in told.get("read", ())]
            self.committed.update({int(partition): end for partition, end in told.get("committed", {}).items()})
            if "refused" in told:
                self.refused.append(told["refused"])

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.close()

    def send(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    @property
    def failure(self) -> str:
        """Why it has ended, if it has ended by itself."""
        code = self.process.poll()
        if code is None or self._is_told_to_end:
            return ""
        return f"a member ended with {code}: {self._said_last()}"

    def _said_last(self) -> str:
        self._stderr.seek(max(self._stderr.seek(0, os.SEEK_END) - 2000, 0))
        return self._stderr.read().decode(errors="replace")

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        self._is_told_to_end = True
        if self.process.poll() is None:
            self.send(number)
            try:
                self.process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._listener.join()
        for pipe in (self.process.stdin, self.process.stdout, self._stderr):
            assert pipe is not None
            pipe.close()


class Group:
    """A topic, a group that reads it, and what was written to it."""

    def __init__(self, cluster: Cluster, topic: str, kind: Kind, start: Callable[..., Member]) -> None:
        self.cluster, self.topic, self.id = cluster, topic, unique("group")
        self.members: list[Member] = []
        self.written: set[str] = set()
        self._kind, self._start = kind, start

    def join(self, instance: str = "", kind: Kind | None = None) -> Member:
        """A member, of the group's own kind by default."""
        member = self._start(kind or self._kind, self.id, self.topic, instance)
        member.go()
        self.members.append(member)
        return member

    def hold(self, instance: str) -> Member:
        """One that joins when it is let go, at once."""
        member = self._start(self._kind, self.id, self.topic, instance)
        self.members.append(member)
        wait_until(lambda: member.is_ready, lambda: "a member does not start", seconds=SECONDS)
        return member

    def write(self, count: int = 40) -> None:
        with Confluent().producer(self.cluster.bootstrap, idempotent=True) as producer:
            values = [f"{len(self.written) + at}" for at in range(count)]
            for at, value in enumerate(values):
                producer.send((self.topic, at % PARTITIONS), value.encode())
            producer.flush()
        self.written.update(values)

    def wait_until_shared(self, *members: Member) -> None:
        """All partitions are these members', one owner each, about as many for each."""

        def shared() -> bool:
            self._must_live()
            owned = [number for member in members for number in member.assigned]
            return sorted(owned) == list(range(PARTITIONS)) and all(member.assigned for member in members)

        wait_until(shared, lambda: f"assigned: {[member.assigned for member in members]}", seconds=SECONDS)

    def wait_until_read(self) -> None:
        def seen() -> set[str]:
            return {value for member in self.members for _, _, value in member.read}

        def is_read() -> bool:
            self._must_live()
            return self.written <= seen()

        wait_until(is_read, lambda: f"not read: {self.written - seen()}", seconds=SECONDS)

    def _must_live(self) -> None:
        """A member that failed keeps what it last said that it has."""
        failures = [member.failure for member in self.members if member.failure]
        assert not failures, failures

    def read_twice(self) -> set[str]:
        values = [value for member in self.members for _, _, value in member.read]
        return {value for value in values if values.count(value) > 1}

    @property
    def coordinator(self) -> int:
        topics = self.cluster.admin.describe()["topics"]
        count = next(len(one["partitions"]) for one in topics if one["name"] == GROUPS_TOPIC)
        return leader_of(self.cluster, GROUPS_TOPIC, partition_of(self.id, count))


@pytest.fixture(
    params=[*KINDS, *(pytest.param(kind, marks=pytest.mark.long) for kind in SELDOM)],
    ids=[" ".join(kind) for kind in (*KINDS, *SELDOM)],
)
def kind(request: pytest.FixtureRequest) -> Kind:
    chosen: Kind = request.param
    return chosen


@pytest.fixture
def group(kind: Kind, make_topic: Topics, request: pytest.FixtureRequest) -> Iterator[Group]:
    cluster: Cluster = request.getfixturevalue("waiting_victims" if kind[0] == "kafka-python" else "victims")
    with group_of(kind, cluster, make_topic(cluster, PARTITIONS), SESSION_MS) as group:
        yield group


@pytest.fixture
def group_with_long_sessions(kind: Kind, make_topic: Topics, patient: Cluster) -> Iterator[Group]:
    with group_of(kind, patient, make_topic(patient, PARTITIONS), LONG_SESSION_MS) as group:
        yield group


@contextmanager
def group_of(kind: Kind, cluster: Cluster, topic: str, session_ms: int) -> Iterator[Group]:
    with ExitStack() as stack:

        def start(kind: Kind, group: str, topic: str, instance: str) -> Member:
            member = Member(kind, cluster.bootstrap, group, topic, instance, session_ms=session_ms)
            stack.callback(member.end, signal.SIGKILL)
            return member

        yield Group(cluster, topic, kind, start)


def test_members_join_leave_crash_and_sleep(group: Group) -> None:
    group.write()
    first = group.join()
    group.wait_until_shared(first)
    group.wait_until_read()
    second = group.join()
    group.wait_until_shared(first, second)
    group.write()
    group.wait_until_read()
    assert not group.read_twice(), "nobody crashed, so nothing is read twice"
    second.end()  # it leaves
    group.wait_until_shared(first)
    third = group.join()
    group.wait_until_shared(first, third)
    third.end(signal.SIGKILL)  # it sends nothing more
    group.wait_until_shared(first)
    group.write()
    group.wait_until_read()
    fourth = group.join()
    group.wait_until_shared(first, fourth)
    fourth.send(signal.SIGSTOP)  # it is taken for dead…
    group.wait_until_shared(first)
    group.write()
    group.wait_until_read()
    fourth.send(signal.SIGCONT)  # …and is not
    group.wait_until_shared(first, fourth)
    group.write()
    group.wait_until_read()


def test_a_group_goes_on_when_its_coordinator_and_leaders_are_killed(group: Group) -> None:
    members = [group.join(), group.join()]
    group.write()
    group.wait_until_shared(*members)
    group.wait_until_read()
    for _ in range(2):
        killed = group.coordinator
        group.cluster.kill(killed)
        group.write()
        group.wait_until_read()
        group.wait_until_shared(*members)
        group.cluster.restart(killed)
    group.write()
    group.wait_until_read()
    committed = {number: end for member in members for number, end in member.committed.items()}
    for member in members:
        member.end()
    fresh = group.join()
    group.wait_until_shared(fresh)
    group.write(PARTITIONS)
    group.wait_until_read()
    first = {number: min(offset for at, offset, _ in fresh.read if at == number) for number in range(PARTITIONS)}
    assert all(first[number] >= end for number, end in committed.items()), (
        f"{committed} were committed, read from {first}"
    )


def test_a_static_member_that_comes_back_soon_finds_its_partitions(group_with_long_sessions: Group, kind: Kind) -> None:
    group = group_with_long_sessions
    first, second = group.join("one"), group.join("two")
    group.wait_until_shared(first, second)
    group.write()
    group.wait_until_read()
    kept, assignments = first.assigned, first.assignments
    lost = second.assigned
    again = group.hold("two")
    if kind[1] == "consumer":
        second.end()  # and says that it comes back: an instance that did not say so is waited for
    else:
        second.end(signal.SIGKILL)
    again.go()
    wait_until(lambda: again.assigned == lost, lambda: f"{again.assigned}, not {lost}", seconds=SECONDS)
    assert (first.assigned, first.assignments) == (kept, assignments), "the other one was not disturbed"
    group.write()
    group.wait_until_read()


@pytest.mark.parametrize("kind", [COOPERATIVE], ids=[" ".join(COOPERATIVE)], indirect=True)
def test_a_cooperative_member_keeps_what_it_does_not_give_up(group: Group) -> None:
    group.write()
    first = group.join()
    group.wait_until_shared(first)
    alone = first.assignments
    second = group.join()
    group.wait_until_shared(first, second)
    group.write()
    group.wait_until_read()
    assert (first.assignments, len(first.assigned)) == (alone + 1, PARTITIONS // 2), "it had all, then half, never none"
    assert not group.read_twice()


@pytest.mark.parametrize("kind", [CLASSIC], ids=["confluent-kafka"], indirect=True)
def test_a_group_goes_over_to_the_new_protocol_member_by_member_and_back(group: Group) -> None:
    old = group.join()
    group.write()
    group.wait_until_shared(old)
    new = group.join(kind=CONSUMER)
    group.wait_until_shared(old, new)
    group.write()
    group.wait_until_read()
    old.end()
    group.wait_until_shared(new)
    group.write()
    group.wait_until_read()
    old = group.join()
    group.wait_until_shared(old, new)
    new.end()
    group.wait_until_shared(old)
    group.write()
    group.wait_until_read()
    assert not group.read_twice(), "all of them committed before they gave anything up"
