"""`barnabas transactions`: what it tells of open transactions, and how it ends them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from actors.harness import Cluster
from tests.actors.waiting import wait_until
from tests.naming import unique
from tools.cli.root import main
from tools.client.consumer import Consumer
from tools.client.errors import ProducerFenced
from tools.client.metadata import TopicPartition
from tools.client.producer import Producer


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Cluster(3, log_level="critical") as cluster:
        yield cluster.bootstrap


@pytest.fixture
def name() -> str:
    return unique("id")


@pytest.fixture
def producer(bootstrap: str, name: str) -> Iterator[Producer]:
    """One whose transaction is open in a topic of its transactional id's name."""
    with Producer(bootstrap, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin()
        producer.send(name, b"x", partition=0).result()
        yield producer


def cli(capsys: pytest.CaptureFixture[str], bootstrap: str, *arguments: str, code: int = 0) -> str:
    assert main(["transactions", *arguments, "--bootstrap", bootstrap]) == code
    return capsys.readouterr().out


def stable_end(bootstrap: str, where: TopicPartition) -> int:
    with Consumer(bootstrap, isolation="read_committed") as consumer:
        return consumer.end_offsets([where])[where]


@pytest.mark.usefixtures("producer")
def test_what_is_open_is_listed_and_described(bootstrap: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert name in cli(capsys, bootstrap, "list", "--state", "Ongoing")
    assert name not in cli(capsys, bootstrap, "list", "--state", "Empty")
    transaction, partition = cli(capsys, bootstrap, "describe", name).splitlines()
    assert transaction.split("\t")[:3] == ["transaction", name, "Ongoing"]
    assert partition.split("\t") == ["partition", name, "0"]
    told = json.loads(cli(capsys, bootstrap, "describe", name, "--json"))
    assert told["partitions"] == [[name, 0]]
    assert main(["transactions", "describe", "nobody", "--bootstrap", bootstrap]) == 1
    assert "TRANSACTIONAL_ID_NOT_FOUND" in capsys.readouterr().err
    assert main(["transactions", "list", "--state", "Sleepy", "--bootstrap", bootstrap]) == 1
    assert "no such state: Sleepy" in capsys.readouterr().err


@pytest.mark.usefixtures("producer")
def test_what_is_merely_open_does_not_hang(bootstrap: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(capsys, bootstrap, "find-hanging", "--topic", name, "--older-than", "0") == ""


def test_an_aborted_transactional_id_is_fenced(
    bootstrap: str, name: str, producer: Producer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "aborted" in cli(capsys, bootstrap, "abort", name)
    with pytest.raises(ProducerFenced):
        producer.commit()
    wait_until(lambda: stable_end(bootstrap, TopicPartition(name, 0)) == 2, lambda: "there is no marker yet")
    assert "no transaction was open" in cli(capsys, bootstrap, "abort", name)


@pytest.mark.usefixtures("producer")
def test_a_marker_ends_a_transaction_in_one_partition(
    bootstrap: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--topic", name, "--partition", "0", "--start-offset")
    assert stable_end(bootstrap, TopicPartition(name, 0)) == 0
    assert main(["transactions", "abort", *where, "7", "--bootstrap", bootstrap]) == 1
    assert "began at offset 7" in capsys.readouterr().err
    assert "aborted" in cli(capsys, bootstrap, "abort", *where, "0")
    assert stable_end(bootstrap, TopicPartition(name, 0)) == 2
    assert main(["transactions", "abort", "--topic", name, "--bootstrap", bootstrap]) == 2
    # The coordinator does not know; it ends what it has, as ever.
