"""Errors that a client is answered with."""

from __future__ import annotations

import pytest

from log.errors import LogFull, LogOffline, OffsetOutOfRange, RequestError
from log.partition.refusals import Overtakes
from log.partition.verification import TooMuchParked
from log.segment.producer_state import (
    CoordinatorFenced,
    OutOfOrderSequence,
    ProducerFenced,
    TooManyOpen,
    WrongTransactionState,
)
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError

CODES = {
    OffsetOutOfRange: "OFFSET_OUT_OF_RANGE",
    LogOffline: "KAFKA_STORAGE_ERROR",
    LogFull: "KAFKA_STORAGE_ERROR",
    ProducerFenced: "INVALID_PRODUCER_EPOCH",
    CoordinatorFenced: "TRANSACTION_COORDINATOR_FENCED",
    WrongTransactionState: "INVALID_TXN_STATE",
    TooManyOpen: "NOT_ENOUGH_REPLICAS",
    TooMuchParked: "NOT_ENOUGH_REPLICAS",
    Overtakes: "NOT_ENOUGH_REPLICAS",
    OutOfOrderSequence: "OUT_OF_ORDER_SEQUENCE_NUMBER",
}


@pytest.mark.parametrize("error", CODES, ids=lambda error: error.__name__)
def test_an_error_that_a_client_is_answered_with_has_its_kafka_code(error: type[RequestError]) -> None:
    assert error.code is ErrorCode[CODES[error]]


def test_no_other_error_of_the_log_is_answered_to_a_client() -> None:
    assert set(RequestError.__subclasses__()) == set(CODES)


@pytest.mark.parametrize("error", ProtocolError.__subclasses__(), ids=lambda error: error.__name__)
def test_an_error_of_the_protocol_has_a_kafka_code(error: type[ProtocolError]) -> None:
    assert isinstance(error.code, ErrorCode)
