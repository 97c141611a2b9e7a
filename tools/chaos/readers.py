"""Consumers: assigned ones, members of consumer groups, and a reader of committed offsets."""

from __future__ import annotations

from functools import partial

import attrs
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tools.chaos.client import Client, Setting, error_of, record_polls
from tools.chaos.subscription import Place, Subscription
from tools.checker.history import OK, READ_COMMITTED, UNKNOWN, OffsetCommit, OffsetRead

BATCH_MAX = 500
POLL_SECONDS = 0.2
ASK_SECONDS = 5.0
NOTHING = -1


class Reader(Client):
    """Reads every topic from its beginning, and continues with new records."""

    workload = "read"

    def __init__(self, name: str, setting: Setting, isolation: str) -> None:
        super().__init__(name, setting)
        self.isolation = isolation

    def work(self) -> None:
        config = self.setting.config(group_id=self.name, auto_offset_reset="error", isolation_level=self.isolation)
        consumer = Consumer(config | {"enable.auto.commit": False})
        consumer.assign([TopicPartition(*place, 0) for place in self.setting.places("plain", "in", "out")])
        fresh: set[str] = set()
        while not self.ending.is_set():
            began = self.recorder.now
            good = self.without_errors(consumer.consume(BATCH_MAX, POLL_SECONDS))
            record_polls(self, self.name, lambda *_: "1", good, began, isolation=self.isolation, fresh=fresh)
        consumer.close()


class Member(Client):
    """A member of a consumer group that reads one topic. It commits after every poll, and sometimes rejoins."""

    def __init__(self, name: str, setting: Setting, protocol: str) -> None:
        super().__init__(name, setting)
        self.protocol, self.workload = protocol, f"group ({protocol})"
        self.group = setting.topic(protocol)
        self.assignments: dict[Place, int] = {}

    def work(self) -> None:
        while not self.ending.is_set():
            self._live(self.rng.uniform(5, 40))

    def _live(self, seconds: float) -> None:
        config = self.setting.config(
            group_id=self.group, auto_offset_reset="earliest", enable_auto_commit=False, group_protocol=self.protocol
        )
        if self.protocol == "classic":
            config |= {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500}
        subscription = Subscription(config, [self.setting.topic("plain")], self.assignments)
        until = self.recorder.now + seconds
        while not self.ending.is_set() and self.recorder.now < until:
            began = self.recorder.now
            messages = subscription.poll(BATCH_MAX, POLL_SECONDS, partial(self.told, "consume"))
            ends = record_polls(self, self.name, subscription.assignment, messages, began)
            if ends:
                self._commit(subscription.consumer, ends)
        subscription.close()

    def _commit(self, consumer: Consumer, ends: dict[Place, int]) -> None:
        offsets = [TopicPartition(*place, end) for place, end in ends.items()]
        began = self.recorder.now
        outcomes = dict.fromkeys(ends, UNKNOWN)
        self.committing = [
            OffsetCommit(self.group, f"{topic}-{number}", end, UNKNOWN, began, began, member=self.name)
            for (topic, number), end in ends.items()
        ]
        try:
            done = consumer.commit(offsets=offsets, asynchronous=False) or []
        except KafkaException as exception:
            self.told("commit", error_of(exception))
        else:
            outcomes |= {(one.topic, one.partition): OK for one in done if one.error is None}
        ended = self.recorder.now
        for made, outcome in zip(self.committing, outcomes.values(), strict=True):
            self.recorder.add(self.workload, attrs.evolve(made, outcome=outcome, end=ended))
        self.committing = []


class OffsetReader(Client):
    """Asks for the committed offsets of a group, again and again."""

    workload = "offsets"

    def __init__(self, name: str, setting: Setting, group: str, topic: str) -> None:
        super().__init__(name, setting)
        self.group, self.topic = setting.topic(group), topic

    def work(self) -> None:
        consumer = Consumer(self.setting.config(group_id=self.group, isolation_level=READ_COMMITTED))
        places = [TopicPartition(*place) for place in self.setting.places(self.topic)]
        while not self.ending.wait(0.3):
            self._ask(consumer, places)
        while not self._ask(consumer, places):  # once more at the end, when all is well
            pass
        consumer.close()

    def _ask(self, consumer: Consumer, places: list[TopicPartition]) -> bool:
        began = self.recorder.now
        try:
            found = consumer.committed(places, timeout=ASK_SECONDS)
        except KafkaException as exception:
            self.told("committed", error_of(exception))
            return False
        ended = self.recorder.now
        for one in found:
            if one.error is None:
                offset = one.offset if one.offset >= 0 else NOTHING
                made = OffsetRead(self.group, f"{one.topic}-{one.partition}", offset, began, ended)
                self.recorder.add(self.workload, made)
        return all(one.error is None for one in found)
