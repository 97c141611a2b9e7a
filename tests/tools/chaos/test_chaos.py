"""A short run as users start it, against a cluster that nobody harms and against one of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.harness import Cluster
from tests.actors.conftest import own_tmp  # noqa: F401  a fixture
from tools.chaos.__main__ import main
from tools.checker.files import read
from tools.checker.history import OffsetCommit, Poll, Send, TransactionEnded

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
