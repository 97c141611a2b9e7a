"""Transactions over the wire, API by API: fenced producers, what is in one, how it ends, what readers see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import define

from actors.cluster_file.config import KafkaConfig
from actors.harness import Cluster
from actors.messages.coordinator import TRANSACTIONS_TOPIC, partition_of
from actors.messages.replica import TransferLeadership, group_name, replica_address
from protocol.apis import INIT_PRODUCER_ID
from protocol.error_codes import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.describe_producers import DescribeProducersRequest, ProducerState, TopicRequest
from protocol.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from protocol.records.batches import Record, build_batch, parse_batches, records
from tests.actors.serving.kafka.handlers.wire_client import WireClient
from tests.actors.waiting import wait_until
from tests.naming import unique
from tools.client.prepared import complete_prepared
from tools.client.writing.transaction import PreparedTransaction

GROUP, TRANSACTION = 0, 1
LATEST = -1
UNCOMMITTED, COMMITTED = 0, 1
PASSING = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE)  # fmt: skip


@pytest.fixture
def topic(cluster: Cluster, client: WireClient, name: str) -> str:
    cluster.admin.create_topic(name, 2, 3)
    client.until_led(name)
    return name


@define
class Till:
    """One transactional id, as a client of the wire sees it; its topic has its name."""

    clients: dict[int, WireClient]
    name: str
    producer_id: int = -1
    epoch: int = -1
    sequence: int = 0

    def coordinator(self, kind: int = TRANSACTION) -> WireClient:
        found: list[int] = []

        def is_found() -> bool:
            asked = FindCoordinatorRequest(key_type=kind, coordinator_keys=[self.name])
            (told,) = next(iter(self.clients.values())).ask(asked).coordinators
            found[:] = [told.node_id]
            return bool(told.error_code == ErrorCode.NONE)

        wait_until(is_found, lambda: f"nobody coordinates {self.name}")
        return self.clients[found[0]]

    def leader(self, partition: int = 0) -> WireClient:
        told = next(iter(self.clients.values())).topic(self.name)
        return self.clients[told.partitions[partition].leader_id]

    def init(self, *, timeout_ms: int = 60_000, version: int = 5) -> InitProducerIdResponse:
        """Once whatever was open is aborted."""
        answers: list[InitProducerIdResponse] = []

        def has_passed() -> bool:
            request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=timeout_ms)
            answers[:] = [self.coordinator().ask(request, version)]
            return answers[0].error_code not in PASSING

        wait_until(has_passed, lambda: f"{answers}")
        self.producer_id, self.epoch, self.sequence = answers[0].producer_id, answers[0].producer_epoch, 0
        return answers[0]

    def add(self, *partitions: int, version: int = 3) -> int:
        """Its coordinator may not have heard yet of the topic, which was just made: then clients ask again."""
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        told: list[int] = []

        def is_known() -> bool:
            told.append(self._add(*partitions, version=version))
            return told[-1] != unknown

        wait_until(is_known, lambda: "the topic is not known there")
        return told[-1]

    def _add(self, *partitions: int, version: int) -> int:
        topics = [AddPartitionsToTxnTopic(name=self.name, partitions=list(partitions))]
        if version <= 3:
            classic = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.name, v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch, v3_and_below_topics=topics,
            )  # fmt: skip
            (result,) = self.coordinator().ask(classic, version).results_by_topic_v3_and_below
        else:
            one = AddPartitionsToTxnTransaction(
                transactional_id=self.name, producer_id=self.producer_id, producer_epoch=self.epoch, topics=topics
            )
            batched = AddPartitionsToTxnRequest(transactions=[one])
            (of_transaction,) = self.coordinator().ask(batched, version).results_by_transaction
            (result,) = of_transaction.topic_results
        (error,) = {one.partition_error_code for one in result.results_by_partition}
        return int(error)

    def produce(self, value: bytes, *, partition: int = 0, version: int = 11) -> int:
        """One record of the transaction. Version 12 puts the partition into it."""
        batch = build_batch(
            [Record(0, 1_700_000_000_000, None, value)], producer_id=self.producer_id, producer_epoch=self.epoch,
            base_sequence=self.sequence, transactional=True,
        )  # fmt: skip
        data = TopicProduceData(name=self.name, partition_data=[PartitionProduceData(index=partition, records=batch)])
        request = ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=10_000, topic_data=[data])
        answer = self.leader(partition).ask(request, version).responses[0].partition_responses[0]
        if answer.error_code == ErrorCode.NONE:
            self.sequence += 1
        return int(answer.error_code)

    def end(self, *, commit: bool, version: int = 4) -> EndTxnResponse:
        request = EndTxnRequest(
            transactional_id=self.name, producer_id=self.producer_id, producer_epoch=self.epoch, committed=commit
        )
        response: EndTxnResponse = self.coordinator().ask(request, version)
        return response

    def state(self) -> TransactionState:
        asked = DescribeTransactionsRequest(transactional_ids=[self.name])
        told: TransactionState = self.coordinator().ask(asked).transaction_states[0]
        return told

    def until(self, state: str) -> None:
        wait_until(lambda: self.state().transaction_state == state, lambda: f"{self.state()}")

    # what readers see

    def fetched(self, isolation: int, partition: int = 0, offset: int = 0) -> PartitionData:
        wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0, max_bytes=1 << 20, isolation_level=isolation,
            topics=[FetchTopic(topic=self.name, partitions=[wanted])],
        )  # fmt: skip
        told: PartitionData = self.leader(partition).ask(request, 12).responses[0].partitions[0]
        return told

    def values(self, isolation: int, partition: int = 0) -> list[bytes | None]:
        """As a client shows them: without markers, and without what the answer says was aborted."""
        shown: list[bytes | None] = []
        open_aborted: set[int] = set()
        offset, end = 0, self.end_offset(isolation, partition)
        while offset < end:
            told = self.fetched(isolation, partition, offset)
            aborted = {(one.producer_id, one.first_offset) for one in told.aborted_transactions or ()}
            data = memoryview(bytes(told.records or b""))
            at = 0
            for header in parse_batches(data).headers:
                open_aborted |= {producer for producer, first in aborted if first == header.base_offset}
                if header.is_control:
                    open_aborted.discard(header.producer_id)
                elif header.producer_id not in open_aborted:
                    shown += [record.value for record in records(data, at, limit=1 << 20)]
                at += header.size
                offset = header.base_offset + header.last_offset_delta + 1
        return shown

    def epochs(self) -> list[int]:
        """The leader epochs of the partitions of __transaction_state."""
        told = sorted(self.leader().topic(TRANSACTIONS_TOPIC).partitions, key=lambda one: one.partition_index)
        return [one.leader_epoch for one in told]

    def highest_epoch(self) -> int:
        return max(self.epochs())

    def mark(self, *, epoch: int) -> int:
        """Abort what is open in the first partition, as an administrator does. Gives the error."""
        marker = WritableTxnMarker(
            producer_id=self.producer_id, producer_epoch=self.epoch, transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=self.name, partition_indexes=[0])], coordinator_epoch=epoch,
        )  # fmt: skip
        told = self.leader().ask(WriteTxnMarkersRequest(markers=[marker])).markers[0].topics[0].partitions[0]
        return int(told.error_code)

    def end_offset(self, isolation: int, partition: int = 0) -> int:
        wanted = ListOffsetsPartition(partition_index=partition, timestamp=LATEST)
        request = ListOffsetsRequest(
            isolation_level=isolation, topics=[ListOffsetsTopic(name=self.name, partitions=[wanted])]
        )
        told: int = self.leader(partition).ask(request).topics[0].partitions[0].offset
        return told

    def producers(self, partition: int = 0) -> list[ProducerState]:
        request = DescribeProducersRequest(topics=[TopicRequest(name=self.name, partition_indexes=[partition])])
        told: list[ProducerState] = self.leader(partition).ask(request).topics[0].partitions[0].active_producers
        return told

    def commit_offset(self, offset: int, *, version: int) -> int:
        request = TxnOffsetCommitRequest(
            transactional_id=self.name, group_id=self.name, producer_id=self.producer_id, producer_epoch=self.epoch,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=self.name,
                    partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)],
                )
            ],
        )  # fmt: skip
        told: list[int] = []

        def has_passed() -> bool:
            """A coordinator that has just begun, or is about to hand over, says so."""
            answer = self.coordinator(GROUP).ask(request, version)
            told[:] = [answer.topics[0].partitions[0].error_code]
            return told[0] not in PASSING

        wait_until(has_passed, lambda: f"{told}")
        return told[0]

    def offset(self, *, stable: bool = False) -> tuple[int, int]:
        """What the group has committed, and the error, if it was asked for what is stable."""
        wanted = OffsetFetchRequestTopics(name=self.name, partition_indexes=[0])
        group = OffsetFetchRequestGroup(group_id=self.name, topics=[wanted])
        told = self.coordinator(GROUP).ask(OffsetFetchRequest(groups=[group], require_stable=stable), 9)
        one = told.groups[0].topics[0].partitions[0]
        return one.committed_offset, one.error_code


@pytest.fixture
def till(clients: dict[int, WireClient], topic: str) -> Till:
    made = Till(clients, topic)
    assert made.init().error_code == ErrorCode.NONE
    return made


# -- who may write -----------------------------------------------------------------------------------------------------


def test_everybody_is_told_of_transactions_in_version_2(client: WireClient) -> None:
    told = client.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"))
    assert [(one.name, one.max_version_level) for one in told.finalized_features] == [("transaction.version", 2)]
    assert [(one.name, one.min_version, one.max_version) for one in told.supported_features] == [
        ("transaction.version", 0, 2)
    ]
    (init,) = [one for one in told.api_keys if one.api_key == INIT_PRODUCER_ID.key]
    assert init.max_version == 5, "two-phase commit is only where the file says so"


def test_all_brokers_name_the_same_coordinator(clients: dict[int, WireClient], till: Till) -> None:
    asked = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[till.name])
    answers = [client.ask(asked).coordinators[0] for client in clients.values()]
    assert len({one.node_id for one in answers}) == 1
    assert {one.error_code for one in answers} == {ErrorCode.NONE}
    request = InitProducerIdRequest(transactional_id=till.name, transaction_timeout_ms=60_000)
    told = [client.ask(request, 5).error_code for client in clients.values() if client.broker != answers[0].node_id]
    assert ErrorCode.NOT_COORDINATOR in told, "at most one of them was the coordinator until a moment ago"


def test_each_producer_fences_the_one_before(till: Till, clients: dict[int, WireClient]) -> None:
    successor = Till(clients, till.name)
    successor.init()
    assert (successor.producer_id, successor.epoch) == (till.producer_id, till.epoch + 1)
    assert till.add(0) == ErrorCode.PRODUCER_FENCED
    assert till.add(0, version=1) == ErrorCode.INVALID_PRODUCER_EPOCH, "older clients know another word"
    assert till.end(commit=True).error_code == ErrorCode.PRODUCER_FENCED
    assert successor.add(0) == ErrorCode.NONE


def test_what_was_left_open_is_aborted_before_the_next_begins(till: Till, clients: dict[int, WireClient]) -> None:
    till.add(0)
    assert till.produce(b"zombie") == ErrorCode.NONE
    successor = Till(clients, till.name)
    successor.init()
    assert successor.values(COMMITTED) == []
    assert till.produce(b"more") == ErrorCode.INVALID_PRODUCER_EPOCH, "PRODUCER_FENCED would be fatal to Java's"


@pytest.mark.parametrize("version", [0, 3, 5])
def test_offsets_of_a_fenced_producer_are_refused_in_a_word_that_all_clients_know(
    till: Till, clients: dict[int, WireClient], version: int
) -> None:
    Till(clients, till.name).init()
    assert till.commit_offset(5, version=version) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_timeout_that_is_too_long_is_refused(till: Till) -> None:
    request = InitProducerIdRequest(transactional_id=till.name, transaction_timeout_ms=900_001)
    assert till.coordinator().ask(request, 5).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


# -- what is in a transaction ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 3, 5])
def test_partitions_are_added(till: Till, version: int) -> None:
    assert till.add(0, 1, version=version) == ErrorCode.NONE
    told = till.state()
    assert told.transaction_state == "Ongoing"
    assert [(one.topic, one.partitions) for one in told.topics] == [(till.name, [0, 1])]


def test_a_batch_of_a_partition_that_was_not_added_is_refused(till: Till) -> None:
    till.add(1)
    assert till.produce(b"x", partition=0) == ErrorCode.INVALID_TXN_STATE
    assert till.end_offset(UNCOMMITTED) == 0


def test_from_version_12_on_a_batch_adds_its_partition(till: Till) -> None:
    assert till.produce(b"x", version=12) == ErrorCode.NONE
    assert [(one.topic, one.partitions) for one in till.state().topics] == [(till.name, [0])]


# -- how it ends -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_classic_transactions_end_and_the_epoch_stays(till: Till, commit: bool) -> None:
    till.add(0)
    till.produce(b"x")
    assert till.end(commit=commit).error_code == ErrorCode.NONE
    till.until("CompleteCommit" if commit else "CompleteAbort")
    assert till.end(commit=commit).error_code == ErrorCode.NONE, "a retry is told the same"
    assert till.end(commit=not commit).error_code == ErrorCode.INVALID_TXN_STATE
    assert till.values(COMMITTED) == ([b"x"] if commit else [])
    assert till.add(0) == ErrorCode.NONE


@pytest.mark.parametrize("commit", [True, False])
def test_transactions_in_version_2_end_with_the_next_epoch(till: Till, commit: bool) -> None:
    till.produce(b"x", version=12)
    told = till.end(commit=commit, version=5)
    assert (told.error_code, told.producer_id, told.producer_epoch) == (0, till.producer_id, till.epoch + 1)
    till.until("CompleteCommit" if commit else "CompleteAbort")
    again = till.end(commit=commit, version=5)
    assert (again.error_code, again.producer_epoch) == (0, till.epoch + 1), "a retry is told the same"
    assert till.produce(b"late", version=12) == ErrorCode.INVALID_PRODUCER_EPOCH
    till.epoch, till.sequence = told.producer_epoch, 0
    assert till.produce(b"next", version=12) == ErrorCode.NONE
    assert till.values(COMMITTED) == ([b"x"] if commit else [])


def test_one_that_takes_too_long_is_aborted(till: Till) -> None:
    till.init(timeout_ms=100)
    till.produce(b"x", version=12)
    till.until("CompleteAbort")
    assert till.values(COMMITTED) == []
    assert till.end_offset(COMMITTED) == till.end_offset(UNCOMMITTED) == 2


# -- what readers see --------------------------------------------------------------------------------------------------


def test_nothing_open_or_aborted_is_shown_to_readers_of_committed_records(
    till: Till, clients: dict[int, WireClient]
) -> None:
    plain = till.leader()
    plain.produce(till.name, [b"before"])
    till.add(0)
    till.produce(b"open")
    plain.produce(till.name, [b"behind"])
    assert till.values(COMMITTED) == [b"before"]
    assert till.values(UNCOMMITTED) == [b"before", b"open", b"behind"]
    told = till.fetched(COMMITTED)
    assert (told.last_stable_offset, told.high_watermark) == (1, 3)
    assert (till.end_offset(COMMITTED), till.end_offset(UNCOMMITTED)) == (1, 3)
    till.end(commit=False)
    till.until("CompleteAbort")
    assert till.values(COMMITTED) == [b"before", b"behind"]
    assert (till.end_offset(COMMITTED), till.end_offset(UNCOMMITTED)) == (4, 4)
    assert [(one.producer_id, one.first_offset) for one in till.fetched(COMMITTED).aborted_transactions or ()] == [
        (till.producer_id, 1)
    ]
    assert till.add(0) == ErrorCode.NONE
    assert till.produce(b"good") == ErrorCode.NONE
    assert till.end(commit=True).error_code == ErrorCode.NONE
    till.until("CompleteCommit")
    assert till.values(COMMITTED) == [b"before", b"behind", b"good"]


# -- offsets of groups -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [3, 5])
def test_offsets_count_when_their_transaction_is_committed(till: Till, version: int) -> None:
    for commit, offset in ((False, 5), (True, 6)):
        if version < 5:
            joins = AddOffsetsToTxnRequest(
                transactional_id=till.name, producer_id=till.producer_id, producer_epoch=till.epoch, group_id=till.name
            )
            wait_until(
                lambda joins=joins: till.coordinator().ask(joins).error_code == ErrorCode.NONE,  # type: ignore[misc]
                lambda: "the group was not put into the transaction",
            )
        errors: list[int] = []

        def is_taken(offset: int = offset, errors: list[int] = errors) -> bool:
            errors.append(till.commit_offset(offset, version=version))
            return errors[-1] not in PASSING

        wait_until(is_taken, lambda errors=errors: f"{errors}")  # type: ignore[misc]
        assert errors[-1] == ErrorCode.NONE
        assert till.offset() == (-1, ErrorCode.NONE)
        assert till.offset(stable=True)[1] == ErrorCode.UNSTABLE_OFFSET_COMMIT
        told = till.end(commit=commit, version=4 if version < 5 else 5)
        assert told.error_code == ErrorCode.NONE
        till.until("CompleteCommit" if commit else "CompleteAbort")
        assert till.offset(stable=True) == (6 if commit else -1, ErrorCode.NONE)
        till.epoch = told.producer_epoch if version >= 5 else till.epoch


def test_offsets_of_a_transaction_that_has_not_the_group_are_refused(till: Till) -> None:
    assert till.commit_offset(5, version=3) == ErrorCode.INVALID_TXN_STATE
    assert till.offset(stable=True) == (-1, ErrorCode.NONE)


# -- for administrators ------------------------------------------------------------------------------------------------


def test_transactions_are_listed_and_described(till: Till) -> None:
    till.add(1)
    request = ListTransactionsRequest(state_filters=["Ongoing"], producer_id_filters=[till.producer_id])
    (listed,) = till.coordinator().ask(request).transaction_states
    assert (listed.transactional_id, listed.transaction_state) == (till.name, "Ongoing")
    odd = till.coordinator().ask(ListTransactionsRequest(state_filters=["Sleepy"]))
    assert (odd.unknown_state_filters, odd.transaction_states) == (["Sleepy"], [])
    told = till.state()
    assert (told.producer_id, told.producer_epoch, told.transaction_timeout_ms) == (
        till.producer_id, till.epoch, 60_000,
    )  # fmt: skip
    asked = DescribeTransactionsRequest(transactional_ids=[unique("nobody")])
    (unknown,) = till.coordinator().ask(asked).transaction_states
    assert unknown.error_code in (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ErrorCode.NOT_COORDINATOR)


def test_a_marker_of_an_administrator_ends_what_is_open_in_a_partition(till: Till) -> None:
    till.add(0)
    till.produce(b"x")
    (open_one,) = till.producers()
    assert (open_one.producer_id, open_one.current_txn_start_offset) == (till.producer_id, 0)
    assert till.mark(epoch=0) == ErrorCode.NONE
    (ended,) = till.producers()
    assert ended.current_txn_start_offset == -1
    assert till.end_offset(COMMITTED) == 2
    assert till.values(COMMITTED) == []


def test_a_marker_of_an_epoch_that_no_coordinator_has_is_refused(till: Till) -> None:
    till.add(0)
    till.produce(b"x")
    assert till.mark(epoch=2**31 - 1) == ErrorCode.INVALID_REQUEST
    assert till.mark(epoch=till.highest_epoch() + 1) == ErrorCode.INVALID_REQUEST
    assert till.end(commit=True).error_code == ErrorCode.NONE
    till.until("CompleteCommit")
    assert till.values(COMMITTED) == [b"x"]
    assert till.mark(epoch=0) == ErrorCode.TRANSACTION_COORDINATOR_FENCED, "a lower one than was written comes late"


@pytest.mark.parametrize("commit", [True, False])
def test_a_coordinator_that_a_marker_fences_while_it_leads_ends_its_transaction_all_the_same(
    cluster: Cluster, till: Till, caplog: pytest.LogCaptureFixture, commit: bool
) -> None:
    """The highest epoch of any partition is that of another coordinator than the transaction's own."""
    till.add(0, 1)
    till.produce(b"x")
    till.produce(b"y", partition=1)
    own = partition_of(till.name, len(till.epochs()))
    wait_until(lambda: raise_another(cluster, till, own), lambda: f"{till.epochs()}")
    assert till.mark(epoch=till.highest_epoch()) == ErrorCode.NONE
    assert till.end(commit=commit).error_code == ErrorCode.NONE
    till.until("CompleteCommit" if commit else "CompleteAbort")
    assert till.values(COMMITTED, partition=1) == ([b"y"] if commit else [])
    assert "still leads, and its marker" in caplog.text
    assert till.init().error_code == ErrorCode.NONE, "the id is good for more transactions"


def raise_another(cluster: Cluster, till: Till, own: int) -> bool:
    """Let the leader of another partition of __transaction_state hand over, until its epoch is above this one's."""
    epochs = till.epochs()
    other = (own + 1) % len(epochs)
    if epochs[other] > epochs[own]:
        return True
    (topic,) = (one for one in cluster.admin.describe()["topics"] if one["name"] == TRANSACTIONS_TOPIC)
    leader = topic["partitions"][other]["leader"]
    if leader is not None:
        heir = next(broker for broker in cluster.brokers if broker != leader)
        replica = replica_address(group_name(TRANSACTIONS_TOPIC, other, topic["topic_id"]), leader)
        cluster.ask(replica, TransferLeadership(heir))
    return False


# -- when brokers die --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("commit", [True, False])
def test_a_coordinator_that_dies_between_prepare_and_markers_is_followed_by_one_that_writes_them(
    tmp_path: Path, name: str, commit: bool
) -> None:
    with Cluster(3, processes=True, data_dir=tmp_path, log_level="error") as cluster:
        clients = {broker: WireClient(cluster, broker) for broker in (1, 2, 3)}
        till = Till(clients, name)
        coordinator = till.coordinator().broker
        leader = next(broker for broker in (1, 2, 3) if broker != coordinator)
        cluster.admin.create_topic(name, assignment=[[leader]])
        clients[coordinator].until_led(name)
        till.init()
        assert till.produce(b"x", version=12) == ErrorCode.NONE
        asked = clients[coordinator]
        cluster.cut(coordinator, leader)  # the leader of the partition gets no marker from this one
        request = EndTxnRequest(
            transactional_id=name, producer_id=till.producer_id, producer_epoch=till.epoch, committed=commit
        )
        assert asked.ask(request, 5).error_code == ErrorCode.NONE
        state = asked.ask(DescribeTransactionsRequest(transactional_ids=[name])).transaction_states[0]
        assert state.transaction_state == ("PrepareCommit" if commit else "PrepareAbort")
        cluster.kill(coordinator)
        for client in clients.values():
            client.close()
        till.clients = {broker: WireClient(cluster, broker) for broker in (1, 2, 3) if broker in cluster.alive}
        till.until("CompleteCommit" if commit else "CompleteAbort")
        assert till.values(COMMITTED) == ([b"x"] if commit else [])
        assert till.end_offset(COMMITTED) == 2, "there is one marker"
        for client in till.clients.values():
            client.close()


# -- two-phase commit --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_phase() -> Iterator[Cluster]:
    settings = KafkaConfig(transaction_two_phase_commit_enable=True)
    with Cluster(1, config=settings, log_level="error") as cluster:
        yield cluster


def test_two_phase_commit_is_told_where_the_file_says_so(two_phase: Cluster, name: str) -> None:
    with WireClient(two_phase) as client:
        told = client.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"))
        (init,) = [one for one in told.api_keys if one.api_key == INIT_PRODUCER_ID.key]
        assert init.max_version == 6
        till = Till({1: client}, name)
        two_phase.admin.create_topic(name, 1, 1)
        client.until_led(name)
        till.coordinator()
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1, enable2_pc=True)

        def is_begun() -> bool:
            answer = client.ask(request, 6)
            till.producer_id, till.epoch = answer.producer_id, answer.producer_epoch
            return bool(answer.error_code == ErrorCode.NONE)

        wait_until(is_begun, lambda: "no epoch")
        assert till.produce(b"x", version=12) == ErrorCode.NONE
        keeps = InitProducerIdRequest(transactional_id=name, enable2_pc=True, keep_prepared_txn=True)
        kept = client.ask(keeps, 6)
        assert kept.error_code == ErrorCode.NONE
        assert (kept.ongoing_txn_producer_id, kept.ongoing_txn_producer_epoch) == (till.producer_id, till.epoch)
        assert till.state().transaction_state == "Ongoing"
        prepared = PreparedTransaction(name, till.producer_id, till.epoch)
        complete_prepared(two_phase.bootstrap, prepared, commit=True)
        till.until("CompleteCommit")
        assert till.values(COMMITTED) == [b"x"]


def test_without_the_setting_version_6_is_not_served(client: WireClient, cluster: Cluster) -> None:
    with WireClient(cluster) as other:
        other.send(InitProducerIdRequest(transactional_id="x", enable2_pc=True), 6)
        assert other.is_closed_by_peer()
