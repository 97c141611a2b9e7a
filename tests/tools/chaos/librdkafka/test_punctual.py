"""A call that never ends is left alone; one that ends is as if it had been made here."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import KafkaError, KafkaException

from tools.chaos.librdkafka.punctual import within


def test_a_call_that_ends_in_time_has_been_made() -> None:
    made: list[int] = []
    within(10.0, lambda: made.append(1))
    assert made == [1]


def test_what_a_call_raises_is_raised() -> None:
    def refused() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        within(10.0, refused)


def test_a_call_that_does_not_end_is_left_alone() -> None:
    ending = threading.Event()
    try:
        with pytest.raises(KafkaException) as raised:
            within(0.01, ending.wait)
    finally:
        ending.set()
    error: KafkaError = raised.value.args[0]
    assert error.name() == "_TIMED_OUT"
    assert not error.retriable(), "that producer is not to be used any more"
