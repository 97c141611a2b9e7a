"""Sends a producer's batches to the leaders of their partitions, on the loop's thread.

A request contains at most one batch of each partition that a broker leads; up to IN_FLIGHT_MAX requests are in flight
to each broker. The effect of an answer on the order of a partition is in partition_queue.py, and on a transaction in
transaction.py: when one batch of a transaction is dropped, all are.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from functools import partial
from typing import Any

from attrs import frozen

from protocol.apis import INIT_PRODUCER_ID, PRODUCE
from protocol.error_codes import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from protocol.records.compression import Codec
from protocol.schema.declaration import NO_UUID
from tools.client.errors import ClientError, ErrorClass, KafkaError, TimedOut, TransactionFailed, error_code
from tools.client.metadata import TopicPartition
from tools.client.network.cluster import Cluster
from tools.client.network.connection import Ask
from tools.client.writing.batch import NO_OFFSET, Batch
from tools.client.writing.partition_queue import IN_FLIGHT_MAX, NOBODY, Identity, PartitionQueue
from tools.client.writing.transaction import V2_FROM, Phase, verdict
from tools.client.writing.transaction_coordinator import Transactions

_log = logging.getLogger(__name__)
_EPOCH_MAX = (1 << 15) - 1
_VERSION_WITHOUT_IDS = 12
_OVERDUE_SECONDS = 0.25
_LOST_COUNT = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)


@frozen
class Sending:
    """The settings of a producer's batches."""

    acks: int = -1
    codec: Codec = Codec.NONE
    idempotent: bool = True
    linger: float = 0.005
    delivery: float = 120.0
    """Seconds until a record fails if it is not acknowledged."""
    request_bytes: int = 4 << 20


class Sender:
    """On the loop's thread; state that the user's threads read too is under `changed`."""

    def __init__(
        self,
        cluster: Cluster,
        sending: Sending,
        changed: threading.Condition,
        transactions: Transactions | None = None,
    ) -> None:
        self.fatal: ClientError | None = None
        self.incomplete: dict[Batch, None] = {}  # under `changed`
        self.buffered = 0  # bytes; under `changed`
        self._cluster = cluster
        self._loop = cluster.loop
        self._sending = sending
        self._changed = changed
        self._transactions = transactions
        self._transaction = transactions.transaction if transactions is not None else None
        if transactions is not None:
            transactions.on_failure = self._fail_transaction
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._in_flight: dict[int, int] = {}
        self._identity: Identity | None = None if sending.idempotent else NOBODY
        self._is_asking = False
        self._id_failures = 0
        self._watches_time = False
        self._is_draining = False
        cluster.listen(self.drain)
        cluster.loop.at_end(self._end)

    # -- from the producer -----------------------------------------------------------------------------------------

    def opened(self, queue: PartitionQueue, batch: Batch) -> None:
        """Take a new batch: it is sealed when its linger time is over, if not before."""
        self._queues.setdefault(queue.where, queue)
        if self._transaction is not None and not self._transaction.may_write:  # it was ended at the same time
            self.drop_unsent(self._transaction.error or TransactionFailed("the transaction was ended meanwhile"))
            return
        if not self._watches_time:
            self._watches_time = True
            self._loop.after(_OVERDUE_SECONDS, self._drop_overdue)
        if batch.is_open:
            self._loop.after(self._sending.linger, partial(self._linger_over, queue, batch))

    def sealed(self, queue: PartitionQueue) -> None:
        self._queues.setdefault(queue.where, queue)
        self.drain()

    def seal_all(self) -> None:
        """Seal and send all batches, lingering or not."""
        for queue in list(self._queues.values()):
            if queue.open is not None:
                self._seal(queue, queue.open)
        self.drain()

    def _linger_over(self, queue: PartitionQueue, batch: Batch) -> None:
        if batch.is_open:
            self._seal(queue, batch)
            self.drain()

    def _seal(self, queue: PartitionQueue, batch: Batch) -> None:
        with self._changed:
            if queue.open is not batch:
                return  # a thread of the producer has just sealed it
            queue.open = None
            batch.is_open = False
            queue.add(batch)
        batch.encode(self._sending.codec)

    # -- requests --------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Send all batches that may be sent now."""
        if self.fatal is not None or self._is_draining:
            return
        waiting = [queue for queue in self._queues.values() if queue.has_batches]
        if not waiting:
            return
        identity = self._who()
        if identity is None:
            return
        self._is_draining = True
        now = self._loop.now()
        unknown = False
        by_leader: dict[int, list[PartitionQueue]] = {}
        for queue in waiting:
            known = self._cluster.view.partition(queue.where)
            if known is None or known.leader is None:
                unknown = True
            elif self._transaction is None or self._transaction.is_in(queue.where):
                by_leader.setdefault(known.leader, []).append(queue)
        if self._transactions is not None:
            self._transactions.add_partitions(self._partitions_added)
        for leader, queues in by_leader.items():
            while self._in_flight.get(leader, 0) < IN_FLIGHT_MAX and self._send(leader, queues, now, identity):
                pass
        self._is_draining = False
        if unknown:
            self._cluster.want([queue.where.topic for queue in waiting])

    def _send(self, leader: int, queues: list[PartitionQueue], now: float, identity: Identity) -> bool:
        """Send one request to a broker. False if there is no batch for it."""
        way = self._cluster.way(leader)
        if way is None:
            return False
        sent: dict[TopicPartition, tuple[PartitionQueue, Batch]] = {}
        size = 0
        for queue in queues:
            batch = queue.next(now, leader, identity)
            if batch is not None:
                assert batch.data is not None
                sent[queue.where] = queue, batch
                size += len(batch.data)
                if size >= self._sending.request_bytes:
                    break
        if not sent:
            return False
        queues.sort(key=lambda queue: queue.where in sent)  # the other partitions come first next time
        request, has_ids = self._request(sent)
        self._in_flight[leader] = self._in_flight.get(leader, 0) + 1
        first, last = self._versions(has_ids=has_ids)
        ask = Ask(
            PRODUCE,
            request,
            partial(self._answered, leader, sent),
            now + self._cluster.patience.request * 2,
            last,
            first,
            unanswered=self._sending.acks == 0,
        )
        way.ask(ask)
        return True

    def _request(self, sent: dict[TopicPartition, tuple[PartitionQueue, Batch]]) -> tuple[ProduceRequest, bool]:
        topics: dict[str, TopicProduceData] = {}
        for where, (_, batch) in sent.items():
            topic = topics.get(where.topic)
            if topic is None:
                topic = TopicProduceData(name=where.topic, topic_id=self._cluster.view.topic_id(where.topic))
                topics[where.topic] = topic
            topic.partition_data.append(PartitionProduceData(index=where.partition, records=batch.data))
        timeout_ms = int(self._cluster.patience.request * 1000)
        request = ProduceRequest(
            transactional_id=None if self._transaction is None else self._transaction.transactional_id,
            acks=self._sending.acks,
            timeout_ms=timeout_ms,
            topic_data=list(topics.values()),
        )
        return request, all(topic.topic_id != NO_UUID for topic in topics.values())

    def _versions(self, *, has_ids: bool) -> tuple[int, int | None]:
        """The first and the last version that can express the request."""
        last = None if has_ids else _VERSION_WITHOUT_IDS
        if self._transaction is None:
            return 0, last
        return (V2_FROM[PRODUCE], last) if self._transaction.is_v2 else (0, V2_FROM[PRODUCE] - 1)

    # -- answers ---------------------------------------------------------------------------------------------------

    def _answered(
        self,
        leader: int,
        sent: dict[TopicPartition, tuple[PartitionQueue, Batch]],
        response: ProduceResponse | ClientError | None,
    ) -> None:
        self._in_flight[leader] -= 1
        if self.fatal is not None:
            return
        if isinstance(response, ClientError):
            for queue, batch in sent.values():
                self._failed(queue, batch, response)
        elif response is None:
            for queue, batch in sent.values():
                self._succeeded(queue, batch, NO_OFFSET, -1)
        else:
            self._read(sent, response)
        self.drain()

    def _read(self, sent: dict[TopicPartition, tuple[PartitionQueue, Batch]], response: ProduceResponse) -> None:
        nodes = {one.node_id: (one.host, one.port) for one in response.node_endpoints}
        names = {self._cluster.view.topic_id(where.topic): where.topic for where in sent}
        left = dict(sent)
        for topic in response.responses:
            name = topic.name or names.get(topic.topic_id, "")
            for told in topic.partition_responses:
                where = TopicPartition(name, told.index)
                found = left.pop(where, None)
                if found is None:
                    continue
                if told.current_leader is not None:
                    named = told.current_leader
                    if self._cluster.leader_named(
                        where, named.leader_id, named.leader_epoch, nodes.get(named.leader_id)
                    ):
                        self._retry(*found, KafkaError(told.error_code, str(where)), 0.0)
                        continue
                self._partition_answered(*found, told)
        for queue, batch in left.values():  # a topic that was created again has another id
            self._failed(queue, batch, KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, str(queue.where)))

    def _partition_answered(self, queue: PartitionQueue, batch: Batch, told: PartitionProduceResponse) -> None:
        code = error_code(told.error_code)
        if told.error_code == ErrorCode.NONE:
            self._succeeded(queue, batch, told.base_offset, told.log_append_time_ms)
        elif code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self._succeeded(queue, batch, NO_OFFSET, -1)
        else:
            message = told.error_message
            if told.record_errors:
                message = "; ".join(
                    f"record {one.batch_index}: {one.batch_index_error_message}" for one in told.record_errors
                )
            error = KafkaError(told.error_code, str(queue.where), message)
            if code in _LOST_COUNT and self._sending.idempotent:
                if not queue.is_oldest(batch):
                    self._retry(queue, batch, error, 0.0)
                elif self._transaction is not None:
                    self._give_up(queue, batch, error)
                else:
                    queue.lost_count()
                    self._retry(queue, batch, error, 0.0)
            else:
                self._failed(queue, batch, error)

    def _succeeded(self, queue: PartitionQueue, batch: Batch, base_offset: int, append_time: int) -> None:
        queue.succeeded(batch)
        self._release(batch)
        batch.complete(base_offset, append_time)

    def _failed(self, queue: PartitionQueue, batch: Batch, error: ClientError) -> None:
        if self._transaction is not None and not (error.kind.is_retriable and self._transaction.may_write):
            self._give_up(queue, batch, error)
        elif error.kind is ErrorClass.FATAL:
            self._end(error)
        elif error.kind.is_retriable:
            self._retry(queue, batch, error, self._cluster.patience.pause(queue.failures))
            if error.kind is ErrorClass.REFRESH:
                self._cluster.refresh()
        else:
            queue.dropped(batch)
            self._drop(batch, error)
            self._restart_if_settled(queue)

    def _retry(self, queue: PartitionQueue, batch: Batch, error: ClientError, pause: float) -> None:
        if self._transaction is not None and not self._transaction.may_write:
            self._give_up(queue, batch, error)
            return
        now = self._loop.now()
        batch.last_failure = error
        if now >= batch.deadline:
            queue.dropped(batch)
            self._expire(batch, error)
        else:
            queue.failed(batch, now + pause)
            if pause:
                self._loop.after(pause, self.drain)
        self._restart_if_settled(queue)

    def _restart_if_settled(self, queue: PartitionQueue) -> None:
        if not queue.needs_epoch or queue.in_flight:
            return
        queue.restart()
        if self._identity == queue.identity:
            assert self._identity is not None
            producer_id, epoch = self._identity
            # A producer without transactions raises its epoch itself (KIP-360).
            self._identity = Identity(producer_id, epoch + 1) if epoch < _EPOCH_MAX else None

    def _drop_overdue(self) -> None:
        now = self._loop.now()
        for queue in list(self._queues.values()):
            for batch in list(queue.overdue(now)):
                if batch.is_done:
                    continue  # its transaction has failed with an earlier batch
                queue.dropped(batch)
                self._expire(batch, batch.last_failure or self._cluster.error)
        with self._changed:
            self._watches_time = bool(self.incomplete)
        if self._watches_time:
            self._loop.after(_OVERDUE_SECONDS, self._drop_overdue)

    def _expire(self, batch: Batch, reason: ClientError | None) -> None:
        why = f": {reason}" if reason else ""
        tries = f"after {batch.attempts} tries" if batch.attempts else "no leader could be asked"
        error = TimedOut(f"{batch.where}: not delivered within {self._sending.delivery:g} s, {tries}{why}")
        error.__cause__ = reason
        self._drop(batch, error)
        if self._transaction is not None:
            self._fail_transaction(error)

    def _drop(self, batch: Batch, error: ClientError) -> None:
        self._release(batch)
        batch.fail(error)

    def _release(self, batch: Batch) -> None:
        with self._changed:
            self.buffered -= batch.size
            self.incomplete.pop(batch, None)

    # -- transactions ----------------------------------------------------------------------------------------------

    def _give_up(self, queue: PartitionQueue, batch: Batch, error: ClientError) -> None:
        """Drop a batch of a transaction that was not written, or may not have been, and fail the transaction."""
        queue.dropped(batch)
        self._drop(batch, error)
        self._fail_transaction(error)

    def _partitions_added(self, error: ClientError | None) -> None:
        if error is not None:
            self._fail_transaction(error)
        self.drain()

    def _fail_transaction(self, error: ClientError) -> None:
        """One batch was dropped, so the transaction can only be aborted."""
        assert self._transaction is not None
        told = verdict(error, of_records=True)
        with self._changed:
            self._transaction.failed(told)
            self._transaction.in_doubt = True
            has_ended = self._transaction.phase is Phase.ENDED
        if has_ended:
            self._end(told)
        else:
            self.drop_unsent(told)

    def drop_unsent(self, error: ClientError) -> None:
        """Drop all batches of the transaction that are not in flight."""
        for queue in list(self._queues.values()):
            with self._changed:
                opened, queue.open = queue.open, None
                if opened is not None:
                    opened.is_open = False
            if opened is not None:
                self._drop(opened, error)
            for batch in (*queue.retries, *queue.ready):
                queue.dropped(batch)
                self._drop(batch, error)

    # -- producer id -----------------------------------------------------------------------------------------------

    def _who(self) -> Identity | None:
        """The producer's id and epoch, once it has one and while it may write."""
        if self._transaction is not None:
            return self._transaction.identity if self._transaction.may_write else None
        if self._identity is None and not self._is_asking:
            self._is_asking = True
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            deadline = self._loop.now() + self._cluster.patience.request
            self._cluster.anybody().ask(Ask(INIT_PRODUCER_ID, request, self._named, deadline))
        return self._identity

    def _named(self, response: Any) -> None:
        self._is_asking = False
        if isinstance(response, InitProducerIdResponse) and response.error_code:
            response = KafkaError(response.error_code, "a producer id")
        if isinstance(response, InitProducerIdResponse):
            self._id_failures = 0
            self._identity = Identity(response.producer_id, response.producer_epoch)
            self.drain()
        elif response.kind.is_retriable:
            pause = self._cluster.patience.pause(self._id_failures)
            self._id_failures += 1
            self._loop.after(pause, self.drain)
        else:
            self._end(response)

    def _end(self, error: ClientError) -> None:
        """End the producer: all incomplete batches fail with this error."""
        if self.fatal is not None:
            return
        with self._changed:
            self.fatal = error
            batches: Iterable[Batch] = list(self.incomplete)
            self.incomplete.clear()
            self.buffered = 0
        for batch in batches:
            batch.fail(error)
        with self._changed:
            self._changed.notify_all()
