"""Topics of a whole cluster, for tests: what every broker says of them and has on its disk, and load with retries."""

from __future__ import annotations

import threading
import time
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any, Self

import orjson
import pykka

from actors.harness import Cluster
from actors.messages.controller import DescribeCluster, OperationAnswer
from actors.messages.replica import (
    ALL,
    AppendRecords,
    AppendResult,
    ReadRecords,
    ReadResult,
    group_name,
    replica_address,
)
from actors.runtime import Payload
from protocol.error_codes import ErrorCode
from protocol.records.batches import Record, build_batch, parse_batches, records
from tests.actors.test_replicas import append_somewhere
from tests.actors.waiting import wait_until

RETRIABLE = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
UNREACHABLE = (pykka.ActorDeadError, pykka.Timeout)

_PACE_SECONDS = 0.002  # from one record to the next: writers must leave the brokers some of the processor

View = dict[str, Any]


def view(cluster: Cluster, broker: int) -> View:
    """What this broker says of the cluster; nothing if it cannot say."""
    try:
        answer: OperationAnswer = cluster.ask(f"controller@{broker}", DescribeCluster())
    except UNREACHABLE:
        return {}
    value: View = orjson.loads(answer.answer)
    return value if value["error"] == ErrorCode.NONE else {}


def controller_of(cluster: Cluster) -> int:
    """The broker that every living one believes to be the controller."""
    found: list[Any] = []

    def agreed() -> bool:
        found[:] = [view(cluster, broker).get("controller") for broker in cluster.alive]
        return len(set(found)) == 1 and found[0] in cluster.alive

    wait_until(agreed, lambda: f"the brokers say {found}")
    controller: int = found[0]
    return controller


def topic_in(seen: View, topic: str) -> View | None:
    return next((one for one in seen["topics"] if one["name"] == topic), None)


def partition_of(cluster: Cluster, topic: str, partition: int = 0) -> View:
    """A partition as every living broker says it is, once they agree: an answered operation is heard of later."""
    said: list[tuple[str, View] | None] = []

    def agreed() -> bool:
        topics = [topic_in(seen, topic) for broker in cluster.alive if (seen := view(cluster, broker))]
        said[:] = [None if one is None else (one["topic_id"], one["partitions"][partition]) for one in topics]
        first = said[0] if said else None
        return first is not None and all(one == first for one in said) and first[1]["leader"] in cluster.alive

    wait_until(agreed, lambda: f"{topic}-{partition}: the brokers say {said}")
    assert said[0] is not None
    return said[0][1]


def leader_of(cluster: Cluster, topic: str, partition: int = 0) -> int:
    leader: int = partition_of(cluster, topic, partition)["leader"]
    return leader


def replicas_of(cluster: Cluster, topic: str, partition: int = 0) -> list[int]:
    replicas: list[int] = partition_of(cluster, topic, partition)["replicas"]
    return replicas


def kept_by(data_dir: Path, broker: int) -> set[str]:
    """The groups that have a directory on this broker's disk."""
    return {path.name for path in (data_dir / str(broker)).glob("*-*.*") if path.is_dir()}


def unsettled(cluster: Cluster, data_dir: Path) -> str:
    """What is not yet as it should be: brokers that disagree, partitions without a leader or a replica, stray files."""
    alive = set(cluster.alive)
    first: View = {}
    for broker in sorted(alive):
        seen = view(cluster, broker)
        if not seen:
            return f"broker {broker} does not answer"
        said = {key: seen[key] for key in ("cluster_id", "controller", "topics")}
        if said != (first := first or said):
            return f"the brokers disagree: {first} {said}"
    wanted: dict[int, set[str]] = {broker: set() for broker in alive}
    for topic in first["topics"]:
        for one in topic["partitions"]:
            here = set(one["replicas"]) & alive
            if one["leader"] not in here or not here <= set(one["isr"]) or one["moved_from"]:
                return f"{topic['name']}: {one}"
            for broker in here:
                wanted[broker].add(group_name(topic["name"], one["partition"], topic["topic_id"]))
    for broker, groups in wanted.items():
        if (on_disk := kept_by(data_dir, broker)) != groups:
            return f"broker {broker} has {sorted(on_disk)} and should have {sorted(groups)}"
    return ""


def wait_until_settled(cluster: Cluster, data_dir: Path, *, seconds: float = 20.0) -> View:
    """Wait until every living broker says the same and nothing is under way; gives what they say."""
    why = [""]

    def settled() -> bool:
        why[0] = unsettled(cluster, data_dir)
        return not why[0]

    wait_until(settled, lambda: why[0], seconds=seconds)
    return view(cluster, cluster.alive[0])


def batch_of(*values: bytes, producer: int = -1, sequence: int = -1) -> Payload:
    """A batch of today, which retention leaves alone."""
    timestamp = int(time.time() * 1000)
    batch = build_batch(
        [Record(at, timestamp, None, value, ()) for at, value in enumerate(values)],
        producer_id=producer,
        producer_epoch=-1 if producer < 0 else 0,
        base_sequence=sequence,
    )
    return Payload(memoryview(batch))


def write(cluster: Cluster, topic: str, *values: bytes, partition: int = 0) -> int:
    """Append as a client with retries does; gives the offset."""
    partition_of(cluster, topic, partition)
    return append_somewhere(cluster, batch_of(*values), group=f"{topic}-{partition}").base_offset


def try_append(cluster: Cluster, topic: str, payload: Payload, *, partition: int = 0) -> AppendResult:
    """One append at the leader of the partition, once there is one."""
    leader = leader_of(cluster, topic, partition)
    address = replica_address(cluster.group(topic, partition), leader)
    result: AppendResult = cluster.ask(address, AppendRecords(ALL, 5000, payload), timeout=10)
    return result


def values_of(cluster: Cluster, topic: str, partition: int = 0) -> list[bytes | None]:
    """Every record of a partition, from its leader, which may change meanwhile."""
    values: list[bytes | None] = []
    read: list[ReadResult] = []
    offset = 0

    def is_read() -> bool:
        leader = replica_address(cluster.group(topic, partition), leader_of(cluster, topic, partition))
        read[:] = [cluster.ask(leader, ReadRecords(offset, 1 << 20, 1, 0))]
        return read[0].error != ErrorCode.NOT_LEADER_OR_FOLLOWER

    while True:
        wait_until(is_read, lambda: f"{topic}-{partition}: {read}")
        assert read[0].error == ErrorCode.NONE, read
        if not len(read[0].batches):
            return values
        batches = parse_batches(read[0].batches)
        for position, header in zip(batches.positions, batches.headers, strict=True):
            if not header.is_control:
                values += [record.value for record in records(batches.data, position, limit=1 << 20)]
        offset = batches.headers[-1].next_offset


class Writer:
    """An idempotent producer with acks=all and retries, on a thread of its own: 0, 1, 2… until it is left.

    It keeps the errors that it saw, and the longest time from one acknowledgement to the next.
    """

    def __init__(self, cluster: Cluster, topic: str, partition: int = 0) -> None:
        self._cluster = cluster
        self.group = cluster.group(topic, partition)
        self._topic, self._partition = topic, partition
        self._producer: int = cluster.admin.take_producer_ids()["first"]
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"writer-{self.group}", daemon=True)
        self._at = 0
        self.acknowledged = 0
        self.gap_seconds = 0.0
        self.errors: Counter[str] = Counter()
        self.failure: str = ""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def more(self, records: int) -> None:
        """Wait until so many more are acknowledged."""
        wanted = self.acknowledged + records
        wait_until(
            lambda: self.acknowledged >= wanted or self.failure,
            lambda: f"{self.group}: {self.acknowledged} of {wanted} acknowledged, errors: {self.errors}",
        )
        assert not self.failure, self.failure

    def check(self) -> None:
        """Once it was left: everything acknowledged is there, once and in order, and no error reached it."""
        assert not self._thread.is_alive()
        assert not self.failure, self.failure
        found = values_of(self._cluster, self._topic, self._partition)
        expected = [b"%d" % number for number in range(self.acknowledged)]
        assert found == expected, f"{self.group}: {_difference(found, expected)}"

    def _run(self) -> None:
        last = time.monotonic()
        for number in count():
            payload = batch_of(b"%d" % number, producer=self._producer, sequence=number)
            while not self._taken(payload):
                if self.failure or time.monotonic() - last > 30:
                    self.failure = self.failure or f"{self.group}: nobody took {number}: {self.errors}"
                    return
            now = time.monotonic()
            self.gap_seconds, last = max(self.gap_seconds, now - last), now
            self.acknowledged += 1
            if self._end.wait(_PACE_SECONDS):
                return

    def _taken(self, payload: Payload) -> bool:
        brokers = self._cluster.brokers
        address = replica_address(self.group, brokers[self._at % len(brokers)])
        try:
            result: AppendResult = self._cluster.ask(address, AppendRecords(ALL, 2000, payload), timeout=5)
        except UNREACHABLE as error:
            self.errors[type(error).__name__] += 1
        else:
            if result.error == ErrorCode.NONE:
                return True
            self.errors[ErrorCode(result.error).name] += 1
            if result.error not in RETRIABLE:
                self.failure = f"{address}: {result}"
        self._at += 1
        if self._at % len(brokers) == 0:
            time.sleep(0.005)  # a client's back-off, after everybody was asked
        return False


def _difference(found: list[bytes | None], expected: list[bytes]) -> str:
    at = next((at for at, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b), "the end")
    return f"{len(found)} records instead of {len(expected)}, different at {at}"
