"""What can be wrong with bytes, each with the error that a Kafka client is answered with."""

from __future__ import annotations

from typing import ClassVar


class ProtocolError(Exception):
    """Bytes that cannot be served. `code` and `name` are Kafka's; the text says what was found, and where."""

    code: ClassVar[int] = -1
    name: ClassVar[str] = "UNKNOWN_SERVER_ERROR"


class CorruptBatch(ProtocolError):
    """The bytes are not what their own lengths, counts or checksum say."""

    code = 2
    name = "CORRUPT_MESSAGE"


class BatchTooLarge(ProtocolError):
    """The records take more bytes than the limit, often only once decompressed."""

    code = 10
    name = "MESSAGE_TOO_LARGE"


class UnsupportedMagic(ProtocolError):
    """A message set of Kafka before 0.11 (magic 0 or 1)."""

    code = 43
    name = "UNSUPPORTED_FOR_MESSAGE_FORMAT"


class UnsupportedCodec(ProtocolError):
    """A compression codec that does not exist."""

    code = 76
    name = "UNSUPPORTED_COMPRESSION_TYPE"


class InvalidRecord(ProtocolError):
    """A record that can be read, or was asked for, but must not stand in a log."""

    code = 87
    name = "INVALID_RECORD"
