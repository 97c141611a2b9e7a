"""The compression codecs of record batches. No decompression makes more bytes than it was allowed.

A few kilobytes can unfold to hundreds of megabytes, and what a sender declares about the size is not to be believed.
So gzip, lz4 and zstd are decompressed into a buffer of a fixed size, which grows only while it proves too small. A
snappy block states its size, and snappy's densest element makes 64 bytes of 3: a block that claims more is a lie.
Nor does it take long: a megabyte of empty gzip members or snappy blocks is refused, since each of them costs as much as
kilobytes of data.

What is written here is what every Kafka client reads, the Java ones being the strictest:
- lz4: frames of independent blocks (they refuse linked ones, which are cramjam's default).
- snappy: the framing of the xerial library, `\\x82SNAPPY\\0`, two versions, then blocks behind their lengths. Read are
  that and the bare block, which librdkafka writes.
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

from protocol.errors import BatchTooLarge, CorruptBatch, UnsupportedCodec

if TYPE_CHECKING:
    from cramjam import BufferInput, BufferOutput

Bytes = bytes | bytearray | memoryview

_FIRST_GUESS_BYTES = 64 << 10
_GUESSED_RATIO = 8
_TOO_SMALL = "failed to write whole buffer"  # how cramjam says that the output did not fit
_SNAPPY_RATIO_MAX = 22
_SNAPPY_BLOCK_BYTES = 32 << 10
_XERIAL_MAGIC = b"\x82SNAPPY\0"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_HEAD = struct.unpack(">i", _XERIAL_MAGIC[:4])[0]
_XERIAL_BLOCKS_MAX = 20_000  # Kafka's clients put 32 KiB into a block; 16 MiB in blocks of 1 KiB have room
_GZIP_MAGIC = b"\x1f\x8b\x08"
_GZIP_MEMBERS_MAX = 100  # Kafka's clients write one
_GZIP_WINDOW_BITS = 31  # the largest window, and a gzip header
_INT32 = struct.Struct(">i")


class Codec(enum.IntEnum):
    """The lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_CODECS = tuple(Codec)


def codec_of(attributes: int) -> Codec:
    """The codec in a batch's attributes."""
    number = attributes & 7
    if number >= len(_CODECS):
        raise UnsupportedCodec(f"compression codec {number}")
    return _CODECS[number]


def compress(codec: Codec, data: Bytes) -> bytes:
    """What decompress() makes `data` of, with the defaults of Kafka's own clients."""
    if codec is Codec.NONE:
        return bytes(data)
    cramjam = _cramjam()
    match codec:
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(data, level=6))
        case Codec.SNAPPY:
            return _compress_snappy(data)
        case Codec.LZ4:
            compressor = cramjam.lz4.Compressor(level=1, content_checksum=False, block_linked=False)
            compressor.compress(bytes(data))
            return bytes(compressor.finish())
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, level=3))


def decompress(codec: Codec, data: Bytes, limit: int) -> bytes:
    """The bytes that were compressed, if they are at most `limit`."""
    if codec is Codec.NONE:
        if len(data) > limit:
            raise BatchTooLarge(f"{len(data)} bytes of records, where {limit} are allowed")
        return bytes(data)
    cramjam = _cramjam()
    match codec:
        case Codec.GZIP:
            return _decompress_gzip(data, limit)
        case Codec.SNAPPY:
            return _decompress_snappy(data, limit)
        case Codec.LZ4:
            return _decompress_into(cramjam.lz4.decompress_into, codec, data, limit)
        case Codec.ZSTD:
            return _decompress_into(cramjam.zstd.decompress_into, codec, data, limit)


def _cramjam() -> ModuleType:
    import cramjam  # noqa: PLC0415 - most brokers never decompress, and all should start fast

    return cramjam


def _too_large(codec: Codec, compressed: int, limit: int) -> BatchTooLarge:
    return BatchTooLarge(
        f"{compressed} bytes of {codec.name.lower()} decompress to more than the {limit} bytes that are allowed"
    )


def _corrupt(codec: Codec, compressed: int, reason: object) -> CorruptBatch:
    return CorruptBatch(f"{compressed} bytes of {codec.name.lower()} cannot be decompressed: {reason}")


def _decompress_into(
    decompress_into: Callable[[BufferInput, BufferOutput], int], codec: Codec, data: Bytes, limit: int
) -> bytes:
    size = min(limit, max(_FIRST_GUESS_BYTES, len(data) * _GUESSED_RATIO))
    while True:
        out = bytearray(size)
        try:
            count = decompress_into(data, out)
        except _cramjam().DecompressionError as error:
            if _TOO_SMALL not in str(error):
                raise _corrupt(codec, len(data), error) from None
            if size >= limit:
                raise _too_large(codec, len(data), limit) from None
            del out  # before there is a larger one
            size = min(limit, size * _GUESSED_RATIO)
        else:
            return bytes(memoryview(out)[:count])


def _decompress_gzip(data: Bytes, limit: int) -> bytes:
    if bytes(data).count(_GZIP_MAGIC) <= _GZIP_MEMBERS_MAX:
        return _decompress_into(_cramjam().gzip.decompress_into, Codec.GZIP, data, limit)
    return _decompress_gzip_members(data, limit)


def _decompress_gzip_members(data: Bytes, limit: int) -> bytes:
    """Member by member, since there may be too many: compressed bytes may look like the beginning of one, too."""
    parts: list[bytes] = []
    left, room = bytes(data), limit
    while left:
        if len(parts) == _GZIP_MEMBERS_MAX:
            raise _corrupt(Codec.GZIP, len(data), f"they have more than {_GZIP_MEMBERS_MAX} members")
        member = zlib.decompressobj(_GZIP_WINDOW_BITS)
        try:
            parts.append(member.decompress(left, room + 1))
        except zlib.error as error:
            raise _corrupt(Codec.GZIP, len(data), error) from None
        room -= len(parts[-1])
        if room < 0:
            raise _too_large(Codec.GZIP, len(data), limit)
        if not member.eof:
            raise _corrupt(Codec.GZIP, len(data), "the last member is cut")
        left = member.unused_data
    return b"".join(parts)


def _compress_snappy(data: Bytes) -> bytes:
    compress_raw = _cramjam().snappy.compress_raw
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for at in range(0, len(view), _SNAPPY_BLOCK_BYTES):
        block = bytes(compress_raw(view[at : at + _SNAPPY_BLOCK_BYTES]))
        parts += _INT32.pack(len(block)), block
    return b"".join(parts)


def _decompress_snappy(data: Bytes, limit: int) -> bytes:
    view = memoryview(data)
    if view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _decompress_snappy_block(view, limit)
    parts: list[bytes] = []
    room = limit
    at, end = len(_XERIAL_HEADER), len(view)
    while at < end:
        if end - at < _INT32.size:
            raise _corrupt(Codec.SNAPPY, end, f"{end - at} bytes behind the last block")
        (size,) = _INT32.unpack_from(view, at)
        if size == _XERIAL_HEAD:  # streams laid end to end, each with its own header
            at += len(_XERIAL_HEADER)
            continue
        at += _INT32.size
        if not 0 <= size <= end - at:
            raise _corrupt(Codec.SNAPPY, end, f"a block of {size} bytes where {end - at} are left")
        try:
            if len(parts) == _XERIAL_BLOCKS_MAX:
                raise _corrupt(Codec.SNAPPY, end, f"they have more than {_XERIAL_BLOCKS_MAX} blocks")
            part = _decompress_snappy_block(view[at : at + size], room)
        except BatchTooLarge:
            raise _too_large(Codec.SNAPPY, end, limit) from None
        room -= len(part)
        parts.append(part)
        at += size
    if at > end:
        raise _corrupt(Codec.SNAPPY, end, "a header is cut")
    return b"".join(parts)


def _decompress_snappy_block(block: memoryview, limit: int) -> bytes:
    cramjam = _cramjam()
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > len(block) * _SNAPPY_RATIO_MAX:
            raise _corrupt(Codec.SNAPPY, len(block), f"they claim to hold {size} bytes")
        if size > limit:
            raise _too_large(Codec.SNAPPY, len(block), limit)
        out = bytearray(size)
        count = cramjam.snappy.decompress_raw_into(block, out)
    except cramjam.DecompressionError as error:
        raise _corrupt(Codec.SNAPPY, len(block), error) from None
    return bytes(memoryview(out)[:count])
