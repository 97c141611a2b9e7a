"""What two looks at a cluster say about it: states from the later one, rates from the difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from attrs import frozen

from tools.cli.operations.observation import BEHIND, UNLED, Observation
from tools.client.addresses import shown
from tools.client.metadata import TopicPartition

Facts = dict[str, Any]


@frozen
class Report:
    """Each method gives a list of facts, ready for JSON."""

    now: Observation
    before: Observation | None = None

    def cluster(self) -> Facts:
        problems = Counter(one["problem"] for one in self.problems())
        return {
            "cluster_id": self.now.cluster_id,
            "controller": self.now.controller,
            "brokers": len(self.now.brokers),
            "brokers_gone": [one for one in self.now.known_brokers if one not in self.now.brokers],
            "topics": len(self.now.topics),
            "partitions": len(self.now.partitions),
            "without_leader": problems[UNLED],
            "under_replicated": problems[BEHIND],
            "records_per_s": self._rate(self.now.ends),
        }

    def brokers(self) -> list[Facts]:
        return [self._broker(broker) for broker in self.now.known_brokers]

    def topics(self) -> list[Facts]:
        """The busiest first."""
        rows = [self._topic(name) for name in self.now.topics]
        return sorted(rows, key=lambda one: (-(one["records_per_s"] or 0), one["topic"].startswith("__"), one["topic"]))

    def groups(self) -> list[Facts]:
        """Those with the longest lag first."""
        rows = []
        for name, listed in self.now.groups.items():
            then = {} if self.before is None else self.before.committed.get(name, {})
            now = self.now.committed.get(name, {})
            read = sum(max(offset - then[where], 0) for where, offset in now.items() if where in then)
            rate = self._per_second(read) if name in self.now.committed else None
            rows.append(
                {"group": name, "state": listed.state or None, "lag": self.now.lag(name), "records_per_s": rate}
            )
        return sorted(rows, key=lambda one: (-(one["lag"] or 0), one["group"]))

    def problems(self) -> list[Facts]:
        """The partitions with a problem; those without leader first."""
        rows = [
            {
                "topic": where.topic, "partition": where.partition, "leader": one.leader, "replicas": one.replicas,
                "in_sync": one.isr, "problem": problem,
            }
            for where, one in self.now.partitions
            if (problem := self.now.problem(one)) is not None
        ]  # fmt: skip
        return sorted(rows, key=lambda one: (one["problem"] != UNLED, one["topic"], one["partition"]))

    def as_json(self) -> Facts:
        return {
            **self.cluster(), "brokers": self.brokers(), "topics": self.topics(), "groups": self.groups(),
            "problems": self.problems(), "unknown": self.now.unknown,
        }  # fmt: skip

    # -- parts -------------------------------------------------------------------------------------------------------

    def _broker(self, broker: int) -> Facts:
        address = self.now.brokers.get(broker)
        disks = self.now.disks.get(broker)
        led = [where for where, one in self.now.partitions if one.leader == broker]
        kept = [one for _, one in self.now.partitions if broker in one.replicas]
        return {
            "broker": broker,
            "address": None if address is None else shown(address),
            "leads": len(led),
            "keeps": len(kept),
            "behind": sum(broker not in one.isr for one in kept),
            "records_per_s": self._rate(led),
            "size_bytes": None if disks is None else sum(disks.sizes.values()),
            "free_bytes": None if disks is None or disks.free_bytes < 0 else disks.free_bytes,
        }

    def _topic(self, name: str) -> Facts:
        partitions = [one for one in self.now.topics[name].partitions if one is not None]
        wheres = [TopicPartition(name, number) for number in range(len(self.now.topics[name].partitions))]
        sizes = [disks.sizes[where] for disks in self.now.disks.values() for where in wheres if where in disks.sizes]
        problems = Counter(problem for one in partitions if (problem := self.now.problem(one)) is not None)
        return {
            "topic": name,
            "partitions": len(partitions),
            "replicas": max((len(one.replicas) for one in partitions), default=0),
            "records_per_s": self._rate(wheres),
            "size_bytes": sum(sizes) if self.now.disks else None,
            "without_leader": problems[UNLED],
            "under_replicated": problems[BEHIND],
        }

    def _rate(self, wheres: Iterable[TopicPartition]) -> float | None:
        """The records a second that came to these partitions, as far as both looks know their ends."""
        if self.before is None:
            return None
        then, now = self.before.ends, self.now.ends
        both = [where for where in wheres if where in then and where in now]
        return self._per_second(sum(max(now[where] - then[where], 0) for where in both))

    def _per_second(self, count: int) -> float | None:
        seconds = 0.0 if self.before is None else self.now.at - self.before.at
        return round(count / seconds, 1) if seconds > 0 else None
