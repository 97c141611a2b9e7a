"""What can go wrong with a cluster, and what each of Kafka's error codes asks a client to do.

ClientError
├── KafkaError            a broker answered with an error code
├── ConnectionLost        a broker cannot be reached, or went away before it answered
│   └── RequestTimedOut   it did not answer in time, so the connection was given up
├── NotSupported          the broker does not speak a version of this API that we speak
├── TimedOut              nothing came of it in the time it was given; `__cause__` is the last reason
├── BufferFull            the producer holds as many bytes as it may
├── CommitFailed          offsets were not committed: the partitions are, or may be, another member's
├── NoCommittedOffset     a group has not committed where to begin, and the consumer was not told
├── TransactionFailed     a transaction can only be aborted; then another may begin
├── ProducerFenced        somebody else writes under this transactional id now
├── NotPrepared           a prepared transaction is not there any more, or was ended otherwise
├── LogTruncated          what was read is no longer in the partition's log
└── ClientClosed          the client was closed, or broke
"""

from __future__ import annotations

import enum

from protocol.error_codes import ErrorCode


class ErrorClass(enum.Enum):
    """What a client does about an error."""

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
    """The code of a number that came in an answer; one that is not known yet is an unknown error."""
    return _CODES.get(number, ErrorCode.UNKNOWN_SERVER_ERROR)


def classify(code: ErrorCode) -> ErrorClass:
    """What a client does about a code, wherever there is nothing more particular to know."""
    if code in _REFRESH:
        return ErrorClass.REFRESH
    if code in _RETRIABLE:
        return ErrorClass.RETRIABLE
    if code is ErrorCode.TRANSACTION_ABORTABLE:
        return ErrorClass.ABORT
    return ErrorClass.FATAL if code in _FATAL else ErrorClass.REFUSED


class ClientError(Exception):
    """What was asked for came to nothing."""

    kind = ErrorClass.REFUSED


class KafkaError(ClientError):
    """A broker answered with an error. `name` is Kafka's; `what` says what was asked of it."""

    def __init__(self, number: int, what: str, message: str | None = None) -> None:
        self.number = number
        self.code = error_code(number)
        self.kind = classify(self.code)
        self.name = self.code.name if number in _CODES else f"error {number}"
        self.what = what
        super().__init__(f"{what}: {self.name}" + (f": {message}" if message else ""))


def check(number: int, what: str, message: str | None = None) -> None:
    """Raise the KafkaError of an error code in an answer; 0 is none."""
    if number:
        raise KafkaError(number, what, message)


class ConnectionLost(ClientError):
    """A broker cannot be reached, or went away before it answered. Then nobody knows whether it did what was asked."""

    kind = ErrorClass.REFRESH


class RequestTimedOut(ConnectionLost):
    """A broker did not answer in time. What it may still say is not waited for: the connection was closed."""


class NotSupported(ClientError):
    """The broker does not speak this API, or no version of it that we speak, or that has what was asked for."""


class TimedOut(ClientError):
    """Nothing came of it in the time it was given."""


class BufferFull(ClientError):
    """The producer holds as many bytes as it may, and none were sent in the time it may wait."""


class CommitFailed(ClientError):
    """Offsets were not committed: the group does not take them from us any more, or not just now.

    What was read since the last commit is read again by whoever has the partitions then.
    """


class NoCommittedOffset(ClientError):
    """A group has committed no offset of a partition, and nothing says where else to begin."""

    def __init__(self, group_id: str, where: object) -> None:
        super().__init__(
            f"group {group_id} has committed no offset of {where}: set auto_offset_reset to earliest or latest, or seek"
        )


class TransactionFailed(ClientError):
    """Something of a transaction failed, so that it can only be aborted; `__cause__` says what. Another may follow."""

    kind = ErrorClass.ABORT


class ProducerFenced(ClientError):
    """Somebody else writes under this transactional id now, or its transaction took too long and was aborted."""

    kind = ErrorClass.FATAL


class NotPrepared(ClientError):
    """A prepared transaction cannot be ended as was wanted: it is not there any more, or was ended otherwise."""


class LogTruncated(ClientError):
    """What was read is no longer in the partition's log: it was cut at `end_offset`."""

    def __init__(self, where: object, position: int, end_offset: int) -> None:
        self.where, self.position, self.end_offset = where, position, end_offset
        super().__init__(f"{where}: the log was cut at offset {end_offset}, and was already read up to {position}")


class ClientClosed(ClientError):
    """The client was closed, or broke; `__cause__` says why."""

    kind = ErrorClass.FATAL
