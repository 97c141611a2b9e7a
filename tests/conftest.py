"""What holds for the whole test suite."""

from __future__ import annotations

import pytest
from hypothesis import settings

# A deadline per example fails on a busy machine and says nothing about the code; the tests have a timeout.
settings.register_profile("barnabas", deadline=None)
settings.load_profile("barnabas")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-transcripts", action="store_true", help="write tests/log/raft/transcripts anew from what happens"
    )
    parser.addoption("--chaos-seconds", type=float, default=15.0, help="how long tests/chaos lets things go wrong")
