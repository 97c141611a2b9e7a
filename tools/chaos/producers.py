"""Plain and idempotent producers."""

from __future__ import annotations

import attrs
from confluent_kafka import KafkaException

from tools.chaos.client import Client, Setting, error_of, give_up, send
from tools.chaos.librdkafka.fatal_errors import Producer
from tools.chaos.librdkafka.renumbering import listening
from tools.checker.history import IDEMPOTENT, PLAIN

TICK_SECONDS = 0.05
TIMEOUT_MS = 60_000
FLUSH_SECONDS = 90.0


class Sender(Client):
    """Sends to the partitions of one topic at its rate, whether sends succeed or not."""

    def __init__(self, name: str, setting: Setting, kind: str) -> None:
        super().__init__(name, setting)
        assert kind in (PLAIN, IDEMPOTENT)
        self.workload = self.kind = kind

    def work(self) -> None:
        lives = 0
        while not self.ending.is_set():
            lives += 1
            self._live(f"{self.name}.{lives}")

    def _live(self, name: str) -> None:
        """Until `end` is called, or the producer cannot be used any more."""
        producer = Producer(
            self.setting.config(
                enable_idempotence=self.kind == IDEMPOTENT, acks="all", linger_ms=5,
                delivery_timeout_ms=TIMEOUT_MS, queue_buffering_max_messages=10_000,
            )
            | (listening(self._renumbered) if self.kind == IDEMPOTENT else {})
        )  # fmt: skip
        places = self.setting.places("plain")
        number, due = 0, 0.0
        while not self.ending.wait(TICK_SECONDS):
            due += self.setting.rate * TICK_SECONDS
            try:
                while due >= 1:
                    due -= 1
                    send(self, producer, name, self.rng.choice(places), f"{name}-{number}", self.kind)
                    number += 1
            except KafkaException as exception:
                self.told("produce", error_of(exception))
                give_up(self, producer)
                return
            producer.poll(0)
        left = producer.flush(FLUSH_SECONDS)
        assert not left, f"{left} records were neither delivered nor given up"

    def _renumbered(self) -> None:
        self.recorder.error(self.workload, "new sequence numbers")
        for value, made in self.outstanding.items():
            self.outstanding[value] = attrs.evolve(made, kind=PLAIN)
