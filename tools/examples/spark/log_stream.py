"""A file with an event in each line is tailed into a topic; its errors, by request, go into a SQLite table.

The file is captured in two parts, as after a restart, and has no line twice; each micro-batch is applied once. Lines
that are no events become dead letters.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tools.examples.envelope import Reason
from tools.examples.plain.log_stream import CONTRACT, COUNT, LOG, failed, lines
from tools.examples.poison import pills, with_pills
from tools.examples.spark.events import EventDecoder, refused
from tools.examples.spark.stage import SparkStage
from tools.examples.stage import must
from tools.pipeline.batches import foreach_batch
from tools.pipeline.capture import Capture
from tools.pipeline.dead_letters import DeadLetters
from tools.pipeline.file_tail import FileTail
from tools.pipeline.sinks.sql import sqlite_sink

DEAD = "log.dead"


def errors(rows: DataFrame) -> DataFrame:
    """The lines of level ERROR, with the ids of their requests."""
    return rows.where(f.col("level") == "ERROR").select(f.col("correlation_id").alias("request"), "step", "text")


def play(stage: SparkStage) -> str:
    """A file tailed into a topic, its errors into SQLite."""
    plain = stage.plain
    some = lines(plain.seed, plain.counted(COUNT))
    wrong = dict(pills(some[0]))
    del wrong[Reason.NO_VALUE]  # a file has none
    written = [(value or b"") + b"\n" for _, value in with_pills(some, wrong)]
    plain.make_topics(LOG, DEAD, partitions=1)
    path, database = stage.directory / "app.log", stage.directory / "errors.db"
    capture = Capture(stage.bootstrap, plain.topic(LOG), FileTail(path))
    half = len(written) // 2
    path.write_bytes(b"".join(written[:half]))
    first = capture.once()
    plain.middle(LOG)
    with path.open("ab") as file:
        file.writelines(written[half:])
    counts = (first, capture.once(), capture.once())
    must(counts == (half, len(written) - half, 0), f"captured were {counts} of {len(written)} lines")
    plain.say(f"{len(written):,} lines are captured")

    sink = sqlite_sink(str(database), "errors")
    dead = DeadLetters(stage.bootstrap, plain.topic(DEAD))
    batches = foreach_batch(
        errors, sink, decoder=EventDecoder(CONTRACT), dead_letters=dead, checkpoint=stage.checkpoint("errors")
    )
    stage.run(stage.stream(LOG, maxOffsetsPerTrigger="2500").writeStream.foreachBatch(batches), "errors")

    with closing(sqlite3.connect(database)) as connection:
        found = connection.execute("SELECT request, step, text FROM errors ORDER BY request").fetchall()
    must(found == failed(some), "the errors in SQLite are not those of the log")
    letters = refused(stage.table(DEAD), CONTRACT)
    must(letters == dict.fromkeys((name.name for name in wrong), 1), f"the dead letters are {letters}")
    return f"{len(some):,} lines, {len(found)} failed requests in SQLite, each once; {len(letters)} dead letters"
