"""One transactional id: the producer that may write now, and the state of its transaction."""

from __future__ import annotations

from attrs import field

from log.machines.coordination import Write
from log.machines.transaction.effects import TopicPartition
from log.machines.transaction.states import MAY_FOLLOW, TransactionState
from protocol.late_attrs import define, frozen
from protocol.messages.transaction_records import PartitionsSchema, TransactionLogKey, TransactionLogValue
from protocol.records.batches import NO_PRODUCER
from protocol.schema.codec import encode_versioned

EPOCH_MAX = (1 << 15) - 1
NO_EPOCH = -1
NO_TIMEOUT = (1 << 31) - 1
"""The timeout of transactions that an external coordinator decides: two-phase commit."""
VERSION_2 = 2
_VALUE_VERSION = 1
_TOPIC_BYTES, _VALUE_BYTES = 12, 256
"""What a topic takes beside its name and partitions, and a record beside its topics, at most."""


@frozen(slots=True)
class ProducerIdentity:
    """A producer id and epoch, by which a producer is recognised."""

    producer_id: int
    epoch: int

    @property
    def is_exhausted(self) -> bool:
        """The next epoch is reserved for fencing, so that a producer with this one can always be fenced."""
        return self.epoch >= EPOCH_MAX - 1


@define(slots=True)
class Transaction:
    """What is known of a transactional id. `record` is what is written of it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int = NO_EPOCH
    timeout_ms: int = 0
    state: TransactionState = TransactionState.EMPTY
    partitions: set[TopicPartition] = field(factory=set)
    start_ms: int = -1
    updated_ms: int = -1
    client_version: int = 0
    """2 if the client's transactions bump its epoch."""
    previous_producer_id: int = NO_PRODUCER
    last_epoch: int = NO_EPOCH
    """The epoch before the last bump, which a retry would name, also at another coordinator."""
    next: ProducerIdentity | None = None
    """The producer that writes after this transaction: with another id, or after a prepared transaction was kept."""
    unmarked: set[TopicPartition] = field(factory=set)
    """Once prepared: partitions that have no marker yet. Not written."""

    @property
    def identity(self) -> ProducerIdentity:
        """The producer that has the open transaction, or had the last one."""
        return ProducerIdentity(self.producer_id, self.producer_epoch)

    @property
    def client(self) -> ProducerIdentity:
        """The producer that may use this transactional id, now or once its transaction has ended."""
        return self.identity if self.next is None else self.next

    @property
    def is_kept(self) -> bool:
        """Has a prepared transaction outlived its producer? Then the successor may only commit or abort it."""
        return self.state is TransactionState.ONGOING and self.next is not None

    @property
    def times_out(self) -> bool:
        return self.state is TransactionState.ONGOING and self.timeout_ms != NO_TIMEOUT

    # -- what may become of it -----------------------------------------------------------------------------------

    def initialise(self, identity: ProducerIdentity, last_epoch: int, timeout_ms: int, now_ms: int) -> None:
        self._become(TransactionState.EMPTY, now_ms)
        self.producer_id, self.producer_epoch = identity.producer_id, identity.epoch
        self.last_epoch, self.timeout_ms, self.start_ms = last_epoch, timeout_ms, -1
        self.partitions.clear()

    def keep(self, successor: ProducerIdentity, timeout_ms: int, now_ms: int) -> None:
        """Its producer is fenced, its transaction is not ended."""
        self._become(TransactionState.ONGOING, now_ms)
        self.next, self.timeout_ms = successor, timeout_ms

    def bytes_with(self, partitions: set[TopicPartition]) -> int:
        """The largest number of bytes of its record with these partitions added."""
        topics, count = set(), len(partitions)
        for topic, _ in partitions:
            topics.add(topic)
        for partition in self.partitions:
            topics.add(partition[0])
            count += partition not in partitions
        names = sum(len(topic.encode()) + _TOPIC_BYTES for topic in topics)
        return 4 * count + names + len(self.transactional_id.encode()) + _VALUE_BYTES

    def add(self, partitions: set[TopicPartition], client_version: int, now_ms: int) -> None:
        if self.state is not TransactionState.ONGOING:
            self.start_ms = now_ms
        self._become(TransactionState.ONGOING, now_ms)
        self.partitions |= partitions
        self.client_version = client_version

    def prepare(self, state: TransactionState, after: ProducerIdentity, client_version: int, now_ms: int) -> None:
        """From here on only markers are written for it. `after` is the producer that writes next."""
        self._become(state, now_ms)
        self.client_version = client_version
        if client_version >= VERSION_2:
            self.last_epoch = self.client.epoch
        if after.producer_id == self.producer_id:
            self.producer_epoch, self.next = after.epoch, None
        else:
            self.producer_epoch, self.next = self.producer_epoch + 1, after
        assert 0 <= self.producer_epoch <= EPOCH_MAX
        self.unmarked = set(self.partitions)

    def complete(self, now_ms: int) -> None:
        assert not self.unmarked
        committed = self.state is TransactionState.PREPARE_COMMIT
        client = self.client
        self._become(TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT, now_ms)
        self.producer_id, self.producer_epoch, self.next = client.producer_id, client.epoch, None
        self.partitions.clear()

    def abort_nothing(self, after: ProducerIdentity, now_ms: int) -> None:
        """Abort a transaction without partitions: it needs no markers."""
        self._become(TransactionState.COMPLETE_ABORT, now_ms)
        self.client_version, self.last_epoch, self.start_ms = VERSION_2, self.producer_epoch, now_ms
        self.producer_id, self.producer_epoch = after.producer_id, after.epoch

    def _become(self, state: TransactionState, now_ms: int) -> None:
        assert self.state in MAY_FOLLOW[state], f"{self.transactional_id}: {state.told} after {self.state.told}"
        self.state, self.updated_ms, self.previous_producer_id = state, now_ms, self.producer_id

    # -- as a record ---------------------------------------------------------------------------------------------

    def record(self) -> Write:
        topics: dict[str, list[int]] = {}
        for topic, partition in sorted(self.partitions):
            topics.setdefault(topic, []).append(partition)
        value = TransactionLogValue(
            producer_id=self.producer_id,
            previous_producer_id=self.previous_producer_id,
            next_producer_id=NO_PRODUCER if self.next is None else self.next.producer_id,
            producer_epoch=self.producer_epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=self.state,
            transaction_partitions=None
            if self.state is TransactionState.EMPTY
            else [PartitionsSchema(topic=topic, partition_ids=numbers) for topic, numbers in topics.items()],
            transaction_last_update_timestamp_ms=self.updated_ms,
            transaction_start_timestamp_ms=self.start_ms,
            client_transaction_version=self.client_version,
            next_producer_epoch=NO_EPOCH if self.next is None else self.next.epoch,
            last_producer_epoch=self.last_epoch,
        )
        return key_of(self.transactional_id), encode_versioned(value, _VALUE_VERSION)

    @classmethod
    def of(cls, transactional_id: str, value: TransactionLogValue) -> Transaction:
        state = TransactionState(value.transaction_status)
        successor = None
        if value.next_producer_id != NO_PRODUCER:  # Apache Kafka names an epoch nowhere: it begins with 0
            successor = ProducerIdentity(value.next_producer_id, max(value.next_producer_epoch, 0))
        partitions = {(one.topic, number) for one in value.transaction_partitions or () for number in one.partition_ids}
        return cls(
            transactional_id,
            value.producer_id,
            value.producer_epoch,
            value.transaction_timeout_ms,
            state,
            partitions,
            value.transaction_start_timestamp_ms,
            value.transaction_last_update_timestamp_ms,
            value.client_transaction_version,
            value.previous_producer_id,
            value.last_producer_epoch,
            successor,
            set(partitions) if state.is_prepared else set(),
        )


def key_of(transactional_id: str) -> bytes:
    return encode_versioned(TransactionLogKey(transactional_id=transactional_id), 0)
