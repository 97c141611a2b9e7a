"""The parts for Spark Connect that need no server. A job runs on one in test_connect."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tools.spark.test_standalone import free_port

pytest.importorskip("pyspark")

from tools.pipeline.sinks import sink
from tools.pipeline.sinks.sink import NoCheckpoint, query_id
from tools.spark import session as session_module
from tools.spark.session import NoServer, SparkMissing, session


def test_a_server_that_is_not_there_is_told_at_once() -> None:
    port = free_port()
    with pytest.raises(NoServer, match=f"no Spark Connect server answers at 127.0.0.1:{port}"):
        session(f"sc://127.0.0.1:{port}/;user_id=nobody")


def test_what_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Builder:
        def remote(self, url: str) -> Any:
            raise ImportError("grpcio must be installed")

    monkeypatch.setattr("pyspark.sql.SparkSession", type("SparkSession", (), {"builder": Builder()}))
    monkeypatch.setattr(session_module, "_must_answer", lambda _url: None)
    with pytest.raises(SparkMissing, match=r"pip install 'barnabas\[connect\]'"):
        session("sc://127.0.0.1")


def test_a_function_on_a_server_needs_the_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "is_remote", lambda: True)
    with pytest.raises(NoCheckpoint, match="foreach_batch needs checkpoint="):
        query_id(object(), None)
