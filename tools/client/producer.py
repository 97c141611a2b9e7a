"""A producer: it sends records in batches, in order and exactly once.

    with Producer("127.0.0.1:9092", compression="lz4") as producer:
        delivery = producer.send("orders", b"two cups", key=b"table 4")
        print(delivery.result().offset)

With transactions:

    with Producer("127.0.0.1:9092", transactional_id="till-4") as producer:
        producer.init_transactions()
        producer.begin()
        producer.send("orders", b"two cups")
        producer.send_offsets("waiters", {TopicPartition("tables", 0): Committed(17)})
        producer.commit()

`send` adds the record to its partition's batch and returns. A batch is sent when it is full or its linger time is over.
The thread that fills it also encodes and compresses it, so that the loop's thread has little more to do than to send.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Self

from protocol.partitioner import partition_for_key
from protocol.records.batches import build_batch, check_batches, records
from protocol.records.compression import Codec
from protocol.records.record import Headers, Record
from protocol.schema.declaration import Buffer
from tools.client.errors import BufferFull, ClientError, TimedOut, TransactionFailed
from tools.client.group_offsets import Committed
from tools.client.membership.member import Identity as Member
from tools.client.metadata import TopicPartition
from tools.client.network.broker import Patience
from tools.client.network.cluster import Bootstrap, Cluster
from tools.client.writing.batch import RECORD_OVERHEAD, Batch, Delivery, headers_size
from tools.client.writing.partition_queue import PartitionQueue
from tools.client.writing.sender import Sender, Sending
from tools.client.writing.transaction import Phase, PreparedTransaction, TransactionStateError, again
from tools.client.writing.transaction_coordinator import NO_MEMBER, Transactional, Transactions

ACKS = {"all": -1, "-1": -1, "0": 0, "1": 1}
CODECS = {codec.name.lower(): codec for codec in Codec}
_DECOMPRESSED_MAX = 256 << 20


class Producer:
    """Used by any number of threads. `close` sends the remaining records."""

    def __init__(
        self,
        bootstrap: Bootstrap,
        *,
        acks: int | str = "all",
        compression: str = "none",
        idempotent: bool | None = None,
        linger: float = 0.005,
        batch_bytes: int = 256 << 10,
        buffer_bytes: int = 64 << 20,
        block: float = 60.0,
        delivery: float = 120.0,
        transactional_id: str | None = None,
        transaction_timeout: float = 60.0,
        two_phase_commit: bool = False,
        client_id: str = "barnabas-producer",
        patience: Patience | None = None,
    ) -> None:
        """Times are in seconds. `block` limits how long `send` waits for room in the buffer or for a topic's metadata,
        and how long the methods for transactions wait for the coordinator, unless they get their own `seconds`.
        """
        if str(acks) not in ACKS:
            raise ValueError(f"acks are 0, 1 or all, not {acks!r}")
        if compression not in CODECS:
            raise ValueError(f"compression is one of {', '.join(CODECS)}, not {compression!r}")
        wanted = ACKS[str(acks)]
        if idempotent and wanted != -1:
            raise ValueError(f"an idempotent producer needs acks=all, not {acks!r}")
        if transactional_id is not None and (wanted != -1 or idempotent is False):
            raise ValueError(f"transactional id {transactional_id} needs acks=all and an idempotent producer")
        if two_phase_commit and transactional_id is None:
            raise ValueError("two-phase commit needs a transactional id")
        self._sending = Sending(
            acks=wanted,
            codec=CODECS[compression],
            idempotent=wanted == -1 if idempotent is None else idempotent,
            linger=linger,
            delivery=delivery,
        )
        self._buffer_bytes = buffer_bytes
        self._batch_bytes = batch_bytes
        self._record_bytes = self._sending.request_bytes
        self._block = block
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._queues: dict[tuple[str, int], PartitionQueue] = {}
        self._sticky: dict[str, PartitionQueue] = {}
        self._cluster = Cluster(bootstrap, client_id=client_id, patience=patience, allow_auto_create=True)
        self._transactions: Transactions | None = None
        if transactional_id is not None:
            settings = Transactional(transactional_id, transaction_timeout, two_phase_commit)
            self._transactions = Transactions(self._cluster, settings, self._changed)
        self._two_phase_commit = two_phase_commit
        self._transaction = None if self._transactions is None else self._transactions.transaction
        self._sender = Sender(self._cluster, self._sending, self._changed, self._transactions)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- records -----------------------------------------------------------------------------------------------------

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Iterable[tuple[str, bytes | None]] = (),
        on_delivery: Callable[[Delivery], object] | None = None,
    ) -> Delivery:
        """Send a record to this partition, else to its key's, else to one that is used for a whole batch.

        `on_delivery` is called on the client's own thread, and must not block. Raises BufferFull, TimedOut if the topic
        is unknown, or the error that ended this producer.
        """
        given: Headers = tuple(headers) if headers else ()
        size = RECORD_OVERHEAD + headers_size(given) if given else RECORD_OVERHEAD
        if value is not None:
            size += len(value) if type(value) is bytes else _refuse("value", value)
        if key is not None:
            size += len(key) if type(key) is bytes else _refuse("key", key)
        if size > self._record_bytes:
            raise ValueError(f"a record of {size} bytes for {topic}; at most {self._record_bytes} are sent")
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        if partition is None and key is None:
            queue = self._sticky.get(topic)
            if queue is None or queue.open is None:
                queue = self._another_queue(topic)
        else:
            queue = self._queue(topic, partition, key)
        sender = self._sender
        sealed: Batch | None = None
        opened: Batch | None = None
        with self._lock:
            if sender.buffered + size > self._buffer_bytes or sender.fatal is not None or self._transaction is not None:
                self._wait_for_room(size)
            batch = queue.open
            if batch is not None and batch.size + size > self._batch_bytes:
                sealed, batch = batch, None
                sealed.is_open = False
                queue.add(sealed)
            if batch is None:
                batch = queue.open = opened = self._open(queue)
            index = batch.count
            batch.records.append(tuple.__new__(Record, (index, timestamp_ms, key, value, given)))
            batch.count = index + 1
            batch.size += size
            sender.buffered += size
            if on_delivery is not None:
                batch.callbacks.append((index, on_delivery))
        if opened is not None:
            self._hand_over(queue, sealed, opened)
        return Delivery(batch, index)

    def send_batch(self, topic: str, partition: int, data: Buffer) -> Delivery:
        """Send a whole record batch unchanged, as a mirror does: only offset, epoch and producer change.

        The result is the first record's. A batch with gaps between its offsets, from a compacted log, is encoded again
        without gaps, because brokers accept no others.
        """
        (header,) = check_batches(data).headers
        if header.is_control:
            raise ValueError(f"a control batch is not for {topic}-{partition}: only brokers write them")
        if header.record_count == header.last_offset_delta + 1:
            copied = bytearray(data)
        else:
            kept = records(data, limit=_DECOMPRESSED_MAX)
            renumbered = [record._replace(offset=at) for at, record in enumerate(kept)]
            append_time = header.max_timestamp if header.is_log_append_time else None
            copied = build_batch(renumbered, codec=header.codec, append_time=append_time)
        queue = self._queue(topic, partition)
        pending: Batch | None = None
        with self._changed:
            self._wait_for_room(len(copied))
            if queue.open is not None:
                pending, queue.open = queue.open, None
                pending.is_open = False
                queue.add(pending)
            batch = self._open(queue)
            batch.is_open = False
            batch.count, batch.size, batch.data = header.record_count, len(copied), copied
            self._sender.buffered += batch.size
            queue.add(batch)
        if pending is not None:
            pending.encode(self._sending.codec)
        self._cluster.loop.soon(self._sender.opened, queue, batch)
        self._cluster.loop.soon(self._sender.sealed, queue)
        return Delivery(batch, 0)

    def partitions(self, topic: str) -> int:
        """The number of a topic's partitions."""
        return len(self._cluster.topic(topic, self._block).partitions)

    # -- transactions ------------------------------------------------------------------------------------------------

    def init_transactions(self, seconds: float | None = None) -> None:
        """Take the transactional id over, once, before any transaction: its previous producer is fenced, and an open
        transaction is aborted.
        """
        transactions = self._in(Phase.NEW)
        transactions.init(self._block if seconds is None else seconds)

    def resume(self, seconds: float | None = None) -> PreparedTransaction | None:
        """Take the transactional id over, instead of `init_transactions`, and keep an open transaction: it is prepared
        then, and is to be ended with `commit` or `abort`. None if no transaction is open.
        """
        transactions = self._in(Phase.NEW)
        return transactions.resume(self._block if seconds is None else seconds)

    def begin(self) -> None:
        """Begin a transaction: all records that are sent up to its end belong to it."""
        self._in(Phase.IDLE)
        with self._lock:
            assert self._transaction is not None
            self._transaction.begin()

    def commit(self, seconds: float | None = None) -> None:
        """Send the remaining records, and commit the transaction.

        Raises TransactionFailed if it can only be aborted. After TimedOut the outcome is unknown: call it again.
        """
        transactions = self._in(Phase.OPEN, Phase.PREPARED, Phase.COMMITTING)
        self._finish_writing(seconds)
        transactions.end(self._block if seconds is None else seconds, commit=True)

    def abort(self, seconds: float | None = None) -> None:
        """Abort the transaction: read_committed consumers see no record of it. After TimedOut, call it again."""
        transactions = self._in(Phase.OPEN, Phase.PREPARED, Phase.FAILED, Phase.ABORTING)
        with self._lock:
            transactions.transaction.abort()
        self._cluster.loop.soon(self._sender.drop_unsent, TransactionFailed("the transaction was aborted"))
        self.flush(seconds)
        transactions.end(self._block if seconds is None else seconds, commit=False)

    def prepare(self, seconds: float | None = None) -> PreparedTransaction:
        """Send the remaining records and prepare the transaction. It can then be committed or aborted at any time, here
        or by another process: see prepared.py. Needs `two_phase_commit`.
        """
        transactions = self._in(Phase.OPEN, Phase.COMMITTING)
        if not self._two_phase_commit:
            raise TransactionStateError(
                "only a producer with two_phase_commit=True prepares: other transactions time out"
            )
        self._finish_writing(seconds)
        with self._lock:
            return transactions.transaction.prepared()

    def send_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, Committed],
        member: Member = NO_MEMBER,
        seconds: float | None = None,
    ) -> None:
        """Commit offsets of a group with the transaction. With `member`, a removed member's offsets are refused."""
        transactions = self._in(Phase.OPEN)
        if offsets:
            transactions.send_offsets(group_id, offsets, member, self._block if seconds is None else seconds)

    def _in(self, *allowed: Phase) -> Transactions:
        if self._transactions is None:
            raise TransactionStateError("a producer without a transactional id has no transactions")
        with self._lock:
            self._transactions.transaction.check(*allowed)
        return self._transactions

    def _finish_writing(self, seconds: float | None) -> None:
        """End the transaction's writes and wait until all are acknowledged; else the transaction fails."""
        assert self._transaction is not None
        with self._lock:
            self._transaction.commit()
        self.flush(seconds)
        with self._lock:
            self._transaction.check(Phase.COMMITTING)

    # -- flush and close ---------------------------------------------------------------------------------------------

    def flush(self, seconds: float | None = None) -> None:
        """Send lingering batches, and wait until all earlier records are acknowledged or have failed."""
        with self._changed:
            waited = list(self._sender.incomplete)
        if not waited:
            return
        self._cluster.loop.soon(self._sender.seal_all)
        with self._changed:
            if not self._changed.wait_for(lambda: all(batch.is_done for batch in waited), seconds):
                left = sum(batch.count for batch in waited if not batch.is_done)
                raise TimedOut(f"after {seconds:g} s {left} records are still on their way")

    def close(self, seconds: float | None = None) -> None:
        """Flush, then close all connections. Records that are not delivered in this time fail with ClientClosed. An
        open transaction is aborted; a prepared one stays prepared.
        """
        try:
            if self._cluster.loop.closed is None:
                if self._transaction is not None and self._transaction.phase in (Phase.OPEN, Phase.FAILED):
                    self.abort(seconds)
                self.flush(seconds)
        except ClientError:
            pass  # the deliveries of those records have the error
        finally:
            self._cluster.close()

    # -- queues and batches ------------------------------------------------------------------------------------------

    def _hand_over(self, queue: PartitionQueue, sealed: Batch | None, opened: Batch) -> None:
        """Give a full batch and a new one to the sender."""
        if sealed is not None:
            sealed.encode(self._sending.codec)
            self._cluster.loop.soon(self._sender.sealed, queue)
        self._cluster.loop.soon(self._sender.opened, queue, opened)

    def _another_queue(self, topic: str) -> PartitionQueue:
        """The queue for the next batch of records without keys."""
        partition = self._another_partition(topic)
        queue = self._queue(topic, partition)
        self._sticky[topic] = queue
        return queue

    def _another_partition(self, topic: str) -> int:
        """A partition with a leader, and another one than last time if there is a choice."""
        partitions = self._cluster.topic(topic, self._block).partitions
        led = [at for at, one in enumerate(partitions) if one is not None and one.leader is not None]
        candidates = led or list(range(len(partitions)))
        last = self._sticky.get(topic)
        if last is not None and len(candidates) > 1:
            candidates = [at for at in candidates if at != last.where.partition]
        return random.choice(candidates)

    def _queue(self, topic: str, partition: int | None, key: bytes | None = None) -> PartitionQueue:
        """The queue of this partition, or of the key's."""
        if partition is None:
            assert key is not None
            partition = partition_for_key(key, self.partitions(topic))
        made = self._queues.get((topic, partition))
        if made is not None:
            return made
        known = self._cluster.topic(topic, self._block)
        if known.partition(partition) is None:
            raise ValueError(f"there is no partition {partition} in {topic}, which has {len(known.partitions)}")
        with self._changed:
            made = PartitionQueue(TopicPartition(topic, partition), transactional=self._transaction is not None)
            return self._queues.setdefault((topic, partition), made)

    def _open(self, queue: PartitionQueue) -> Batch:
        batch = Batch(queue.where, self._cluster.loop.now() + self._sending.delivery, self._changed)
        self._sender.incomplete[batch] = None
        return batch

    def _wait_for_room(self, size: int) -> None:
        """Wait, under the lock, for room in the buffer; raises an error if nothing may be sent.

        A record that is larger than the buffer is accepted when the buffer is empty.
        """
        sender = self._sender

        def has_room() -> bool:
            return sender.fatal is not None or not sender.buffered or sender.buffered + size <= self._buffer_bytes

        if not has_room():
            self._cluster.loop.soon(sender.seal_all)
            if not self._changed.wait_for(has_room, self._block):
                raise BufferFull(f"{sender.buffered} bytes wait to be sent, and none were within {self._block:g} s")
        if sender.fatal is not None:
            raise again(sender.fatal)
        if self._transaction is not None:
            self._transaction.check(Phase.OPEN)


def _refuse(name: str, given: object) -> int:
    raise TypeError(f"a record's {name} is bytes or None, not {type(given).__name__}")
