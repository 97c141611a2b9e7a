"""A majority of the disks with the metadata is lost, and an operator lets the others go on."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest

from actors.cluster_file.config import KafkaConfig
from actors.cluster_file.facts import GROUP
from actors.harness import Cluster
from actors.messages.controller import DescribeQuorum
from actors.process.formation import read_formation
from tests.actors.waiting import wait_until
from tests.tools.cli.likeness import assert_like
from tools.cli.root import main
from tools.cli.shapes import SHAPES
from tools.client.json_client import JsonClient

TOPIC = "orders"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Of a cluster with three brokers in `data`."""
    path = tmp_path / "cluster.toml"
    brokers = "".join(f"[[broker]]\nid = {number}\nport = 0\n" for number in (1, 2, 3))
    path.write_text(f'[cluster]\ndata_dir = "{tmp_path / "data"}"\n{brokers}')
    return path


def run_once(data_dir: Path, *topics: str) -> None:
    """A cluster that makes these topics and is stopped."""
    with Cluster(3, data_dir=data_dir, log_level="error") as cluster:
        for topic in topics:
            cluster.admin.create_topic(topic, 1, 3)
            with JsonClient(cluster.bootstrap) as client:
                client.call("produce", topic=topic, partition=0, value=topic)


def topics_of(client: JsonClient) -> dict[str, Any]:
    return {topic["name"]: topic["partitions"][0] for topic in client.call("topics")["topics"]}


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main(["recover-metadata", *arguments]) == 1
    return capsys.readouterr().err


def test_one_surviving_directory_goes_on_and_those_that_come_back_form_no_second_cluster(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data_dir = tmp_path / "data"
    run_once(data_dir, TOPIC)
    for broker in ("2", "3"):
        shutil.move(data_dir / broker, tmp_path / f"lost-{broker}")
    assert main(["recover-metadata", str(file)]) == 0
    told = capsys.readouterr().out
    assert f"metadata\t1\t{data_dir / '1'}" in told
    assert "has no metadata" in told
    assert main(["recover-metadata", str(file), "--json"]) == 0
    assert_like(SHAPES["recover-metadata"].sample, orjson.loads(capsys.readouterr().out))
    assert read_formation(data_dir).generation == 0  # type: ignore[union-attr]
    assert main(["recover-metadata", str(file), "--accept-loss"]) == 0
    assert capsys.readouterr().out == "generation 1 of the metadata begins with 1 when the cluster is started\n"
    with Cluster(1, data_dir=data_dir, log_level="error") as cluster, JsonClient(cluster.bootstrap) as client:
        cluster.admin.create_topic("later", 1, 1)
        wait_until(lambda: TOPIC in topics_of(client), lambda: f"{topics_of(client)}")
        capsys.readouterr()
        assert main(["recover", "--accept-loss", "--json", "--bootstrap", cluster.bootstrap]) == 0
        assert_like(SHAPES["recover"].after_loss, orjson.loads(capsys.readouterr().out))
        client.call("produce", topic=TOPIC, partition=0, value="alone", acks=1)
    for broker in ("2", "3"):  # the old majority comes back, as it was
        shutil.move(tmp_path / f"lost-{broker}", data_dir / broker)
    with Cluster(3, data_dir=data_dir, log_level="error") as cluster, JsonClient(cluster.bootstrap) as client:
        wait_until(lambda: len(topics_of(client)[TOPIC]["isr"]) == 3, lambda: f"{topics_of(client)}")
        assert topics_of(client).keys() == {TOPIC, "later"}
        read = client.call("fetch", topic=TOPIC, partition=0, offset="earliest")
        assert [record["value"] for record in read["records"]] == [TOPIC, "alone"]
        wait_until(lambda: len(quorum(cluster)) == 3, lambda: f"{quorum(cluster)} vote on the metadata")
        cluster.kill(1)
        cluster.admin.create_topic("without-the-survivor", 1, 2)


def quorum(cluster: Cluster) -> list[int]:
    answer = cluster.ask("controller@1", DescribeQuorum())
    return [voter["broker"] for voter in orjson.loads(answer.answer)["voters"]]


@pytest.mark.parametrize("survivors", [[4, 5], [3]])
def test_a_generation_of_a_partition_that_the_metadata_has_lost_does_not_begin_twice(
    tmp_path: Path, survivors: list[int]
) -> None:
    """Broker 3 alone began it. It is down when brokers 4 and 5, which have heard of it, recover the partition."""
    data_dir, config = tmp_path / "data", KafkaConfig(min_insync_replicas=1)

    def is_left(brokers: list[int], heard: int) -> bool:
        """Are these replicas there, and have all of them heard of that generation?"""
        told = client.call("survivors", topic=TOPIC, partition=0)["survivors"]
        voters = {one["broker"]: one["latest_generation"] for one in told if one["is_voter"] or heard}
        return voters == dict.fromkeys(brokers, heard)

    with Cluster(5, data_dir=data_dir, config=config, log_level="error") as cluster:
        cluster.admin.create_topic(TOPIC, assignment=((3, 4, 5),))
        with JsonClient(cluster.bootstrap) as client:
            client.call("produce", topic=TOPIC, partition=0, value="all")
            for broker in (3, 4, 5):
                cluster.kill(broker)
            cluster.restart(3)
            wait_until(lambda: is_left([3], 0), lambda: f"{client.call('survivors', topic=TOPIC, partition=0)}")
            client.call("recover", topic=TOPIC, partition=0)
            client.call("produce", topic=TOPIC, partition=0, value="survivor")
    for lost in ("1", "2"):  # they and broker 3 have the record of that
        shutil.rmtree(data_dir / lost)
    shutil.rmtree(data_dir / "3" / GROUP)
    text = f'[cluster]\ndata_dir = "{data_dir}"\n'
    (tmp_path / "cluster.toml").write_text(text + "".join(f"[[broker]]\nid = {one}\nport = 0\n" for one in range(1, 6)))
    assert main(["recover-metadata", str(tmp_path / "cluster.toml"), "--survivors", "4,5", "--accept-loss"]) == 0
    with (
        Cluster(5, data_dir=data_dir, config=config, log_level="error") as cluster,
        JsonClient(cluster.bootstrap.split(",")[3]) as client,
    ):
        wait_until(lambda: is_left([3, 4, 5], 1), lambda: f"{client.call('survivors', topic=TOPIC, partition=0)}")
        is_down = 3 not in survivors
        if is_down:
            cluster.kill(3)
        answer = client.call("recover", topic=TOPIC, partition=0, survivors=survivors)
        assert answer["generation"] == 2
        if is_down:
            cluster.restart(3)
        wait_until(lambda: len(topics_of(client)[TOPIC]["isr"]) == 3, lambda: f"{topics_of(client)}")
        read = client.call("fetch", topic=TOPIC, partition=0, offset="earliest")
        assert [record["value"] for record in read["records"]] == (["all"] if is_down else ["all", "survivor"])


def test_a_recovery_that_never_began_loses_nothing_when_another_one_follows(tmp_path: Path, file: Path) -> None:
    """The second survivor is lost before the cluster was started."""
    data_dir = tmp_path / "data"
    run_once(data_dir, TOPIC)
    shutil.rmtree(data_dir / "3")
    shutil.rmtree(data_dir / "2" / "__cluster_metadata-0")
    assert main(["recover-metadata", str(file), "--survivors", "1", "--accept-loss"]) == 0
    formed = read_formation(data_dir)
    assert formed is not None
    assert (formed.generation, formed.since) == (1, (1,))
    (data_dir / "1").rename(tmp_path / "aside")
    assert main(["recover-metadata", str(file), "--survivors", "1", "--accept-loss"]) == 1
    (tmp_path / "aside").rename(data_dir / "1")
    with Cluster(3, data_dir=data_dir, log_level="error") as cluster, JsonClient(cluster.bootstrap) as client:
        assert TOPIC in topics_of(client)


def test_what_cannot_be_recovered_is_refused_with_the_reason(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data_dir = tmp_path / "data"
    assert "no directory has a copy of the metadata" in refusal(capsys, str(file), "--accept-loss")
    with Cluster(3, data_dir=data_dir, log_level="error"):
        assert "is in use by another cluster" in refusal(capsys, str(file), "--accept-loss")
    said = refusal(capsys, str(file), "--accept-loss", "--survivors", "1")
    assert "brokers 1, 2, 3 are enough of the voters 1, 2, 3; start the cluster" in said
    for broker in ("2", "3"):
        shutil.move(data_dir / broker, tmp_path / broker)
    said = refusal(capsys, str(file), "--accept-loss", "--survivors", "1,2")
    assert "the directory of broker 2 has no metadata; leave it out" in said
    assert main(["recover-metadata", str(file), "--accept-loss"]) == 0
    shutil.move(tmp_path / "2", data_dir / "2")
    assert "start the cluster" in refusal(capsys, str(file), "--accept-loss", "--survivors", "2")
    assert "nowhere.toml" in refusal(capsys, str(tmp_path / "nowhere.toml"))
