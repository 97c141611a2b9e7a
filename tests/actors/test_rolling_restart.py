"""Every broker is ended and started again, one after the other, under load: clients with retries see no error."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from actors.cluster_file.config import KafkaConfig
from actors.harness import Cluster
from actors.partition.hosting import BALANCE_SECONDS
from tests.actors.topics import Writer, wait_until_settled
from tests.actors.waiting import wait_until

PARTITIONS = 3


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_writers_see_no_error_and_lose_nothing_in_a_rolling_restart(
    leaves_nothing: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And afterwards, still under load, every partition goes back to its preferred leader."""
    with Cluster(processes=True, data_dir=tmp_path, config=KafkaConfig(min_insync_replicas=2)) as cluster:
        cluster.admin.create_topic("orders", PARTITIONS, 3)
        wait_until_settled(cluster, tmp_path)
        with ExitStack() as stack:
            writers = [stack.enter_context(Writer(cluster, "orders", number)) for number in range(PARTITIONS)]
            for broker in cluster.brokers:
                for writer in writers:
                    writer.more(20)
                cluster.end(broker)
                for writer in writers:
                    writer.more(20)
                cluster.restart(broker)
                wait_until_settled(cluster, tmp_path)
            rolling = [writer.gap_seconds for writer in writers]

            def misled() -> list[dict[str, object]]:
                partitions = cluster.admin.topic("orders")["partitions"]
                return [one for one in partitions if one["leader"] != one["replicas"][0]]

            wait_until(lambda: not misled(), lambda: f"{misled()}", seconds=3 * BALANCE_SECONDS)
            for writer in writers:
                writer.more(20)
        for writer in writers:
            writer.check()
        with capsys.disabled():
            for writer, gap in zip(writers, rolling, strict=True):
                sys.stdout.write(
                    f"\n{writer.group}: {writer.acknowledged} records, longest gap {gap * 1000:.0f} ms, "
                    f"{writer.gap_seconds * 1000:.0f} ms with the return of the leaders; {dict(writer.errors)}"
                )
