"""What needs no socket: error classes, the picture of a cluster, fetch sessions, and what is shown of a fetch."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.error_codes import ErrorCode
from protocol.errors import CorruptBatch
from protocol.messages.fetch import AbortedTransaction, FetchPartition
from protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.records.batches import ControlType, build_batch, end_txn_marker, read_header
from protocol.records.compression import Codec
from protocol.records.record import Record
from protocol.schema.declaration import NO_UUID
from tools.client.errors import ErrorClass, KafkaError, classify
from tools.client.metadata import TopicPartition, View
from tools.client.network.broker import Patience
from tools.client.reading.fetch_session import FetchSession, Wanted
from tools.client.reading.fetched import Fetched

WHERE = TopicPartition("orders", 0)
ID, OTHER_ID = b"a" * 16, b"b" * 16


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ErrorCode)
def test_every_code_has_a_class_and_a_name(code: ErrorCode) -> None:
    error = KafkaError(code, "orders")
    assert error.name == code.name
    assert error.kind is classify(code)
    assert str(error) == f"orders: {code.name}"


def test_classes_are_those_of_kafkas_own_client() -> None:
    assert classify(ErrorCode.NOT_LEADER_OR_FOLLOWER) is ErrorClass.REFRESH
    assert classify(ErrorCode.NOT_ENOUGH_REPLICAS) is ErrorClass.RETRIABLE
    assert classify(ErrorCode.MESSAGE_TOO_LARGE) is ErrorClass.REFUSED
    assert classify(ErrorCode.OFFSET_OUT_OF_RANGE) is ErrorClass.REFUSED
    assert classify(ErrorCode.PRODUCER_FENCED) is ErrorClass.FATAL


def test_code_of_the_future_is_told_by_its_number() -> None:
    error = KafkaError(4711, "orders", "who knows")
    assert str(error) == "orders: error 4711: who knows"
    assert error.kind is ErrorClass.REFUSED


@given(st.integers(0, 100))
def test_pauses_grow_up_to_a_limit(failures: int) -> None:
    patience = Patience(retry=0.05, retry_max=1.0)
    assert 0.04 <= patience.pause(failures) <= 1.2


# -- the picture of a cluster ------------------------------------------------------------------------------------------


def told(leader: int, epoch: int, topic_id: bytes = ID, error: int = 0) -> MetadataResponse:
    partition = MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=epoch, error_code=error)
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=one, host=f"host{one}", port=9092) for one in (1, 2)],
        topics=[MetadataResponseTopic(name="orders", topic_id=topic_id, partitions=[partition])],
    )


def leader_of(view: View) -> tuple[int | None, int]:
    known = view.partition(WHERE)
    assert known is not None
    return known.leader, known.epoch


def test_leader_epochs_never_go_backwards() -> None:
    view = View().updated(told(1, 5)).updated(told(2, 4))
    assert leader_of(view) == (1, 5)
    assert leader_of(view.updated(told(2, 6))) == (2, 6)
    assert view.with_leader(WHERE, 2, 4, None) is view
    assert leader_of(view.with_leader(WHERE, 2, 6, None)) == (2, 6)


def test_topic_made_anew_begins_with_its_own_epochs() -> None:
    assert leader_of(View().updated(told(1, 5)).updated(told(2, 0, OTHER_ID))) == (2, 0)


def test_partition_without_a_leader_keeps_its_epoch() -> None:
    view = View().updated(told(1, 5)).updated(told(-1, -1, error=ErrorCode.LEADER_NOT_AVAILABLE))
    assert leader_of(view) == (None, 5)


def test_leader_that_nobody_can_find_is_not_believed() -> None:
    view = View().updated(told(1, 5))
    assert view.with_leader(WHERE, 9, 6, None) is view
    found = view.with_leader(WHERE, 9, 6, ("host9", 9092))
    assert found.brokers[9] == ("host9", 9092)


def test_deleted_topic_is_forgotten_with_the_reason() -> None:
    gone = MetadataResponse(topics=[MetadataResponseTopic(name="orders", error_code=3)])
    view = View().updated(told(1, 5)).updated(gone)
    assert view.topics == {}
    assert view.errors == {"orders": 3}
    assert view.brokers.keys() == {1, 2}  # an answer without brokers is no reason to forget them


# -- fetch sessions ----------------------------------------------------------------------------------------------------


def wanted(*offsets: int, topic_id: bytes = ID) -> dict[TopicPartition, Wanted]:
    return {
        TopicPartition("orders", at): Wanted(topic_id, FetchPartition(partition=at, fetch_offset=offset))
        for at, offset in enumerate(offsets)
        if offset >= 0
    }


def named(said: Any) -> list[int]:
    return [one.partition for topic in said.topics for one in topic.partitions]


def test_session_says_only_what_changed() -> None:
    session = FetchSession()
    first = session.request(wanted(0, 0, 0))
    assert (first.session_id, first.session_epoch, named(first)) == (0, 0, [0, 1, 2])
    session.answered(77, 0)
    second = session.request(wanted(0, 5, -1))
    assert (second.session_id, second.session_epoch, named(second)) == (77, 1, [1])
    assert [(one.topic, one.partitions) for one in second.forgotten] == [("orders", [2])]
    session.answered(77, 0)
    third = session.request(wanted(0, 5, -1))
    assert (third.session_epoch, named(third), third.forgotten) == (2, [], [])


def test_broker_without_sessions_is_told_everything_every_time() -> None:
    session = FetchSession()
    for _ in range(3):
        said = session.request(wanted(0, 0))
        assert (said.session_id, said.session_epoch, named(said)) == (0, 0, [0, 1])
        session.answered(0, 0)


@pytest.mark.parametrize(
    ("error", "session_id"),
    [(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0), (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 77)],
)
def test_session_that_broke_begins_anew(error: ErrorCode, session_id: int) -> None:
    session = FetchSession()
    session.request(wanted(0, 0))
    session.answered(77, 0)
    session.request(wanted(0, 1))
    session.answered(0, error)
    said = session.request(wanted(0, 1))
    assert (said.session_id, said.session_epoch, named(said)) == (session_id, 0, [0, 1])


def test_topic_with_another_id_replaces_the_old_one() -> None:
    session = FetchSession()
    session.request(wanted(0))
    session.answered(77, 0)
    said = session.request(wanted(0, topic_id=OTHER_ID))
    assert [topic.topic_id for topic in said.topics] == [OTHER_ID]
    assert [topic.topic_id for topic in said.forgotten] == [ID]


def test_brokers_without_topic_ids_get_names() -> None:
    assert not FetchSession().request(wanted(0, topic_id=NO_UUID)).has_ids
    assert FetchSession().request(wanted(0)).has_ids


# -- what is shown -----------------------------------------------------------------------------------------------------


def batch(offset: int, *values: bytes, producer: int = -1, codec: Codec = Codec.NONE) -> bytes:
    made = [Record(offset + at, 1000, None, value) for at, value in enumerate(values)]
    return bytes(
        build_batch(
            made, base_offset=offset, leader_epoch=3, codec=codec, producer_id=producer, producer_epoch=0,
            base_sequence=0 if producer >= 0 else -1, transactional=producer >= 0,
        )
    )  # fmt: skip


def marker(kind: ControlType, offset: int, producer: int) -> bytes:
    return bytes(end_txn_marker(kind, 0, producer, 0, 1000, base_offset=offset, leader_epoch=3))


def shown(fetched: Fetched) -> list[bytes | None]:
    values = []
    while (raw := fetched.take()) is not None:
        raw.check()
        values += [record.value for record in raw.records(1 << 20)]
    return values


@pytest.mark.parametrize("codec", Codec)
def test_records_before_the_position_are_not_shown(codec: Codec) -> None:
    fetched = Fetched(WHERE, batch(10, b"a", b"b", b"c", codec=codec) + batch(13, b"d", codec=codec), 12)
    assert (fetched.end_offset, fetched.last_epoch) == (14, 3)
    assert shown(fetched) == [b"c", b"d"]
    assert fetched.next_offset == 14


def test_batch_that_was_cut_off_is_fetched_again() -> None:
    data = batch(0, b"a") + batch(1, b"b")
    fetched = Fetched(WHERE, data[:-1], 0)
    assert shown(fetched) == [b"a"]
    assert (fetched.end_offset, fetched.is_cut) == (1, False)
    assert Fetched(WHERE, data[:30], 0).is_cut


def test_aborted_records_and_markers_are_passed_over() -> None:
    data = b"".join(
        (
            batch(0, b"aborted", producer=7),
            batch(1, b"committed", producer=8),
            batch(2, b"plain"),
            marker(ControlType.ABORT, 3, 7),
            batch(4, b"later", producer=7),
            marker(ControlType.COMMIT, 5, 8),
            marker(ControlType.COMMIT, 6, 7),
        )
    )
    aborted = [AbortedTransaction(producer_id=7, first_offset=0)]
    fetched = Fetched(WHERE, data, 0, aborted)
    assert shown(fetched) == [b"committed", b"plain", b"later"]
    assert fetched.next_offset == 7
    assert shown(Fetched(WHERE, data, 0)) == [b"aborted", b"committed", b"plain", b"later"]


@given(st.data())
def test_any_mix_of_transactions_shows_what_was_committed(data: st.DataObject) -> None:
    """Producers interleave; each of their transactions ends one way or the other, or not yet."""
    parts, expected, aborted = [], [], []
    under_way: dict[int, list[bytes]] = {}
    began: dict[int, int] = {}
    order: list[tuple[int, bytes, int]] = []  # offset, value, producer
    fate: dict[tuple[int, int], bool] = {}  # producer and first offset: was it committed?
    for offset in range(data.draw(st.integers(0, 25))):
        producer = data.draw(st.sampled_from([-1, 7, 8]))
        if producer in under_way and data.draw(st.booleans()):
            commits = data.draw(st.booleans())
            kind = ControlType.COMMIT if commits else ControlType.ABORT
            parts.append(marker(kind, offset, producer))
            fate[producer, began[producer]] = commits
            if not commits:
                aborted.append(AbortedTransaction(producer_id=producer, first_offset=began[producer]))
            del under_way[producer]
            continue
        value = b"%d" % offset
        if producer >= 0 and producer not in under_way:
            under_way[producer] = []
            began[producer] = offset
        order.append((began.get(producer, -1), value, producer))
        parts.append(batch(offset, value, producer=producer))
    for first, value, producer in order:
        if producer < 0 or fate.get((producer, first), True):
            expected.append(value)
    assert shown(Fetched(WHERE, b"".join(parts), 0, aborted)) == expected


def test_damage_is_found() -> None:
    data = bytearray(batch(0, b"value"))
    data[-2] ^= 1
    fetched = Fetched(WHERE, data, 0)
    raw = fetched.take()
    assert raw is not None
    assert raw.header == read_header(data)
    with pytest.raises(CorruptBatch, match="orders-0"):
        raw.check()
