"""What clients may append, and what becomes of it."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from log.config import CleanupPolicy, LogConfig, TimestampType
from log.partition.admission import ELEMENTS_MAX, PLAIN_BYTES_MAX, admission, admit
from log.slices import LongCall
from protocol.errors import (
    RECORDS_BLAMED_MAX,
    BatchTooLarge,
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    ProtocolError,
    UnsupportedCodec,
)
from protocol.records.batches import HEADER, Record, build_batch, check_batches, read_header, records
from protocol.records.batches import _write_crc as write_crc
from protocol.records.compression import Codec, compress

NOW = 1_700_000_000_000
PLAIN = LogConfig()
COMPACTED = LogConfig(cleanup_policy=CleanupPolicy.COMPACT)


def batch(*values: bytes, key: bytes | None = b"k", timestamp: int = NOW, **options: object) -> bytearray:
    made = [Record(at, timestamp, key, value) for at, value in enumerate(values or (b"v",))]
    return build_batch(made, **options)  # type: ignore[arg-type]


def changed(**fields: int) -> bytearray:
    """A batch whose header says something else, with a checksum that is right."""
    data = batch()
    HEADER.pack_into(data, 0, *read_header(data)._replace(**fields))
    write_crc(memoryview(data))
    return data


def admitted(data: bytearray, config: LogConfig = PLAIN) -> list[Record]:
    return records(admit(memoryview(data), config, NOW).batches.data, limit=4 << 20)


def test_an_ordinary_batch_goes_in_as_it_is() -> None:
    data = batch(b"a", b"b", producer_id=7, producer_epoch=0, base_sequence=3, codec=Codec.LZ4)
    made = admit(memoryview(data), PLAIN, NOW)
    assert made.batches.data.obj is data
    assert made.append_time_ms == -1


def test_a_transactional_batch_is_as_good_as_any() -> None:
    data = batch(b"a", b"b", transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
    assert admit(memoryview(data), PLAIN, NOW).batches.headers[0].is_transactional


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (batch() + batch(), InvalidRecord),
        (bytearray(), InvalidRecord),
        (batch(control=True), InvalidRecord),
        (batch(transactional=True), InvalidRecord),
        (batch(delete_horizon=5), InvalidRecord),
        (batch(append_time=5), InvalidRecord),
        (changed(last_offset_delta=5), InvalidRecord),
        (changed(record_count=5), InvalidRecord),
        (changed(record_count=0, last_offset_delta=-1), CorruptBatch),
        (build_batch([]), InvalidRecord),
        (batch(producer_id=1), InvalidRecord),
        (batch(producer_id=1, producer_epoch=0), InvalidRecord),
        (changed(attributes=5), UnsupportedCodec),
        (batch()[:-1], CorruptBatch),
        (batch()[:-1] + b"x", CorruptBatch),
        (batch(timestamp=NOW + 3600 * 1000 + 1), InvalidTimestamp),
        (batch(bytes(2_000_000)), BatchTooLarge),
    ],
)
def test_what_a_client_may_not_append_is_refused(data: bytearray, error: type[ProtocolError]) -> None:
    with pytest.raises(error):
        admit(memoryview(data), PLAIN, NOW)


def test_records_of_a_compacted_topic_have_keys() -> None:
    assert [record.value for record in admitted(batch(b"a", b"b"), COMPACTED)] == [b"a", b"b"]
    with pytest.raises(InvalidRecord, match="record 0 has no key"):
        admit(memoryview(batch(key=None)), COMPACTED, NOW)


@pytest.mark.parametrize("count", [3, 100, 5000])
def test_the_records_that_are_to_blame_are_named(count: int) -> None:
    data = build_batch([Record(at, NOW, None if at % 3 == 1 else b"k", b"v") for at in range(count)])
    with pytest.raises(InvalidRecord, match=f"as {len(range(1, count, 3))} of {count} records") as refused:
        admit(memoryview(data), COMPACTED, NOW)
    assert refused.value.records == tuple(range(1, count, 3))[:RECORDS_BLAMED_MAX]


@pytest.mark.parametrize("wrong", [NOW + 3_600_001, NOW - 1001])
def test_records_with_bad_timestamps_are_named(wrong: int) -> None:
    data = build_batch([Record(at, time, None, b"v") for at, time in enumerate((NOW, wrong, NOW, wrong))])
    with pytest.raises(InvalidTimestamp) as refused:
        admit(memoryview(data), LogConfig(message_timestamp_before_max_ms=1000), NOW)
    assert refused.value.records == (1, 3)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("wanted", Codec)
def test_a_topic_may_want_a_codec_of_its_own(codec: Codec, wanted: Codec) -> None:
    data = batch(b"a" * 50, b"b" * 50, codec=codec, producer_id=3, producer_epoch=1, base_sequence=9)
    made = admit(memoryview(data), LogConfig(compression_type=wanted), NOW).batches
    header = check_batches(made.data).headers[0]
    assert header == made.headers[0]
    assert (header.codec, header.producer_id, header.producer_epoch, header.base_sequence) == (wanted, 3, 1, 9)
    assert [record.value for record in records(made.data, limit=1 << 20)] == [b"a" * 50, b"b" * 50]


def test_a_batch_must_not_be_too_large_once_it_has_the_topics_codec() -> None:
    data = batch(bytes(10_000), codec=Codec.ZSTD)
    config = LogConfig(compression_type=Codec.NONE, max_message_bytes=1000)
    assert len(data) < config.max_message_bytes
    with pytest.raises(BatchTooLarge, match=r"max\.message\.bytes is 1000"):
        admit(memoryview(data), config, NOW)


def test_a_batch_may_be_larger_than_a_segment() -> None:
    assert admitted(batch(bytes(1000)), LogConfig(segment_bytes=1000))


@pytest.mark.parametrize("config", [PLAIN, COMPACTED])
def test_a_batch_has_a_bound_of_records(config: LogConfig) -> None:
    """A few bytes can be very many records: the header says so before anything is decompressed."""
    data = changed(record_count=ELEMENTS_MAX + 1, last_offset_delta=ELEMENTS_MAX)
    with pytest.raises(BatchTooLarge, match=f"{ELEMENTS_MAX + 1} records"):
        admit(memoryview(data), config, NOW)
    full = [Record(at, NOW, b"", b"") for at in range(ELEMENTS_MAX)]
    assert len(admitted(build_batch(full, codec=Codec.ZSTD), config)) == ELEMENTS_MAX


def test_headers_count_like_records() -> None:
    headers = tuple(("", b"") for _ in range(ELEMENTS_MAX))
    with pytest.raises(BatchTooLarge, match=f"more than {ELEMENTS_MAX} records and headers"):
        admit(memoryview(build_batch([Record(0, NOW, b"", b"", headers)])), PLAIN, NOW)
    few = [Record(at, NOW, b"", b"", headers[:9]) for at in range(ELEMENTS_MAX // 10)]
    assert admitted(build_batch(few))
    one_too_many = [*few, Record(len(few), NOW, b"", b"")]
    with pytest.raises(BatchTooLarge, match=f"more than {ELEMENTS_MAX} records and headers"):
        admit(memoryview(build_batch(one_too_many)), PLAIN, NOW)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
@pytest.mark.parametrize("config", [PLAIN, COMPACTED, LogConfig(compression_type=Codec.LZ4)])
def test_a_batch_has_a_bound_of_bytes_once_decompressed(codec: Codec, config: LogConfig) -> None:
    too_large = batch(bytes(PLAIN_BYTES_MAX), codec=codec)
    with pytest.raises(BatchTooLarge, match=f"{PLAIN_BYTES_MAX} bytes that are allowed"):
        admit(memoryview(too_large), config, NOW)
    admit(memoryview(batch(bytes(PLAIN_BYTES_MAX - 100), codec=codec)), config, NOW)


def test_what_may_be_sent_without_compression_may_be_sent_compressed() -> None:
    config = LogConfig(max_message_bytes=2 * PLAIN_BYTES_MAX)
    admit(memoryview(batch(bytes(PLAIN_BYTES_MAX), codec=Codec.ZSTD)), config, NOW)


def with_records(plain: bytes, count: int, codec: Codec = Codec.NONE) -> bytearray:
    """A batch that says that it holds `count` records and holds these bytes, with a checksum that is right."""
    data = bytearray(HEADER.size) + (compress(codec, plain) if codec else plain)
    header = read_header(batch())._replace(
        batch_length=len(data) - 12, attributes=int(codec), record_count=count, last_offset_delta=count - 1
    )
    HEADER.pack_into(data, 0, *header)
    write_crc(memoryview(data))
    return data


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("config", [PLAIN, COMPACTED])
@pytest.mark.parametrize("count", [1, 2, 1000])
def test_a_batch_that_holds_fewer_records_than_it_says_is_refused(config: LogConfig, codec: Codec, count: int) -> None:
    full = bytes(build_batch([Record(at, NOW, b"k", b"v") for at in range(count)])[HEADER.size :])
    admit(memoryview(with_records(full, count, codec)), config, NOW)
    for less in (b"", full[:-1], full[: len(full) // 2]):
        with pytest.raises(InvalidRecord):
            admit(memoryview(with_records(less, count, codec)), config, NOW)


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_that_holds_more_than_its_records_is_refused(codec: Codec) -> None:
    full = bytes(build_batch([Record(at, NOW, b"k", b"v") for at in range(100)])[HEADER.size :])
    for more in (full + b"\0", full + full[:9]):
        with pytest.raises(InvalidRecord, match=f"the 100 records of the batch end at byte {len(full)}"):
            admit(memoryview(with_records(more, 100, codec)), PLAIN, NOW)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_a_batch_that_cannot_be_decompressed_is_refused_for_good(codec: Codec) -> None:
    """CORRUPT_MESSAGE would say that its bytes changed on the way, and have it sent again for ever."""
    data = with_records(b"", 1, codec)
    data[HEADER.size :] = b"no such thing"
    HEADER.pack_into(data, 0, *read_header(data)._replace(batch_length=len(data) - 12))
    write_crc(memoryview(data))
    with pytest.raises(InvalidRecord, match="cannot be decompressed"):
        admit(memoryview(data), PLAIN, NOW)


@pytest.mark.parametrize("deltas", [(0, 2), (1, 2), (1, 1), (0, 0)])
@pytest.mark.parametrize("config", [PLAIN, COMPACTED])
def test_offsets_of_a_batch_have_no_gaps(deltas: tuple[int, int], config: LogConfig) -> None:
    data = build_batch([Record(0, NOW, b"k", b"v"), Record(1, NOW, b"k", b"v")])
    first = data.index(b"\2k\2v\0") - 1
    data[first], data[-6] = (delta << 1 for delta in deltas)
    write_crc(memoryview(data))
    with pytest.raises(InvalidRecord, match="offset delta"):
        admit(memoryview(data), config, NOW)


def test_a_record_without_a_timestamp_gets_the_brokers() -> None:
    data = build_batch([Record(0, -1, None, b"a"), Record(1, -1, None, b"b")])
    assert [record.timestamp for record in admitted(data)] == [NOW, NOW]


def test_a_topic_may_want_the_time_of_appending() -> None:
    config = LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME)
    for stated in (5, -1, NOW * 2):
        made = admit(memoryview(batch(b"a", b"b", timestamp=stated)), config, NOW)
        assert made.append_time_ms == NOW
        check_batches(made.batches.data)
        assert {record.timestamp for record in records(made.batches.data, limit=1 << 20)} == {NOW}
    compressed = evolve(config, compression_type=Codec.ZSTD)
    made = admit(memoryview(batch(b"a", timestamp=-1)), compressed, NOW)
    assert (made.batches.headers[0].codec, made.batches.headers[0].max_timestamp) == (Codec.ZSTD, NOW)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("times", [(NOW, NOW + 5, NOW + 3), (NOW + 5, NOW, NOW), (NOW, NOW, NOW + 5), (NOW + 5,) * 200])
@pytest.mark.parametrize("said", [NOW - 1, NOW + 99, NOW + 3_600_001, -1])
def test_the_largest_timestamp_of_a_batch_is_made_true(times: tuple[int, ...], said: int, codec: Codec) -> None:
    """Lookups by time trust it."""
    made = [Record(at, time, None, b"v") for at, time in enumerate(times)]
    data = build_batch(made, codec=codec)
    HEADER.pack_into(data, 0, *read_header(data)._replace(max_timestamp=said))
    write_crc(memoryview(data))
    batches = admit(memoryview(data), PLAIN, NOW).batches
    (header,) = check_batches(batches.data).headers
    assert header == batches.headers[0]
    assert header.max_timestamp == NOW + 5
    assert records(batches.data, limit=1 << 20) == made


def test_a_timestamp_that_the_header_hides_is_too_far_ahead_all_the_same() -> None:
    data = build_batch([Record(at, NOW + 3_600_001, None, b"v") for at in range(2)])
    HEADER.pack_into(data, 0, *read_header(data)._replace(max_timestamp=NOW))
    write_crc(memoryview(data))
    with pytest.raises(InvalidTimestamp, match=str(NOW + 3_600_001)):
        admit(memoryview(data), PLAIN, NOW)


def test_old_records_are_refused_where_a_topic_says_so() -> None:
    config = LogConfig(message_timestamp_before_max_ms=1000)
    assert admitted(batch(timestamp=NOW - 1000), config)
    data = build_batch([Record(0, NOW, None, b""), Record(1, NOW - 1001, None, b""), Record(2, NOW, None, b"")])
    with pytest.raises(InvalidTimestamp):
        admit(memoryview(data), config, NOW)
    assert admitted(batch(timestamp=0))


@given(st.integers(0, 60), st.binary(min_size=1, max_size=8))
def test_a_damaged_batch_raises_one_of_our_errors_or_goes_in_whole(at: int, damage: bytes) -> None:
    data = batch(b"a", b"b")
    data[at : at + len(damage)] = damage
    try:
        made = admit(memoryview(data), COMPACTED, NOW)
    except ProtocolError:
        return
    assert len(records(made.batches.data, limit=1 << 20)) == 2


def long_calls(data: bytearray, config: LogConfig) -> int:
    """How often the check of this batch asks for another thread."""
    return sum(isinstance(pause, LongCall) for pause in admission(memoryview(data), config, NOW))


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("wanted", [None, *Codec])
def test_megabytes_are_compressed_and_decompressed_elsewhere(codec: Codec, wanted: Codec | None) -> None:
    config = LogConfig(compression_type=wanted, max_message_bytes=4 << 20)
    calls = (codec is not Codec.NONE) + (wanted not in (None, codec))
    assert long_calls(batch(bytes(2 << 20), codec=codec), config) == calls
    assert long_calls(batch(bytes(60 << 10), codec=codec), config) == 0
    assert admitted(batch(bytes(2 << 20), codec=codec), config)[0].value == bytes(2 << 20)


def test_what_goes_wrong_elsewhere_is_said_here() -> None:
    with pytest.raises(BatchTooLarge, match="decompress to more than"):
        admit(memoryview(batch(bytes(PLAIN_BYTES_MAX + 1), codec=Codec.ZSTD)), PLAIN, NOW)


@pytest.mark.parametrize("config", [PLAIN, LogConfig(message_timestamp_before_max_ms=1000)])
def test_times_of_very_many_records_are_looked_at_in_slices(config: LogConfig) -> None:
    times = [NOW + at % 7 for at in range(50_000)]
    data = build_batch([Record(at, time, b"k", b"") for at, time in enumerate(times)])
    assert sum(pause is None for pause in admission(memoryview(data), config, NOW)) >= 4
    assert admit(memoryview(data), config, NOW).batches.headers[0].max_timestamp == max(times)
