"""A short run as users start it, against a cluster that nobody harms and against one of its own."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from actors.harness import Cluster
from tests.actors.conftest import own_tmp  # noqa: F401  a fixture
from tools import checker as package
from tools.chaos import __main__ as chaos
from tools.chaos.__main__ import Target, main
from tools.chaos.rounds import Outcome, judge
from tools.checker.__main__ import main as checker
from tools.checker.files import read, write
from tools.checker.history import OK, OffsetCommit, Poll, Send, TransactionEnded

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.long
def test_a_cluster_that_nobody_harms_keeps_its_promises(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = tmp_path / "history.jsonl"
    with Cluster(3, processes=True, log_level="error") as cluster:
        assert main(["--bootstrap", cluster.bootstrap, "--minutes", "0.1", "--history", str(history)]) == 0
    assert "clean: 1 rounds" in capsys.readouterr().out
    assert {Send, Poll, TransactionEnded, OffsetCommit} <= {type(one) for one in read(history)}


def test_a_cluster_of_its_own_keeps_its_promises_under_faults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--minutes", "0.2", "--seed", "7"]) == 0
    assert "faults: " in capsys.readouterr().out


@pytest.mark.parametrize(("asked", "kept"), [([], "chaos-7.jsonl"), (["--history", "mine.jsonl"], "mine.jsonl")])
def test_the_history_of_a_broken_round_is_kept(
    asked: list[str], kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken_round(
        _target: Target, _seed: str, _number: int, _rate: float, _seconds: float, history: Path
    ) -> Outcome:
        sent = Send("p", "a-0", "one", OK, 0.0, 1.0, offset=0)
        write(history, [sent, Poll("c", "c#1", "a-0", ((0, "two"),), 2.0, 3.0)])
        outcome = Outcome(2, {}, Counter())
        judge(outcome, history)
        return outcome

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(chaos, "_round", broken_round)
    assert main(["--bootstrap", "127.0.0.1:1", "--seed", "7", *asked]) == 1
    assert f"python -m {package.__name__} {kept}" in capsys.readouterr().out
    assert checker(["--all", kept]) == 1
    capsys.readouterr()
    assert main(["--bootstrap", "127.0.0.1:1", "--seed", "7", "--json", *asked]) == 1
    found, end = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (found["round"], found["operations"]) == (1, 2)
    assert found["anomalies"][0]["kind"]
    assert (end["clean"], end["rounds"], end["seed"], end["faults"]) == (False, 1, "7", {})


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["--cluster"], "--bootstrap"), (["--cluster", "--bootstrap", "127.0.0.1:1"], "no broker of ours")],
)
def test_what_cannot_be_tried_is_told(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(arguments)
    except SystemExit as ending:  # of argparse
        code = int(ending.code or 0)
    assert code == 2
    assert says in capsys.readouterr().err
