"""What can be wrong with bytes, each with the error code that a Kafka client is answered with."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import ClassVar

from protocol.error_codes import ErrorCode

RECORDS_BLAMED_MAX = 1000


class ProtocolError(Exception):
    """Bytes that cannot be served. `code` is Kafka's; the text says what was found, and where."""

    code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR

    def __init__(self, text: str = "", *, records: Iterable[int] = ()) -> None:
        super().__init__(text)
        self.records = tuple(islice(records, RECORDS_BLAMED_MAX))
        """The numbers of the records in the batch that are to blame, where only some of them are."""


class CorruptBatch(ProtocolError):
    """The bytes are not what their own lengths, counts or checksum say."""

    code = ErrorCode.CORRUPT_MESSAGE


class BatchTooLarge(ProtocolError):
    """The records take more bytes than the limit, often only once decompressed."""

    code = ErrorCode.MESSAGE_TOO_LARGE


class UnsupportedMagic(ProtocolError):
    """A message set of Kafka before 0.11 (magic 0 or 1)."""

    code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


class UnsupportedCodec(ProtocolError):
    """A compression codec that does not exist."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class InvalidRecord(ProtocolError):
    """A record that can be read, or was asked for, but must not stand in a log."""

    code = ErrorCode.INVALID_RECORD


class InvalidTimestamp(ProtocolError):
    """A record's timestamp is too far from the broker's clock."""

    code = ErrorCode.INVALID_TIMESTAMP


class UnsupportedVersion(ProtocolError):
    """A version that is not spoken, or a message that says what its version has no field for."""

    code = ErrorCode.UNSUPPORTED_VERSION


class MalformedMessage(ProtocolError):
    """Bytes that are not the message they should be. The text names message, version, field and byte."""

    code = ErrorCode.INVALID_REQUEST


class UnencodableMessage(ProtocolError):
    """A message that holds what cannot travel: our own mistake, not the peer's."""


class MalformedFrame(ProtocolError):
    """Bytes that are no frame, or one of a size that is refused. What follows on the connection means nothing."""

    code = ErrorCode.INVALID_REQUEST
