"""What holds for the whole test suite."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as of a shell's background jobs; what tests start inherits it
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A deadline per example fails on a busy machine and says nothing about the code; the tests have a timeout. The examples
# are the same in every run, so that a change is never stopped by what it has nothing to do with; `make test-long` draws
# new ones.
settings.register_profile("barnabas", deadline=None, derandomize=True, database=None)
settings.register_profile("fresh", deadline=None, print_blob=True)
settings.load_profile("barnabas")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-transcripts", action="store_true", help="write tests/log/raft/transcripts again from what happens"
    )
    parser.addoption("--rewrite-pages", action="store_true", help="write what commands print into README.md and docs/")
    parser.addoption("--spark-kills", type=int, default=1, help="how often tests/tools/spark kills a driver")
    parser.addoption("--chaos-seconds", type=float, default=15.0, help="how long tests/chaos lets things go wrong")


SLOW = (
    "golden/test_golden.py",
    "tools/test_recover_metadata.py",
    "tools/test_holds.py",
    "tools/explorer/",
    "actors/test_recovery.py",
    "actors/test_moves.py",
    "actors/test_largest_records.py",
    "actors/test_full_disk.py",
    "compat/",
    "docs/",
    "actors/serving/kafka/handlers/",
    "actors/test_broker_deaths.py",
    "actors/test_cluster_command.py",
    "actors/test_json_groups.py",
    "actors/test_json_records.py",
    "log/test_crash_points.py",
    "log/test_log_fuzz.py",
    "log/test_log_model.py",
    "log/raft/test_random_histories.py",
    "tools/testing/",
    "tools/client/test_against_brokers.py",
    "tools/client/test_failover.py",
    "tools/client/writing/test_transactions.py",
    "protocol/schema/test_codec.py",
    "protocol/test_kio.py",
    "simulation/",
    "wheel/test_contents.py",
    "wheel/test_use.py",
)
"""What takes longer than `make test-fast` can wait for, though no test of it does by itself."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.relative_to(here).as_posix().startswith(SLOW) or item.get_closest_marker("long"):
            item.add_marker(pytest.mark.slow)
