"""The errors of a client, and how a client reacts to each of Kafka's error codes.

ClientError
├── KafkaError            a broker answered with an error code
├── ConnectionLost        a broker cannot be reached, or went away before it answered
│   └── RequestTimedOut   it did not answer in time, so the connection was given up
├── NotSupported          the broker and the client support no common version of this API
├── TimedOut              the request did not succeed in time; `__cause__` is the last error
├── BufferFull            the producer holds as many bytes as it may
├── CommitFailed          offsets were not committed: the partitions are, or may be, another member's
├── NoCommittedOffset     a group has no committed offset, and there is no auto_offset_reset
├── TransactionFailed     a transaction can only be aborted; then another one may begin
├── ProducerFenced        another producer has taken over this transactional id
├── NotPrepared           a prepared transaction does not exist any more, or was ended otherwise
├── LogTruncated          the log was truncated below the position of the consumer
└── ClientClosed          the client was closed, or failed
"""

from __future__ import annotations

import enum

from protocol.error_codes import ErrorCode


class ErrorClass(enum.Enum):
    """How a client reacts to an error."""

    RETRIABLE = "try again after a while"
    REFRESH = "ask who leads, then try again"
    ABORT = "abort the transaction, then begin another"
    REFUSED = "this request will never succeed"
    FATAL = "nor will any other of this client"

    @property
    def is_retriable(self) -> bool:
        return self in (ErrorClass.RETRIABLE, ErrorClass.REFRESH)


_REFRESH = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.LISTENER_NOT_FOUND,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.NEW_LEADER_ELECTED,
    ErrorCode.UNKNOWN_CONTROLLER_ID,
    ErrorCode.REBOOTSTRAP_REQUIRED,
}
_RETRIABLE = {
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    ErrorCode.SHARE_SESSION_NOT_FOUND,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH,
}
_FATAL = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    ErrorCode.ILLEGAL_SASL_STATE,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.SASL_AUTHENTICATION_FAILED,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.PRODUCER_FENCED,
}
_CODES = {int(code): code for code in ErrorCode}


def error_code(number: int) -> ErrorCode:
    """The error code of a number in an answer; UNKNOWN_SERVER_ERROR for a number that this client does not know."""
    return _CODES.get(number, ErrorCode.UNKNOWN_SERVER_ERROR)


def classify(code: ErrorCode) -> ErrorClass:
    """The reaction to an error code, unless an API has its own."""
    if code in _REFRESH:
        return ErrorClass.REFRESH
    if code in _RETRIABLE:
        return ErrorClass.RETRIABLE
    if code is ErrorCode.TRANSACTION_ABORTABLE:
        return ErrorClass.ABORT
    return ErrorClass.FATAL if code in _FATAL else ErrorClass.REFUSED


class ClientError(Exception):
    """The base of all errors of a client."""

    kind = ErrorClass.REFUSED


class KafkaError(ClientError):
    """A broker answered with an error. `name` is Kafka's; `what` is the subject of the request."""

    def __init__(self, number: int, what: str, message: str | None = None) -> None:
        self.number = number
        self.code = error_code(number)
        self.kind = classify(self.code)
        self.name = self.code.name if number in _CODES else f"error {number}"
        self.what = what
        super().__init__(f"{what}: {self.name}" + (f": {message}" if message else ""))


def check(number: int, what: str, message: str | None = None) -> None:
    """Raise a KafkaError if the error code of an answer is not 0."""
    if number:
        raise KafkaError(number, what, message)


class ConnectionLost(ClientError):
    """A broker cannot be reached, or the connection broke before its answer: it may have executed the request."""

    kind = ErrorClass.REFRESH


class RequestTimedOut(ConnectionLost):
    """A broker did not answer in time, and the client closed the connection."""


class NotSupported(ClientError):
    """The broker lacks this API, or the client and the broker have no common version that can express the request."""


class TimedOut(ClientError):
    """The request did not succeed in time."""


class BufferFull(ClientError):
    """The producer's buffer is full, and no room became free in time."""


class CommitFailed(ClientError):
    """Offsets were not committed: the group has removed this member, or is rebalancing.

    The next owner of the partitions reads the records since the last commit again.
    """


class NoCommittedOffset(ClientError):
    """A group has no committed offset of a partition, and the consumer has no auto_offset_reset."""

    def __init__(self, group_id: str, where: object) -> None:
        super().__init__(
            f"group {group_id} has committed no offset of {where}: set auto_offset_reset to earliest or latest, or seek"
        )


class TransactionFailed(ClientError):
    """A transaction failed and can only be aborted; `__cause__` is the reason. Another one may follow."""

    kind = ErrorClass.ABORT


class ProducerFenced(ClientError):
    """Another producer has taken over this transactional id, or the transaction was aborted by its timeout."""

    kind = ErrorClass.FATAL


class NotPrepared(ClientError):
    """A prepared transaction cannot be ended in this way: it does not exist any more, or was ended in the other way."""


class LogTruncated(ClientError):
    """The partition's log was truncated at `end_offset`, below the position of the consumer."""

    def __init__(self, where: object, position: int, end_offset: int) -> None:
        self.where, self.position, self.end_offset = where, position, end_offset
        super().__init__(f"{where}: the log was cut at offset {end_offset}, and was already read up to {position}")


class ClientClosed(ClientError):
    """The client was closed, or failed; `__cause__` is the reason."""

    kind = ErrorClass.FATAL
