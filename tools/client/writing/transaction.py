"""A producer's transaction, without I/O: what it is up to, who may write what in it, and what an error makes of it.

    NEW ──► IDLE ──► OPEN ──► COMMITTING ──► IDLE          an error that only an abort can mend:  ──► FAILED
                      │ └──► PREPARED ──► (either)         one that nothing mends:                ──► ENDED
                      └──► ABORTING ──► IDLE

Two versions of the protocol. Classic: a partition is put into the transaction (AddPartitionsToTxn) before anything is
written to it, and the epoch stays. Version 2 (KIP-890), where the cluster's feature `transaction.version` says so: the
first batch does that by itself (Produce 12), and each end of a transaction comes with the next epoch (EndTxn 5), so
nothing that arrives late can be taken for the next transaction's.
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
"""The first versions of these that are of transactions in version 2."""
_FENCED = {
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,  # a timeout aborted what we would commit
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
    """A transaction that waits to be committed or aborted, by whoever has this. Plain values, for another process."""

    transactional_id: str
    producer_id: int = -1
    """−1 if nothing was written: then there is nothing to end."""
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
    """Has the cluster agreed on version 2, and does this broker speak what it needs?"""
    levels = {one.name: one.max_version_level for one in versions.finalized_features}
    last = {one.api_key: one.max_version for one in versions.api_keys}
    return levels.get(FEATURE, 0) >= 2 and all(last.get(api.key, -1) >= at for api, at in V2_FROM.items())


def verdict(error: ClientError, *, of_records: bool = False) -> ClientError:
    """What an error means for a transaction: TransactionFailed, or what ends the producer. Not for one that passes.

    A broker that takes no records of our epoch may only be behind: whether somebody else took over is said by the
    coordinator, when the transaction is aborted.
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
    """No clock and no lock: whoever changes it holds the producer's."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.phase = Phase.NEW
        self.is_v2 = False
        self.identity: Identity | None = None
        self.error: ClientError | None = None
        """Why it failed, or why there will never be another."""
        self.added: set[TopicPartition] = set()
        """Partitions that are in it; in version 2, that were written to."""
        self.wanted: set[TopicPartition] = set()
        """Partitions that have to be put into it first."""
        self.has_offsets = False
        """Of groups; or it is a predecessor's, of which we know nothing more than that it has begun."""
        self.in_doubt = False
        """Was something given up of which nobody knows whether it was written?"""

    # -- what may be done ----------------------------------------------------------------------------------------

    @property
    def may_write(self) -> bool:
        """May records be on their way?"""
        return self.phase in (Phase.OPEN, Phase.COMMITTING)

    @property
    def has_begun(self) -> bool:
        """Does the coordinator know of it, or may it?"""
        return bool(self.added) or self.has_offsets

    def check(self, *allowed: Phase) -> None:
        """Raises what keeps this from being done now."""
        if self.phase in allowed:
            return
        if self.error is not None:
            raise again(self.error)
        raise TransactionStateError(f"transactional id {self.transactional_id}: {self.phase.value}")

    def is_in(self, where: TopicPartition) -> bool:
        """May this partition be written to? If not, it is wanted from now on."""
        if where in self.added:
            return True
        if self.is_v2:
            self.added.add(where)
            return True
        self.wanted.add(where)
        return False

    # -- what becomes of it --------------------------------------------------------------------------------------

    def initialised(self, identity: Identity, *, is_v2: bool) -> None:
        self.identity, self.is_v2 = identity, is_v2
        self._become_idle()

    def resumed(self) -> None:
        """One that a predecessor left prepared is ours to end."""
        self.phase, self.has_offsets = Phase.PREPARED, True

    def begin(self) -> None:
        self.check(Phase.IDLE)
        self.phase = Phase.OPEN

    def put_in(self, wheres: set[TopicPartition]) -> None:
        self.added |= wheres
        self.wanted -= wheres

    def commit(self) -> None:
        """All that was written shall be committed; nothing more may be sent."""
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
        """It is committed or aborted. In version 2 the coordinator said who writes next."""
        if identity is not None:
            self.identity = identity
        self._become_idle()

    def failed(self, error: ClientError) -> None:
        """An error that does not pass by itself: see `verdict`."""
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
    """What was asked for does not follow what was done before: a mistake of the program's."""


def again(error: ClientError) -> ClientError:
    """The same error, for another who is told: a raised one carries where it was raised."""
    made = type(error).__new__(type(error))
    made.__dict__.update(error.__dict__)
    made.args = error.args
    made.__cause__ = error
    return made
