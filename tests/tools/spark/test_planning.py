"""What is decided without Spark and without brokers: options, offsets, admission, ranges, decoding."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadMinRows
from pyspark.sql.types import StringType, StructField, StructType

from protocol.records.batches import build_batch, read_header
from protocol.records.compression import Codec
from protocol.records.record import Record
from tests.tools.spark.test_standalone import free_port
from tools.client.admin import Admin
from tools.client.errors import TimedOut
from tools.client.metadata import Topic, TopicPartition
from tools.client.offsets import EARLIEST, LATEST, OffsetAt
from tools.client.reading.fetched import RawBatch
from tools.spark import first_contact
from tools.spark import topics as topics_module
from tools.spark.decisions import TOPIC as DECISIONS
from tools.spark.errors import OptionError
from tools.spark.offsets import restored, stored
from tools.spark.options import (
    MicroBatch,
    batch_options,
    named_batch,
    sink_options,
    source_options,
    stream_options,
    stream_sink_options,
    unused_by_sink,
    unused_by_source,
)
from tools.spark.positions import AtEnd, AtOffsets, AtTime
from tools.spark.reading import decoding
from tools.spark.reading.admission import Reluctance, available, limited
from tools.spark.reading.batch_reader import BatchReader
from tools.spark.reading.columns import BYTES, ROWS, Columns
from tools.spark.reading.ranges import OffsetRange, share_out
from tools.spark.reading.stream_reader import StreamReader
from tools.spark.schema import record_schema
from tools.spark.source import BarnabasSource
from tools.spark.topics import Topics
from tools.spark.writing.sink import StreamSink

BOOTSTRAP = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
OFFSETS = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "b", "c.d"]), st.integers(0, 12)),
    st.integers(0, 10_000),
    max_size=9,
)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "One of the following options must be specified for Kafka source"),
        ({"subscribe": "a", "assign": "{}"}, "Only one of the following options can be specified"),
        ({"subscribe": " , "}, "No topics to subscribe to"),
        ({"subscribePattern": ""}, "Pattern to subscribe is empty"),
        ({"subscribePattern": "("}, "is a regular expression"),
        ({"assign": "{}"}, "No topicpartitions to assign"),
        ({"assign": '{"t":["0"]}'}, "is JSON like"),
        ({"subscribe": "a", "minPartitions": "0"}, "minPartitions must be positive"),
        ({"subscribe": "a", "maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"}, "is higher than the max"),
        ({"subscribe": "a", "startingOffsets": '{"a":{"0":-3}}'}, "-2 is earliest"),
        ({"subscribe": "a", "startingOffsets": "soon"}, "is JSON like"),
        ({"subscribe": "a", "kafka.enable.auto.commit": "true"}, "'enable.auto.commit' is not supported"),
        ({"subscribe": "a", "kafka.security.protocol": "SSL"}, "can only be PLAINTEXT"),
        ({"subscribe": "a", "kafka.isolation.level": "dirty"}, "one of read_committed, read_uncommitted"),
        ({"subscribe": "a", "kafka.bootstrap.servers": "nowhere"}, "host:port"),
        ({"subscribe": "a", "failOnDataLoss": "perhaps"}, "one of true, false"),
        ({"subscribe": "a", "startingTimestamp": "-1"}, "milliseconds since 1970, not -1"),
        ({"subscribe": "a", "startingOffsetsByTimestamp": '{"a":{"0":-2}}'}, "since 1970, not -2 for a-0"),
        ({"subscribe": "a", "maxTriggerDelay": "soon"}, "is a time like"),
    ],
)
def test_mistakes_in_options_are_told(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        source_options(BOOTSTRAP | options)


def test_an_unknown_option_is_refused_with_the_one_that_it_resembles() -> None:
    with pytest.raises(OptionError, match=r"^option 'startingOfsets' is unknown; did you mean 'startingOffsets'\?$"):
        stream_options(BOOTSTRAP | {"subscribe": "a", "startingOfsets": "earliest"})
    with pytest.raises(OptionError, match=r"^option 'exactlyOnse' is unknown; did you mean 'exactlyOnce'\?$"):
        stream_sink_options(BOOTSTRAP | {"topic": "t", "exactlyOnse": "true"})
    with pytest.raises(OptionError, match=r"^option 'colour' is unknown$"):
        batch_options(BOOTSTRAP | {"subscribe": "a", "colour": "red"})


def test_options_of_spark_itself_are_not_unknown() -> None:
    stream_options(BOOTSTRAP | {"subscribe": "a", "path": "t"})
    stream_sink_options(BOOTSTRAP | {"topic": "t", "checkpointLocation": "c", "queryName": "q"})


def test_all_mistakes_in_options_are_told_at_once() -> None:
    with pytest.raises(OptionError) as caught:
        stream_options({"subscribe": "", "maxOffsetsPerTrigger": "many", "endingOffsets": "latest"})
    assert list(caught.value.mistakes) == [
        "No topics to subscribe to as specified value for option 'subscribe' is ''",
        "option 'maxOffsetsPerTrigger' is a number, not 'many'",
        "Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer and producer",
        "endingOffsets is not valid in streaming queries",
    ]
    assert str(caught.value) == "; ".join(caught.value.mistakes)


def test_a_cluster_must_be_named() -> None:
    with pytest.raises(OptionError, match="must be specified"):
        source_options({"subscribe": "a"})


def test_options_are_found_whatever_their_case() -> None:
    found = stream_options({"KAFKA.Bootstrap.Servers": "h:1", "SUBSCRIBEpattern": "a.*", "INCLUDEHEADERS": "TRUE"})
    assert found.has_headers
    assert found.selection.pattern == "a.*"
    assert found.fetch.isolation == "read_committed"


def test_times_win_over_offsets() -> None:
    given = {"subscribe": "a", "startingOffsets": "earliest", "startingTimestamp": "5", "maxTriggerDelay": "2m"}
    found = stream_options(BOOTSTRAP | given)
    assert found.starting == AtTime(5)
    assert found.trigger_delay_max == 120


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1d", 86400.0), ("500us", 0.0005), ("250", 0.25), ("2min", 120.0), ("30 seconds", 30.0), ("1h", 3600.0)],
)
def test_times_are_written_as_spark_writes_them(text: str, seconds: float) -> None:
    found = stream_options(BOOTSTRAP | {"subscribe": "a", "maxTriggerDelay": text})
    assert found.trigger_delay_max == pytest.approx(seconds)


def test_configs_of_kafkas_clients_that_mean_nothing_are_told() -> None:
    given = {**BOOTSTRAP, "Kafka.Fetch.Min.Bytes": "5", "kafka.group.id": "g", "kafka.acks": "all", "topic": "t"}
    assert unused_by_source(given) == ["kafka.acks", "kafka.fetch.min.bytes"]
    assert unused_by_sink(given) == ["kafka.fetch.min.bytes", "kafka.group.id"]


def test_a_stream_in_complete_mode_is_written_again_and_a_batch_overwrites_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(first_contact, "await_broker", lambda *_: None)
    source = BarnabasSource({**BOOTSTRAP, "topic": "t"})
    schema = StructType([StructField("value", StringType())])
    assert isinstance(source.streamWriter(schema, overwrite=True), StreamSink)
    with pytest.raises(OptionError, match="cannot be overwritten"):
        source.writer(schema, overwrite=True)


def test_a_write_to_an_address_where_nothing_listens_is_refused_before_any_task() -> None:
    where = f"127.0.0.1:{free_port()}"
    given = {"kafka.bootstrap.servers": where, "topic": "t", "kafka.max.block.ms": "0"}
    schema = StructType([StructField("value", StringType())])
    for write in (BarnabasSource(given).writer, BarnabasSource(given).streamWriter):
        with pytest.raises(TimedOut, match=rf"^no broker answers at {where} within 0 s: {where}: Connection refused$"):
            write(schema, overwrite=False)


def test_no_query_waits_longer_than_a_minute_for_a_first_answer() -> None:
    assert stream_options(BOOTSTRAP | {"subscribe": "t"}).patience < 60
    assert sink_options(BOOTSTRAP).block < 60


def test_what_a_stream_and_a_table_may_not_say() -> None:
    one = BOOTSTRAP | {"subscribe": "t"}
    with pytest.raises(OptionError, match="not valid in streaming queries"):
        stream_options(one | {"endingOffsets": "latest"})
    for option, value in (
        ("startingOffsets", "latest"),
        ("endingOffsets", "earliest"),
        ("startingOffsets", '{"t":{"0":-1}}'),
        ("endingOffsets", '{"t":{"0":-2}}'),
    ):
        with pytest.raises(OptionError, match="can't be"):
            batch_options(one | {option: value})
    assert batch_options(one).starting == AtEnd(EARLIEST)
    assert batch_options(one).ending == AtEnd(LATEST)
    named = batch_options(one | {"startingOffsets": '{"t":{"1":-2,"0":7}}'}).starting
    assert named == AtOffsets({T1: -2, T0: 7})


def test_what_the_sink_cannot_do_is_refused() -> None:
    with pytest.raises(OptionError, match="exactlyOnce"):
        sink_options(BOOTSTRAP | {"exactlyOnce": "true", "kafka.acks": "1"})
    with pytest.raises(OptionError, match="one of all"):
        sink_options(BOOTSTRAP | {"kafka.acks": "most"})


def test_a_batch_write_is_done_once_only_if_it_is_told_which_one_it_is() -> None:
    once, named = BOOTSTRAP | {"exactlyOnce": "true"}, {"exactlyOnceId": "query/topic", "exactlyOnceBatch": "7"}
    assert named_batch(BOOTSTRAP) is None
    assert named_batch(once | named) == MicroBatch("query/topic", 7)
    for missing in named:
        with pytest.raises(OptionError, match="tell one write from another"):
            named_batch(once | {name: value for name, value in named.items() if name != missing})
    with pytest.raises(OptionError, match="from 0 on, not -1"):
        named_batch(once | named | {"exactlyOnceBatch": "-1"})
    with pytest.raises(OptionError, match="'exactlyOnceId' means nothing without"):
        named_batch(BOOTSTRAP | named)
    assert stream_sink_options(once).is_exactly_once
    for name, value in named.items():
        with pytest.raises(OptionError, match=f"'{name}' is not for streams"):
            stream_sink_options(once | {name: value})


@given(OFFSETS)
def test_stored_offsets_are_the_same_text_whatever_their_order(offsets: dict[TopicPartition, int]) -> None:
    shuffled = dict(sorted(offsets.items(), reverse=True))
    assert json.dumps(stored(offsets)) == json.dumps(stored(shuffled))
    assert restored(json.loads(json.dumps(stored(offsets)))) == offsets


@given(OFFSETS, OFFSETS, st.integers(1, 20_000))
def test_a_limited_batch_is_within_its_limit_and_wastes_nothing(
    start: dict[TopicPartition, int], more: dict[TopicPartition, int], rows_max: int
) -> None:
    end = {where: start.get(where, 0) + size for where, size in more.items()}
    begun = {where: start.get(where, 0) for where in end}
    found = limited(begun, end, rows_max)
    assert found.keys() == end.keys()
    assert all(begun[where] <= found[where] <= end[where] for where in end)
    assert available(begun, found) == min(rows_max, available(begun, end))


def test_a_batch_that_is_too_small_waits_but_not_for_ever() -> None:
    reluctance = Reluctance(rows_min=10, delay_max=60.0, since=0.0)
    assert not reluctance.is_enough(9, now=59.0)
    assert reluctance.is_enough(10, now=59.0)
    assert not reluctance.is_enough(9, now=118.0)
    assert reluctance.is_enough(1, now=119.5)


class Said:
    """What brokers say of partition 0 of `t`, which has three records that are not read."""

    def __init__(self, names: tuple[str, ...] = ("t",), offset: int = 3) -> None:
        self._names, self._offset = names, offset

    def partitions(self, _known: Any = ()) -> set[TopicPartition]:
        return {T0}

    def earliest(self, _wheres: Any) -> dict[TopicPartition, int]:
        return {}

    def latest(self, _wheres: Any, _known: Any = None) -> dict[TopicPartition, int]:
        return {T0: self._offset}

    def list_topics(self) -> dict[str, Topic]:
        return {name: Topic(name, b"id", is_internal=name.startswith("__"), partitions=(None,)) for name in self._names}

    def list_offsets(self, times: Any, **_: Any) -> dict[TopicPartition, OffsetAt]:
        """As if the log had a record each millisecond from 0 to 9."""
        at = {EARLIEST: 0, LATEST: 10}
        return {
            TopicPartition(*where): OffsetAt(at.get(time, time if time < 10 else -1), time, 0)
            for where, time in times.items()
        }


def test_the_first_batch_after_a_start_waits_for_nothing() -> None:
    """What is there has waited since before the restart. The next one waits."""
    stream = StreamReader(stream_options(BOOTSTRAP | {"subscribe": "t", "minOffsetsPerTrigger": "10"}))
    stream._topics = Said()  # type: ignore[assignment]
    begun = {"t": {"0": 0}}
    assert stream.latestOffset(begun, ReadMinRows(10)) == {"t": {"0": 3}}
    assert stream.latestOffset(begun, ReadMinRows(10)) == begun


def test_a_pattern_leaves_out_topics_that_are_not_the_users() -> None:
    topics = Topics(stream_options(BOOTSTRAP | {"subscribePattern": ".*"}))
    topics._admin = Said(("t", "__consumer_offsets", DECISIONS))  # type: ignore[assignment]
    assert topics.partitions() == {T0}


def test_offsets_by_times_are_found_and_what_no_time_matches_is_an_error_or_the_end() -> None:
    given = {"subscribe": "t", "startingOffsetsByTimestamp": '{"t":{"0":4,"1":77}}'}
    for strategy, wanted in (("latest", {T0: 4, T1: 10}), ("error", None)):
        options = stream_options(BOOTSTRAP | given | {"startingOffsetsByTimestampStrategy": strategy})
        topics = Topics(options)
        topics._admin = Said()  # type: ignore[assignment]
        assert options.starting is not None
        if wanted is not None:
            assert topics.starting(options.starting, {T0, T1}, AtEnd(LATEST)) == wanted
        else:
            with pytest.raises(OptionError, match="No offset matched from request of topic-partition t-1"):
                topics.starting(options.starting, {T0, T1}, AtEnd(LATEST))


def test_an_address_where_no_broker_answers_is_named_after_one_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt takes half a minute by default; with its three retries that were two."""
    attempts: list[str] = []

    class Counted(Admin):
        def __init__(self, bootstrap: str, **options: Any) -> None:
            attempts.append(bootstrap)
            super().__init__(bootstrap, **options)

    monkeypatch.setattr(topics_module, "Admin", Counted)
    where, patience = f"127.0.0.1:{free_port()}", {"kafka.default.api.timeout.ms": "500"}
    topics = Topics(stream_options({"kafka.bootstrap.servers": where, "subscribe": "t", **patience}))
    with pytest.raises(TimedOut, match=rf"^no broker answers at {where} within 0\.5 s: {where}: "):
        topics.first_partitions()
    assert attempts == [where]


def test_a_stream_that_is_told_some_partitions_begins_the_others_at_the_end() -> None:
    options = stream_options(BOOTSTRAP | {"subscribe": "t", "startingOffsets": '{"t":{"0":-2}}'})
    topics = Topics(options)
    topics._admin = Said()  # type: ignore[assignment]
    assert options.starting is not None
    assert topics.starting(options.starting, {T0, T1}, AtEnd(LATEST)) == {T0: 0, T1: 10}


def test_a_table_cannot_begin_behind_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Topics, "first_partitions", lambda _: {T0})
    monkeypatch.setattr(Topics, "_asked", lambda _, question: question(Said()))
    given = {"subscribe": "t", "startingOffsets": '{"t":{"0":7}}', "endingOffsets": '{"t":{"0":6}}'}
    with pytest.raises(OptionError, match="start offset 7 is greater than the end offset 6 for topic t"):
        BatchReader(batch_options(BOOTSTRAP | given)).partitions()


RANGES = st.lists(st.integers(0, 300_000), max_size=8).map(
    lambda sizes: [OffsetRange("t", number, 5, 5 + size) for number, size in enumerate(sizes)]
)


@given(RANGES, st.none() | st.integers(1, 20), st.none() | st.integers(1_000, 200_000))
def test_tasks_have_every_offset_once(ranges: list[OffsetRange], tasks_min: int | None, rows_max: int | None) -> None:
    tasks = share_out(ranges, tasks_min=tasks_min, rows_max=rows_max)
    pieces = sorted((piece for task in tasks for piece in task), key=lambda one: (one.partition, one.start))
    for whole in ranges:
        mine = [piece for piece in pieces if piece.partition == whole.partition]
        assert sum(piece.size for piece in mine) == whole.size
        assert all(before.end == after.start for before, after in pairwise(mine))
    total = sum(whole.size for whole in ranges)
    assert len(tasks) >= min(tasks_min or 0, total)
    assert all(len({piece.partition for piece in task}) == len(task) for task in tasks)
    if rows_max is not None:
        assert all(sum(piece.size for piece in task) <= rows_max for task in tasks)


def test_a_small_batch_is_one_task_and_a_large_one_has_a_task_per_partition() -> None:
    small = [OffsetRange("t", number, 0, 100) for number in range(50)]
    large = [OffsetRange("t", number, 0, 1_000_000) for number in range(50)]
    assert len(share_out(small)) == 1
    assert len(share_out(large)) == 50


def batch(records: list[Record], codec: Codec = Codec.NONE, first: int = 0, **options: Any) -> RawBatch:
    data = memoryview(bytes(build_batch(records, codec=codec, **options)))
    return RawBatch(T0, read_header(data), data, first)


@pytest.mark.parametrize("reader", ["compiled", "loop"])
@pytest.mark.parametrize("codec", Codec)
def test_batches_are_decoded_with_gaps_and_from_the_middle(
    codec: Codec, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reader == "loop":
        monkeypatch.setattr(decoding, "compiled_reader", None)
    whole = [Record(at, 1000 + at, b"k%d" % at, b"v%d" % at, (("h", b"x"), ("n", None))) for at in range(10, 20)]
    found = decoding.decode(batch(whole, codec, 13, base_offset=10), 17, with_headers=True)
    assert list(found.offsets) == [13, 14, 15, 16]
    assert list(found.timestamps) == [1013, 1014, 1015, 1016]
    assert found.keys == [b"k13", b"k14", b"k15", b"k16"]
    assert [list(headers) for headers in found.headers] == [[("h", b"x"), ("n", None)]] * 4
    gaps = [one for one in whole if one.offset % 3]
    found = decoding.decode(batch(gaps, codec, 12, base_offset=10, last_offset=19), 18, with_headers=False)
    assert list(found.offsets) == [13, 14, 16, 17]
    assert found.values == [b"v13", b"v14", b"v16", b"v17"]
    assert found.headers == []


def test_a_header_name_that_is_not_text_is_shown_with_replacements() -> None:
    bad = Record(0, 0, None, None, ((b"\xff".decode("utf-8", "surrogateescape"), b"x"),))
    assert decoding.decode(batch([bad]), 1, with_headers=True).headers == [(("\ufffd", b"x"),)]


def test_append_time_is_every_records_time() -> None:
    records = [Record(at, at, None, b"v", ()) for at in range(3)]
    assert list(decoding.decode(batch(records, append_time=77), 3, with_headers=False).timestamps) == [77, 77, 77]


def test_columns_of_many_batches_keep_every_row_with_its_own() -> None:
    columns = Columns(to_arrow_schema(record_schema(has_headers=True), timezone="UTC"))
    many = [Record(at, at, b"k", b"v", (("h", b"x"),) if at % 2 else ()) for at in range(ROWS * 5)]
    one = [Record(at, at, None, b"%d" % at, ()) for at in range(3)]
    two = [Record(at, at, None, None, ()) for at in (3, 5)]
    columns.add(batch(one), 3)
    columns.add(batch(two, base_offset=3, last_offset=6), 6)  # offset 4 is a gap
    columns.add(batch(one, append_time=77)._replace(where=TopicPartition("u", 4)), 2)
    columns.add(batch(many), len(many))
    assert columns.is_full
    made = columns.take()
    made.validate(full=True)
    assert columns.rows == 0
    assert made["offset"].to_pylist() == [0, 1, 2, 3, 5, 0, 1, *range(len(many))]
    few = made.slice(0, 9).to_pylist()
    assert [(row["topic"], row["partition"], row["timestampType"]) for row in few] == [
        *[("t", 0, 0)] * 5,
        *[("u", 4, 1)] * 2,
        *[("t", 0, 0)] * 2,
    ]
    assert [row["value"] for row in few] == [b"0", b"1", b"2", None, None, b"0", b"1", b"v", b"v"]
    assert [row["timestamp"].timestamp() * 1000 for row in few] == [0, 1, 2, 3, 5, 77, 77, 0, 1]
    assert few[7]["headers"] is None
    assert few[8]["headers"] == [{"key": "h", "value": b"x"}]


@pytest.mark.parametrize("codec", Codec)
def test_columns_are_full_by_what_is_in_them_not_by_what_was_sent(codec: Codec) -> None:
    """A batch of nothing but zeros is small until it is opened."""
    columns = Columns(to_arrow_schema(record_schema(has_headers=True), timezone="UTC"))
    zeros = batch([Record(at, at, bytes(1000), bytes(1_000_000), (("h", bytes(1000)),)) for at in range(4)], codec)
    while not columns.is_full:
        columns.add(zeros, 4)
    assert BYTES <= columns.size <= columns.rows * 1_003_000
    assert columns.rows * 1_000_000 < BYTES + 5_000_000


def test_no_records_live_longer_than_their_columns_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the garbage collector looks at them again and again, which takes most of the time."""
    alive = most = 0

    class Watched:
        offset, timestamp, key, value, headers = 0, 0, None, b"v", ()

        def __init__(self) -> None:
            nonlocal alive, most
            alive += 1
            most = max(most, alive)

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    monkeypatch.setattr(decoding, "compiled_reader", lambda _: (Watched() for _ in range(1000)))
    decoding.decode(batch([Record(at, at, None, b"v", ()) for at in range(1000)]), 1000, with_headers=True)
    assert most <= 2
