"""What a running query tells of its micro-batches."""

from __future__ import annotations

from typing import Any

import pytest

from tools.pipeline.running import lag, line


def source(end: Any, latest: Any, rows: int = 0) -> dict[str, Any]:
    return {"endOffset": end, "latestOffset": latest, "numInputRows": rows}


@pytest.mark.parametrize(
    ("end", "latest", "behind"),
    [
        ({"t": {"0": 7, "1": 9}}, {"t": {"0": 10, "1": 9}}, 3),
        ({"t": {"0": 7}}, {"t": {"0": 7}, "u": {"0": 5}}, 0),  # a partition that came later is not counted yet
        ({"t": {"0": 9}}, {"t": {"0": 7}}, 0),  # the end was asked for before
        ({"t": {"0": 9}}, None, 0),  # not asked yet
        (None, {"t": {"0": 7}}, 0),
    ],
)
def test_lag_is_what_is_there_and_was_not_read(end: Any, latest: Any, behind: int) -> None:
    assert lag(source(end, latest)) == behind


def test_a_line_tells_number_rows_time_and_lag() -> None:
    sources = [source({"t": {"0": 0}}, {"t": {"0": 1234}}, 3_000), source(None, None, 500)]
    progress = {"batchId": 7, "sources": sources, "durationMs": {"triggerExecution": 500}}
    assert line(progress) == "batch 7: 3,500 rows in 0.50 s (7,000 rows/s), 1,234 behind"
    assert line(progress | {"durationMs": {}}) == "batch 7: 3,500 rows in 0.00 s (0 rows/s), 1,234 behind"
