"""A Spark session that works without further settings.

    from tools.spark.session import session
    spark = session("local[*]")

This module sets what Spark needs before the first session: a Java, the Python of the workers, a stack that is deep
enough for `stop()`, and, if the workers are on this machine, the path of this project for their imports. `conf`
overrides it.

On a cluster whose master is elsewhere (`spark://host:port`), Spark itself finds the address under which executors reach
this driver. They need this project installed, and the same Python under the same path; PYSPARK_PYTHON names another.

With `sc://host:port` the session is a Spark Connect server's. It needs no Java here; the server must have the same
version of Python, and this project where its Python can import it (PYTHONPATH).
"""

from __future__ import annotations

import importlib.util
import ipaddress
import logging
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tools.spark.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[__name__.count(".")]
"""The directory from which this module is imported: the checkout, or where the wheel is installed."""
_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.extraJavaOptions": "-Xss16m",  # stop() during foreachBatch overflows the usual stack
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
}
_LOOPBACK = "127.0.0.1"
_CONF_HERE = {
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.driver.host": _LOOPBACK,
    # As with Spark's default one rename puts a file of the checkpoint in place, but an empty micro-batch takes 35 ms
    # instead of 95. Drivers that are killed at random moments go on from such checkpoints (test_random_kills).
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing."
    "FileSystemBasedCheckpointFileManager",
}
"""If the driver and the workers are on one machine."""


_REMOTE_CONF = {"spark.sql.session.timeZone": "UTC"}
"""Everything else is set by the server."""


_CONNECT_PORT = 15002
_PATIENCE = 10.0
_NO_PYSPARK = "PySpark is not installed: pip install 'barnabas[spark]' ({})"


class SparkMissing(Exception):
    """The extra `spark` or `connect` is not installed."""


class NoServer(Exception):
    """There is no Spark Connect server at the address."""


def session(
    master: str = "local[*]", *, name: str = "barnabas", conf: Mapping[str, str] | None = None, log_level: str = "ERROR"
) -> SparkSession:
    """A session on a master: local[*], spark://…, or of a server: sc://…. A running session is reused."""
    if is_connect(master):
        return _remote(master, {**_REMOTE_CONF, **(conf or {})})
    prepare(master)
    _silence_echoes()
    builder = _session_class().builder.master(master).appName(name)
    for key, value in {**usual_conf(master), **(conf or {})}.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel(log_level)
    return made


def usual_conf(master: str) -> dict[str, str]:
    """The default conf for a master."""
    usual = dict(_CONF)
    if is_here(master):
        usual |= {**_CONF_HERE, "spark.executorEnv.PYTHONPATH": _with_project()}
    if master.startswith("local"):
        usual["spark.sql.shuffle.partitions"] = "4"
    return usual


def is_here(master: str) -> bool:
    """Do the tasks run on this machine? Locally, and with a master that only this machine can reach."""
    if master.startswith("local"):
        return True
    if not master.startswith("spark://"):
        return False
    hosts = [urlsplit(f"//{one}").hostname or "" for one in master.removeprefix("spark://").split(",")]
    return all(_is_loopback(host) for host in hosts)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_connect(master: str) -> bool:
    """Is it a Spark Connect server?"""
    return master.startswith("sc://")


def _remote(url: str, conf: Mapping[str, str]) -> SparkSession:
    _must_answer(url)
    try:
        made = _session_class().builder.remote(url).getOrCreate()
    except ImportError as error:
        raise SparkMissing(f"Spark Connect needs more packages: pip install 'barnabas[connect]' ({error})") from error
    for key, value in conf.items():
        made.conf.set(key, value)
    return made


def _session_class() -> type[SparkSession]:
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415  PySpark is optional
    except ImportError as error:
        raise SparkMissing(_NO_PYSPARK.format(error)) from error
    return SparkSession


def _silence_echoes() -> None:
    """PySpark logs an error of SQL as one line of JSON with a Java stack, and raises it too."""
    try:
        from pyspark.logger import PySparkLogger  # noqa: PLC0415  PySpark is optional
    except ImportError as error:
        raise SparkMissing(_NO_PYSPARK.format(error)) from error
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


def _must_answer(url: str) -> None:
    """Raise NoServer at once: Spark itself would retry for ten minutes without a message."""
    found = urlsplit(url)
    where = (found.hostname or "", found.port or _CONNECT_PORT)
    try:
        socket.create_connection(where, _PATIENCE).close()
    except OSError as error:
        raise NoServer(f"no Spark Connect server answers at {where[0]}:{where[1]}: {error}") from error


def is_late_start(error: BaseException) -> bool:
    """Did a query end because a Python process did not start within ten seconds? That time has no setting, and a busy
    machine needs longer. The query has not done anything yet, and can be started again.
    """
    return "Python worker failed to connect back" in str(error)


def prepare(master: str) -> None:
    """Set the environment variables of Spark, for this process and those that it starts."""
    if importlib.util.find_spec("pyarrow") is None:
        raise SparkMissing("pyarrow is not installed: pip install 'barnabas[spark]'")
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_here(master):
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    os.environ["PYTHONPATH"] = _with_project()  # for Spark's Python processes, which plan and commit


def _with_project() -> str:
    known = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
    return os.pathsep.join(known if str(ROOT) in known else [str(ROOT), *known])
