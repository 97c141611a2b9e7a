"""Transactional producers: they commit, abort, dawdle until they are timed out, and are replaced while they live."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException

from tools.chaos.client import CALL_SECONDS, Client, Setting, error_of, give_up, repeatedly, send
from tools.chaos.librdkafka.fatal_errors import Producer
from tools.checker.history import (
    OK,
    TRANSACTIONAL,
    UNKNOWN,
    Init,
    TransactionBegun,
    TransactionEnded,
)

TIMEOUT_MS = 8000
DAWDLE_SECONDS = 12.0
RECORDS_MAX = 20


class TransactionalClient(Client):
    """A client with a transactional id, and the steps of a transaction."""

    def __init__(self, name: str, setting: Setting) -> None:
        super().__init__(name, setting)
        self.lives = self.transactions = self.sent = 0

    def new_producer(self) -> tuple[str, Producer]:
        """A new producer under this client's id: all earlier ones are fenced."""
        while True:
            self.lives += 1
            name = f"{self.name}.{self.lives}"
            producer = Producer(
                self.setting.config(
                    transactional_id=f"{self.setting.name}-{self.name}", transaction_timeout_ms=TIMEOUT_MS, linger_ms=5
                )
            )
            began = self.recorder.now
            error = repeatedly(self, "init", lambda producer=producer: producer.init_transactions(CALL_SECONDS))  # type: ignore[misc]
            outcome = OK if error is None else UNKNOWN
            made = Init(name, f"{self.setting.name}-{self.name}", outcome, began, self.recorder.now)
            self.recorder.add(self.workload, made)
            if error is None:
                return name, producer

    def begin_transaction(self, name: str, producer: Producer) -> str:
        self.transactions += 1
        transaction = f"{name}/{self.transactions}"
        began = self.recorder.now
        producer.begin_transaction()
        self.recorder.add(self.workload, TransactionBegun(name, transaction, began, self.recorder.now))
        return transaction

    def send_in(
        self, name: str, producer: Producer, place: tuple[str, int], transaction: str, source: str = ""
    ) -> None:
        self.sent += 1
        send(self, producer, name, place, f"{name}-{self.sent}{source}", TRANSACTIONAL, transaction)

    def commit(self, name: str, producer: Producer, transaction: str) -> KafkaError | None:
        """Gives the error, or None if the transaction is committed."""
        return self._end(name, transaction, producer.commit_transaction, commit=True)

    def abort(self, name: str, producer: Producer, transaction: str) -> bool:
        """False if the producer cannot be used any more."""
        return self._end(name, transaction, producer.abort_transaction, commit=False) is None

    def _end(self, name: str, transaction: str, call: Callable[[float], object], *, commit: bool) -> KafkaError | None:
        began = self.recorder.now
        error = repeatedly(self, "commit" if commit else "abort", lambda: call(CALL_SECONDS))
        outcome = OK if error is None else UNKNOWN
        self.recorder.add(self.workload, TransactionEnded(name, transaction, commit, outcome, began, self.recorder.now))
        return error


class Transactor(TransactionalClient):
    """One transaction after the other, to the partitions of one topic."""

    workload = TRANSACTIONAL

    def work(self) -> None:
        name, producer = self.new_producer()
        while not self.ending.is_set():
            try:
                good = self._one(name, producer)
            except KafkaException as exception:  # of produce() or begin_transaction(): it is fenced
                self.told("produce", error_of(exception))
                good = False
            if not good:
                give_up(self, producer)
                name, producer = self.new_producer()
        give_up(self, producer)
        self.new_producer()  # so that it leaves no open transaction

    def _one(self, name: str, producer: Producer) -> bool:
        transaction = self.begin_transaction(name, producer)
        places = self.rng.sample(self.setting.places("in"), self.rng.randint(1, self.setting.partitions))
        count = self.rng.randint(1, RECORDS_MAX)
        for _ in range(count):
            self.send_in(name, producer, self.rng.choice(places), transaction)
        producer.poll(0)
        self.ending.wait(count / self.setting.rate)
        chance = self.rng.random()
        if chance < 0.02:
            self.ending.wait(DAWDLE_SECONDS)
        elif chance < 0.05:
            return self._is_replaced(name, producer, transaction)
        elif chance < 0.2:
            producer.flush(self.rng.choice((0.0, 2.0)))
            return self.abort(name, producer, transaction)
        error = self.commit(name, producer, transaction)
        return error is None or (error.txn_requires_abort() and self.abort(name, producer, transaction))

    def _is_replaced(self, name: str, producer: Producer, transaction: str) -> bool:
        """A successor fences this producer, which does not know it: nothing it does afterwards may be committed."""
        _, successor = self.new_producer()
        try:
            self.send_in(name, producer, self.rng.choice(self.setting.places("in")), transaction)
            self.commit(name, producer, transaction)
        except KafkaException as exception:
            self.told("zombie", error_of(exception))
        give_up(self, producer)
        give_up(self, successor)
        return False
