"""Makes the golden data directory of this version: `python -m tests.golden.make`."""

from __future__ import annotations

import shutil
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from actors.broker.identity import FORMAT_VERSION
from actors.control import metadata_snapshots
from actors.harness import Cluster
from tests.golden import content

HERE = Path(__file__).parent


def write(bootstrap: str) -> None:
    """Batches of one producer, a transaction that is aborted and one that is committed, keys, and a group's offset."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0})
    for number in range(content.BATCHES):
        for value in content.batch_values(number):
            producer.produce(content.PLAIN, value, partition=0)
        producer.flush()
    for key, value in content.compacted_records().items():
        producer.produce(content.COMPACTED, value, key, partition=0)
    producer.flush()
    transactional = Producer({"bootstrap.servers": bootstrap, "transactional.id": content.TRANSACTIONAL_ID})
    transactional.init_transactions()
    for is_kept in (False, True):
        transactional.begin_transaction()
        for value in content.batch_values(content.BATCHES if is_kept else content.BATCHES + 1):
            transactional.produce(content.PLAIN, value, partition=0)
        transactional.flush()
        (transactional.commit_transaction if is_kept else transactional.abort_transaction)()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": content.GROUP})
    consumer.commit(offsets=[TopicPartition(content.PLAIN, 0, content.COMMITTED_OFFSET)], asynchronous=False)
    consumer.close()


def make(into: Path) -> None:
    """One directory of a broker that was killed, one of a broker that was stopped."""
    stopped, killed = into / "stopped", into / "killed"
    metadata_snapshots.SNAPSHOT_LOG_BYTES = 500
    with Cluster(1, data_dir=stopped, config=content.CONFIG) as cluster:
        for topic, configs in content.TOPIC_CONFIGS.items():
            cluster.admin.create_topic(topic, 1, 1, configs=configs)
        write(cluster.bootstrap)
        shutil.copytree(stopped, killed, ignore=shutil.ignore_patterns(".lock", "sockets"))
    for name in (".lock", "reserve"):  # the reserve is megabytes of nothing
        for path in into.rglob(name):
            path.unlink()


if __name__ == "__main__":
    make(HERE / f"version-{FORMAT_VERSION}")
