"""A producer's transaction, without I/O: its phase, its partitions, and the effect of an error on it.

    NEW ──► IDLE ──► OPEN ──► COMMITTING ──► IDLE          an error after which it can only be aborted:  ──► FAILED
                      │ └──► PREPARED ──► (either)         an error that ends the producer:              ──► ENDED
                      └──► ABORTING ──► IDLE

There are two versions of the protocol. Classic: a partition is added to the transaction (AddPartitionsToTxn) before its
first batch, and the epoch stays. Version 2 (KIP-890), if the cluster's feature `transaction.version` says so: the first
batch adds its partition (Produce 12), and each end of a transaction raises the epoch (EndTxn 5), so a late batch is
never taken for one of the next transaction.
"""

from __future__ import annotations

import enum
import json

from attrs import frozen

from protocol.apis import END_TXN, PRODUCE, TXN_OFFSET_COMMIT, Api
from protocol.error_codes import ErrorCode
from protocol.messages.api_versions import ApiVersionsResponse
from tools.client.errors import ClientError, ErrorClass, KafkaError, NotSupported, ProducerFenced, TransactionFailed
from tools.client.metadata import TopicPartition
from tools.client.writing.partition_queue import Identity

FEATURE = "transaction.version"
V2_FROM: dict[Api, int] = {PRODUCE: 12, END_TXN: 5, TXN_OFFSET_COMMIT: 5}
"""The first versions of these APIs for transactions of version 2."""
_FENCED = {
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,  # the coordinator has aborted the transaction by its timeout
}
_HOPELESS = {
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    ErrorCode.INVALID_TRANSACTION_TIMEOUT,
    ErrorCode.INVALID_REQUEST,
}


class Phase(enum.Enum):
    NEW = "init_transactions() comes first"
    IDLE = "no transaction has begun"
    OPEN = "a transaction is open"
    COMMITTING = "a commit is under way: finish it with commit()"
    ABORTING = "an abort is under way: finish it with abort()"
    PREPARED = "a transaction is prepared: commit() or abort() it"
    FAILED = "the transaction can only be aborted"
    ENDED = "this producer can do nothing more"


@frozen
class PreparedTransaction:
    """Names a prepared transaction. Plain values, with which any process can commit or abort it."""

    transactional_id: str
    producer_id: int = -1
    """−1 if the transaction is empty: then there is nothing to end."""
    epoch: int = -1

    @property
    def is_empty(self) -> bool:
        return self.producer_id < 0

    def to_json(self) -> str:
        return json.dumps([self.transactional_id, self.producer_id, self.epoch])

    @classmethod
    def from_json(cls, text: str) -> PreparedTransaction:
        transactional_id, producer_id, epoch = json.loads(text)
        return cls(str(transactional_id), int(producer_id), int(epoch))


def speaks_v2(versions: ApiVersionsResponse) -> bool:
    """Is version 2 the cluster's finalized level, and has this broker the API versions for it?"""
    levels = {one.name: one.max_version_level for one in versions.finalized_features}
    last = {one.api_key: one.max_version for one in versions.api_keys}
    return levels.get(FEATURE, 0) >= 2 and all(last.get(api.key, -1) >= at for api, at in V2_FROM.items())


def verdict(error: ClientError, *, of_records: bool = False) -> ClientError:
    """The effect of an error that is not retriable: TransactionFailed, or an error that ends the producer.

    A broker that refuses records of this epoch may only be behind: the coordinator says whether another producer has
    taken over, when the transaction is aborted.
    """
    code = error.code if isinstance(error, KafkaError) else None
    made: ClientError
    if code is ErrorCode.PRODUCER_FENCED or (code in _FENCED and not of_records):
        made = ProducerFenced(f"{error}: another producer has this transactional id now, or a timeout ended this one")
    else:
        is_told = isinstance(error, TransactionFailed | NotSupported) or error.kind is ErrorClass.FATAL
        if is_told or (code in _HOPELESS and not of_records):
            return error
        made = TransactionFailed(f"the transaction can only be aborted: {error}")
    made.__cause__ = error
    return made


class Transaction:
    """No clock and no lock: its callers hold the producer's lock."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.phase = Phase.NEW
        self.is_v2 = False
        self.identity: Identity | None = None
        self.error: ClientError | None = None
        """Why it failed, or why this producer has ended."""
        self.added: set[TopicPartition] = set()
        """The partitions in the transaction; in version 2, those with a batch."""
        self.wanted: set[TopicPartition] = set()
        """The partitions to add before their batches can be sent."""
        self.has_offsets = False
        """Has it offsets of groups, or was it resumed? Then the coordinator knows it, even without partitions."""
        self.in_doubt = False
        """Was a batch dropped that may have been written?"""

    # -- conditions ----------------------------------------------------------------------------------------------

    @property
    def may_write(self) -> bool:
        """May batches be sent?"""
        return self.phase in (Phase.OPEN, Phase.COMMITTING)

    @property
    def has_begun(self) -> bool:
        """Has the coordinator this transaction, or may it?"""
        return bool(self.added) or self.has_offsets

    def check(self, *allowed: Phase) -> None:
        """Raises an error unless the phase is one of these."""
        if self.phase in allowed:
            return
        if self.error is not None:
            raise again(self.error)
        raise TransactionStateError(f"transactional id {self.transactional_id}: {self.phase.value}")

    def is_in(self, where: TopicPartition) -> bool:
        """Is this partition in the transaction? If not, it becomes wanted."""
        if where in self.added:
            return True
        if self.is_v2:
            self.added.add(where)
            return True
        self.wanted.add(where)
        return False

    # -- phases --------------------------------------------------------------------------------------------------

    def initialised(self, identity: Identity, *, is_v2: bool) -> None:
        self.identity, self.is_v2 = identity, is_v2
        self._become_idle()

    def resumed(self) -> None:
        """A predecessor's prepared transaction is to be ended by this producer."""
        self.phase, self.has_offsets = Phase.PREPARED, True

    def begin(self) -> None:
        self.check(Phase.IDLE)
        self.phase = Phase.OPEN

    def put_in(self, wheres: set[TopicPartition]) -> None:
        self.added |= wheres
        self.wanted -= wheres

    def commit(self) -> None:
        """Begin the commit; no more records may be sent."""
        self.check(Phase.OPEN, Phase.PREPARED, Phase.COMMITTING)
        self.phase = Phase.COMMITTING

    def abort(self) -> None:
        self.check(Phase.OPEN, Phase.PREPARED, Phase.FAILED, Phase.ABORTING)
        self.phase, self.error = Phase.ABORTING, None

    def prepared(self) -> PreparedTransaction:
        self.check(Phase.COMMITTING)
        assert self.identity is not None
        self.phase = Phase.PREPARED
        return PreparedTransaction(self.transactional_id, *(self.identity if self.has_begun else ()))

    def ended(self, identity: Identity | None) -> None:
        """It is committed or aborted. In version 2 the coordinator has raised the epoch."""
        if identity is not None:
            self.identity = identity
        self._become_idle()

    def failed(self, error: ClientError) -> None:
        """An error that is not retriable: see `verdict`."""
        if self.phase is Phase.ENDED:
            return
        if not isinstance(error, TransactionFailed):
            self.phase, self.error = Phase.ENDED, error
        elif self.phase in (Phase.OPEN, Phase.COMMITTING, Phase.PREPARED):
            self.phase, self.error = Phase.FAILED, error

    def _become_idle(self) -> None:
        self.phase, self.error = Phase.IDLE, None
        self.added, self.wanted = set(), set()
        self.has_offsets = self.in_doubt = False


class TransactionStateError(ClientError):
    """A call in the wrong phase: a mistake of the program."""


def again(error: ClientError) -> ClientError:
    """A copy of an error, to raise it again: a raised one contains its traceback."""
    made = type(error).__new__(type(error))
    made.__dict__.update(error.__dict__)
    made.args = error.args
    made.__cause__ = error
    return made
