"""What the bench of Spark says of its rates."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from tools.bench.spark import scan_lines


def test_the_verdict_against_the_stock_connector_is_told_where_it_was_measured() -> None:
    alone = {line[0]: line[-2:] for line in scan_lines({"ceiling": 100.0, "ours": 39.0}, 100)}
    assert alone == {"ceiling": ("", ""), "ours": ("no", "")}
    for stock, verdict in ((20.0, "2.00: faster"), (80.0, "0.50: slower")):
        lines = scan_lines({"ceiling": 80.0, "ours": 40.0, "stock": stock}, 100)
        assert {line[0]: line[-2:] for line in lines} == {
            "ceiling": ("", ""), "ours": ("yes", verdict), "stock": ("", "")
        }  # fmt: skip
