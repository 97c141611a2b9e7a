"""Results of programs as JSON lines, and text beside them."""

from __future__ import annotations

import json

import pytest

from tools.bench.report import table
from tools.results import json_lines, tell


def test_a_table_is_a_line_of_json_if_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    with json_lines(wanted=True):
        table("produce", ("cluster", "records/s"), [("ours", "1,000"), ("mock", "2,000")])
    out, err = capsys.readouterr()
    rows = [{"cluster": "ours", "records/s": "1,000"}, {"cluster": "mock", "records/s": "2,000"}]
    assert json.loads(out) == {"title": "produce", "rows": rows}
    assert err.startswith("# produce\n")


def test_results_are_text_alone_if_not_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    with json_lines(wanted=False):
        table("produce", ("cluster",), [("ours",)])
    tell(seed=2)
    assert capsys.readouterr() == ("# produce\ncluster\nours\n", "")
