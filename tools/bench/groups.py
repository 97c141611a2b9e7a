"""`python -m tools.bench groups`: rebalances of 2, 10 and 100 members, commits a second, a thousand idle groups.

Members send a heartbeat every 0.1 s, so that a figure is the time of a rebalance and not the time between heartbeats.
The mock serves only classic groups here, always waits three seconds for the first members of a group, and sometimes
forgets a member: a rebalance that does not end in time is shown as trouble.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from attrs import frozen

from actors.cluster_file.config import KafkaConfig
from tools.bench.processes import cpu_seconds, memory_bytes
from tools.bench.report import figure, progress, table
from tools.bench.wire.contestants import MOCK, Topic, mock_address, our_cluster
from tools.bench.wire.crowd import Crowd, Stuck
from tools.client.errors import ClientError
from tools.client.group_offsets import Committed
from tools.client.metadata import TopicPartition

TOPIC, PARTITIONS = "many", 100
MOCK_TOPIC, MOCK_PARTITIONS = "few", 4
MEMBERS, QUICK_MEMBERS, MOCK_MEMBERS = (2, 10, 100), (2, 10), (2,)
HEARTBEAT_SECONDS, IDLE_HEARTBEAT_SECONDS = 0.1, 3.0
COMMITS, QUICK_COMMITS, COMMITS_AT_ONCE = 20_000, 2_000, 100
IDLE_GROUPS, QUICK_IDLE_GROUPS, IDLE_LANES = 1_000, 100, 20
IDLE_SECONDS, QUICK_IDLE_SECONDS = 10.0, 3.0
_START_SECONDS = 20.0


@frozen(slots=True)
class Contestant:
    name: str
    bootstrap: str
    topic: str
    partitions: int
    protocols: tuple[str, ...]
    members: tuple[int, ...]
    pids: tuple[int, ...] = ()


def run(*, rounds: int, quick: bool) -> None:
    times = 1 if quick else rounds
    with _contestants(QUICK_MEMBERS if quick else MEMBERS) as found:
        _show_rebalances(found, times)
        _show_commits(found, times, QUICK_COMMITS if quick else COMMITS)
        groups, seconds = (QUICK_IDLE_GROUPS, QUICK_IDLE_SECONDS) if quick else (IDLE_GROUPS, IDLE_SECONDS)
        _show_idle([one for one in found if one.pids], groups, seconds)


@contextmanager
def _contestants(members: tuple[int, ...]) -> Iterator[list[Contestant]]:
    config = KafkaConfig(group_consumer_heartbeat_interval_ms=int(HEARTBEAT_SECONDS * 1000))
    with ExitStack() as stack:
        found = []
        for count in (1, 3):
            name, cluster = our_cluster(stack, count, config, [Topic(TOPIC, PARTITIONS)])
            pids = tuple(cluster.pids.values())
            found.append(Contestant(name, cluster.bootstrap, TOPIC, PARTITIONS, ("classic", "consumer"), members, pids))
        mock = mock_address(stack, MOCK_TOPIC)
        found.append(Contestant(MOCK, mock, MOCK_TOPIC, MOCK_PARTITIONS, ("classic",), MOCK_MEMBERS))
        yield found


# -- rebalances --------------------------------------------------------------------------------------------------------


@frozen(slots=True)
class Rebalances:
    """Seconds until every member has its partitions."""

    formed: float
    joined: float
    left: float


def _show_rebalances(found: Sequence[Contestant], times: int) -> None:
    cases = [(one, protocol, count) for one in found for protocol in one.protocols for count in one.members]
    lines = []
    with progress() as bar:
        task = bar.add_task("rebalancing", total=len(cases) * times)
        for one, protocol, count in cases:
            best: list[float] = []
            failure = ""
            for _ in range(times):
                try:
                    made = _rebalances(one, protocol, count)
                except (Stuck, ClientError) as error:
                    failure = str(error)
                else:
                    now = [made.formed, made.joined, made.left]
                    best = [min(pair) for pair in zip(best, now, strict=True)] if best else now
                bar.advance(task)
            figures = [figure(seconds * 1000) for seconds in best] or ["-"] * 3
            lines.append((one.name, protocol, str(count), *figures, failure))
    head = ("cluster", "protocol", "members", "all join, ms", "one more, ms", "one leaves, ms", "trouble")
    table(f"rebalances of {PARTITIONS} partitions ({MOCK_PARTITIONS} in the mock), the best of each", head, lines)


def _rebalances(one: Contestant, protocol: str, count: int) -> Rebalances:
    group = f"group-{uuid.uuid4().hex}"
    with Crowd(one.bootstrap, protocol, one.topic, HEARTBEAT_SECONDS) as crowd:
        start = time.perf_counter()
        for _ in range(count - 1):
            crowd.join(group)
        crowd.wait_until_shared(one.partitions)
        formed = time.perf_counter()
        crowd.join(group)
        crowd.wait_until_shared(one.partitions)
        joined = time.perf_counter()
        crowd.leave()
        crowd.wait_until_shared(one.partitions)
        return Rebalances(formed - start, joined - formed, time.perf_counter() - joined)


# -- commits -----------------------------------------------------------------------------------------------------------


def _show_commits(found: Sequence[Contestant], times: int, count: int) -> None:
    lines = []
    with progress() as bar:
        task = bar.add_task("committing", total=len(found) * times)
        for one in found:
            best = 0.0
            for _ in range(times):
                best = max(best, _commits_per_second(one, count))
                bar.advance(task)
            lines.append((one.name, figure(best)))
    table(f"commits of one offset, {COMMITS_AT_ONCE} under way at a time", ("cluster", "commits/s"), lines)


def _commits_per_second(one: Contestant, count: int) -> float:
    with Crowd(one.bootstrap, "classic", one.topic, HEARTBEAT_SECONDS) as crowd:
        committer = crowd.committer(f"group-{uuid.uuid4().hex}")
        where = TopicPartition(one.topic, 0)
        committer.commit({where: Committed(0)}, _START_SECONDS)  # finds the coordinator
        room = threading.Semaphore(COMMITS_AT_ONCE)
        failed: list[ClientError] = []

        def committed(error: ClientError | None) -> None:
            if error is not None:
                failed.append(error)
            room.release()

        start = time.perf_counter()
        for offset in range(count):
            room.acquire()
            committer.commit_soon({where: Committed(offset)}, committed)
        for _ in range(COMMITS_AT_ONCE):
            room.acquire()
        if failed:
            raise failed[0]
        return count / (time.perf_counter() - start)


# -- idle groups -------------------------------------------------------------------------------------------------------


def _show_idle(found: Sequence[Contestant], groups: int, seconds: float) -> None:
    lines = []
    with progress() as bar:
        task = bar.add_task("idling", total=len(found))
        for one in found:
            lines.append((one.name, *_idle(one, groups, seconds)))
            bar.advance(task)
    head = ("cluster", "CPU before, %", "CPU, %", "memory, MB", "KB more per group")
    title = (
        f"{groups:,} classic groups of one member that beats every {IDLE_HEARTBEAT_SECONDS:g} s, all brokers together"
    )
    table(title, head, lines)


def _idle(one: Contestant, groups: int, seconds: float) -> tuple[str, ...]:
    before, before_cpu = memory_bytes(one.pids), _cpu_percent(one.pids, seconds)
    run_id = uuid.uuid4().hex
    with Crowd(one.bootstrap, "classic", one.topic, IDLE_HEARTBEAT_SECONDS) as crowd:
        for number in range(groups):
            crowd.join(f"idle-{run_id}-{number}", lane=f"lane-{number % IDLE_LANES}")
        crowd.wait_until_in()
        cpu, memory = _cpu_percent(one.pids, seconds), memory_bytes(one.pids)
    return figure(before_cpu), figure(cpu), figure(memory / 1e6), figure((memory - before) / 1e3 / groups)


def _cpu_percent(pids: Sequence[int], seconds: float) -> float:
    start, began = cpu_seconds(pids), time.perf_counter()
    time.sleep(seconds)
    return 100 * (cpu_seconds(pids) - start) / (time.perf_counter() - began)
