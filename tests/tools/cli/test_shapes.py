"""What commands print with --json is what their help says."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.harness import Cluster
from tests.tools.cli.likeness import assert_like
from tools import cli
from tools.cli.administration import transactions
from tools.cli.root import main
from tools.cli.shapes import SHAPES, shape_of
from tools.client.administration.transactions import Hanging, OpenTransaction
from tools.client.metadata import TopicPartition
from tools.client.producer import Producer

ELSEWHERE = {
    "up", "down", "status", "doctor", "topics recover", "recover", "recover-metadata", "groups rebalances",
    "transactions find-hanging",
}  # fmt: skip
"""Where there is something to tell: beside the tests of what they do."""


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def bootstrap(data_dir: Path) -> Iterator[str]:
    with Cluster(1, data_dir=data_dir, log_level="critical") as cluster:
        yield cluster.bootstrap


def test_every_command_prints_its_shape(
    bootstrap: str, data_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    left = {*SHAPES} - ELSEWHERE

    def run(name: str, *arguments: object, connects: bool = True) -> None:
        before = ["--bootstrap", bootstrap] if connects else []
        assert main([*before, *name.split(), *map(str, arguments), "--json"]) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert lines
        assert len(lines) == 1 or SHAPES[name].each
        for line in lines:
            assert_like(SHAPES[name].sample, line)
        left.discard(name)

    run("topics create", "orders", "--partitions", 1)
    run("topics add-partitions", "orders", 2)
    run("topics list")
    run("topics describe", "orders")
    run("topics elect", "orders")
    run("configs alter", "topic", "orders", "retention.ms=1000000")
    run("configs describe", "topic", "orders")
    run("brokers")
    run("move", "orders", 0, 1)
    run("drain", 1, "--undo")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a:1\n2\n")))
    run("produce", "orders", "--key", ":", "--header", "a=b", "--partition", 0)
    run("consume", "orders", "--group", "billing", "--exit")
    run("groups list")
    run("groups describe", "billing")
    run("groups reset", "billing", "--to-earliest")
    run("groups delete-offsets", "billing", "orders")
    run("groups delete", "billing")
    with Producer(bootstrap, transactional_id="till") as producer:
        producer.init_transactions()
        producer.begin()
        producer.send("orders", b"x").result()
        run("transactions list")
        run("transactions describe", "till")
        run("transactions abort", "till")
    run("topics delete", "orders")
    (log,) = data_dir.glob("1/__consumer_offsets-0*/*.log")
    assert main(["dump-log", str(log), "--json"]) == 0
    *_, summary = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (summary["entry"], summary["files"], summary["problems"]) == ("summary", 1, [])
    assert left == {"dump-log"}


def test_help_shows_the_shape(capsys: pytest.CaptureFixture[str]) -> None:
    for name, shape in SHAPES.items():
        with pytest.raises(SystemExit):
            main([*name.split(), "--help"])
        out = capsys.readouterr().out
        assert shape.help() in out
        assert max(map(len, shape.help().splitlines())) <= 80
    assert shape_of(f"python -m {cli.__name__} topics") is None


def test_a_hanging_transaction_has_its_shape() -> None:
    hanging = Hanging(OpenTransaction(TopicPartition("orders", 0), 7, 0, 17, 1769860800000, -1), "till-4", "it is late")
    assert_like(SHAPES["transactions find-hanging"].sample["hanging"][0], transactions.plain(hanging))
