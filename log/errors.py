"""What can go wrong with a log, one small tree. Each error names the thing and the value."""

from __future__ import annotations

from typing import ClassVar

from protocol.error_codes import ErrorCode


class LogError(Exception):
    """The root of every error of the storage engine."""


class RequestError(LogError):
    """An error that a client is answered with: `code` is Kafka's, and the message of the error goes with it."""

    code: ClassVar[ErrorCode]


class OffsetOutOfRange(RequestError):
    """The record at this offset was deleted, or was never written."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(self, offset: int, start: int, end: int) -> None:
        super().__init__(f"offset {offset} is not in this log, which has {start} to {end}")
        self.offset, self.start, self.end = offset, start, end


class LogOffline(RequestError):
    """A write or a sync failed, so what is on disk is unknown. The log has to be opened again."""

    code = ErrorCode.KAFKA_STORAGE_ERROR

    def __init__(self, directory: str, cause: BaseException) -> None:
        super().__init__(f"the log in {directory} is offline: {cause}")
        self.directory, self.cause = directory, cause


class LogFull(RequestError):
    """The disk has no room for more records. Nothing was written; the log stays open and can be read."""

    code = ErrorCode.KAFKA_STORAGE_ERROR

    def __init__(self, directory: str) -> None:
        super().__init__(f"there is no space on the disk for {directory}; delete topics or records, or make room")
        self.directory = directory


class TruncationUnderWay(LogError):
    """The log was truncated, and that is not on disk yet. It takes appends after the flush that is under way."""

    def __init__(self, directory: str) -> None:
        super().__init__(f"the log in {directory} was cut, and takes no records until that is on disk; try again")
        self.directory = directory


class OutOfOrderAppend(LogError):
    """A batch does not continue the log: its offset or its epoch goes back."""


class CorruptSegment(LogError):
    """Bytes that were valid once are damaged. They are not cut away: a peer may still have them."""

    def __init__(self, path: str, position: int, offset: int, reason: str) -> None:
        super().__init__(f"{path} is damaged at byte {position}, offset {offset} or later: {reason}")
        self.path, self.position, self.offset, self.reason = path, position, offset, reason


class UnknownFormat(LogError):
    """The directory was written by a newer version, or by another program."""


class DamagedFile(LogError):
    """A small file (checkpoint, snapshot, epoch cache) does not hold what it should."""
