"""What the bench of Spark says of its rates, and of what it is given."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from tools.bench.spark import NoConnector, connector_conf, scan_lines


def test_the_verdict_against_the_stock_connector_is_told_where_it_was_measured() -> None:
    alone = {line[0]: line[-2:] for line in scan_lines({"ceiling": 100.0, "ours": 39.0}, 100)}
    assert alone == {"ceiling": ("", ""), "ours": ("no", "")}
    for stock, verdict in ((20.0, "2.00: faster"), (80.0, "0.50: slower")):
        lines = scan_lines({"ceiling": 80.0, "ours": 40.0, "stock": stock}, 100)
        assert {line[0]: line[-2:] for line in lines} == {
            "ceiling": ("", ""), "ours": ("yes", verdict), "stock": ("", "")
        }  # fmt: skip


def test_jars_that_are_not_the_connector_are_named_before_anything_starts(tmp_path: Path) -> None:
    def told(given: Path) -> str:
        with pytest.raises(NoConnector) as raised:
            connector_conf(str(given))
        return str(raised.value)

    other, text, connector = tmp_path / "other.jar", tmp_path / "text.jar", tmp_path / "connector" / "kafka.jar"
    with zipfile.ZipFile(other, "w") as jar:
        jar.writestr("org/example/Other.class", b"")
    assert told(other) == f"--connector-jar {other}: the connector is not there; spark-sql-kafka-0-10 has it"
    text.write_text("no jar")
    assert told(text).startswith(f"--connector-jar: {text} is no jar that can be read")
    assert told(tmp_path / "missing.jar").startswith(f"--connector-jar: {tmp_path}/missing.jar is no jar")
    connector.parent.mkdir()
    assert "the connector is not there" in told(connector.parent)
    with zipfile.ZipFile(connector, "w") as jar:
        jar.writestr("org/apache/spark/sql/kafka010/KafkaSourceProvider.class", b"")
    assert connector_conf(str(connector.parent)) == {"spark.jars": str(connector)}
