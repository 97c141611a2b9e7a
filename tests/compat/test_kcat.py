"""kcat, where it is installed."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from actors.harness import Cluster
from tests.compat.conftest import Topics

KCAT = shutil.which("kcat") or shutil.which("kafkacat")
pytestmark = pytest.mark.skipif(KCAT is None, reason="kcat is not installed")


def kcat(cluster: Cluster, *args: str, stdin: str = "") -> str:
    assert KCAT is not None
    command = [KCAT, "-b", cluster.bootstrap, "-m", "20", *args]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=40, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_kcat_reads_what_it_has_written(codec: str, cluster: Cluster, make_topic: Topics) -> None:
    topic = make_topic(cluster)
    lines = [f"key{number}:value {number}" for number in range(50)]
    kcat(cluster, "-P", "-t", topic, "-p", "0", "-z", codec, "-K", ":", "-H", "trace=1", stdin="\n".join(lines) + "\n")
    read = kcat(cluster, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-f", "%o %k:%s %h\n")
    assert read.splitlines() == [f"{offset} {line} trace=1" for offset, line in enumerate(lines)]


def test_kcat_lists_and_finds_offsets(cluster: Cluster, make_topic: Topics) -> None:
    topic = make_topic(cluster, 2)
    kcat(cluster, "-P", "-t", topic, "-p", "1", stdin="a\nb\n")
    listed = json.loads(kcat(cluster, "-L", "-J", "-t", topic))
    assert [broker["id"] for broker in sorted(listed["brokers"], key=lambda one: one["id"])] == [1, 2, 3]
    assert len(listed["topics"][0]["partitions"]) == 2
    assert kcat(cluster, "-Q", "-t", f"{topic}:1:-1").strip() == f"{topic} [1] offset 2"
    assert kcat(cluster, "-Q", "-t", f"{topic}:1:-2").strip() == f"{topic} [1] offset 0"


def test_kcat_reads_as_a_member_of_a_group_and_goes_on_where_it_was(cluster: Cluster, make_topic: Topics) -> None:
    topic = make_topic(cluster, 2)
    read: list[str] = []
    for number in range(2):
        lines = [f"{number} {at}" for at in range(10)]
        for partition in range(2):
            kcat(cluster, "-P", "-t", topic, "-p", f"{partition}", stdin="\n".join(lines[partition::2]) + "\n")
        member = ("-G", f"{topic} readers", "-X", "auto.offset.reset=earliest", "-c", f"{len(lines)}", "-q")
        read += kcat(cluster, *member, "-f", "%p %s\n", topic).splitlines()
    assert sorted(read) == sorted(f"{at % 2} {number} {at}" for number in range(2) for at in range(10))
