"""Files that describe jobs: every mistake is told at once, with its key."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tools.pipeline import job
from tools.pipeline.job import CaptureJob, Job, JobError, load, parse


def shown() -> list[str]:
    """The files that the module's own text shows."""
    assert job.__doc__ is not None
    text = "\n".join(line[4:] for line in job.__doc__.splitlines() if line.startswith("    ") or not line)
    stream, capture = text.split("[capture]")
    return [stream, f'name = "captures"\n[capture]{capture}']


def test_the_jobs_that_are_shown_are_jobs() -> None:
    stream, capture = (parse(tomllib.loads(text)) for text in shown())
    assert isinstance(stream, Job)
    assert stream.source == {"subscribe": "orders", "startingOffsets": "earliest"}
    assert stream.sinks[1]["options"] == {"exactlyOnce": True}
    assert stream.dead_letters == "orders.dead"
    assert isinstance(capture, CaptureJob)
    assert capture.topic == "log"


def test_every_mistake_is_told_at_once() -> None:
    with pytest.raises(JobError) as caught:
        parse({
            "name": "x", "checkpont": "y", "source": {}, "decode": {"format": "json"},
            "transform": {"sql": "", "function": ""}, "sink": [{"type": "sqlite", "tabel": "t"}, {"type": "excel"}],
        })  # fmt: skip
    assert list(caught.value.mistakes) == [
        "checkpont: unknown; did you mean 'checkpoint'?",
        "checkpoint: missing",
        "source.bootstrap: missing",
        "decode.schema: needed for json, and for nothing else",
        "transform: sql or function, not both",
        "sink[0].tabel: unknown; did you mean 'table'?",
        "sink[0].path: missing",
        "sink[0].table: missing",
        "sink[1].type: one of sqlite, postgres, parquet, topic, not 'excel'",
    ]


def test_two_sinks_of_one_target_are_refused() -> None:
    source, table = {"bootstrap": "b", "subscribe": "t"}, {"type": "sqlite", "path": "p", "table": "one"}
    topic = {"type": "topic", "topic": "one"}
    given = {"name": "x", "checkpoint": "c", "source": source}
    parse({**given, "sink": [table, topic, table | {"table": "two"}, topic | {"topic": "two"}]})
    with pytest.raises(JobError) as caught:
        parse({**given, "sink": [table, topic, table | {"key": ["id"]}, topic | {"key": "id"}]})
    assert list(caught.value.mistakes) == [
        "sink[2]: writes where sink[0] does; give rows for both to one",
        "sink[3]: writes where sink[1] does; give rows for both to one",
    ]


def test_a_capture_has_nothing_of_a_stream() -> None:
    capture = {"type": "file", "path": "p", "bootstrap": "b", "topic": "t"}
    with pytest.raises(JobError, match="sink: not for a job"):
        parse({"name": "x", "sink": [], "capture": capture})


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"nothing\.toml"):
        load(tmp_path / "nothing.toml")
