"""Three brokers with a process each, and what the measurements do with them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from time import perf_counter, time
from typing import Any

import pykka
import trio

from actors.cluster_file.config import BrokerConfig, ClusterConfig, KafkaConfig, TopicConfig
from actors.messages.controller import DescribeCluster, OperationAnswer
from actors.messages.replica import (
    AppendRecords,
    AppendResult,
    DescribeReplica,
    ReplicaFacts,
    TransferLeadership,
    group_name,
    replica_address,
)
from actors.process.hosts import ProcessHost
from actors.process.launcher import Launcher, open_launcher
from actors.runtime import Address, AnyRef, Payload, RuntimeFault
from protocol.error_codes import ErrorCode
from protocol.records.batches import Record, build_batch

KB, MB = 1 << 10, 1 << 20
BROKERS = (1, 2, 3)
PATIENCE_SECONDS = 120.0
LOOK_AGAIN_SECONDS = 0.02
APPEND_TIMEOUT_MS = 5000
_BATCH_OVERHEAD_BYTES = 80


class Stuck(Exception):
    """The cluster did not reach in time the state that a measurement waits for."""


class Brokers:
    """A running cluster, driven on its launcher's loop."""

    def __init__(self, launcher: Launcher, nursery: trio.Nursery, data_dir: Path) -> None:
        self._launcher = launcher
        self._nursery = nursery
        self.data_dir = data_dir
        self._names: dict[str, str] = {}

    async def learn_names(self) -> None:
        """`orders-0` is what is asked for here; its group has the topic's id in its name too."""
        for topic in (await self.describe_cluster())["topics"]:
            for number in range(len(topic["partitions"])):
                self._names[f"{topic['name']}-{number}"] = group_name(topic["name"], number, topic["topic_id"])

    async def describe_cluster(self) -> dict[str, Any]:
        """Everything that the first broker knows of the cluster."""
        return await self.operate(DescribeCluster())

    async def operate(self, request: object) -> dict[str, Any]:
        """Have the cluster do this, asked of the first broker. Gives the answer's facts."""
        controller = self._launcher.node.ref(Address("controller", "", BROKERS[0]))
        answer: OperationAnswer = await controller.ask(request, block=False)
        outcome = answer.outcome
        if outcome.error != ErrorCode.NONE:
            raise Stuck(f"{type(request).__name__} was refused: {outcome.message}")
        return dict(outcome.facts)

    @property
    def pids(self) -> dict[int, int]:
        return self._launcher.pids

    def replica(self, group: str, broker: int) -> AnyRef:
        return self._launcher.node.ref(replica_address(self._names[group], broker))

    def directory(self, group: str, broker: int) -> Path:
        """Where this broker keeps its replica of a group."""
        return self.data_dir / f"{broker}" / self._names[group]

    async def describe(self, groups: Collection[str]) -> dict[tuple[str, int], ReplicaFacts]:
        """What every replica of these groups says of itself, as far as it answers."""
        asked = [
            (group, broker, self.replica(group, broker).ask(DescribeReplica(), block=False))
            for group in groups
            for broker in self._launcher.statuses
        ]
        facts: dict[tuple[str, int], ReplicaFacts] = {}
        for group, broker, answer in asked:
            try:
                facts[group, broker] = await answer
            except (pykka.ActorDeadError, RuntimeFault):
                continue  # this broker keeps no such replica, or not yet
        return facts

    async def leaders(self, groups: Collection[str], *, in_sync: int) -> dict[str, int]:
        """Wait until each of these groups has a leader with so many replicas in sync."""
        found: dict[str, int] = {}
        with within(PATIENCE_SECONDS, f"{len(groups)} partitions with {in_sync} replicas in sync"):
            while missing := [group for group in groups if group not in found]:
                for (group, broker), facts in (await self.describe(missing)).items():
                    if facts.role == "Leader" and len(facts.in_sync) >= in_sync:
                        found[group] = broker
                await trio.sleep(LOOK_AGAIN_SECONDS if len(found) < len(groups) else 0)
        return found

    async def lead(self, homes: dict[str, int]) -> None:
        """Hand leadership over until every group is led by the broker given for it."""
        with within(PATIENCE_SECONDS, f"the leadership of {len(homes)} partitions handed over"):
            while True:
                leaders = await self.leaders(homes, in_sync=len(BROKERS))
                away = [group for group in homes if leaders[group] != homes[group]]
                if not away:
                    return
                asked = [
                    self.replica(group, leaders[group]).ask(TransferLeadership(homes[group]), block=False)
                    for group in away
                ]
                for answer in asked:
                    await answer
                await trio.sleep(LOOK_AGAIN_SECONDS)

    def kill(self, broker: int) -> None:
        self._launcher.kill(broker)

    async def end(self, broker: int) -> None:
        """End a broker cleanly, and wait until its process is gone."""
        with within(PATIENCE_SECONDS, f"broker {broker} ended"):
            self._launcher.end(broker)
            await self._launcher.until_dead(broker)

    async def restart(self, broker: int) -> None:
        """Start a dead broker again and wait until it is linked to all others."""
        with within(PATIENCE_SECONDS, f"broker {broker} restarted"):
            await self._launcher.until_dead(broker)
            await self._nursery.start(self._launcher.live_once, broker)
            await self._launcher.until_ready()


@asynccontextmanager
async def running(topics: Sequence[TopicConfig], *, min_insync_replicas: int = 1) -> AsyncIterator[Brokers]:
    """Start the cluster with these topics; all brokers are linked, leaders need not have been elected."""
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as directory:
        data_dir = Path(directory)
        brokers = tuple(BrokerConfig(number, 0, data_dir / str(number)) for number in BROKERS)
        kafka = KafkaConfig(min_insync_replicas=min_insync_replicas)
        config = ClusterConfig("bench", "127.0.0.1", data_dir, kafka, brokers, tuple(topics))
        async with (
            open_launcher(config, lambda *_: ProcessHost(), log_level="error") as launcher,
            trio.open_nursery() as nursery,
        ):
            for broker in BROKERS:
                await nursery.start(launcher.live_once, broker)
            with within(PATIENCE_SECONDS, "all brokers linked"):
                await launcher.until_ready()
            brokers_running = Brokers(launcher, nursery, data_dir)
            await brokers_running.learn_names()
            yield brokers_running
            await launcher.stop()
            nursery.cancel_scope.cancel()


@contextmanager
def within(seconds: float, aim: str) -> Iterator[None]:
    """The work of this context must be done in time, or Stuck is raised."""
    try:
        with trio.fail_after(seconds):
            yield
    except trio.TooSlowError:
        raise Stuck(f"waited {seconds:g} s for {aim}") from None


async def append(leader: AnyRef, acks: int, batch: Payload) -> float:
    """Append one batch; gives the seconds it took."""
    start = perf_counter()
    must_be_taken(await leader.ask(AppendRecords(acks, APPEND_TIMEOUT_MS, batch), block=False))
    return perf_counter() - start


def must_be_taken(result: AppendResult) -> None:
    if result.error != ErrorCode.NONE:
        raise Stuck(f"an append was refused: {ErrorCode(result.error).name}: {result.message}")


def batch_of(size: int) -> Payload:
    """One record of random bytes with the present time: retention would delete an older one during the measurement."""
    value = os.urandom(size - _BATCH_OVERHEAD_BYTES)
    return Payload(memoryview(build_batch([Record(0, int(time() * 1000), None, value, ())])))


def quantile(values: Sequence[float], share: float) -> float:
    """The value that this share of them does not exceed."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
