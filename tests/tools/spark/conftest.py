"""One Spark session and one cluster of three processes for all tests here; both are slow to start.

`make test` runs this directory in a process of its own, so that there is one session and not one per worker.
"""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.cluster_file.config import KafkaConfig
from actors.harness import Cluster
from tests.actors.topics import leader_of

CONFIG = KafkaConfig(default_replication_factor=3, min_insync_replicas=2, transaction_two_phase_commit_enable=True)
QUICK = (
    "-Xss16m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"  # Spark's own classes need not be verified
)
NEED_SPARK = (
    "test_source",
    "test_sink",
    "test_topic_sink",
    "test_pipeline",
    "test_stopping",
    "test_faults",
    "test_examples",
    "test_events",
    "test_standalone",
    "test_connect",
)
SECONDS = 300

MakeTopic = Callable[..., str]


def kept_in(directory: Path) -> dict[str, str]:
    """The environment of a driver that is to be killed: what it then leaves behind is in this directory."""
    return {"TMPDIR": str(directory), "JAVA_TOOL_OPTIONS": f"{QUICK} -Djava.io.tmpdir={directory}"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and item.path.stem in NEED_SPARK:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.timeout(SECONDS))
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, processes=True, config=CONFIG, log_level="error") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def quick_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A home of Spark without `python/lib/pyspark.zip`. Every Python process that Spark starts imports PySpark from it,
    where there is nothing compiled: 1.3 s of processor time each. As it is installed, that takes 0.3 s.
    """
    pytest.importorskip("pyspark")
    from pyspark.find_spark_home import _find_spark_home  # noqa: PLC0415  not without pyspark

    home = tmp_path_factory.mktemp("spark-home")
    for one in Path(_find_spark_home()).iterdir():
        if one.name != "python":
            (home / one.name).symlink_to(one)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_HOME", str(home))
        yield


@pytest.fixture(scope="session")
def spark(quick_home: None) -> Iterator[Any]:
    """Tasks are tried four times, as on a Spark cluster; `local[2]` would try them once."""
    from tools.spark.session import session  # noqa: PLC0415  not without pyspark

    conf = {"spark.driver.extraJavaOptions": QUICK, "spark.sql.shuffle.partitions": "2"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = session("local[2,4]", name="tests", conf=conf, log_level="OFF")
        yield made
        made.stop()


@pytest.fixture(scope="session")
def make_topic(cluster: Cluster) -> MakeTopic:
    numbers = itertools.count(1)

    def make(partitions: int = 1, prefix: str = "spark", **configs: str) -> str:
        name = f"{prefix}-{os.getpid()}-{next(numbers)}"
        settings = {"retention.ms": "-1", **{key.replace("_", "."): value for key, value in configs.items()}}
        cluster.admin.create_topic(name, partitions=partitions, replication_factor=3, configs=settings)
        for partition in range(partitions):
            leader_of(cluster, name, partition)
        return name

    return make
