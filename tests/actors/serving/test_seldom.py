"""Log lines about clients, at a bounded rate."""

from __future__ import annotations

import logging

import pytest

from actors.runtime.clock import VirtualClock
from actors.serving.seldom import LINES, SECONDS, Seldom


def test_so_many_lines_of_a_kind_are_written_in_a_while_and_the_next_counts_the_rest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = VirtualClock()
    says = Seldom(logging.LoggerAdapter(logging.getLogger("barnabas")), clock)
    for number in range(LINES + 5):
        says.warn("noise", "client %d", number)
    says.warn("other", "something else")
    assert [record.getMessage() for record in caplog.records] == [
        *(f"client {number}" for number in range(LINES)), "something else"
    ]  # fmt: skip
    clock.advance_to(SECONDS)
    says.warn("noise", "client %d", 99)
    assert caplog.records[-1].getMessage() == "client 99 (5 more such lines were left out)"
