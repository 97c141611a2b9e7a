"""The worked examples check themselves; here they run in the tests' own session. `make test-long` runs some of them
on a Spark cluster (test_standalone) and on a Spark Connect server (test_connect) too.
"""

from __future__ import annotations

import importlib
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest

from actors.harness import Cluster
from tests.tools.spark.conftest import MakeTopic
from tests.tools.spark.streams import again_if_late
from tools import examples
from tools.client.producer import Producer

README = Path(__file__).parents[3] / "README.md"


@pytest.mark.parametrize(
    "name",
    [
        "log_stream",
        "order_saga",
        *(pytest.param(one, marks=pytest.mark.long) for one in ("audit_ledger", "iot_telemetry")),
    ],
)
def test_an_example_has_the_result_that_it_says(
    name: str, spark: Any, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # a capture leaves its lock file there
    stage = importlib.import_module(f"{examples.__name__}.stage").Stage(cluster.bootstrap, spark, tmp_path)
    assert importlib.import_module(f"{examples.__name__}.{name}").play(stage)


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
