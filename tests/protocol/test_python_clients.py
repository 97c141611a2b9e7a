"""What kafka-python and aiokafka encode we read, and what we encode they read, checksums included."""

from __future__ import annotations

import warnings
from typing import Any

import aiokafka.record.default_records as aio
import pytest
from hypothesis import given

from protocol.records.batches import Record, build_batch, check_batches, read_header, records
from protocol.records.compression import Codec
from tests.protocol.golden import RECORDS, START
from tests.protocol.strategies import record_lists, unhurried

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its own files in an old way
    import kafka.codec
    from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

LIMIT = 1 << 20
MANY = [Record(n, START + n % 7, b"key %d" % (n % 10), b"value " * (n % 50), (("n", b"%d" % n),)) for n in range(2000)]
PYTHON_CODECS = {  # kafka-python brings only gzip; the others are there if their packages happen to be
    Codec.NONE: True,
    Codec.GZIP: kafka.codec.has_gzip(),
    Codec.SNAPPY: kafka.codec.has_snappy(),
    Codec.LZ4: kafka.codec.has_lz4(),
    Codec.ZSTD: kafka.codec.has_zstd(),
}
LIBRARIES = {
    "kafka-python": (DefaultRecordBatchBuilder, DefaultRecordBatch),
    "aiokafka in C": (aio.DefaultRecordBatchBuilder, aio.DefaultRecordBatch),
    "aiokafka in Python": (aio._DefaultRecordBatchBuilderPy, aio._DefaultRecordBatchPy),
}
with_every_library_and_codec = pytest.mark.parametrize(
    ("library", "codec"),
    [
        pytest.param(library, codec, id=f"{library} {codec.name.lower()}")
        for library in LIBRARIES
        for codec in Codec
        if library != "kafka-python" or PYTHON_CODECS[codec]
    ],
)


def theirs(
    library: str, kept: list[Record], codec: Codec = Codec.NONE, producer: tuple[int, int, int] = (-1, -1, -1)
) -> bytes:
    builder: Any = LIBRARIES[library][0](2, int(codec), producer[0] >= 0, *producer, 10 * LIMIT)
    for record in kept:
        builder.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    return bytes(builder.build())


def as_they_read(library: str, batch: bytes | bytearray) -> list[Record]:
    read: Any = LIBRARIES[library][1](bytes(batch))
    assert read.validate_crc()
    return [Record(each.offset, each.timestamp, each.key, each.value, tuple(each.headers)) for each in read]


def test_aiokafka_has_its_c_extension() -> None:
    assert aio.DefaultRecordBatchBuilder is not aio._DefaultRecordBatchBuilderPy


@with_every_library_and_codec
@pytest.mark.parametrize("kept", [RECORDS, MANY], ids=["few", "many"])
def test_we_read_what_they_write(library: str, codec: Codec, kept: list[Record]) -> None:
    batch = theirs(library, kept, codec, producer=(4000, 3, 7))
    (header,) = check_batches(batch).headers
    assert header.codec is codec
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4000, 3, 7)
    assert header.is_transactional
    assert records(batch, limit=LIMIT) == kept


@with_every_library_and_codec
@pytest.mark.parametrize("kept", [RECORDS, MANY], ids=["few", "many"])
def test_they_read_what_we_write(library: str, codec: Codec, kept: list[Record]) -> None:
    batch = build_batch(kept, codec=codec, producer_id=4000, producer_epoch=3, base_sequence=7)
    assert as_they_read(library, batch) == kept


@pytest.mark.parametrize("library", LIBRARIES)
def test_they_read_compacted_and_append_time_batches(library: str) -> None:
    kept = [Record(1007, START, b"a", None), Record(1100, START, b"b", b"v")]
    batch = build_batch(kept, base_offset=1000, last_offset=2000, append_time=START, delete_horizon=START + 5)
    assert as_they_read(library, batch) == kept


@unhurried
@given(record_lists(min_size=1))
def test_uncompressed_batches_are_the_same_bytes(drawn: list[Record]) -> None:
    kept = [record._replace(timestamp=abs(record.timestamp)) for record in drawn]  # aiokafka takes −1 for "not set"
    for library in LIBRARIES:
        batch = theirs(library, kept)
        assert build_batch(kept, leader_epoch=read_header(batch).leader_epoch) == batch
