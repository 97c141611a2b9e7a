"""Every data directory that an earlier version wrote is opened, and nothing in it is lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from actors.broker.identity import FORMAT_VERSION
from actors.harness import Cluster
from tests.golden import content

HERE = Path(__file__).parent
DIRECTORIES = sorted(path for version in HERE.glob("version-*") for path in version.iterdir())
SECONDS_MAX = 20.0


def read(bootstrap: str, topic: str, count: int) -> list[Message]:
    """All committed records of the topic's only partition, which are so many."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Message] = []
    while (message := consumer.poll(SECONDS_MAX)) is not None and len(found) <= count:
        if message.error():
            break  # the end
        found.append(message)
    consumer.close()
    return found


def test_this_version_has_a_golden_directory() -> None:
    assert f"version-{FORMAT_VERSION}" in {path.parent.name for path in DIRECTORIES}, (
        "run python -m tests.golden.make and add what it makes"
    )


@pytest.mark.parametrize("golden", DIRECTORIES, ids=lambda path: f"{path.parent.name} {path.name}")
def test_data_that_an_earlier_version_wrote_is_read_and_goes_on(golden: Path, tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    shutil.copytree(golden, data_dir)
    with Cluster(1, data_dir=data_dir, config=content.CONFIG) as cluster:
        values = content.plain_values()
        assert [message.value() for message in read(cluster.bootstrap, content.PLAIN, len(values))] == values
        kept = content.compacted_records()
        found = {one.key(): one.value() for one in read(cluster.bootstrap, content.COMPACTED, len(kept))}
        assert found == kept
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": content.GROUP})
        (committed,) = consumer.committed([TopicPartition(content.PLAIN, 0)], SECONDS_MAX)
        consumer.close()
        assert committed.offset == content.COMMITTED_OFFSET
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": content.TRANSACTIONAL_ID})
        producer.init_transactions(SECONDS_MAX)
        producer.begin_transaction()
        producer.produce(content.PLAIN, b"later", partition=0)
        producer.commit_transaction(SECONDS_MAX)
        assert read(cluster.bootstrap, content.PLAIN, len(values) + 1)[-1].value() == b"later"
