"""From topic to topic, exactly once: what is read, what is written and how far it was read are one transaction."""

from __future__ import annotations

from functools import partial

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tools.chaos.client import CALL_SECONDS, error_of, give_up, record_polls, repeatedly
from tools.chaos.librdkafka.fatal_errors import Producer
from tools.chaos.librdkafka.punctual import within
from tools.chaos.subscription import Place, Subscription
from tools.chaos.transactors import TransactionalClient
from tools.checker.history import OK, UNKNOWN, OffsetCommit

BATCH_MAX = 50
POLL_SECONDS = 0.2
SOURCE = "<"
"""An output's value ends with this and its input's value."""


class Transformer(TransactionalClient):
    """A member of a group, with a transactional id of its own."""

    workload = "transform"

    def work(self) -> None:
        self.assignments: dict[Place, int] = {}
        self.group = self.setting.topic("eos")
        while not self.ending.is_set():
            self._live()

    def _live(self) -> None:
        """Until `end` is called, or the producer cannot be used any more."""
        name, producer = self.new_producer()
        config = self.setting.config(
            group_id=self.group, auto_offset_reset="earliest", enable_auto_commit=False,
            isolation_level="read_committed", session_timeout_ms=6000, heartbeat_interval_ms=500,
            max_poll_interval_ms=45_000,
        )  # fmt: skip
        subscription = Subscription(config, [self.setting.topic("in")], self.assignments)
        try:
            while not self.ending.is_set() and self._one(name, producer, subscription):
                pass
        except KafkaException as exception:
            self.told("transform", error_of(exception))
        finally:
            try:
                give_up(self, producer)
            finally:
                subscription.close()

    def _one(self, name: str, producer: Producer, subscription: Subscription) -> bool:
        began = self.recorder.now
        messages = subscription.poll(BATCH_MAX, POLL_SECONDS, partial(self.told, "consume"))
        if not messages:
            producer.poll(0)
            return True
        transaction = self.begin_transaction(name, producer)
        ends = record_polls(self, name, subscription.assignment, messages, began, transaction=transaction)
        for message in messages:
            place = (self.setting.topic("out"), message.partition() or 0)
            self.send_in(name, producer, place, transaction, SOURCE + (message.value() or b"").decode())
        return self._finish(name, producer, subscription.consumer, transaction, ends)

    def _finish(
        self, name: str, producer: Producer, consumer: Consumer, transaction: str, ends: dict[Place, int]
    ) -> bool:
        offsets = [TopicPartition(topic, number, end) for (topic, number), end in ends.items()]
        metadata = consumer.consumer_group_metadata()
        began = self.recorder.now
        call = partial(producer.send_offsets_to_transaction, offsets, metadata, CALL_SECONDS)
        error = repeatedly(self, "send_offsets", partial(within, 2 * CALL_SECONDS, call))
        ended = self.recorder.now
        outcome = OK if error is None else UNKNOWN
        for (topic, number), end in ends.items():
            self.recorder.add(
                self.workload,
                OffsetCommit(self.group, f"{topic}-{number}", end, outcome, began, ended, transaction=transaction),
            )
        if error is None:
            error = self.commit(name, producer, transaction)
        if error is not None and error.txn_requires_abort():
            self.abort(name, producer, transaction)
        return error is None  # else the records are read again, by the next owner of the partitions
