"""How long a test waits for a cluster of its own. The best of several times: others may use the machine."""

from __future__ import annotations

import time

import pytest

from actors.harness import Cluster

pytestmark = pytest.mark.long
TIMES = 10


@pytest.mark.parametrize(("brokers", "seconds_max"), [(1, 0.15), (3, 0.3)])
def test_a_cluster_starts_and_stops_at_once(brokers: int, seconds_max: float) -> None:
    starts, stops = [], []
    for _ in range(TIMES):
        begin = time.perf_counter()
        with Cluster(brokers, log_level="error"):
            starts.append(time.perf_counter() - begin)
            begin = time.perf_counter()
        stops.append(time.perf_counter() - begin)
    assert min(starts) <= seconds_max
    assert min(stops) <= 0.1
