"""The worked examples check themselves; here they run in the tests' own session. `make test-long` runs some of them
on a Spark cluster (test_standalone) and on a Spark Connect server (test_connect) too.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from actors.harness import Cluster
from tests.tools.spark.conftest import SECONDS, MakeTopic
from tests.tools.spark.streams import again_if_late
from tools.client.producer import Producer
from tools.examples import order_saga as program
from tools.examples.stage import Stage

README = Path(__file__).parents[3] / "README.md"


@pytest.mark.parametrize(
    "name",
    [
        "log_stream",
        "order_saga",
        *(pytest.param(one, marks=pytest.mark.long) for one in ("audit_ledger", "iot_telemetry", "topology_audit")),
    ],
)
def test_an_example_has_the_result_that_it_says(
    name: str, spark: Any, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tools.examples.spark import (  # noqa: PLC0415  not without pyspark
        audit_ledger,
        iot_telemetry,
        log_stream,
        order_saga,
        topology_audit,
    )
    from tools.examples.spark.stage import SparkStage  # noqa: PLC0415

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # a capture leaves its lock file there
    modules: tuple[Any, ...] = (audit_ledger, iot_telemetry, log_stream, order_saga, topology_audit)
    (example,) = [one for one in modules if one.__name__.endswith(name)]
    lines: list[str] = []
    stage = Stage(cluster.bootstrap, tmp_path, count=300, say=lines.append)
    try:
        assert example.play(SparkStage(stage, spark))
        assert lines
    finally:
        stage.remove_topics()


@pytest.mark.long
def test_an_example_on_spark_survives_the_death_of_a_broker() -> None:
    pytest.importorskip("pyspark")
    command = [sys.executable, "-m", program.__name__, "--engine", "spark", "--kill-broker", "--count", "300"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert run.returncode == 0, run.stderr
    assert "was killed" in run.stderr


def test_the_readmes_program_shows_a_topic(spark: Any, cluster: Cluster, make_topic: MakeTopic) -> None:
    topic = make_topic()
    with Producer(cluster.bootstrap) as producer:
        producer.send(topic, b"two cups")
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    (program,) = [block for block in blocks if 'format("barnabas")' in block]
    assert len([line for line in program.splitlines() if line]) <= 12
    program = program.replace("127.0.0.1:9092", cluster.bootstrap).replace('"orders"', f'"{topic}"')
    program = program.replace('format("console")', 'format("memory").queryName("readme")')
    again_if_late(lambda: exec(program, {}))
    assert [row.value for row in spark.table("readme").collect()] == ["two cups"]
