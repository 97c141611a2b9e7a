"""Files that describe jobs: all mistakes are reported at once, each with its key."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

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
        "source: One of the following options must be specified for Kafka source: subscribe, subscribePattern, assign.",
        "decode.schema: needed for json, and for nothing else",
        "transform: sql or function, not both",
        "sink[1].tabel: unknown; did you mean 'table'?",
        "sink[1].path: missing",
        "sink[1].table: missing",
        "sink[2].type: one of sqlite, postgres, parquet, topic, not 'excel'",
    ]


def test_two_wrong_values_of_one_table_are_both_told() -> None:
    source = {
        "bootstrap": "b:1", "subscribe": "t", "startingOffset": "earliest", "maxOffsetsPerTrigger": "many",
        "failOnDataLoss": "perhaps",
    }  # fmt: skip
    sink = {"type": "topic", "topic": "one", "options": {"exactlyOnce": "often", "kafka.acks": "most"}}
    transform = {"sql": "SELECT 1", "sqll": "SELECT 2"}
    with pytest.raises(JobError) as caught:
        parse({"name": "x", "checkpoint": "c", "source": source, "transform": transform, "sink": [sink]})
    assert list(caught.value.mistakes) == [
        "source.startingOffset: unknown; did you mean 'startingOffsets'?",
        "source: option 'maxOffsetsPerTrigger' is a number, not 'many'",
        "source: option 'failOnDataLoss' is one of true, false, not 'perhaps'",
        "transform.sqll: unknown; did you mean 'sql'?",
        "sink[1]: option 'exactlyOnce' is one of true, false, not 'often'",
        "sink[1]: option 'kafka.acks' is one of all, -1, 0, 1, not 'most'",
    ]


def test_a_table_of_no_known_type_is_told_with_its_other_mistakes() -> None:
    sinks = [{"type": "sqlit", "tabel": "t"}, {"path": "p"}, {"type": ["sqlite"]}, 5]
    with pytest.raises(JobError) as caught:
        parse({"name": "x", "checkpoint": "c", "source": SOURCE, "sink": sinks, "dead_letters": 3})
    choice = "one of sqlite, postgres, parquet, topic"
    assert list(caught.value.mistakes) == [
        f"sink[1].type: {choice}, not 'sqlit'; did you mean 'sqlite'?",
        "sink[1].tabel: unknown; did you mean 'table'?",
        f"sink[2].type: missing; {choice}",
        f"sink[3].type: {choice}, not ['sqlite']; did you mean 'sqlite'?",
        "sink[4]: a table, not 5",
        "dead_letters: a table, not 3",
    ]


SOURCE = {"bootstrap": "b:1", "subscribe": "t"}
TABLE = {"type": "sqlite", "path": "p", "table": "one"}
TOPIC = {"type": "topic", "topic": "one"}
GIVEN = {"name": "x", "checkpoint": "c", "source": SOURCE, "sink": [TABLE]}


@pytest.mark.parametrize(
    ("given", "mistake"),
    [
        ({"trigger": "soon"}, "trigger: a time like '10 seconds', or 'available now', not 'soon'"),
        ({"trigger": 5}, "trigger: a text, not 5"),
        ({"dead_letters": {}}, "dead_letters.topic: missing"),
        ({"dead_letters": {"topic": ["t"]}}, "dead_letters.topic: a text, not ['t']"),
        ({"decode": {"format": "json", "schema": 7}}, "decode.schema: a text, not 7"),
        ({"transform": {"sql": 7}}, "transform.sql: a text, not 7"),
        ({"transform": {"function": "f"}}, "transform.function: write package.module:name, not 'f'"),
        ({"sink": [TABLE | {"key": "id"}]}, "sink[1].key: names of columns, [\"id\"], not 'id'"),
        ({"sink": [TOPIC | {"key": ["id"]}]}, "sink[1].key: a text, not ['id']"),
        ({"sink": [TOPIC | {"bootstrap": "b"}]},
         "sink[1]: option 'kafka.bootstrap.servers' is host:port,…, and 'b' in it is not"),
        ({"sink": [TOPIC | {"options": {"exactlyonse": True}}]},
         "sink[1].exactlyonse: unknown; did you mean 'exactlyOnce'?"),
        ({"sink": [TOPIC | {"options": {"exactlyOnce": "often"}}]},
         "sink[1]: option 'exactlyOnce' is one of true, false, not 'often'"),
        ({"sink": [TOPIC | {"options": "exactlyOnce"}]}, "sink[1].options: a table, not 'exactlyOnce'"),
        ({"source": SOURCE | {"startingOffset": "earliest"}},
         "source.startingOffset: unknown; did you mean 'startingOffsets'?"),
        ({"source": SOURCE | {"startingOffsets": "first"}}, "source: "),
        ({"source": SOURCE | {"endingOffsets": "latest"}}, "source: endingOffsets is not valid in streaming queries"),
        ({"source": SOURCE | {"subscribe": ["t"]}}, "source.subscribe: a text, a number, true or false, not ['t']"),
        ({"source": SOURCE | {"kafka": {"group": {"id": "g"}}}}, "source.kafka: a text, not a table; a name with dots"),
        ({"source": SOURCE | {"bootstrap": "b"}}, "source: option 'kafka.bootstrap.servers' is host:port"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_before_anything_runs(given: dict[str, Any], mistake: str) -> None:
    with pytest.raises(JobError) as caught:
        parse(GIVEN | given)
    (told,) = caught.value.mistakes
    assert told.startswith(mistake)


@pytest.mark.parametrize(
    "given",
    [
        {"trigger": "available now"},
        {"trigger": "1 minute 30 seconds"},
        {"source": SOURCE | {"STARTINGOFFSETS": "earliest", "kafka.group.id": "g", "maxOffsetsPerTrigger": 5}},
        {"sink": [TABLE | {"key": ["a", "b"]}, TOPIC | {"key": "a", "options": {"kafka.linger.ms": 5}}]},
        {"transform": {"function": "package.module:name"}, "dead_letters": {"topic": "d"}},
    ],
)
def test_what_is_right_is_taken(given: dict[str, Any]) -> None:
    assert isinstance(parse(GIVEN | given), Job)


def test_two_sinks_of_one_target_are_refused() -> None:
    source, table = {"bootstrap": "b:1", "subscribe": "t"}, {"type": "sqlite", "path": "p", "table": "one"}
    topic = {"type": "topic", "topic": "one"}
    given = {"name": "x", "checkpoint": "c", "source": source}
    parse({**given, "sink": [table, topic, table | {"table": "two"}, topic | {"topic": "two"}]})
    with pytest.raises(JobError) as caught:
        parse({**given, "sink": [table, topic, table | {"key": ["id"]}, topic | {"key": "id"}]})
    assert list(caught.value.mistakes) == [
        "sink[3]: writes where sink[1] does; give rows for both to one",
        "sink[4]: writes where sink[2] does; give rows for both to one",
    ]


def test_a_capture_has_nothing_of_a_stream() -> None:
    capture = {"type": "file", "path": "p", "bootstrap": "b:1", "topic": "t"}
    with pytest.raises(JobError, match="sink: not for a job"):
        parse({"name": "x", "sink": [], "capture": capture})


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "cannot be read (No such file or directory); give the path of a job's file"),
        (b"\xff", "is not UTF-8: invalid start byte at byte 0; save it as UTF-8"),
        (b"name =", "not TOML: Invalid value (at end of document); correct it there"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_in_one_line(content: bytes | None, complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(JobError) as caught:
        load(file)
    assert caught.value.mistakes == (complaint,)
