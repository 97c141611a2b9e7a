"""The benchmarks of the wire run, and have a figure for everybody. What the figures are is not looked at here."""

from __future__ import annotations

import pytest

from tests.actors.conftest import own_tmp  # noqa: F401  a fixture
from tools.bench.__main__ import main

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


@pytest.mark.parametrize("name", ["produce", "fetch", "latency", "transactions", "groups"])
def test_a_short_measurement_has_figures_of_our_clusters_and_of_the_mock(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, "--quick"]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    for cluster in ("ours, 1 process", "ours, 3 processes", "mock"):
        figures = [line[1:] for line in lines if line[0] == cluster]
        assert any(figure.replace(",", "").replace(".", "").isdigit() for line in figures for figure in line), cluster
