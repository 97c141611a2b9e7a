"""What a producer's transaction makes of errors, and what its coordinator is asked, and asked again; by script."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from protocol.apis import (
    ADD_PARTITIONS_TO_TXN,
    API_VERSIONS,
    END_TXN,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    PRODUCE,
    TXN_OFFSET_COMMIT,
)
from protocol.error_codes import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from protocol.messages.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from protocol.records.batches import check_batches
from tests.tools.client.scripted_broker import HANG_UP, ScriptedBroker
from tools.client.errors import ClientError, KafkaError, NotSupported, ProducerFenced, TransactionFailed
from tools.client.metadata import TopicPartition
from tools.client.network.broker import Patience
from tools.client.producer import Producer
from tools.client.writing.partition_queue import Identity
from tools.client.writing.transaction import (
    Phase,
    PreparedTransaction,
    Transaction,
    TransactionStateError,
    speaks_v2,
    verdict,
)
from tools.client.writing.transaction_coordinator import _added

HASTY = Patience(retry=0.001, retry_max=0.01)
WHERE = TopicPartition("orders", 0)


def kafka(code: ErrorCode) -> KafkaError:
    return KafkaError(code, "asked")


# -- decisions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "of_the_coordinator", "of_records"),
    [
        (kafka(ErrorCode.PRODUCER_FENCED), ProducerFenced, ProducerFenced),
        (kafka(ErrorCode.INVALID_PRODUCER_EPOCH), ProducerFenced, TransactionFailed),
        (kafka(ErrorCode.INVALID_TXN_STATE), ProducerFenced, TransactionFailed),
        (kafka(ErrorCode.TRANSACTION_ABORTABLE), TransactionFailed, TransactionFailed),
        (kafka(ErrorCode.MESSAGE_TOO_LARGE), TransactionFailed, TransactionFailed),
        (kafka(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), KafkaError, KafkaError),
        (kafka(ErrorCode.INVALID_TRANSACTION_TIMEOUT), KafkaError, TransactionFailed),
        (NotSupported("too old"), NotSupported, NotSupported),
        (TransactionFailed("before"), TransactionFailed, TransactionFailed),
    ],
)
def test_errors_fail_the_transaction_or_end_the_producer(
    error: ClientError, of_the_coordinator: type[ClientError], of_records: type[ClientError]
) -> None:
    assert type(verdict(error)) is of_the_coordinator
    assert type(verdict(error, of_records=True)) is of_records


def test_a_failed_transaction_can_only_be_aborted() -> None:
    transaction = Transaction("till")
    with pytest.raises(TransactionStateError, match="init_transactions"):
        transaction.begin()
    transaction.initialised(Identity(7, 0), is_v2=True)
    transaction.begin()
    assert transaction.is_in(WHERE)
    transaction.failed(TransactionFailed("a record was refused"))
    for refused in (transaction.commit, transaction.begin):
        with pytest.raises(TransactionFailed, match="a record was refused"):
            refused()
    transaction.abort()
    transaction.ended(Identity(7, 1))
    assert (transaction.phase, transaction.identity) == (Phase.IDLE, Identity(7, 1))
    assert not transaction.has_begun
    transaction.failed(TransactionFailed("late news of the one before"))
    transaction.begin()
    transaction.failed(ProducerFenced("another"))
    with pytest.raises(ProducerFenced):
        transaction.abort()


def test_a_classic_transaction_wants_its_partitions_put_in_first() -> None:
    transaction = Transaction("till")
    transaction.initialised(Identity(7, 0), is_v2=False)
    transaction.begin()
    assert not transaction.is_in(WHERE)
    assert transaction.wanted == {WHERE}
    transaction.put_in({WHERE})
    assert transaction.is_in(WHERE)
    assert not transaction.wanted


def test_version_2_needs_the_feature_and_the_versions() -> None:
    feature = [FinalizedFeatureKey(name="transaction.version", max_version_level=2)]
    versions = {PRODUCE: 12, END_TXN: 5, TXN_OFFSET_COMMIT: 5}
    keys = [ApiVersion(api_key=api.key, max_version=last) for api, last in versions.items()]
    assert speaks_v2(ApiVersionsResponse(api_keys=keys, finalized_features=feature))
    assert not speaks_v2(ApiVersionsResponse(api_keys=keys))
    keys[0].max_version = 11
    assert not speaks_v2(ApiVersionsResponse(api_keys=keys, finalized_features=feature))


def test_a_prepared_transaction_travels_as_text() -> None:
    prepared = PreparedTransaction("tïll", 7, 3)
    assert PreparedTransaction.from_json(prepared.to_json()) == prepared


# -- what is asked -----------------------------------------------------------------------------------------------------


class ScriptedCoordinator:
    """Broker 1 coordinates; each API answers with what its script says next, and with success when that is over."""

    def __init__(self, **script: list[Any]) -> None:
        self._script = {name: deque(errors) for name, errors in script.items()}
        self.epoch = -1
        self.broker = ScriptedBroker(
            {
                FIND_COORDINATOR: self._find,
                INIT_PRODUCER_ID: self._init,
                ADD_PARTITIONS_TO_TXN: self._add,
                PRODUCE: self._produce,
                END_TXN: self._end,
            },
            {"orders": 1},
        )

    def _next(self, name: str) -> Any:
        errors = self._script.get(name)
        return errors.popleft() if errors else ErrorCode.NONE

    def _find(self, request: FindCoordinatorRequest, _: int) -> Any:
        assert request.key_type == 1
        error = self._next("find")
        one = Coordinator(key="till", node_id=1, host="127.0.0.1", port=self.broker.port, error_code=error)
        return FindCoordinatorResponse(coordinators=[one])

    def _init(self, request: InitProducerIdRequest, _: int) -> Any:
        error = self._next("init")
        if error is HANG_UP:
            return HANG_UP
        if error == ErrorCode.NONE:
            self.epoch += 1
        return InitProducerIdResponse(error_code=error, producer_id=7, producer_epoch=self.epoch)

    def _add(self, request: AddPartitionsToTxnRequest, _: int) -> Any:
        result = AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=self._next("add"))
        topic = AddPartitionsToTxnTopicResult(name="orders", results_by_partition=[result])
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])

    def _produce(self, request: ProduceRequest, _: int) -> Any:
        (topic,) = request.topic_data
        told = PartitionProduceResponse(index=0, error_code=self._next("produce"))
        return ProduceResponse(responses=[TopicProduceResponse(name=topic.name, partition_responses=[told])])

    def _end(self, request: EndTxnRequest, _: int) -> Any:
        error = self._next("end")
        return HANG_UP if error is HANG_UP else EndTxnResponse(error_code=error)


def producer_of(coordinator: ScriptedCoordinator) -> Producer:
    return Producer(coordinator.broker.bootstrap, transactional_id="till", patience=HASTY, linger=0.0)


def test_errors_that_pass_are_waited_out() -> None:
    coordinator = ScriptedCoordinator(
        find=[ErrorCode.COORDINATOR_NOT_AVAILABLE],
        init=[ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR, HANG_UP],
        add=[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS],
        produce=[ErrorCode.NOT_ENOUGH_REPLICAS],
        end=[ErrorCode.NOT_COORDINATOR, HANG_UP, ErrorCode.CONCURRENT_TRANSACTIONS],
    )
    with coordinator.broker as broker, producer_of(coordinator) as producer:
        producer.init_transactions(20.0)
        producer.begin()
        producer.send("orders", b"x")
        producer.commit(20.0)
        assert len(broker.requests(ADD_PARTITIONS_TO_TXN)) == 3
        assert len(broker.requests(INIT_PRODUCER_ID)) == 4
        assert [one.committed for one in broker.requests(END_TXN)] == [True] * 4
        assert broker.versions_asked(PRODUCE) == {11}, "newer ones would add partitions by themselves"
        assert broker.versions_asked(END_TXN) == {4}
        (header,) = check_batches(broker.requests(PRODUCE)[-1].topic_data[0].partition_data[0].records).headers
        assert header.is_transactional
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 0, 0)


def test_after_a_batch_was_given_up_a_classic_producer_goes_on_under_the_next_epoch() -> None:
    coordinator = ScriptedCoordinator(produce=[ErrorCode.INVALID_RECORD])
    with coordinator.broker as broker, producer_of(coordinator) as producer:
        producer.init_transactions(20.0)
        producer.begin()
        with pytest.raises(KafkaError, match="INVALID_RECORD"):
            producer.send("orders", b"bad").result(20.0)
        producer.abort(20.0)
        asked = broker.requests(INIT_PRODUCER_ID)
        assert [(one.producer_id, one.producer_epoch) for one in asked] == [(-1, -1), (7, 0)]
        producer.begin()
        producer.send("orders", b"good").result(20.0)
        (header,) = check_batches(broker.requests(PRODUCE)[-1].topic_data[0].partition_data[0].records).headers
        assert (header.producer_epoch, header.base_sequence) == (1, 0)


def test_an_abortable_error_of_the_coordinator_leaves_the_abort() -> None:
    coordinator = ScriptedCoordinator(end=[ErrorCode.TRANSACTION_ABORTABLE])
    with coordinator.broker as broker, producer_of(coordinator) as producer:
        producer.init_transactions(20.0)
        producer.begin()
        producer.send("orders", b"x")
        with pytest.raises(TransactionFailed, match="TRANSACTION_ABORTABLE"):
            producer.commit(20.0)
        producer.abort(20.0)
        assert [one.committed for one in broker.requests(END_TXN)] == [True, False]
        producer.begin()


def test_a_transaction_of_nothing_asks_for_nothing() -> None:
    coordinator = ScriptedCoordinator()
    with coordinator.broker as broker, producer_of(coordinator) as producer:
        producer.init_transactions(20.0)
        for end in (producer.commit, producer.abort):
            producer.begin()
            end(20.0)
        assert not broker.requests(END_TXN)
        assert API_VERSIONS not in {api for api, _, _ in broker.asked}


def test_what_was_not_tried_because_of_another_partition_has_no_error_of_its_own() -> None:
    codes = (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    results = [
        AddPartitionsToTxnPartitionResult(partition_index=at, partition_error_code=code)
        for at, code in enumerate(codes)
    ]
    topic = AddPartitionsToTxnTopicResult(name="orders", results_by_partition=results)
    with pytest.raises(KafkaError) as raised:
        _added(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic]))
    assert raised.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert raised.value.kind.is_retriable
