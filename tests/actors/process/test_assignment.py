"""Partitions stay where they are, whatever becomes of the file's topics."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from actors.process.assignment import FILE_NAME, AssignmentError, partitions_of
from actors.process.config import BrokerConfig, ClusterConfig, KafkaConfig, TopicConfig


def config_of(data_dir: Path, *topics: TopicConfig, brokers: int = 3) -> ClusterConfig:
    configs = tuple(BrokerConfig(number, 0, data_dir / str(number)) for number in range(1, brokers + 1))
    return ClusterConfig("c", "127.0.0.1", data_dir, KafkaConfig(), configs, topics)


def homes(config: ClusterConfig) -> dict[str, tuple[int, ...]]:
    return {partition.group: tuple(voter.broker for voter in partition.replicas) for partition in partitions_of(config)}


def test_a_topic_added_before_another_moves_nothing(tmp_path: Path) -> None:
    a, b = TopicConfig("a", 2, 1), TopicConfig("b", 3, 2)
    before = homes(config_of(tmp_path, a))
    after = homes(config_of(tmp_path, b, a))
    assert {group: after[group] for group in before} == before
    assert len(after) == 5


def test_a_broker_added_moves_nothing(tmp_path: Path) -> None:
    topic = TopicConfig("a", 6, 3)
    before = homes(config_of(tmp_path, topic))
    assert homes(config_of(tmp_path, topic, brokers=5)) == before


def test_more_partitions_are_placed_and_the_old_ones_stay(tmp_path: Path) -> None:
    before = homes(config_of(tmp_path, TopicConfig("a", 2, 3)))
    after = homes(config_of(tmp_path, TopicConfig("a", 4, 3)))
    assert {group: after[group] for group in before} == before
    assert sorted(after) == ["a-0", "a-1", "a-2", "a-3"]


def test_a_topic_that_left_the_file_is_not_served_and_comes_back_where_it_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = TopicConfig("a", 2, 1), TopicConfig("b", 2, 1)
    before = homes(config_of(tmp_path, a, b))
    assert sorted(homes(config_of(tmp_path, b))) == ["b-0", "b-1"]
    assert "'a' is no longer in the file" in caplog.text
    assert homes(config_of(tmp_path, b, a)) == before


def test_a_replaced_directory_is_not_taken_for_the_voter_that_was_there(tmp_path: Path) -> None:
    config = config_of(tmp_path, TopicConfig("a", 1, 3))
    (before,) = partitions_of(config)
    shutil.rmtree(tmp_path / "2")
    (after,) = partitions_of(config)
    assert after == before


def test_a_broker_that_left_the_file_is_missed(tmp_path: Path) -> None:
    topic = TopicConfig("a", 3, 2)
    partitions_of(config_of(tmp_path, topic))
    with pytest.raises(AssignmentError, match="broker 3, which is not in the file"):
        partitions_of(config_of(tmp_path, topic, brokers=2))


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b'{"version":2,"partitions":[]}', b'{"version":1,"partitions":[[1]]}']
)
def test_a_damaged_or_newer_file_is_refused_by_name(tmp_path: Path, data: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(data)
    with pytest.raises(AssignmentError, match=FILE_NAME):
        partitions_of(config_of(tmp_path, TopicConfig("a", 1, 1)))
