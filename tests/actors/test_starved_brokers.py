"""A broker that gets no processor for a while: its followers answer it again before it gives up its leadership."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from actors.cluster_file.config import TopicConfig
from actors.harness import Cluster
from tests.actors.serving.kafka.handlers.wire_client import WireClient

STOPPED_SECONDS = 2.0
"""Longer than a leader may go without its followers, and shorter than the silence after which links are closed."""


@pytest.mark.slow
def test_a_leader_that_got_no_processor_for_two_seconds_leads_on_and_refuses_nothing() -> None:
    enough = Event()

    def write(client: WireClient) -> int:
        """Until there was enough; an error ends the test."""
        last = -1
        while not enough.is_set():
            last = client.produce("orders", [b"x"])
        return last

    with Cluster(3, processes=True, topics=[TopicConfig("orders", 1, 3)]) as cluster:
        with WireClient(cluster) as client:
            before = client.until_led("orders").partitions[0]
        other = 1 + before.leader_id % 3
        with WireClient(cluster, before.leader_id) as writer, WireClient(cluster, other) as reader:
            with ThreadPoolExecutor(1) as pool:
                written = pool.submit(write, writer)
                time.sleep(0.5)
                cluster.pause(before.leader_id)
                time.sleep(STOPPED_SECONDS)
                cluster.resume(before.leader_id)
                time.sleep(1.0)
                enough.set()
                assert written.result() > 0
            after = reader.topic("orders").partitions[0]
            assert (after.leader_id, after.leader_epoch) == (before.leader_id, before.leader_epoch)
