"""Chaos: real processes under `kill -9`, SIGSTOP and broken links, real clients, and no promise broken.

`make chaos` takes five minutes. A run prints its seed; `CHAOS_SEED=… make chaos` makes the same faults again, though
never at the same instants, nor always to the same broker: processes are real, and the leader is aimed at.
Process kills lose nothing, so any number of brokers may die at once.
"""

from __future__ import annotations

import os
import random
import struct
import time
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from actors.cluster_file.config import KafkaConfig, TopicConfig
from actors.harness import Cluster
from actors.messages.replica import (
    AppendResult,
    DescribeReplica,
    ReadRecords,
    ReadResult,
    ReplicaFacts,
    TransferLeadership,
    replica_address,
)
from actors.runtime import Payload, RemoteFailure
from protocol.error_codes import ErrorCode
from protocol.records.batches import Record as KafkaRecord
from protocol.records.batches import build_batch, check_batches
from tests.actors.conftest import leaves_nothing, own_tmp  # noqa: F401  fixtures
from tests.actors.waiting import wait_until
from tests.chaos.checks import check, counted, summary
from tests.chaos.faults import Chaos
from tests.chaos.workload import Attempt, Client, Prober, Read, Reader, Record, Writer, walk
from tools.simulator.record.history import ALL, IDEMPOTENT, ONE, WriteOperation

PARTITIONS = 4
WRITERS = {IDEMPOTENT: 5, ALL: 5, ONE: 2}
READERS = 2
PATIENCE_SECONDS = 90.0
SHOWN_MAX = 8


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The chaos lasts as long as the command line says, and pytest's patience with it."""
    if "chaos_seconds" in metafunc.fixturenames:
        seconds = float(metafunc.config.getoption("--chaos-seconds"))
        patience = pytest.mark.timeout(int(2 * seconds + 6 * PATIENCE_SECONDS))
        metafunc.parametrize("chaos_seconds", [pytest.param(seconds, marks=patience, id=f"{seconds:g}s")])


# -- the run -----------------------------------------------------------------------------------------------------------


def clients(cluster: Cluster, record: Record, groups: tuple[str, ...], seed: int) -> tuple[list[Writer], list[Client]]:
    kinds = [kind for kind, count in WRITERS.items() for _ in range(count)]
    writers = [
        Writer(f"w{number}", cluster, record, groups, f"{seed}", kind, 1000 + number)
        for number, kind in enumerate(kinds)
    ]
    readers: list[Client] = [
        Reader(f"r{number}-{group}", cluster, record, (group,), f"{seed}")
        for number in range(READERS)
        for group in groups
    ]
    return writers, [*readers, Prober("prober", cluster, record, groups, f"{seed}")]


def join(threads: list[Writer] | list[Client], record: Record) -> None:
    """Wait for clients to finish. Those that do not are a broken promise too: everything has healed."""
    until = time.monotonic() + PATIENCE_SECONDS
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
        if thread.is_alive():
            doing = thread.operation if isinstance(thread, Writer) else getattr(thread, "position", "")
            record.violate("a client does not finish", "", f"{thread.name}: {doing}")
        elif thread.failure is not None:
            raise thread.failure


def leader_of(cluster: Cluster, group: str) -> tuple[int, ReplicaFacts]:
    found: list[tuple[int, ReplicaFacts]] = []

    def is_led() -> bool:
        facts = [(broker, cluster.ask(replica_address(group, broker), DescribeReplica())) for broker in cluster.alive]
        found[:] = [(broker, one) for broker, one in facts if one.role == "Leader"]
        return len(found) == 1

    wait_until(is_led, lambda: f"{group} has the leaders {found}", seconds=PATIENCE_SECONDS)
    return found[0]


def read_all(cluster: Cluster, group: str, broker: int, end: int) -> dict[int, bytes] | None:
    """Every record below `end`; None if this broker leads no longer."""
    contents: dict[int, bytes] = {}
    position = 0
    while position < end:
        result: ReadResult = cluster.ask(replica_address(group, broker), ReadRecords(position, 1 << 20, 1, 1000))
        if result.error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return None
        assert result.error == ErrorCode.NONE, f"{group} at {position} of broker {broker}: {ErrorCode(result.error)!r}"
        position, found, wrong = walk(check_batches(result.batches), position)
        assert not wrong, f"{group} of broker {broker}: {wrong}"
        contents |= found
    return {offset: value for offset, value in contents.items() if offset < end}


def read_as_leader(cluster: Cluster, group: str, heir: int, end: int) -> dict[int, bytes]:
    """Everything that this broker has, made leader for it; leadership goes back to whom it belongs now and then."""
    found: list[dict[int, bytes]] = []

    def has_read() -> bool:
        broker, _ = leader_of(cluster, group)
        if broker != heir:
            cluster.ask(replica_address(group, broker), TransferLeadership(heir))
            return False
        contents = read_all(cluster, group, heir, end)
        found.extend([] if contents is None else [contents])
        return bool(found)

    wait_until(has_read, lambda: f"{group} is not led by everybody in turn", seconds=PATIENCE_SECONDS)
    return found[0]


def read_everybody(cluster: Cluster, record: Record, group: str) -> dict[int, bytes]:
    """What the leader has; and every other replica must have the same."""
    leader, facts = leader_of(cluster, group)
    contents = read_as_leader(cluster, group, leader, facts.high_watermark)
    for heir in cluster.brokers:
        theirs = read_as_leader(cluster, group, heir, facts.high_watermark)
        for offset in sorted(contents.keys() | theirs.keys()):
            ours, other = contents.get(offset), theirs.get(offset)
            if ours != other:
                text = f"{offset} is {ours!r} for broker {leader} and {other!r} for broker {heir}"
                record.violate("inconsistent offsets", group, text, *(one for one in (ours, other) if one))
    return contents


def told(record: Record, groups: tuple[str, ...], chaos: Chaos, seed: int) -> str:
    """Everything about a run; the faults too if it broke a promise."""
    lines = [f"chaos seed {seed}, {record.now:.1f} s", f"faults: {counted(chaos.counts)}"]
    lines += summary(record, groups, chaos.trace)
    violations = record.history.violations
    if violations:
        counts = Counter(one.promise for one in violations)
        lines.append(f"broken: {counted(counts)}")
        for one in (one for promise in counts for one in [o for o in violations if o.promise == promise][:SHOWN_MAX]):
            lines += [f"{one.promise} ({one.group}): {one.text}", *(f"    {operation}" for operation in one.operations)]
        lines += ["faults by time:", *(f"    {at:9.3f} {text}" for at, text in chaos.trace)]
    return "\n".join(lines)


@pytest.mark.long
@pytest.mark.usefixtures("leaves_nothing")
def test_no_promise_is_broken_while_processes_die_and_stop_and_links_break(chaos_seconds: float) -> None:
    seed = int(os.environ.get("CHAOS_SEED") or random.SystemRandom().getrandbits(32))
    print(f"\nchaos seed {seed}")  # noqa: T201
    topics, config = [TopicConfig("orders", PARTITIONS, 3)], KafkaConfig(min_insync_replicas=2)
    with Cluster(brokers=3, processes=True, topics=topics, config=config) as cluster:
        record = Record()
        groups = tuple(cluster.group("orders", number) for number in range(PARTITIONS))
        writers, others = clients(cluster, record, groups, seed)
        chaos = Chaos(cluster, record, groups, seed)
        try:
            for client in (*writers, *others):
                client.start()
            chaos.run(chaos_seconds)
            chaos.mend()
            record.finishing.set()
            join(writers, record)
            for group in groups:
                _, facts = leader_of(cluster, group)
                record.ends[group] = facts.high_watermark
            join(others, record)
            contents = {group: read_everybody(cluster, record, group) for group in groups}
            check(record, contents)
        finally:
            record.finishing.set()
            record.over.set()
            print(told(record, groups, chaos, seed))  # noqa: T201
            for client in (*writers, *others):
                client.join(PATIENCE_SECONDS)
    broken = {one.promise for one in record.history.violations}
    assert not broken, f"seed {seed}: what was printed says how"


# -- it can fail -------------------------------------------------------------------------------------------------------

GROUP = "orders-0"


def written(
    record: Record, value: bytes, *, at: int, epoch: int, broker: int, asked: float, done: float
) -> WriteOperation:
    """An acknowledged append, as if this had happened."""
    operation = record.history.begin("w", ALL, GROUP, (value,), asked)
    operation.base_offset, operation.epoch, operation.broker = at, epoch, broker
    record.attempts.append(Attempt(operation, asked))
    record.history.end(operation, "ok", done)
    record.saw(GROUP, at, value, "r")
    return operation


def read(record: Record, *, epoch: int, high_watermark: int, asked: float) -> None:
    record.reads.append(Read("r", GROUP, 1, epoch, high_watermark, asked, asked + 1))


def two_leaders(record: Record) -> dict[int, bytes]:
    """Broker 1 leads in epoch 1, broker 2 in epoch 2."""
    written(record, b"a", at=0, epoch=1, broker=1, asked=0.0, done=1.0)
    written(record, b"b", at=1, epoch=2, broker=2, asked=2.0, done=3.0)
    return {0: b"a", 1: b"b"}


def stale_read(record: Record) -> dict[int, bytes]:
    contents = two_leaders(record)
    read(record, epoch=1, high_watermark=1, asked=4.0)
    return contents


def old_acknowledgement(record: Record) -> dict[int, bytes]:
    contents = two_leaders(record)
    written(record, b"c", at=2, epoch=1, broker=1, asked=4.0, done=5.0)
    return contents


def same_epoch(record: Record) -> dict[int, bytes]:
    for broker in (1, 2):
        record.answered("r", GROUP, broker, ReadResult(ErrorCode.NONE, 0, 0, 7, nothing()), 0.0)
    return {}


def failing_handler(record: Record) -> dict[int, bytes]:
    record.refused(GROUP, RemoteFailure("broker 1: KeyError: 'x'"))
    return {}


def skipping_poll(record: Record) -> dict[int, bytes]:
    polled(record, ReadResult(ErrorCode.NONE, 5, 0, 1, batch_at(3)))
    return {}


def damaged_poll(record: Record) -> dict[int, bytes]:
    damaged = memoryview(bytearray(batch_at(0)))
    damaged[-1] ^= 1
    polled(record, ReadResult(ErrorCode.NONE, 1, 0, 1, Payload(damaged)))
    return {}


def lost_position(record: Record) -> dict[int, bytes]:
    polled(record, ReadResult(ErrorCode.OFFSET_OUT_OF_RANGE, 0, 0, 1, nothing()))
    return {}


def refused_append(record: Record) -> dict[int, bytes]:
    answer = AppendResult(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1, 1, "sequence 0; 9 is next")
    Writer("w", answering(answer), record, (GROUP,), "", ALL, 1)._write(GROUP)
    return {}


def nothing() -> Payload:
    return Payload(memoryview(b""))


def batch_at(offset: int) -> Payload:
    batch = build_batch([KafkaRecord(0, 1, None, b"a", ())])
    struct.pack_into(">q", batch, 0, offset)
    return Payload(memoryview(batch))


def answering(answer: object) -> Cluster:
    """A cluster that has one answer to everything."""
    return cast("Cluster", SimpleNamespace(brokers=(1,), ask=lambda *_, **__: answer))


def polled(record: Record, result: ReadResult) -> None:
    Reader("r", answering(result), record, (GROUP,), "")._poll(GROUP)


@pytest.mark.parametrize(
    ("plant", "promises"),
    [
        (two_leaders, set()),
        (stale_read, {"stale read"}),
        (old_acknowledgement, {"an old leader acknowledged and lost", "lost write", "read of uncommitted"}),
        (same_epoch, {"two leaders in one epoch"}),
        (failing_handler, {"a handler failed"}),
        (skipping_poll, {"poll order"}),
        (damaged_poll, {"damaged read"}),
        (lost_position, {"a position was lost"}),
        (refused_append, {"a good append was refused"}),
    ],
)
def test_a_planted_anomaly_is_reported(plant: Callable[[Record], dict[int, bytes]], promises: set[str]) -> None:
    record = Record()
    check(record, {GROUP: plant(record)})
    assert {violation.promise for violation in record.history.violations} == promises


def test_an_old_read_of_one_that_heard_of_nobody_is_not_stale() -> None:
    record = Record()
    contents = stale_read(record)
    (found,) = record.reads
    record.alone = [(found.broker, found.asked_at - 1, found.asked_at + 1)]
    check(record, {GROUP: contents})
    assert record.history.violations == []


@pytest.mark.parametrize(
    ("epoch", "high_watermark", "asked"), [(2, 1, 4.0), (1, 2, 4.0), (1, 1, 2.5)], ids=["led", "knew", "asked before"]
)
def test_a_read_that_is_old_but_right_is_not_stale(epoch: int, high_watermark: int, asked: float) -> None:
    record = Record()
    contents = two_leaders(record)
    read(record, epoch=epoch, high_watermark=high_watermark, asked=asked)
    check(record, {GROUP: contents})
    assert record.history.violations == []
