"""A transaction's requests to its coordinator: a new epoch, partitions, offsets of groups, the end.

Requests that the user waits for are sent and retried on the user's thread. Partitions (of the classic protocol) are
added on the loop's thread, when the first batches for them are ready.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from attrs import frozen

from protocol.apis import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    API_VERSIONS,
    END_TXN,
    INIT_PRODUCER_ID,
    TXN_OFFSET_COMMIT,
    Api,
)
from protocol.error_codes import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tools.client.errors import ClientError, KafkaError, TimedOut, check
from tools.client.group_offsets import Committed, partitions_of
from tools.client.membership.member import Identity as Member
from tools.client.membership.member import by_topic
from tools.client.metadata import TopicPartition
from tools.client.network.cluster import Cluster
from tools.client.network.connection import SOFTWARE_NAME, SOFTWARE_VERSION
from tools.client.network.coordinator import TRANSACTION, Coordinator
from tools.client.writing.partition_queue import NOBODY, Identity
from tools.client.writing.transaction import V2_FROM, PreparedTransaction, Transaction, speaks_v2, verdict

TWO_PHASE_FROM = 6
"""The first version of InitProducerId with two-phase commit (KIP-939)."""
ADD_CLASSIC_MAX = 3  # newer versions of AddPartitionsToTxn are for brokers
_LANE = "transaction"
T = TypeVar("T")
NO_MEMBER = Member()


@frozen
class Transactional:
    """The settings of a producer's transactions."""

    transactional_id: str
    timeout: float = 60.0
    """Seconds after which the coordinator aborts an open transaction."""
    two_phase_commit: bool = False
    """They can be prepared, and have no timeout."""


class Transactions:
    """Of one producer. `changed` is held whenever `transaction` is changed."""

    def __init__(self, cluster: Cluster, settings: Transactional, changed: threading.Condition) -> None:
        self.transaction = Transaction(settings.transactional_id)
        self._settings = settings
        self._cluster = cluster
        self._loop = cluster.loop
        self._changed = changed
        self._coordinator = Coordinator(cluster, settings.transactional_id, TRANSACTION)
        self._groups: dict[str, Coordinator] = {}
        self._is_adding = False
        self._failures = 0
        self.on_failure: Callable[[ClientError], object] = lambda _: None
        """Called on the loop's thread after an error that fails the transaction or ends the producer."""

    # -- for the user's thread -----------------------------------------------------------------------------------

    def init(self, seconds: float) -> None:
        """Take the transactional id over: its previous producer is fenced, and an open transaction is aborted."""
        self._init(seconds, NOBODY)

    def resume(self, seconds: float) -> PreparedTransaction | None:
        """Take the transactional id over, but keep an open transaction, to be ended here; None if none is open."""
        response = self._init(seconds, NOBODY, keep_prepared=True)
        if response.ongoing_txn_producer_id < 0:
            return None
        with self._changed:
            self.transaction.resumed()
        return PreparedTransaction(
            self.transaction.transactional_id, response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch
        )

    def end(self, seconds: float, *, commit: bool) -> None:
        """Commit or abort the transaction."""
        transaction = self.transaction
        if transaction.has_begun or (transaction.is_v2 and transaction.in_doubt):
            self._end(seconds, commit=commit)
        elif transaction.in_doubt:
            self._renew(seconds)
        else:
            with self._changed:
                transaction.ended(None)

    def send_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, Committed], member: Member, seconds: float
    ) -> None:
        """Add offsets of a group, which are committed with the transaction."""
        transaction = self.transaction
        producer_id, epoch = self._identity
        with self._changed:
            transaction.has_offsets = True
        if not transaction.is_v2:
            joins = AddOffsetsToTxnRequest(
                transactional_id=transaction.transactional_id,
                producer_id=producer_id,
                producer_epoch=epoch,
                group_id=group_id,
            )
            self.ask(ADD_OFFSETS_TO_TXN, joins, _checked("offsets of groups"), seconds)
        request = TxnOffsetCommitRequest(
            transactional_id=transaction.transactional_id,
            group_id=group_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id=member.generation,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=partitions_of(TxnOffsetCommitRequestPartition, topic, numbers, offsets),
                )
                for topic, numbers in by_topic(offsets).items()
            ],
        )
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = Coordinator(self._cluster, group_id)
        self.ask(TXN_OFFSET_COMMIT, request, _offsets_committed, seconds, coordinator=group)

    # -- how -----------------------------------------------------------------------------------------------------

    @property
    def _identity(self) -> Identity:
        assert self.transaction.identity is not None, "it was initialised"
        return self.transaction.identity

    def _init(self, seconds: float, was: Identity, *, keep_prepared: bool = False) -> InitProducerIdResponse:
        settings = self._settings
        asked = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)
        is_v2 = speaks_v2(self.ask(API_VERSIONS, asked, _checked("versions"), seconds))
        request = InitProducerIdRequest(
            transactional_id=settings.transactional_id,
            transaction_timeout_ms=int(settings.timeout * 1000),
            producer_id=was.producer_id,
            producer_epoch=was.epoch,
            enable2_pc=settings.two_phase_commit,
            keep_prepared_txn=keep_prepared,
        )
        what = f"an epoch for transactional id {settings.transactional_id}"
        needed = TWO_PHASE_FROM if settings.two_phase_commit or keep_prepared else 0
        response: InitProducerIdResponse = self.ask(
            INIT_PRODUCER_ID, request, _checked(what), seconds, version_min=needed
        )
        with self._changed:
            self.transaction.initialised(Identity(response.producer_id, response.producer_epoch), is_v2=is_v2)
        return response

    def _renew(self, seconds: float) -> None:
        """Raise the epoch, so that sequences begin at 0: which batches were written is not known (KIP-360)."""
        self._init(seconds, self._identity)

    def _end(self, seconds: float, *, commit: bool) -> None:
        transaction = self.transaction
        producer_id, epoch = self._identity
        request = EndTxnRequest(
            transactional_id=transaction.transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=commit,
        )
        what = f"the {'commit' if commit else 'abort'} of transactional id {transaction.transactional_id}"
        response: EndTxnResponse = self.ask(END_TXN, request, _checked(what), seconds)
        has_next = transaction.is_v2 and response.producer_id >= 0
        if transaction.in_doubt and not has_next:
            self._renew(seconds)
            return
        with self._changed:
            transaction.ended(Identity(response.producer_id, response.producer_epoch) if has_next else None)

    def ask(
        self,
        api: Api,
        message: object,
        read: Callable[[Any], T],
        seconds: float,
        *,
        coordinator: Coordinator | None = None,
        version_min: int = 0,
    ) -> T:
        """The coordinator's answer, with retries. An error that is not retriable fails the transaction."""
        deadline = time.monotonic() + seconds
        asked = coordinator or self._coordinator
        most: int | None = None
        if api in V2_FROM:
            version_min, most = (V2_FROM[api], None) if self.transaction.is_v2 else (0, V2_FROM[api] - 1)

        def attempt() -> T:
            ask = partial(asked.ask, api, message, lane=_LANE, version_max=most, version_min=version_min)
            left = max(deadline - time.monotonic(), 0.0)
            answer = self._cluster.answer(ask, left, f"the coordinator of {asked.what}")
            try:
                return read(answer)
            except ClientError as error:
                asked.refused(error)
                raise

        try:
            return self._cluster.persist(attempt, seconds)
        except TimedOut:
            raise  # the outcome is unknown; the user can call again
        except ClientError as error:
            told = verdict(error)
            with self._changed:
                self.transaction.failed(told)
            self._loop.soon(self.on_failure, told)
            raise told from error

    # -- for the loop's thread -----------------------------------------------------------------------------------

    def add_partitions(self, then: Callable[[ClientError | None], object]) -> None:
        """Add the wanted partitions to the transaction. `then` is called with the error or None."""
        transaction = self.transaction
        if self._is_adding or not transaction.wanted or not transaction.may_write:
            return
        self._is_adding = True
        identity, wheres = self._identity, set(transaction.wanted)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transaction.transactional_id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=numbers) for topic, numbers in by_topic(wheres).items()
            ],
        )

        def answered(response: AddPartitionsToTxnResponse | ClientError) -> None:
            self._is_adding = False
            try:
                if isinstance(response, ClientError):
                    raise response
                _added(response)
            except ClientError as error:
                self._coordinator.refused(error)
                if error.kind.is_retriable:
                    pause = self._cluster.patience.pause(self._failures)
                    self._failures += 1
                    self._loop.after(pause, lambda: self.add_partitions(then))
                else:
                    then(verdict(error))
                return
            self._failures = 0
            with self._changed:
                transaction.put_in(wheres)
            then(None)

        self._coordinator.ask(ADD_PARTITIONS_TO_TXN, request, answered, lane=_LANE, version_max=ADD_CLASSIC_MAX)


def _checked(what: str) -> Callable[[Any], Any]:
    def read(response: Any) -> Any:
        check(response.error_code, what)
        return response

    return read


def _added(response: AddPartitionsToTxnResponse) -> None:
    """Raises the worst error: one that is not retriable, if there is one. All partitions are added, or none.

    OPERATION_NOT_ATTEMPTED is only the consequence of another partition's error.
    """
    errors = [
        KafkaError(one.partition_error_code, f"{topic.name}-{one.partition_index} in a transaction")
        for topic in response.results_by_topic_v3_and_below
        for one in topic.results_by_partition
        if one.partition_error_code
    ]
    causes = [error for error in errors if error.code != ErrorCode.OPERATION_NOT_ATTEMPTED]
    if errors:
        raise min(causes or errors, key=lambda error: error.kind.is_retriable)


def _offsets_committed(response: TxnOffsetCommitResponse) -> None:
    errors = [
        KafkaError(one.error_code, f"the offset of {topic.name}-{one.partition_index} in a transaction")
        for topic in response.topics
        for one in topic.partitions
        if one.error_code
    ]
    if errors:
        raise min(errors, key=lambda error: error.kind.is_retriable)
