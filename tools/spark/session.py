"""A Spark session that works, wherever it is made.

    from tools.spark.session import session
    spark = session("local[*]")

What has to be right before the first session is set here once: a Java, the Python that the workers run, a stack that is
deep enough for `stop()`, and this project where workers can import it. What is in `conf` wins.

With `sc://host:port` the session is a Spark Connect server's. It needs no Java here; the server must have the same
version of Python, and this project where its Python can import it (PYTHONPATH).
"""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from tools.spark.java import java_home

ROOT = Path(__file__).parents[2]
_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.extraJavaOptions": "-Xss16m",  # stop() during foreachBatch overflows the usual stack
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
}


_REMOTE_CONF = {"spark.sql.session.timeZone": "UTC"}
"""All else is the server's own."""


_CONNECT_PORT = 15002
_PATIENCE = 10.0


class SparkMissing(Exception):
    """The extra `spark` or `connect` is not installed."""


class NoServer(Exception):
    """There is no Spark Connect server where one should be."""


def session(
    master: str = "local[*]", *, name: str = "barnabas", conf: Mapping[str, str] | None = None, log_level: str = "ERROR"
) -> SparkSession:
    """A session on a master: local[*], spark://…, or of a server: sc://…. One that runs already is given back."""
    if is_connect(master):
        return _remote(master, {**_REMOTE_CONF, **(conf or {})})
    prepare()
    builder = SparkSession.builder.master(master).appName(name)
    usual = {**_CONF, "spark.sql.shuffle.partitions": "4"} if master.startswith("local") else _CONF
    for key, value in {**usual, "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"], **(conf or {})}.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel(log_level)
    return made


def is_connect(master: str) -> bool:
    """Is it a Spark Connect server?"""
    return master.startswith("sc://")


def _remote(url: str, conf: Mapping[str, str]) -> SparkSession:
    _must_answer(url)
    try:
        made = SparkSession.builder.remote(url).getOrCreate()
    except ImportError as error:
        raise SparkMissing(f"Spark Connect needs more packages: pip install 'barnabas[connect]' ({error})") from error
    for key, value in conf.items():
        made.conf.set(key, value)
    return made


def _must_answer(url: str) -> None:
    """Spark itself would try for ten minutes, and say nothing."""
    found = urlsplit(url)
    where = (found.hostname or "", found.port or _CONNECT_PORT)
    try:
        socket.create_connection(where, _PATIENCE).close()
    except OSError as error:
        raise NoServer(f"no Spark Connect server answers at {where[0]}:{where[1]}: {error}") from error


def is_late_start(error: BaseException) -> bool:
    """Did a query end because a Python process was not up within ten seconds? No setting gives it longer, and on a busy
    machine it takes longer; nothing has happened yet then, and the query can be started again.
    """
    return "Python worker failed to connect back" in str(error)


def prepare() -> None:
    """Set what Spark reads from the environment, for this process and those that it starts."""
    if importlib.util.find_spec("pyarrow") is None:
        raise SparkMissing("pyarrow is not installed: pip install 'barnabas[spark]'")
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(ROOT) not in known:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, known)])
