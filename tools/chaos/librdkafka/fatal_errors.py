"""confluent-kafka's producer, which reports every fatal error.

When librdkafka is fenced, confluent-kafka sets that exception inside of the call that serves callbacks, and runs the
next callbacks with the exception still set. The first Python call in such a callback fails with a SystemError; and if
the callback swallows it, as a logger does, the call that serves callbacks returns NULL without an exception.

    raised_before(call)     at the beginning of a callback: the exception to raise at its end
    Producer                raises KafkaException for a SystemError, too
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

P = ParamSpec("P")
R = TypeVar("R")
_NOTHING_RAISED = ("without setting an exception", "without exception set")
"""What Python says of a function in C that returns nothing and raises nothing."""


def raised_before(call: Callable[[], object]) -> KafkaException | None:
    """The exception that was set before this callback, found by a call that does nothing else."""
    try:
        call()
    except SystemError as error:
        if not isinstance(error.__cause__, KafkaException):
            raise
        return error.__cause__
    return None


def _heard(method: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(method)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except SystemError as error:
            if isinstance(error.__cause__, KafkaException):
                raise error.__cause__ from error
            if not any(words in str(error) for words in _NOTHING_RAISED):
                raise
            raise KafkaException(KafkaError(KafkaError._FATAL, "what it was is lost")) from error

    return called


class Producer(confluent_kafka.Producer):
    """See the module's docstring."""

    poll = _heard(confluent_kafka.Producer.poll)
    flush = _heard(confluent_kafka.Producer.flush)
    init_transactions = _heard(confluent_kafka.Producer.init_transactions)
    send_offsets_to_transaction = _heard(confluent_kafka.Producer.send_offsets_to_transaction)
    commit_transaction = _heard(confluent_kafka.Producer.commit_transaction)
    abort_transaction = _heard(confluent_kafka.Producer.abort_transaction)
