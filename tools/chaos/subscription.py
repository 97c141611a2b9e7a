"""A member of a consumer group, record by record.

librdkafka documents that its calls for many records at once may lose some records, or return records of revoked
partitions, if a rebalance happens meanwhile. So records are polled one at a time here, and records that were not yet
returned when their partition was revoked are left to its next owner.

A rebalance callback while a consumer is being closed can wait for an answer that never arrives (librdkafka, issue
4041), and confluent-kafka holds Python's lock meanwhile: the process stands still. So partitions are given back before
the consumer is closed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

Place = tuple[str, int]
GIVING_BACK_SECONDS = 5.0


class Subscription:
    """`assignments` counts for every partition how often it was given to a member of this name."""

    def __init__(self, config: dict[str, Any], topics: list[str], assignments: dict[Place, int] | None = None) -> None:
        self._assignments: dict[Place, int] = {} if assignments is None else assignments
        self._gathered: list[Message] = []
        self._held: set[Place] = set()
        self.consumer = Consumer(config)
        self.consumer.subscribe(topics, on_assign=self._assigned, on_revoke=self._taken, on_lost=self._taken)

    def poll(self, count_max: int, seconds: float, told: Callable[[KafkaError], None]) -> list[Message]:
        """The records that have arrived, after waiting for the first. Errors are reported to `told` and left out."""
        message = self.consumer.poll(seconds)
        while message is not None:
            error = message.error()
            if error is None:
                self._gathered.append(message)
            else:
                told(error)
            message = self.consumer.poll(0) if len(self._gathered) < count_max else None
        found, self._gathered = self._gathered, []
        return found

    def assignment(self, topic: str, number: int) -> str:
        """The assignment of the partition in which a record of the last poll was read."""
        return f"{self._assignments.get((topic, number), 0)}"

    def close(self) -> None:
        self.consumer.unsubscribe()
        until = time.monotonic() + GIVING_BACK_SECONDS
        while self._held and time.monotonic() < until:
            self.consumer.poll(0.1)  # records of this poll are left to the next owner
        self.consumer.close()

    def _assigned(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for one in partitions:
            place = (one.topic, one.partition)
            self._assignments[place] = self._assignments.get(place, 0) + 1
            self._held.add(place)

    def _taken(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        taken = {(one.topic, one.partition) for one in partitions}
        self._held -= taken
        self._gathered = [one for one in self._gathered if (one.topic(), one.partition()) not in taken]
