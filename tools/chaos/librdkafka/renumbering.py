"""Detects that librdkafka gives new sequence numbers to its messages, so that earlier sends may be written twice.

A partition refuses a batch for now, and can take the next one, which was under way already: that one is out of order,
and Kafka's brokers say so as ours do. librdkafka then begins a new epoch for all partitions, and what another one has
written and not yet acknowledged is sent again under other numbers, which no broker can recognise (librdkafka, issue
4953). No broker broke a promise then, so such sends are recorded as those of a producer without idempotence.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

_SAID = "bumped epoch"
_LEVEL = 7


class _Listener(logging.Handler):
    def __init__(self, heard: Callable[[], None]) -> None:
        super().__init__()
        self._heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        if _SAID in record.getMessage():
            self._heard()


def listening(heard: Callable[[], None]) -> dict[str, Any]:
    """The settings of a producer. `heard` is called where the producer is polled, before deliveries are reported."""
    logger = logging.Logger(__name__, logging.DEBUG)  # noqa: LOG001  it goes with its producer
    logger.addHandler(_Listener(heard))
    return {"debug": "eos", "log_level": _LEVEL, "logger": logger}
