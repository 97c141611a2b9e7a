"""Reads each partition from its beginning to its end when a round is over."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tools.chaos.client import Client, Setting, error_of, record_polls
from tools.checker.history import Poll

BATCH_MAX = 1000
POLL_SECONDS = 0.5
ASK_SECONDS = 5.0
PATIENCE_SECONDS = 60.0


class FinalReader(Client):
    """Reads partitions from 0 to their high watermarks. One that reads committed records gets there too, in the end:
    no transaction is open any more, or will be for long."""

    workload = "final read"

    def __init__(self, name: str, setting: Setting, isolation: str, topics: tuple[str, ...]) -> None:
        super().__init__(name, setting)
        self.isolation, self._places = isolation, setting.places(*topics)
        self.values: dict[str, list[str]] = {setting.topic(topic): [] for topic in topics}
        self.unreached: dict[str, tuple[int, int]] = {}
        """Partitions whose end was not reached: the last position, and the end."""

    def work(self) -> None:
        config = self.setting.config(group_id=self.name, auto_offset_reset="error", isolation_level=self.isolation)
        consumer = Consumer(config | {"enable.auto.commit": False, "enable.partition.eof": True})
        consumer.assign([TopicPartition(*place, 0) for place in self._places])
        ends = self._ends()
        at = dict.fromkeys(ends, 0)
        fresh: set[str] = set()
        until = self.recorder.now + PATIENCE_SECONDS
        while any(at[place] < end for place, end in ends.items()) and self.recorder.now < until:
            began = self.recorder.now
            good = self.without_errors(consumer.consume(BATCH_MAX, POLL_SECONDS))
            for message in good:
                self.values[message.topic() or ""].append((message.value() or b"").decode())
            record_polls(self, self.name, lambda *_: "1", good, began, isolation=self.isolation, fresh=fresh)
            for one in consumer.position([TopicPartition(*place) for place in ends]):
                at[one.topic, one.partition] = max(at[one.topic, one.partition], one.offset)
        self._looked_to(at)
        self.unreached = {f"{place[0]}-{place[1]}": (at[place], end) for place, end in ends.items() if at[place] < end}
        consumer.close()

    def _looked_to(self, at: dict[tuple[str, int], int]) -> None:
        """Record that the reader has seen everything up to here, though the last batches may be markers."""
        now = self.recorder.now
        for (topic, number), end in at.items():
            poll = Poll(self.name, "1", f"{topic}-{number}", (), now, now, -1, end, self.isolation)
            self.recorder.add(self.workload, poll)

    def _ends(self) -> dict[tuple[str, int], int]:
        """The high watermarks, for both isolation levels."""
        uncommitted = Consumer(self.setting.config(group_id=self.name, isolation_level="read_uncommitted"))
        ends: dict[tuple[str, int], int] = {}
        while len(ends) < len(self._places):
            for place in self._places:
                try:
                    _, ends[place] = uncommitted.get_watermark_offsets(TopicPartition(*place), timeout=ASK_SECONDS)
                except KafkaException as exception:
                    self.told("offsets", error_of(exception))
        uncommitted.close()
        return ends
