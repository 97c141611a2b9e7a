from __future__ import annotations

import contextlib
import gzip
import subprocess
import sys
import tracemalloc
import zlib
from pathlib import Path

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import BatchTooLarge, CorruptBatch, UnsupportedCodec
from protocol.records.compression import Codec, codec_of, compress, decompress
from tests.protocol.strategies import codecs, unhurried

MIB = 1 << 20
LIMIT = 8 * MIB
compressing = pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
XERIAL = b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"


def block(data: bytes) -> bytes:
    compressed = bytes(cramjam.snappy.compress_raw(data))
    return len(compressed).to_bytes(4, "big") + compressed


def bomb(codec: Codec, mebibytes: int = 200) -> bytes:
    """So many zeros, made without holding them."""
    match codec:
        case Codec.NONE:
            return bytes(mebibytes * MIB)
        case Codec.GZIP:
            stream = zlib.compressobj(1, zlib.DEFLATED, 31)
            return b"".join([*(stream.compress(bytes(MIB)) for _ in range(mebibytes)), stream.flush()])
        case Codec.SNAPPY:
            return XERIAL + block(bytes(MIB)) * mebibytes
        case Codec.LZ4:
            frame = cramjam.lz4.Compressor(block_linked=False)
            for _ in range(mebibytes):
                frame.compress(bytes(MIB))
            return bytes(frame.finish())
        case Codec.ZSTD:  # one frame of run-length blocks, 128 KiB in four bytes each: 6 KB in all
            run, last_run = ((128 << 10) << 3 | 1 << 1), ((128 << 10) << 3 | 1 << 1 | 1)
            blocks = (run.to_bytes(3, "little") + b"\0") * (8 * mebibytes - 1) + last_run.to_bytes(3, "little") + b"\0"
            return bytes.fromhex("28b52ffd00") + bytes([7 << 3]) + blocks


@unhurried
@given(codecs, st.binary(max_size=1000), st.integers(0, 200))
def test_what_is_compressed_comes_back(codec: Codec, data: bytes, times: int) -> None:
    data *= times
    for given_as in (data, bytearray(data), memoryview(data)):
        compressed = compress(codec, given_as)
        assert decompress(codec, memoryview(compressed), len(data)) == data


@compressing
def test_repeated_data_gets_smaller(codec: Codec) -> None:
    data = b"All the world's a stage. " * 10_000
    assert len(compress(codec, data)) < len(data) / 10


@pytest.mark.parametrize("codec", list(Codec))
def test_one_byte_above_the_limit_is_too_large(codec: Codec) -> None:
    data = bytes(range(256)) * 1000
    compressed = compress(codec, data)
    assert decompress(codec, compressed, len(data)) == data
    with pytest.raises(BatchTooLarge, match=str(len(data) - 1)):
        decompress(codec, compressed, len(data) - 1)


@pytest.mark.parametrize("codec", list(Codec))
def test_nothing_fits_a_limit_of_nothing(codec: Codec) -> None:
    assert decompress(codec, compress(codec, b""), 0) == b""


@compressing
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of resident memory is read from /proc")
def test_a_bomb_takes_little_more_memory_than_the_limit(codec: Codec) -> None:
    script = f"""if True:
        import sys
        from {decompress.__module__} import Codec, decompress
        from {BatchTooLarge.__module__} import BatchTooLarge
        def peak():
            lines = open("/proc/self/status").read().splitlines()
            return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) << 10
        bomb = sys.stdin.buffer.read()
        decompress(Codec({int(codec)}), bytes.fromhex("{compress(codec, b"warm").hex()}"), 100)
        before = peak()
        try:
            decompress(Codec({int(codec)}), bomb, {LIMIT})
        except BatchTooLarge:
            print(peak() - before)
    """
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", script], input=bomb(codec), capture_output=True, cwd=root, check=True)
    assert int(done.stdout) < LIMIT * 1.5


def test_six_kilobytes_are_enough_for_a_bomb() -> None:
    assert len(bomb(Codec.ZSTD)) < 6500


@compressing
def test_a_bomb_within_the_limit_is_just_data(codec: Codec) -> None:
    assert decompress(codec, bomb(codec, 16), 16 * MIB) == bytes(16 * MIB)


@unhurried
@given(codecs.filter(bool), st.binary(max_size=100))
def test_garbage_is_corrupt(codec: Codec, data: bytes) -> None:
    with contextlib.suppress(CorruptBatch, BatchTooLarge):
        decompress(codec, data, 1000)


@unhurried
@given(codecs.filter(bool), st.binary(min_size=1, max_size=2000), st.data())
def test_damage_never_escapes_as_anything_else(codec: Codec, data: bytes, draw: st.DataObject) -> None:
    compressed = bytearray(compress(codec, data * 10))
    for _ in range(draw.draw(st.integers(1, 5))):
        compressed[draw.draw(st.integers(0, len(compressed) - 1))] = draw.draw(st.integers(0, 255))
    with contextlib.suppress(CorruptBatch, BatchTooLarge):
        decompress(codec, compressed, 100_000)


@compressing
def test_a_cut_stream_is_corrupt(codec: Codec) -> None:
    compressed = compress(codec, b"never odd or even " * 5000)
    for end in (0, 1, 3, len(compressed) // 2, len(compressed) - 5, len(compressed) - 1):
        if codec is Codec.SNAPPY and end == 0:
            continue
        with pytest.raises(CorruptBatch):
            decompress(codec, compressed[:end], MIB)


@pytest.mark.parametrize("number", [5, 6, 7])
def test_an_unknown_codec_is_named(number: int) -> None:
    with pytest.raises(UnsupportedCodec, match=f"codec {number}"):
        codec_of(0x10 | number)


def test_gzip_is_read_by_and_from_the_standard_library() -> None:
    data = b"gnu zip " * 1000
    assert gzip.decompress(compress(Codec.GZIP, data)) == data
    assert decompress(Codec.GZIP, gzip.compress(data) * 2, MIB) == data * 2


@pytest.mark.parametrize("content", [b"", b"a"])
def test_too_many_gzip_members_are_refused_before_they_cost_much(content: bytes) -> None:
    member = gzip.compress(content)
    assert decompress(Codec.GZIP, member * 100, MIB) == content * 100
    with pytest.raises(CorruptBatch, match="more than 100 members"):
        decompress(Codec.GZIP, member * 101, MIB)


def test_gzip_may_hold_what_looks_like_the_beginnings_of_members() -> None:
    data = b"\x1f\x8b\x08 is how a member begins. " * 1000
    stored = gzip.compress(data, compresslevel=0)
    assert decompress(Codec.GZIP, stored, MIB) == data
    with pytest.raises(BatchTooLarge):
        decompress(Codec.GZIP, stored, len(data) - 1)
    for cut in (stored[:-1], stored[:-8], stored + b"?"):
        with pytest.raises(CorruptBatch):
            decompress(Codec.GZIP, cut, MIB)


def test_too_many_snappy_blocks_are_refused() -> None:
    assert decompress(Codec.SNAPPY, XERIAL + block(b"") * 20_000, MIB) == b""
    with pytest.raises(CorruptBatch, match="more than 20000 blocks"):
        decompress(Codec.SNAPPY, XERIAL + block(b"") * 20_001, MIB)


def test_snappy_is_written_in_xerial_blocks_of_32_kib() -> None:
    data = bytes(range(256)) * 300
    expected = XERIAL + block(data[:32768]) + block(data[32768:65536]) + block(data[65536:])
    assert compress(Codec.SNAPPY, data) == expected


@pytest.mark.parametrize(
    "stream",
    [
        bytes(cramjam.snappy.compress_raw(b"one two three")),
        XERIAL + block(b"one two three"),
        XERIAL + block(b"one ") + block(b"two ") + block(b"three"),
        XERIAL + block(b"one ") + XERIAL + block(b"two three"),
        b"\x82SNAPPY\0\1\0\0\0\1\0\0\0" + block(b"one two three"),
    ],
    ids=["bare", "one block", "three blocks", "two streams", "little-endian versions"],
)
def test_snappy_is_read_bare_and_framed(stream: bytes) -> None:
    assert decompress(Codec.SNAPPY, stream, 100) == b"one two three"


@pytest.mark.parametrize(
    "stream",
    [
        XERIAL + b"\0\0",
        XERIAL + b"\xff\xff\xff\xff",
        XERIAL + b"\x7f\xff\xff\xff" + b"abc",
        XERIAL + b"\0\0\0\0",
        XERIAL[:-1],
        b"\x82SNAPPY\0",
    ],
    ids=["half a length", "negative", "absurd", "empty block", "half a header", "the magic alone"],
)
def test_broken_xerial_framing_is_corrupt(stream: bytes) -> None:
    with pytest.raises(CorruptBatch):
        decompress(Codec.SNAPPY, stream, 100)


def test_the_limit_is_for_all_snappy_blocks_together() -> None:
    stream = XERIAL + block(bytes(60)) * 2
    assert decompress(Codec.SNAPPY, stream, 120) == bytes(120)
    with pytest.raises(BatchTooLarge):
        decompress(Codec.SNAPPY, stream, 119)


def test_a_snappy_block_that_claims_too_much_allocates_nothing() -> None:
    claims_2_gib = b"\xff\xff\xff\xff\x07" + b"abc"
    decompress(Codec.SNAPPY, compress(Codec.SNAPPY, b"warm"), 100)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch, match="claim"):
            decompress(Codec.SNAPPY, claims_2_gib, 1 << 31)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_lz4_blocks_are_independent_as_java_demands() -> None:
    flags = compress(Codec.LZ4, bytes(1000))[4]
    assert flags >> 6 == 1, "the version of the frame format"
    assert flags & 0x20, "independent blocks"
