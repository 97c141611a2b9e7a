"""Every error of a job is one line, and an exit code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tools.spark.test_standalone import free_port
from tools.client.errors import TimedOut
from tools.pipeline import __main__ as command
from tools.pipeline.capture import Capture, CaptureError
from tools.spark import session

STREAM = """
name = "x"
checkpoint = "c"
[source]
bootstrap = "127.0.0.1:1"
subscribe = "t"
[[sink]]
type = "parquet"
path = "p"
"""
CAPTURE = """
name = "x"
[capture]
type = "{kind}"
path = "{path}"
bootstrap = "127.0.0.1:1"
topic = "t"
"""
FAILED = """[STREAM_FAILED] Query [id = 1] terminated with exception: An exception was raised by the Python Proxy.
Return Message: Traceback (most recent call last):
  File "batches.py", line 7, in __call__
    raise BadRecords
jobs.batches.BadRecords: t-0 at offset 5: the value is not UTF-8

\tat py4j.Protocol.getReturnValue(Protocol.java:476) SQLSTATE: XXKST"""


def run(file: Path, text: str, monkeypatch: pytest.MonkeyPatch, *options: str) -> int:
    file.write_text(text)
    monkeypatch.setattr(sys, "argv", ["pipeline", str(file), *options])
    monkeypatch.setattr("signal.signal", lambda *_: None)
    return command.main()


@pytest.mark.parametrize("error", [CaptureError("gone"), TimedOut("gone"), PermissionError("gone")])
def test_a_capture_that_fails_is_one_line(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> int:
        raise error

    monkeypatch.setattr(Capture, "run", fail)
    file = tmp_path / "job.toml"
    assert run(file, CAPTURE.format(kind="file", path=tmp_path / "log"), monkeypatch) == 1
    assert capsys.readouterr().err == f"{file}: gone\n"


def test_a_file_that_is_no_database_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    database, file = tmp_path / "x.db", tmp_path / "job.toml"
    database.write_text("this is no database, and long enough to be seen as such" * 20)
    assert run(file, CAPTURE.format(kind="sqlite", path=database) + 'table = "t"\n', monkeypatch) == 1
    assert capsys.readouterr().err == f"{file}: file is not a database\n"


def test_a_missing_pyspark_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda _name: None)
    file = tmp_path / "job.toml"
    assert run(file, STREAM, monkeypatch) == 1
    assert capsys.readouterr().err == f"{file}: pyspark is not installed: pip install 'barnabas[spark]'\n"


def test_brokers_that_are_not_there_are_told_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyspark")
    file, where = tmp_path / "job.toml", f"127.0.0.1:{free_port()}"
    text = STREAM.replace("127.0.0.1:1", where).replace("[[sink]]", '"kafka.default.api.timeout.ms" = 0\n[[sink]]')
    assert run(file, text, monkeypatch) == 1
    refusal = f"no broker answers at {where} within 0 s: {where}: Connection refused"
    assert capsys.readouterr().err == f"{file}: {refusal}\n"


def test_a_server_that_is_not_there_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyspark")
    file, port = tmp_path / "job.toml", free_port()
    assert run(file, STREAM, monkeypatch, "--master", f"sc://127.0.0.1:{port}") == 1
    assert capsys.readouterr().err.startswith(f"{file}: no Spark Connect server answers at 127.0.0.1:{port}")


def test_a_query_that_fails_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    errors: Any = pytest.importorskip("pyspark.errors")

    from tools.pipeline import job_runner  # noqa: PLC0415  not without pyspark

    def fail(*_: object) -> None:
        raise errors.StreamingQueryException(FAILED)

    class Session:
        def stop(self) -> None:
            """As Spark's does."""

    monkeypatch.setattr(command, "await_broker", lambda *_: None)
    monkeypatch.setattr(job_runner, "run_job", fail)
    monkeypatch.setattr(session, "session", lambda *_args, **_named: Session())
    file = tmp_path / "job.toml"
    assert run(file, STREAM, monkeypatch) == 1
    told = "jobs.batches.BadRecords: t-0 at offset 5: the value is not UTF-8"
    assert capsys.readouterr().err == f"x: Spark starts on local[*]\n{file}: {told}\n"


def test_ctrl_c_before_a_job_runs_is_no_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_run", interrupted)
    assert run(tmp_path / "job.toml", STREAM, monkeypatch) == 130
