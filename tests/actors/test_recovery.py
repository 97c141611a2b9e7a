"""An operator gives lost replicas up: the survivors of a partition go on, and replicas that come back follow them."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest

from actors.cluster_file.config import KafkaConfig
from actors.harness import Cluster
from log.settings import unclean
from tests.actors.waiting import wait_until
from tests.tools.cli.likeness import assert_like
from tools.cli.root import main
from tools.cli.shapes import SHAPES
from tools.client.json_client import JsonClient, Refused

TOPIC = "orders"


def described(client: JsonClient) -> dict[str, Any]:
    (topic,) = [one for one in client.call("topics")["topics"] if one["name"] == TOPIC]
    (partition,) = topic["partitions"]
    found: dict[str, Any] = partition
    return found


def wait_for_isr(client: JsonClient, brokers: list[int]) -> None:
    wait_until(lambda: sorted(described(client)["isr"]) == brokers, lambda: f"{described(client)}")


def is_voter(client: JsonClient, broker: int) -> bool:
    """Has this broker made its replica since it was started?"""
    survivors = client.call("survivors", topic=TOPIC, partition=0)["survivors"]
    return any(one["broker"] == broker and one["is_voter"] for one in survivors)


def values(client: JsonClient) -> list[str]:
    answer = client.call("fetch", topic=TOPIC, partition=0, offset="earliest", max_records=1000)
    return [record["value"] for record in answer["records"]]


def produce(client: JsonClient, *sent: str) -> None:
    client.call("produce", topic=TOPIC, partition=0, records=[{"value": one} for one in sent])


def lose_power(cluster: Cluster, data_dir: Path) -> None:
    """Every broker is killed, and its machine has booted again since: what was not synced may be gone."""
    for broker in (1, 2, 3):
        cluster.kill(broker)
        (data_dir / str(broker) / "boot").write_text("an earlier boot")


@pytest.mark.parametrize("processes", [False, True], ids=["one process", "a process each"])
def test_survivors_of_a_power_loss_go_on_without_a_lost_disk_and_fill_it_when_it_comes_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], processes: bool
) -> None:
    data_dir = tmp_path / "data"
    with Cluster(3, processes=processes, data_dir=data_dir, log_level="error") as cluster:
        cluster.admin.create_topic(TOPIC, 1, 3)
        with JsonClient(cluster.bootstrap) as client:
            produce(client, *map(str, range(10)))
            wait_for_isr(client, [1, 2, 3])
        lose_power(cluster, data_dir)
        shutil.move(data_dir / "3", tmp_path / "lost")
        for broker in (1, 2):
            cluster.restart(broker)
        bootstrap = cluster.bootstrap

        def told(*arguments: str) -> str:
            assert main(["topics", *arguments, "--bootstrap", bootstrap]) == 0
            return capsys.readouterr().out

        command = f"{unclean.COMMAND} {TOPIC} 0"
        wait_until(lambda: command in told("describe", TOPIC), lambda: told("describe", TOPIC))
        answer = orjson.loads(told("recover", TOPIC, "--json"))
        assert_like(SHAPES["recover"].sample, answer)
        shown = answer["partitions"][0]
        assert {(one["broker"], one["is_complete"]) for one in shown["survivors"]} == {(1, False), (2, False)}
        assert shown["survivors"][0]["end_offset"] >= 10, "the best log is shown first"
        assert shown["missing"] == [3]
        assert "nothing was changed" in told("recover")
        brokers = ", ".join(str(one["broker"]) for one in shown["survivors"])
        assert told("recover", TOPIC, "0", "--accept-loss") == f"{TOPIC}-0 goes on with {brokers} in generation 1\n"
        with JsonClient(bootstrap) as client:
            wait_for_isr(client, [1, 2])
            assert values(client) == [*map(str, range(10))]
            produce(client, "after")
            with pytest.raises(Refused, match="has a leader, broker"):
                client.call("recover", topic=TOPIC, partition=0)
            shutil.move(tmp_path / "lost", data_dir / "3")
            cluster.restart(3)
            wait_for_isr(client, [1, 2, 3])
            cluster.kill(2)
            produce(client, "with the disk that came back")
            found = values(client)
        assert found == [*map(str, range(10)), "after", "with the disk that came back"]
        assert "every partition has a leader" in told("recover")


def test_an_old_majority_that_comes_back_drops_what_it_had_and_follows_the_survivor(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Cluster(5, log_level="error", config=KafkaConfig(min_insync_replicas=1)) as cluster:
        cluster.admin.create_topic(TOPIC, assignment=((3, 4, 5),))
        with JsonClient(cluster.bootstrap) as client:
            produce(client, "all")
            cluster.kill(3)
            produce(client, "majority")
            cluster.kill(4)
            cluster.kill(5)
            cluster.restart(3)
            wait_until(lambda: described(client)["leader"] is None, lambda: f"{described(client)}")
            wait_until(lambda: is_voter(client, 3), lambda: f"{client.call('survivors', topic=TOPIC, partition=0)}")
            client.call("recover", topic=TOPIC, partition=0)
            produce(client, "survivor")
            with caplog.at_level(logging.WARNING):
                cluster.restart(4)
                cluster.restart(5)
                wait_for_isr(client, [3, 4, 5])
            assert len([one for one in caplog.messages if "this replica was given up: it drops its log" in one]) == 2
            cluster.kill(3)
            produce(client, "again")
            assert values(client) == ["all", "survivor", "again"]


def test_a_recovery_that_cannot_be_is_refused_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(3, log_level="error") as cluster:
        cluster.admin.create_topic(TOPIC, assignment=((1, 2),))
        cluster.kill(1)
        with JsonClient(cluster.bootstrap) as client:
            wait_until(lambda: described(client)["leader"] is None, lambda: f"{described(client)}")

            def refusal(**fields: Any) -> str:
                with pytest.raises(Refused) as caught:
                    client.call("recover", **{"topic": TOPIC, "partition": 0, **fields})
                return str(caught.value)

            assert "broker 1 cannot be reached; start it, or leave it out" in refusal(survivors=[1, 2])
            assert "broker 3 keeps no replica of orders-0; name some of [1, 2]" in refusal(survivors=[3])
            assert "are not one or more different survivors" in refusal(survivors=[2, 2])
            assert "there is no partition 7 of a topic 'orders'" in refusal(partition=7)
            assert "there is no partition 0 of a topic 'nowhere'" in refusal(topic="nowhere")
        bootstrap = cluster.bootstrap
        assert main(["topics", "recover", "nowhere", "--bootstrap", bootstrap]) == 1
        assert "there is no topic 'nowhere'" in capsys.readouterr().err


def test_a_partition_of_which_no_replica_can_be_reached_cannot_be_recovered() -> None:
    with Cluster(3, log_level="error") as cluster:
        cluster.admin.create_topic(TOPIC, assignment=((2,),))
        cluster.kill(2)
        with (
            JsonClient(cluster.bootstrap) as client,
            pytest.raises(Refused, match=r"no replica that votes for orders-0 can be reached; start a broker .* \(2\)"),
        ):
            client.call("recover", topic=TOPIC, partition=0)
