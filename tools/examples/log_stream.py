"""A log file is tailed into a topic; its errors, by correlation id, go into a SQLite table.

The file is captured twice, as after a restart, and has no line twice; each micro-batch is applied once.
"""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tools.examples.stage import Stage, main
from tools.pipeline.batches import foreach_batch
from tools.pipeline.capture import Capture
from tools.pipeline.decoders import TextDecoder
from tools.pipeline.file_tail import FileTail
from tools.pipeline.sinks.sql import sqlite_sink

LOG = "log"
LINES = 4_000


def lines() -> list[str]:
    chance = random.Random(13)
    levels = ["INFO"] * 17 + ["WARNING"] * 2 + ["ERROR"]
    return [
        f"2026-01-01T00:00:{number % 60:02} {chance.choice(levels)} [request-{number:05}] step {number % 7} was done"
        for number in range(LINES)
    ]


def errors(rows: DataFrame) -> DataFrame:
    """The lines of level ERROR, with their correlation ids."""
    only = rows.where(f.col("value").rlike(r"^\S+ ERROR "))
    return only.select(f.regexp_extract("value", r"\[(\S+)\]", 1).alias("correlation_id"), f.col("value").alias("line"))


def play(stage: Stage) -> str:
    """Log stream: a file tailed into a topic, its errors into SQLite."""
    stage.make_topic(LOG, partitions=1)
    some = lines()
    path, database = stage.directory / "app.log", stage.directory / "errors.db"
    capture = Capture(stage.bootstrap, LOG, FileTail(path))
    path.write_text("".join(f"{line}\n" for line in some[: LINES // 2]))
    first = capture.once()
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in some[LINES // 2 :])
    assert (first, capture.once(), capture.once()) == (LINES // 2, LINES // 2, 0)

    sink = sqlite_sink(str(database), "errors")
    batches = foreach_batch(errors, sink, decoder=TextDecoder(), checkpoint=stage.checkpoint("errors"))
    stage.run(stage.stream(LOG, maxOffsetsPerTrigger="2500").writeStream.foreachBatch(batches), "errors")

    with closing(sqlite3.connect(database)) as connection:
        found = connection.execute("SELECT correlation_id, line FROM errors ORDER BY correlation_id").fetchall()
    wanted = [(line.split("[")[1].split("]")[0], line) for line in some if " ERROR " in line]
    assert found == wanted
    return f"{LINES} lines, {len(found)} errors by correlation id, each once"


if __name__ == "__main__":
    main(play)
