"""A topic is copied by processes that are killed, over brokers that are killed: every record once, none left out."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from actors.harness import Cluster
from actors.messages.coordinator import GROUPS_TOPIC, TRANSACTIONS_TOPIC, partition_of
from tests.actors.topics import leader_of
from tests.actors.waiting import wait_until
from tests.compat.client import Message
from tests.compat.confluent import Confluent
from tests.compat.conftest import Topics
from tests.compat.transactional import CLIENTS
from tests.compat.transactional import Confluent as ConfluentTransactions
from tests.naming import unique

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
PARTITIONS = 4
SECONDS = 90.0


class Transformer:
    """A process that is started again whenever it has ended, until it is no longer wanted."""

    def __init__(self, client: str, *arguments: str) -> None:
        self._command = [sys.executable, "-m", "tests.compat.transformer", client, *arguments]
        self.copied = self.lives = 0
        self._wanted = True
        self._lock = threading.Lock()
        self._process = self._begin()
        self._keeper = threading.Thread(target=self._keep)
        self._keeper.start()

    def kill(self) -> None:
        with self._lock:
            self._process.send_signal(signal.SIGKILL)

    def end(self) -> None:
        with self._lock:
            self._wanted = False
            self._process.send_signal(signal.SIGKILL)
        self._keeper.join()

    def _begin(self) -> subprocess.Popen[bytes]:
        self.lives += 1
        return subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=Path(__file__).parents[2]
        )

    def _keep(self) -> None:
        while True:
            assert self._process.stdout is not None
            with self._process.stdout as lines:
                for line in lines:
                    self.copied += int(line)
            self._process.wait()
            with self._lock:
                if not self._wanted:
                    return
                self._process = self._begin()


def coordinator_of(cluster: Cluster, topic: str, name: str) -> int:
    topics = cluster.admin.describe()["topics"]
    count = next(len(one["partitions"]) for one in topics if one["name"] == topic)
    return leader_of(cluster, topic, partition_of(name, count))


@pytest.mark.parametrize("client", CLIENTS)
def test_every_record_is_copied_once_whoever_is_killed(client: str, victims: Cluster, make_topic: Topics) -> None:
    cluster = victims
    source, target = make_topic(cluster, PARTITIONS), make_topic(cluster, PARTITIONS)
    group = unique("group")
    written: list[bytes] = []

    def write(count: int = 100) -> None:
        with Confluent().producer(cluster.bootstrap, idempotent=True) as producer:
            values = [b"%d" % (len(written) + at) for at in range(count)]
            for at, value in enumerate(values):
                producer.send((source, at % PARTITIONS), value)
            producer.flush()
        written.extend(values)

    found: list[Message] = []
    transformers = [Transformer(client, cluster.bootstrap, group, source, target, f"{number}") for number in range(2)]
    try:
        places = [(target, number) for number in range(PARTITIONS)]
        with ConfluentTransactions().committed(cluster.bootstrap, *places) as consumer:

            def copied() -> bool:
                found.extend(consumer.poll())
                return {one.value for one in found} >= set(written)

            def missing() -> str:
                lives = [(one.lives, one.copied) for one in transformers]
                return f"{len(found)} of {len(written)} are copied; lives and copies: {lives}"

            write()
            wait_until(copied, missing, seconds=SECONDS)
            for topic, name in ((TRANSACTIONS_TOPIC, f"{group} 0"), (GROUPS_TOPIC, group)):
                write()
                killed = coordinator_of(cluster, topic, name)
                cluster.kill(killed)
                write()
                transformers[0].kill()
                write()
                cluster.restart(killed)
                wait_until(copied, missing, seconds=SECONDS)
            write()
            transformers[1].kill()
            wait_until(copied, missing, seconds=SECONDS)
    finally:
        for transformer in transformers:
            transformer.end()
    assert sorted(one.value or b"" for one in found) == sorted(written), "something was copied twice"
