"""A batch of files is there as a whole or not at all, once, and survives a power cut."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tools.pipeline.sinks.parquet import ParquetSink
from tools.pipeline.sinks.sink import BatchId

BATCH = BatchId("q", 0)
FINAL = "query=q/batch=0"


def rows(text: str = "rows") -> Any:
    """What Spark does of a write, in short."""

    def write(uri: str) -> None:
        directory = Path(uri.removeprefix("file://"))
        directory.mkdir(parents=True)
        (directory / "part-0.parquet").write_text(text)
        (directory / "_SUCCESS").touch()

    return SimpleNamespace(write=SimpleNamespace(parquet=write))


def test_a_batch_that_comes_again_is_written_once(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path)
    assert sink.apply(rows(), BATCH)
    assert not sink.apply(rows("again"), BATCH)
    assert (tmp_path / FINAL / "part-0.parquet").read_text() == "rows"


def test_what_was_written_before_a_kill_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    def killed(*_: object) -> None:
        raise Killed

    sink = ParquetSink(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", killed)
        with pytest.raises(Killed):
            sink.apply(rows("half"), BATCH)
    assert not (tmp_path / FINAL).exists()
    assert all(one.name.startswith("_") for one in tmp_path.iterdir() if not one.name.startswith("query="))
    assert sink.apply(rows(), BATCH)
    assert [one.name for one in tmp_path.iterdir()] == ["query=q"]
    assert (tmp_path / FINAL / "part-0.parquet").read_text() == "rows"


def test_all_that_a_batch_is_was_synced_before_it_is_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    rename = Path.rename

    def synced(descriptor: int) -> None:
        done.append(str(Path(f"/proc/self/fd/{descriptor}").readlink().relative_to(tmp_path)))

    def renamed(path: Path, target: Path) -> Path:
        done.append("renamed")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "rename", renamed)
    ParquetSink(tmp_path).apply(rows(), BATCH)
    at = done.index("renamed")
    assert set(done[:at]) == {"_q-0/part-0.parquet", "_q-0/_SUCCESS", "_q-0", "."}
    assert done[at + 1 :] == ["query=q"]
