"""A broker that has much to close is waited for as long as it gets on, and leaves every log closed cleanly."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest
import trio

from actors.broker import broker
from actors.broker.broker import BrokerSpec
from actors.cluster_file.config import BrokerConfig, ClusterConfig, KafkaConfig
from actors.harness import Cluster
from actors.messages.process import BrokerStopping
from actors.process import launcher
from actors.process.launcher import open_launcher
from log.partition.partition_log import PartitionLog
from log.recovery.checkpoint import CLEAN, SyncLater

PARTITIONS, CLOSE_SECONDS = 80, 0.01


def test_a_broker_with_many_logs_closes_all_of_them_before_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(broker, "STOP_SECONDS", 0.3)
    monkeypatch.setattr(broker, "STOP_REPORT_SECONDS", 0.05)
    close, hear = PartitionLog.close, launcher.Launcher._is_stopping
    heard: list[int] = []

    def close_slowly(self: PartitionLog, sync_later: SyncLater | None = None) -> None:
        time.sleep(CLOSE_SECONDS)
        close(self, sync_later)

    def note(self: launcher.Launcher, message: BrokerStopping) -> None:
        heard.append(message.actors)
        hear(self, message)

    monkeypatch.setattr(launcher.Launcher, "_is_stopping", note)
    with Cluster(1, data_dir=tmp_path) as cluster:
        cluster.admin.create_topic("many", PARTITIONS, 1)
        monkeypatch.setattr(PartitionLog, "close", close_slowly)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
    assert len(list(tmp_path.glob(f"1/many-*/{CLEAN}"))) == PARTITIONS
    assert len(heard) > 1, "the launcher hears how many actors are left"
    assert heard == sorted(heard, reverse=True)


class Life:
    """Of a broker that ends when it is let go, or is killed."""

    pid = 1

    def __init__(self) -> None:
        self.over = trio.Event()
        self.how = "exit code 0"

    async def ended(self) -> str:
        await self.over.wait()
        return self.how

    def end(self) -> None:
        """It takes its time."""

    def kill(self) -> None:
        self.how = "killed"
        self.over.set()


class Host:
    def __init__(self) -> None:
        self.life = Life()

    def start(self, _spec: BrokerSpec) -> Life:
        return self.life


@pytest.mark.parametrize(("gets_on", "how"), [(True, "exit code 0"), (False, "killed")])
async def test_the_launcher_kills_only_a_broker_that_does_not_get_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock, gets_on: bool, how: str
) -> None:
    config = ClusterConfig("c", "127.0.0.1", tmp_path, KafkaConfig(), (BrokerConfig(1, 0, tmp_path / "1"),), ())
    host = Host()
    async with trio.open_nursery() as nursery, open_launcher(config, lambda _scheduler, _nursery: host) as running:
        nursery.start_soon(running.live_once, 1)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(running.stop)
        for left in range(50, 0, -1):
            await trio.sleep(launcher.STOP_SECONDS / 2)
            running._is_stopping(BrokerStopping(1, left if gets_on else 50))
        host.life.over.set()
    assert running.ends[1] == how
