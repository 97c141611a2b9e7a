"""The records of the metadata log: what is written is read back, and what is not known is not passed over."""

from __future__ import annotations

import inspect
from typing import Any

import orjson
import pytest
from attrs import asdict, fields
from hypothesis import given
from hypothesis import strategies as st

from log.errors import DamagedFile, UnknownFormat
from log.machines.metadata import metadata
from log.machines.metadata import records as metadata_records
from log.machines.metadata.records import (
    BrokerDraining,
    BrokerRegistered,
    ClusterFormed,
    ConfigsSet,
    LeadershipConfirmed,
    MetadataRecord,
    MoveEnded,
    PartitionRecovered,
    PartitionRecoveredBeyond,
    PartitionsPlaced,
    ProducerIdsTaken,
    ReplicasMoved,
    RequestDone,
    TopicDropped,
    TopicMade,
    decode,
    encode,
    known_kinds,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NUMBERS = st.integers(-1, (1 << 63) - 1)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "str": TEXT,
    "int": NUMBERS,
    "bool": st.booleans(),
    "Pairs": st.lists(st.tuples(TEXT, TEXT), max_size=3).map(tuple),
    "tuple[int, ...]": st.lists(NUMBERS, max_size=3).map(tuple),
    "tuple[tuple[int, ...], ...]": st.lists(st.lists(NUMBERS, max_size=3).map(tuple), max_size=3).map(tuple),
}
KINDS = list(known_kinds())


@st.composite
def records(draw: st.DrawFn) -> MetadataRecord:
    kind = draw(st.sampled_from(KINDS))
    return kind(**{one.name: draw(VALUES[str(one.type)]) for one in fields(kind)})


EXAMPLES: dict[str, tuple[MetadataRecord, dict[str, Any]]] = {
    "cluster": (ClusterFormed("c1"), {"cluster_id": "c1"}),
    "broker": (BrokerRegistered(1, "d", "h", 2), {"broker": 1, "directory": "d", "host": "h", "port": 2}),
    "drain": (BrokerDraining(1, True), {"broker": 1, "draining": True}),
    "topic": (TopicMade("t", "orders", (("a", "b"),)), {"topic_id": "t", "name": "orders", "configs": [["a", "b"]]}),
    "partitions": (PartitionsPlaced("t", 0, ((1, 2),)), {"topic_id": "t", "first": 0, "replicas": [[1, 2]]}),
    "move": (ReplicasMoved("t", 3, (2, 1)), {"topic_id": "t", "partition": 3, "replicas": [2, 1]}),
    "moved": (MoveEnded("t", 3), {"topic_id": "t", "partition": 3}),
    "recovered": (PartitionRecovered("t", 3, (2, 1)), {"topic_id": "t", "partition": 3, "survivors": [2, 1]}),
    "recovered-beyond": (
        PartitionRecoveredBeyond("t", 3, (2, 1), 5, 4),
        {"topic_id": "t", "partition": 3, "survivors": [2, 1], "generation": 5, "begun": 4},
    ),
    "drop": (TopicDropped("t"), {"topic_id": "t"}),
    "configs": (ConfigsSet("t", (("a", "b"),)), {"topic_id": "t", "configs": [["a", "b"]]}),
    "producer-ids": (ProducerIdsTaken(1000), {"next_id": 1000}),
    "confirm": (LeadershipConfirmed(), {}),
    "done": (RequestDone("r", "{}"), {"request_id": "r", "answer": "{}"}),
}


@given(records())
def test_every_record_is_read_as_it_was_written(record: MetadataRecord) -> None:
    read = decode(encode(record))
    assert read == record
    assert type(read) is type(record)
    assert hash(read) == hash(record)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_what_is_in_logs_already_keeps_its_meaning(kind: str) -> None:
    """These words are on disks: changing one makes clusters unreadable."""
    record, value = EXAMPLES[kind]
    assert orjson.loads(encode(record)) == {"kind": kind, **value}
    assert decode(orjson.dumps({**value, "kind": kind})) == record


def test_every_record_has_a_kind_and_is_understood_by_the_metadata() -> None:
    declared = {
        one
        for _, one in inspect.getmembers(metadata_records, inspect.isclass)
        if issubclass(one, MetadataRecord) and one is not MetadataRecord
    }
    assert declared == set(KINDS) == set(metadata._APPLY)
    assert {one.kind for one in declared} == set(EXAMPLES)


@pytest.mark.parametrize("kind", ["acl", "", "Topic", None, 7])
def test_an_unknown_kind_was_written_by_a_newer_barnabas(kind: object) -> None:
    with pytest.raises(UnknownFormat, match="is a metadata record of a newer Barnabas"):
        decode(orjson.dumps({"kind": kind, "topic_id": "t"}))


@given(records(), TEXT)
def test_a_field_more_or_less_is_not_passed_over(record: MetadataRecord, name: str) -> None:
    value = {"kind": record.kind, **asdict(record)}
    if name not in value:
        with pytest.raises(UnknownFormat, match=f"a '{record.kind}' record with .* are known here"):
            decode(orjson.dumps({**value, name: 1}))
    for missing in set(value) - {"kind"}:
        with pytest.raises(UnknownFormat, match=f"a '{record.kind}' record with .* are known here"):
            decode(orjson.dumps({key: one for key, one in value.items() if key != missing}))


@pytest.mark.parametrize(
    "data", [b"", b"{", b"{}", b"[]", b"[1]", b"null", b"7", b'"topic"', b'{"kind":[]}', b'{"kind":{}}', b"\xff\xfe"]
)
def test_what_is_no_record_is_told(data: bytes) -> None:
    with pytest.raises(DamagedFile, match="is no metadata record") as caught:
        decode(data)
    assert repr(data) in str(caught.value)


@given(records(), st.data())
def test_a_record_that_was_cut_is_told(record: MetadataRecord, data: st.DataObject) -> None:
    whole = encode(record)
    with pytest.raises(DamagedFile, match="is no metadata record"):
        decode(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(st.binary(max_size=50) | st.recursive(st.none() | NUMBERS | TEXT, st.lists).map(orjson.dumps))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    with pytest.raises(DamagedFile, match="is no metadata record"):
        decode(data)


def test_a_complaint_about_much_is_short() -> None:
    with pytest.raises(DamagedFile) as caught:
        decode(b"\x00" * 1_000_000)
    assert len(str(caught.value)) < 2000
