"""kafkajs on Node, where both are there; `npm install --prefix .cache/kafkajs kafkajs@2` puts it in its place."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from actors.harness import Cluster
from tests.compat.client import read
from tests.compat.confluent import Confluent
from tests.compat.conftest import Topics

NODE = shutil.which("node")
MODULES = Path(__file__).parents[2] / ".cache" / "kafkajs" / "node_modules"
pytestmark = pytest.mark.skipif(
    NODE is None or not (MODULES / "kafkajs").is_dir(),
    reason="node or .cache/kafkajs is not there; npm install --prefix .cache/kafkajs kafkajs@2 installs it",
)


def test_kafkajs_makes_topics_writes_transacts_and_reads_in_a_group(cluster: Cluster, make_topic: Topics) -> None:
    assert NODE is not None
    topic = f"{make_topic(cluster)}-kafkajs"
    done = subprocess.run(
        [NODE, Path(__file__).parent / "kafkajs" / "round_trip.js", cluster.bootstrap, topic],
        env={**os.environ, "NODE_PATH": str(MODULES), "KAFKAJS_NO_PARTITIONER_WARNING": "1"},
        capture_output=True, text=True, timeout=45, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["made"], told["brokers"], told["configs"]) == (True, 3, 1)
    assert {one["partition"]: (one["low"], one["high"]) for one in told["offsets"]} == {0: ("0", "4"), 1: ("0", "6")}
    assert sorted(told["read"]) == [
        [0, "1", None], [0, "2", "value"], [0, "3", None], [1, "2", "kept 1"], [1, "3", "kept 2"], [1, "4", "kept 3"],
    ], "from the offset in the transaction on, and nothing that was aborted"  # fmt: skip
    (committed,) = told["committed"]
    assert {one["partition"]: one["offset"] for one in committed["partitions"]} == {0: "4", 1: "5"}
    with Confluent().consumer(cluster.bootstrap, (topic, 0)) as consumer:
        found = read(consumer, 4)
    assert [(message.key, message.value) for message in found] == [
        (b"key 0", b"value"), (b"tombstone", None), (b"key 1", b"value"), (b"tombstone", None),
    ]  # fmt: skip
    assert found[0].headers == (("trace", b"1"),)
