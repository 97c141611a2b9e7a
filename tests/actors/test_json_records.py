"""Records in newline JSON, at the port of any broker: written and read wherever their leaders are, once, in order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import count
from typing import Any

import pytest

from actors.cluster_file.config import KafkaConfig
from actors.harness import Cluster
from actors.messages.replica import Aborted, AppendResult, ReadResult
from actors.partition.transaction_gate import TransactionGate
from actors.runtime import Future, LinkLost, Payload
from actors.serving import connection as serving_connection
from actors.serving.answers import UNSENT_BYTES_MAX
from actors.serving.connection import Connection
from actors.serving.json import lanes, reading
from actors.serving.json.at_leader import AtLeader
from actors.serving.json.fetch_gate import AT_ONCE_MAX, FetchGate
from actors.serving.json.handlers import produce
from actors.serving.json.reading import chosen, readable
from actors.serving.kafka.handlers import SERVED
from log.partition import admission
from log.segment import batch_slices
from log.slices import finish
from protocol.error_codes import ErrorCode
from protocol.json.lines import DEPTH_MAX, LINE_BYTES_MAX
from protocol.partitioner import partition_for_key
from protocol.records.batches import (
    ControlType,
    Record,
    build_batch,
    control_record,
    end_txn_marker,
    unpacked,
)
from protocol.records.compression import Codec
from tests.actors.conftest import ClusterFactory
from tests.actors.json_lines import Lines, wait_until_registered
from tests.actors.topics import leader_of, try_append
from tests.actors.waiting import wait_until
from tests.naming import unique

BROKERS = (1, 2, 3)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(len(BROKERS), log_level="error") as cluster:
        wait_until_registered(cluster)
        yield cluster


@pytest.fixture
def clients(cluster: Cluster) -> Iterator[list[Lines]]:
    """One at each broker."""
    with ExitStack() as stack:
        yield [stack.enter_context(Lines(where)) for where in cluster.bootstrap.split(",")]


@pytest.fixture
def client(clients: list[Lines]) -> Lines:
    return clients[0]


@pytest.fixture
def topic(client: Lines) -> str:
    """Three partitions, each on another broker."""
    name = unique("topic")
    assert "error" not in client.ask("create_topic", name=name, assignment=[[1], [2], [3]])
    return name


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


# -- one record and many -----------------------------------------------------------------------------------------


def test_a_record_is_written_and_read_at_any_broker(clients: list[Lines], topic: str) -> None:
    for partition in range(3):
        for offset, client in enumerate(clients):
            made = client.ask("produce", topic=topic, partition=partition, value=f"{partition} {offset}", id=offset)
            assert made == {"id": offset, "topic": topic, "partition": partition, "offset": offset}
        for client in clients:
            assert client.values(topic, partition) == [f"{partition} {offset}" for offset in range(3)]


def test_a_record_comes_back_as_it_was_given(client: Lines, topic: str) -> None:
    timestamp = int(time.time() * 1000) - 60_000
    given = {"key": "k", "value": {"total": 5}, "headers": [["a", "1"], ["a", None]], "timestamp": timestamp}
    client.ask("produce", topic=topic, partition=0, **given)
    client.ask("produce", topic=topic, partition=0, key={"base64": "/w=="}, value=None, headers={"b": [1]})
    answer = client.ask("fetch", topic=topic, partition=0, offset=0)
    second = answer["records"][1]
    assert answer == {
        "topic": topic,
        "partition": 0,
        "records": [
            {"offset": 0, **given, "value": '{"total":5}'},
            {"offset": 1, "timestamp": second["timestamp"], "key": {"base64": "/w=="}, "value": None}
            | {"headers": [["b", "[1]"]]},
        ],
        "next_offset": 2,
        "high_watermark": 2,
        "last_stable_offset": 2,
        "log_start_offset": 0,
    }
    assert second["timestamp"] > timestamp
    as_json = client.ask("fetch", topic=topic, partition=0, offset=0, **{"as": "json"})
    assert [one["value"] for one in as_json["records"]] == [{"total": 5}, None]


@pytest.mark.parametrize(
    ("compression", "acks"), [("none", "all"), ("gzip", -1), ("snappy", 1), ("lz4", "all"), ("zstd", "all")]
)
def test_many_records_go_where_they_belong(client: Lines, topic: str, compression: str, acks: object) -> None:
    keys = [f"key {number}" for number in range(20)]
    records: list[dict[str, Any]] = [{"key": key, "value": at} for at, key in enumerate(keys)]
    records += [{"value": "a"}, {"value": "b"}, {"value": "c", "partition": 1}]
    answer = client.ask("produce", topic=topic, records=records, compression=compression, acks=acks)
    told = answer["records"]
    assert [one["partition"] for one in told[:20]] == [partition_for_key(key.encode(), 3) for key in keys]
    assert told[20]["partition"] == told[21]["partition"]
    assert told[22]["partition"] == 1
    for partition in range(3):
        mine = [(one["offset"], record["value"]) for one, record in zip(told, records, strict=True)
                if one["partition"] == partition]  # fmt: skip
        assert [offset for offset, _ in mine] == list(range(len(mine)))
        assert client.values(topic, partition, **{"as": "json"}) == [value for _, value in mine]


def test_one_request_names_a_topic_once_and_has_a_bound_on_names_and_records(client: Lines, topic: str) -> None:
    (told,) = client.ask("metadata", topics=[topic] * 1000)["topics"]
    assert told["name"] == topic
    assert len(client.ask("metadata", topics=[f"n{number}" for number in range(10_000)])["topics"]) == 10_000
    name, text = client.refused("metadata", topics=["n"] * 10_001)
    assert (name, text.split(";")[0]) == ("INVALID_REQUEST", "topics: has 10001 names, of which 10000 are allowed")
    name, text = client.refused("produce", topic=topic, records=[{"value": 1}] * 10_001)
    assert (name, text.split(";")[0]) == ("INVALID_REQUEST", "records: has 10001, of which 10000 are allowed")


def test_records_without_a_key_are_spread(client: Lines, topic: str) -> None:
    for partition in range(3):
        client.ask("produce", topic=topic, partition=partition, value="")  # now it is known who leads
    client.send(*({"op": "produce", "topic": topic, "value": number} for number in range(30)))
    found = [client.receive()["partition"] for _ in range(30)]
    assert set(found) == {0, 1, 2}


def test_acks_0_says_nothing_and_is_written(client: Lines, topic: str) -> None:
    assert client.ask("produce", topic=topic, partition=0, value="before")["offset"] == 0
    told = client.ask("produce", topic=topic, partition=0, value="x", acks=0)
    assert told == {"topic": topic, "partition": 0, "offset": -1}
    wait_until(lambda: client.values(topic) == ["before", "x"], lambda: f"there are {client.values(topic)}")


def test_a_topic_that_is_missing_is_made_and_those_that_wait_keep_their_order(clients: list[Lines]) -> None:
    name = unique("topic")
    requests = [{"op": "produce", "topic": name, "partition": 0, "value": str(number)} for number in range(20)]
    clients[1].send({"op": "fetch", "topic": name, "partition": 0, "offset": 0}, *requests)
    assert clients[1].receive()["error"]["name"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert [clients[1].receive()["offset"] for _ in requests] == list(range(20))
    assert clients[2].values(name) == [str(number) for number in range(20)]


def test_topics_are_not_made_where_that_is_not_wanted() -> None:
    with (
        Cluster(1, config=KafkaConfig(auto_create_topics_enable=False), log_level="error") as own,
        Lines(own.bootstrap) as client,
    ):
        assert client.refused("produce", topic="a", value=1) == (
            "UNKNOWN_TOPIC_OR_PARTITION",
            "there is no topic 'a'",
        )
        wait_until_registered(own)
        client.ask("create_topic", name="a")
        assert client.ask("produce", topic="a", value=1)["offset"] == 0


# -- reading -----------------------------------------------------------------------------------------------------


def test_reading_is_limited_and_goes_on(client: Lines, topic: str) -> None:
    client.ask("produce", topic=topic, partition=0, records=[{"value": "x" * 10} for _ in range(10)])
    seen, offset = [], 0
    for limits in ({"max_records": 3}, {"max_bytes": 25}, {"max_bytes": 1}, {"max_records": 1}, {}):
        answer = client.ask("fetch", topic=topic, partition=0, offset=offset, **limits)
        seen.append([record["offset"] for record in answer["records"]])
        offset = answer["next_offset"]
    assert seen == [[0, 1, 2], [3, 4], [5], [6], [7, 8, 9]]
    assert offset == 10


def test_a_fetch_waits_for_records(clients: list[Lines], topic: str) -> None:
    for partition in range(3):
        waiting, writing = clients[0], clients[1]
        waiting.send({"op": "fetch", "topic": topic, "partition": partition, "offset": 0, "wait_ms": 60_000})
        waiting.send({"op": "status"})
        writing.ask("produce", topic=topic, partition=partition, value="a")
        assert [record["value"] for record in waiting.receive()["records"]] == ["a"]
        assert waiting.receive()["broker"] == 1


class Behind:
    """A connection with as much unsent as is said."""

    def __init__(self) -> None:
        self.answers, self.outlet = self, self
        self.early_bytes = self.queued_bytes = 0
        self.looks: list[Callable[[], None]] = []

    def later(self, _seconds: float, function: Callable[[], None]) -> None:
        self.looks.append(function)


def test_little_is_read_at_once_and_nothing_while_much_is_unsent() -> None:
    connection, begun = Behind(), list[int]()
    gate = FetchGate(connection)  # type: ignore[arg-type]
    for number in range(100):
        gate.enter(partial(begun.append, number))
    assert begun == list(range(AT_ONCE_MAX))
    connection.early_bytes = connection.queued_bytes = UNSENT_BYTES_MAX
    for _ in range(5):
        gate.leave()
    assert len(begun) == AT_ONCE_MAX
    (look,) = connection.looks
    look()
    assert len(begun) == AT_ONCE_MAX
    connection.early_bytes = connection.queued_bytes = 0
    connection.looks[1]()
    assert begun == list(range(AT_ONCE_MAX + 5))


def test_much_is_read_in_order_by_whoever_takes_it(client: Lines, topic: str) -> None:
    many = [{"value": "x" * 100_000} for _ in range(10)]
    client.ask("produce", topic=topic, partition=1, records=many)
    fetch = {"op": "fetch", "topic": topic, "partition": 1, "offset": 0, "max_bytes": 8 << 20}
    client.send(*({**fetch, "id": number} for number in range(60)))
    with Lines(client.where) as other:
        assert other.ask("status")["broker"] == 1
    for number in range(60):
        answer = client.receive()
        assert (answer["id"], len(answer["records"])) == (number, 10)


def test_nothing_is_there_and_nobody_waits(client: Lines, topic: str) -> None:
    for offset in (0, "earliest", "latest"):
        answer = client.ask("fetch", topic=topic, partition=2, offset=offset, wait_ms=1)
        assert (answer["records"], answer["next_offset"], answer["high_watermark"]) == ([], 0, 0)
    name, text = client.refused("fetch", topic=topic, partition=2, offset=5)
    assert (name, text) == ("OFFSET_OUT_OF_RANGE", f"offset 5 is out of range: {topic}-2 has 0 to 0")


def test_offsets_are_found(clients: list[Lines], topic: str) -> None:
    records = [{"value": at, "timestamp": 1000 + at} for at in range(10)]
    clients[0].ask("produce", topic=topic, partition=1, records=records)
    for client in clients:
        nothing = {"earliest": 0, "latest": 0}
        full = {"partition": 1, "earliest": 0, "latest": 10}
        assert client.ask("offsets", topic=topic) == {
            "topic": topic,
            "partitions": [{"partition": 0, **nothing}, full, {"partition": 2, **nothing}],
        }
        (at,) = client.ask("offsets", topic=topic, partition=1, timestamp=1004)["partitions"]
        assert at == {**full, "offset": 4, "timestamp": 1004}
        (at,) = client.ask("offsets", topic=topic, partition=1, timestamp=2000)["partitions"]
        assert at == {**full, "offset": None, "timestamp": None}


def test_only_what_is_committed_is_read_by_whoever_wants_that(
    cluster: Cluster, clients: list[Lines], topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "_check_header", lambda *_: None)  # which refuses markers of clients
    monkeypatch.setattr(TransactionGate, "must_wait", lambda *_: False)

    def transactional(value: bytes, producer: int) -> Payload:
        batch = build_batch(
            [Record(0, 1, None, value)], producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True
        )
        return Payload(memoryview(batch))

    def marker(kind: ControlType, producer: int) -> Payload:
        """As a client would have to send it, with a sequence: for the log it is a marker like any other."""
        batch = build_batch(
            [control_record(kind, bytes(6), offset=0, timestamp=1)], producer_id=producer, producer_epoch=0,
            base_sequence=1, transactional=True, control=True,
        )  # fmt: skip
        return Payload(memoryview(batch))

    batches = [
        transactional(b"aborted", 1 << 40),
        transactional(b"committed", 2 << 40),
        marker(ControlType.ABORT, 1 << 40),
        marker(ControlType.COMMIT, 2 << 40),
        transactional(b"open", 3 << 40),
    ]
    for batch in batches:
        assert try_append(cluster, topic, batch).error == 0
    for client in clients:
        assert client.values(topic, isolation="read_committed") == ["committed"]
        assert client.values(topic) == ["aborted", "committed", "open"]
        answer = client.ask("fetch", topic=topic, partition=0, offset=0, isolation="read_committed")
        assert (answer["next_offset"], answer["last_stable_offset"], answer["high_watermark"]) == (4, 4, 5)
        answer = client.ask("fetch", topic=topic, partition=0, offset=2, isolation="read_committed")
        assert (answer["records"], answer["next_offset"]) == ([], 4), "markers are passed over"
        (told,) = client.ask("offsets", topic=topic, partition=0, isolation="read_committed")["partitions"]
        assert told["latest"] == 4


def test_aborted_transactions_end_with_their_marker() -> None:
    """The same producer may abort, and then commit."""

    def batch(offset: int, value: bytes, **options: Any) -> bytes:
        made = build_batch(
            [Record(offset, 1, None, value)], base_offset=offset, producer_id=7, producer_epoch=0, base_sequence=offset,
            **options,
        )  # fmt: skip
        return bytes(made)

    parts = [
        batch(0, b"gone", transactional=True),
        batch(1, b"plain"),
        bytes(end_txn_marker(ControlType.ABORT, 0, 7, 0, 1, base_offset=2)),
        batch(3, b"there", transactional=True),
        bytes(end_txn_marker(ControlType.COMMIT, 0, 7, 0, 1, base_offset=4)),
    ]
    result = ReadResult(0, 5, 0, 1, Payload(memoryview(b"".join(parts))), 5, (Aborted(7, 0),))
    there = [(header.base_offset, batch is not None) for header, batch in readable(result)]
    assert there == [(0, False), (1, True), (2, False), (3, True), (4, False)]
    read, next_offset = finish(chosen(result, 0, 10, 1000))
    assert ([record.value for record in read], next_offset) == ([b"plain", b"there"], 5)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_large_batches_are_decompressed_by_another_thread(
    cluster: Cluster, client: Lines, topic: str, codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[str] = set()

    def unpacked_here(*arguments: Any, **options: Any) -> bytes:
        threads.add(threading.current_thread().name)
        return unpacked(*arguments, **options)

    monkeypatch.setattr(batch_slices, "unpacked", unpacked_here)
    monkeypatch.setattr(batch_slices, "DECOMPRESS_BYTES", 1000)
    made = [Record(at, 1000 + at, None, b"%d" % at) for at in range(20_000)]
    assert try_append(cluster, topic, Payload(memoryview(build_batch(made, codec=codec)))).error == 0
    client.send(*({"op": "fetch", "topic": topic, "partition": 0, "offset": at} for at in (19_000, 3, 19_999)))
    answers = [client.receive() for _ in range(3)]
    assert [[int(one["value"]) for one in told["records"]] for told in answers] == [
        [*range(19_000, 19_500)], [*range(3, 503)], [19_999]
    ]  # fmt: skip
    assert [told["next_offset"] for told in answers] == [19_500, 503, 20_000]
    assert "error" not in client.ask("subscribe", group=topic, topics=[topic])
    polled: list[str] = []
    while len(polled) < 20_000:
        polled += [one["value"] for one in client.ask("poll", max_records=10_000, wait_ms=10_000)["records"]]
    assert polled == [str(at) for at in range(20_000)]
    assert threads == {"codec-1"}


def test_long_requests_are_worked_on_in_slices(client: Lines, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses, pause = [0], Connection._pause

    def counted(self: Connection) -> None:
        pauses[0] += 1
        pause(self)

    monkeypatch.setattr(serving_connection, "SLICE_SECONDS", -1.0)
    monkeypatch.setattr(Connection, "_pause", counted)

    def pauses_of(op: str, **fields: Any) -> int:
        pauses[0] = 0
        assert "error" not in client.ask(op, topic=topic, **fields)
        return pauses[0]

    many = [{"key": f"{at}", "value": at} for at in range(1000)]
    assert pauses_of("produce", records=many) >= 2 * len(many) // produce.PAUSE_AFTER
    assert pauses_of("offsets") >= 3
    assert pauses_of("fetch", partition=0, offset=0) >= 2 * 300 // reading.PAUSE_AFTER
    assert sum(len(client.values(topic, number)) for number in range(3)) == len(many)


def test_the_partition_of_a_long_key_is_computed_by_another_thread(
    client: Lines, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    def partition_here(key: bytes, partitions: int) -> int:
        threads.append(threading.current_thread().name)
        return partition_for_key(key, partitions)

    monkeypatch.setattr(produce, "LONG_KEY_BYTES", 1000)
    monkeypatch.setattr(produce, "partition_for_key", partition_here)
    keys = ["short", "long" * 1000, "short too"]
    told = client.ask("produce", topic=topic, records=[{"key": key, "value": 1} for key in keys])["records"]
    assert [one["partition"] for one in told] == [partition_for_key(key.encode(), 3) for key in keys]
    assert [one == "codec-1" for one in threads] == [False, True, False]


# -- the cluster -------------------------------------------------------------------------------------------------


def test_the_cluster_is_described(cluster: Cluster, clients: list[Lines], topic: str) -> None:
    for client in clients:
        told = client.ask("describe_topic", topic=topic)
        assert (told["name"], told["internal"], told["configs"]) == (topic, False, {})
        assert [one["replicas"] for one in told["partitions"]] == [[1], [2], [3]]
        metadata = client.ask("metadata", topics=[topic, "nowhere"])
        assert metadata["topics"][0]["topic_id"] == told["topic_id"]
        assert metadata["topics"][1]["error"]["name"] == "UNKNOWN_TOPIC_OR_PARTITION"
        assert [(one["broker"], one["alive"]) for one in metadata["brokers"]] == [(1, True), (2, True), (3, True)]
        assert topic in [one["name"] for one in client.ask("metadata")["topics"]]
    assert clients[0].refused("describe_topic", topic="nowhere") == (
        "UNKNOWN_TOPIC_OR_PARTITION",
        "there is no topic 'nowhere'",
    )


def test_versions_tell_what_there_is(client: Lines) -> None:
    told = client.ask("versions")
    assert {"status", "versions", "metadata", "describe_topic", "produce", "fetch", "offsets"} < set(told["ops"])
    assert {"subscribe", "poll", "commit", "unsubscribe", "rebalances"} < set(told["ops"])
    assert told["ops"]["offsets"] == ["topic", "partition", "timestamp", "isolation", "timeout_ms"]
    assert told["limits"] == {"line_bytes": LINE_BYTES_MAX, "depth": DEPTH_MAX}
    assert told["kafka"] == {api.name: [api.advertised.first, api.advertised.last] for api in SERVED}


# -- once, and in order ------------------------------------------------------------------------------------------


def test_a_producers_request_is_written_once_wherever_it_comes_again(clients: list[Lines], topic: str) -> None:
    producer = clients[0].ask("init_producer")["producer"]
    assert clients[1].ask("init_producer")["producer"] != producer
    fields = {"topic": topic, "partition": 1, "producer": producer}
    many = [{"value": "a"}, {"value": "b"}]
    first = [client.ask("produce", **fields, sequence=0, records=many)["records"] for client in clients]
    assert first == [[{"partition": 1, "offset": 0}, {"partition": 1, "offset": 1}]] * 3
    assert [client.ask("produce", **fields, sequence=2, value="c")["offset"] for client in clients] == [2, 2, 2]
    assert clients[0].refused("produce", **fields, sequence=9, value="z")[0] == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert clients[0].values(topic, 1) == ["a", "b", "c"]


def test_answers_come_in_order_and_nobody_waits_for_another(clients: list[Lines], topic: str) -> None:
    """Three leaders on three brokers, beside requests that are answered at once."""
    requests: list[dict[str, Any]] = []
    for number in range(100):
        requests += [
            {"op": "produce", "topic": topic, "partition": number % 3, "value": str(number)},
            {"op": "status"},
            {"op": "produce", "topic": topic, "partition": 99, "value": ""},
        ]
    for client in clients:
        client.send(*({**request, "id": at} for at, request in enumerate(requests)))
    for client in clients:
        answers = [client.receive() for _ in requests]
        assert [answer["id"] for answer in answers] == list(range(len(requests)))
        for partition in range(3):
            offsets = [answer["offset"] for answer in answers if answer.get("partition") == partition]
            assert offsets == sorted(offsets)
        assert {answer["error"]["name"] for answer in answers[2::3]} == {"UNKNOWN_TOPIC_OR_PARTITION"}
    for partition in range(3):
        assert len(clients[0].values(topic, partition)) == len([n for n in range(100) if n % 3 == partition]) * 3


def test_a_leader_that_is_killed_loses_nothing_and_doubles_nothing(cluster_factory: ClusterFactory) -> None:
    with cluster_factory(log_level="error") as own:
        wait_until_registered(own)
        wheres = own.bootstrap.split(",")
        with Lines(wheres[0]) as one, Lines(wheres[2]) as three:
            one.ask("create_topic", name="orders", assignment=[[2, 3, 1]])
            wait_until(lambda: leader_of(own, "orders") == 2, lambda: "another than the preferred one leads")
            for client in (one, three):
                client.send(
                    *({"op": "produce", "topic": "orders", "value": f"{id(client)} {n}", "id": n} for n in range(400))
                )
            for client in (one, three):
                assert [client.receive()["id"] for _ in range(20)] == list(range(20))
            own.kill(2)
            written = {}
            for client in (one, three):
                answers = [client.receive() for _ in range(20, 400)]
                assert not [answer for answer in answers if "error" in answer]
                assert [answer["id"] for answer in answers] == list(range(20, 400))
                written.update({answer["offset"]: f"{id(client)} {answer['id']}" for answer in answers})
            found = one.values("orders")
            assert len(found) == len(set(found)) == 800
            for client in (one, three):
                mine = [value for value in found if value.startswith(f"{id(client)} ")]
                assert mine == [f"{id(client)} {number}" for number in range(400)]
            last = one.ask("fetch", topic="orders", partition=0, offset=max(written))["records"]
            assert last[0]["value"] == written[max(written)]


def test_what_cannot_be_written_in_time_is_told_and_what_follows_is_written() -> None:
    with Cluster(3, log_level="error") as own, Lines(own.bootstrap.split(",")[0]) as client:
        wait_until_registered(own)
        configs = {"min.insync.replicas": "3"}
        client.ask("create_topic", name="orders", assignment=[[1, 2, 3]], configs=configs)
        client.ask("create_topic", name="far", assignment=[[3]])
        assert client.ask("produce", topic="orders", value="a")["offset"] == 0
        assert client.ask("produce", topic="far", value="a")["offset"] == 0
        own.kill(3)
        name, _ = client.refused("produce", topic="orders", value="b", timeout_ms=100)
        assert name in ("NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "REQUEST_TIMED_OUT")
        name, _ = client.refused("produce", topic="far", value="b", timeout_ms=50)
        assert name in ("LEADER_NOT_AVAILABLE", "NOT_LEADER_OR_FOLLOWER")
        assert client.refused("fetch", topic="far", partition=0, offset=0, timeout_ms=50)[0] == name
        assert client.refused("offsets", topic="far", timeout_ms=50)[0] == name
        client.send(*({"op": "produce", "topic": "orders", "value": str(n), "timeout_ms": 30_000} for n in range(5)))
        own.restart(3)
        offsets = [client.receive()["offset"] for _ in range(5)]
        assert offsets == list(range(offsets[0], offsets[0] + 5))
        assert [value for value in client.values("orders") if value != "b"] == ["a", *map(str, range(5))]
        assert "error" not in client.ask("produce", topic="far", value="c")


def losing(patch: pytest.MonkeyPatch, is_lost: Callable[[], bool]) -> None:
    """Let answers of leaders be lost on their way, as a link does that breaks."""
    answered = AtLeader._answered

    def lossy(self: AtLeader, future: Future[Any]) -> None:
        if is_lost():
            future = Future()
            future.fail(LinkLost("lost"))
        answered(self, future)

    patch.setattr(AtLeader, "_answered", lossy)


def test_a_batch_whose_answer_is_lost_is_answered_with_where_it_is(
    clients: list[Lines], topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = count()
    with monkeypatch.context() as patch:
        losing(patch, lambda: next(answers) % 3 != 2)
        requests = [{"op": "produce", "topic": topic, "partition": 1, "value": str(number)} for number in range(30)]
        clients[0].send(*requests)
        assert [clients[0].receive()["offset"] for _ in requests] == list(range(30))
    assert clients[0].values(topic, 1) == [str(number) for number in range(30)]


def test_what_follows_a_batch_that_nobody_heard_of_is_not_mistaken_for_it(
    client: Lines, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert client.ask("produce", topic=topic, partition=1, value="a")["offset"] == 0
    with monkeypatch.context() as patch:
        losing(patch, lambda: True)
        name, text = client.refused("produce", topic=topic, partition=1, value="b", timeout_ms=50)
        assert (name, text) == ("NOT_LEADER_OR_FOLLOWER", "lost")
    assert client.ask("produce", topic=topic, partition=1, value="c")["offset"] == 2
    assert client.values(topic, 1) == ["a", "b", "c"]


def test_what_a_leader_alone_had_and_lost_does_not_stop_what_follows(
    client: Lines, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """acks 1 promises no more than that; the records after it have a gap in their sequences before them."""
    assert client.ask("produce", topic=topic, partition=1, value="a")["offset"] == 0

    def forget(self: AtLeader) -> None:
        self.result, self.error = AppendResult(ErrorCode.NONE, 1, 1, ""), ErrorCode.NONE
        self._connection.later(0.0, self._end)

    with monkeypatch.context() as patch:
        patch.setattr(AtLeader, "_ask", forget)
        assert client.ask("produce", topic=topic, partition=1, value="lost", acks=1)["offset"] == 1
    assert client.ask("produce", topic=topic, partition=1, value="b")["offset"] == 1
    assert client.ask("produce", topic=topic, partition=1, value="c")["offset"] == 2
    assert client.values(topic, 1) == ["a", "b", "c"]


def test_a_connection_that_writes_everywhere_forgets_lanes_not_records(
    client: Lines, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "LANES_MAX", 2)
    for n in range(30):
        assert client.ask("produce", topic=topic, partition=n % 3, value=str(n))["offset"] == n // 3
    assert client.values(topic, 2) == [str(n) for n in range(2, 30, 3)]


def test_a_topic_that_is_deleted_is_told(client: Lines, topic: str) -> None:
    client.ask("produce", topic=topic, partition=0, value="a")
    client.ask("delete_topic", name=topic)
    wait_until(
        lambda: topic not in [one["name"] for one in client.ask("metadata")["topics"]], lambda: "it is still there"
    )
    assert client.refused("fetch", topic=topic, partition=0, offset=0)[0] == "UNKNOWN_TOPIC_OR_PARTITION"


# -- what is refused ---------------------------------------------------------------------------------------------

BAD: list[tuple[str, dict[str, Any], str]] = [
    ("produce", {"value": 1}, "topic: is missing"),
    ("produce", {"topic": "a"}, "value: is missing; null is a tombstone"),
    ("produce", {"topic": "a", "value": 1, "vlaue": 2}, "vlaue: unknown field; known: topic, "),
    ("produce", {"topic": "a", "value": 1, "request_id": "x"}, "request_id: unknown field"),
    ("produce", {"topic": "a", "value": {"base64": "?"}}, "value.base64: must be base64"),
    ("produce", {"topic": "a", "value": 1, "headers": 5}, "headers: must be an object or a list of pairs"),
    ("produce", {"topic": "a", "value": 1, "acks": 2}, 'acks: must be one of "all", -1, 1, 0, not 2'),
    ("produce", {"topic": "a", "value": 1, "compression": "zip"}, 'compression: must be one of "none", "gzip", '),
    ("produce", {"topic": "a", "value": 1, "partition": -1}, "partition: must be a whole number from 0"),
    ("produce", {"topic": "a", "value": 1, "timeout_ms": 0}, "timeout_ms: must be a whole number from 1 to 600000"),
    ("produce", {"topic": "a", "records": []}, "records: must be a list"),
    ("produce", {"topic": "a", "records": {}}, "records: must be a list"),
    ("produce", {"topic": "a", "records": [5]}, "records[0]: must be an object"),
    ("produce", {"topic": "a", "records": [{"value": 1}, {"key": 1}]}, "records[1].value: is missing"),
    ("produce", {"topic": "a", "records": [{"value": 1}], "value": 1}, "value: belongs into each of the records"),
    ("produce", {"topic": "a", "value": 1, "producer": 5}, "sequence: is missing; producer and sequence"),
    ("produce", {"topic": "a", "value": 1, "sequence": 5}, "producer: is missing; producer and sequence"),
    ("produce", {"topic": "a", "value": 1, "producer": 5, "sequence": 0}, "producer: needs one partition"),
    (
        "produce",
        {"topic": "a", "value": 1, "producer": 5, "sequence": 0, "partition": 0, "acks": 0},
        "producer: is of no use with acks 0",
    ),
    ("produce", {"topic": "a", "value": nested(DEPTH_MAX)}, f"value: nested more than {DEPTH_MAX} deep"),
    ("fetch", {"topic": "a", "offset": 0}, "partition: is missing"),
    ("fetch", {"topic": "a", "partition": 0}, "offset: is missing"),
    ("fetch", {"topic": "a", "partition": 0, "offset": -1}, "offset: must be a whole number, 0 or more"),
    ("fetch", {"topic": "a", "partition": 0, "offset": "first"}, 'offset: must be one of "earliest", "latest"'),
    ("fetch", {"topic": "a", "partition": 0, "offset": 1.5}, 'offset: must be an offset, "earliest" or "latest"'),
    ("fetch", {"topic": "a", "partition": 0, "offset": 0, "max_records": 0}, "max_records: must be a whole number"),
    ("fetch", {"topic": "a", "partition": 0, "offset": 0, "max_bytes": 2**40}, "max_bytes: must be a whole number"),
    ("fetch", {"topic": "a", "partition": 0, "offset": 0, "wait_ms": -1}, "wait_ms: must be a whole number"),
    ("fetch", {"topic": "a", "partition": 0, "offset": 0, "isolation": 1}, "isolation: must be one of "),
    ("fetch", {"topic": "a", "partition": 0, "offset": 0, "as": "xml"}, 'as: must be one of "text", "json"'),
    ("offsets", {}, "topic: is missing"),
    ("offsets", {"topic": "a", "timestamp": "now"}, "timestamp: must be a whole number"),
    ("metadata", {"topics": "a"}, "topics: must be a list of strings"),
    ("describe_topic", {"name": "a"}, "name: unknown field; known: topic, timeout_ms"),
    ("status", {"x": 1}, "x: unknown field; known: none"),
    ("versions", {"x": 1}, "x: unknown field; known: none"),
    ("subscribe", {}, "group: is missing"),
    ("subscribed", {}, 'unknown op "subscribed"'),
]


def test_a_bad_field_is_named_and_the_connection_lives_on(client: Lines) -> None:
    for number, (op, fields, complaint) in enumerate(BAD):
        answer = client.ask(op, id=number, **fields)
        assert answer == {"id": number, "error": {**answer["error"], "code": 42, "name": "INVALID_REQUEST"}}
        assert answer["error"]["message"].startswith(complaint), (op, fields, answer)
        assert len(answer["error"]["message"]) < 400
    assert client.ask("status")["broker"] == 1


def test_what_is_not_there_is_told(client: Lines, topic: str) -> None:
    for op, fields in (
        ("produce", {"value": 1, "partition": 3}),
        ("fetch", {"offset": 0, "partition": 3}),
        ("offsets", {"partition": 3}),
    ):
        name, text = client.refused(op, topic=topic, **fields)
        assert (name, text) == ("UNKNOWN_TOPIC_OR_PARTITION", f"topic '{topic}' has no partition 3; it has 3")
    assert client.refused("produce", topic="a b", value=1)[0] == "INVALID_TOPIC_EXCEPTION"
    assert client.refused("fetch", topic="nowhere", partition=0, offset=0) == (
        "UNKNOWN_TOPIC_OR_PARTITION",
        "there is no topic 'nowhere'",
    )


def test_what_is_too_large_is_told_and_what_follows_is_written(client: Lines) -> None:
    topic = unique("topic")
    client.ask("create_topic", name=topic, assignment=[[1], [2], [3]], configs={"max.message.bytes": "1000"})
    small = {"value": 1, "partition": 2}
    requests: list[dict[str, Any]] = [
        {"op": "produce", "topic": topic, "partition": 0, "value": "x" * 2000},
        {"op": "produce", "topic": topic, "partition": 0, "value": "a"},
        {"op": "produce", "topic": topic, "records": [{"value": "x" * 2000, "partition": 1}, small]},
    ]
    client.send(*requests)
    assert client.receive()["error"]["name"] == "MESSAGE_TOO_LARGE"
    assert "error" not in client.receive()
    both = client.receive()
    assert both["error"] == both["records"][0]["error"]
    assert both["error"]["name"] == "MESSAGE_TOO_LARGE"
    assert both["records"][1] == {"partition": 2, "offset": 0}


# -- lines -------------------------------------------------------------------------------------------------------


def test_whoever_has_said_everything_still_gets_every_answer(client: Lines, topic: str) -> None:
    """As `printf … | nc` does."""
    requests = [{"op": "produce", "topic": topic, "partition": n % 3, "value": "v", "id": n} for n in range(30)]
    client.send(*requests, {"op": "fetch", "topic": topic, "partition": 1, "offset": 0, "wait_ms": 100, "id": 30})
    client.socket.shutdown(1)
    answers = [client.receive() for _ in range(31)]
    assert [answer["id"] for answer in answers] == list(range(31))
    assert not [answer for answer in answers if "error" in answer]
    assert client.lines.read() == b""


def test_a_line_that_is_too_long_is_the_last_one(client: Lines, topic: str) -> None:
    client.send(*({"op": "produce", "topic": topic, "partition": n % 3, "value": "v"} for n in range(10)))
    client.send({"op": "produce", "topic": topic, "value": "x" * LINE_BYTES_MAX})
    assert [client.receive()["offset"] for _ in range(10)] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]
    assert client.receive()["error"]["message"].startswith(f"a line of more than {LINE_BYTES_MAX} bytes")
    assert client.lines.read() == b""


def test_what_is_as_deep_and_as_long_as_may_be_is_taken(client: Lines, topic: str) -> None:
    deep = nested(DEPTH_MAX - 1)
    client.ask("produce", topic=topic, partition=0, value=deep)
    assert client.values(topic, 0, **{"as": "json"}) == [deep]
    request = {"op": "produce", "topic": topic, "partition": 1, "value": ""}
    room = LINE_BYTES_MAX - 200
    assert client.ask(**{**request, "value": "x" * room})["offset"] == 0  # type: ignore[arg-type]
    assert client.values(topic, 1) == ["x" * room]
