"""A driver that is to be killed: `python killed_driver.py BOOTSTRAP DIRECTORY`.

It runs the job of `job.toml` in the directory, and copies topic `t` to topic `copy`, exactly once. Both take what is
there again and again, and once more when there is a file `enough` in the directory. A query that fails says why, and is
started again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.tools.spark.streams import FAILED
from tools.pipeline.job import Job, load
from tools.pipeline.job_runner import start
from tools.spark.session import session


class Again:
    """A query that is started again whenever it ends, until that was enough. All on one thread: on another Spark does
    not find Python sources to write to.
    """

    def __init__(self, start: Callable[[], Any], enough: Path, failed: Callable[[str], object]) -> None:
        self._start, self._enough, self._failed = start, enough, failed
        self._query: Any = None
        self._is_last = False

    def is_over(self) -> bool:
        """Look after the query for a moment."""
        try:
            if self._query is None:
                self._is_last = self._enough.exists()
                self._query = self._start()
            if not self._query.awaitTermination(0.1):
                return False
        except Exception as error:  # noqa: BLE001  the test judges what it says
            self._query = None
            self._failed(f"{error}\n{getattr(error, '_stackTrace', '')}")  # some say why only there
            return False
        self._query = None
        return self._is_last


def copy(spark: Any, bootstrap: str, directory: Path, failed: Callable[[str], object]) -> None:
    """Run both queries until that was enough; whenever one fails, tell why."""
    job = load(directory / "job.toml")
    assert isinstance(job, Job)
    cluster = {"kafka.bootstrap.servers": bootstrap}
    options = {**cluster, "subscribe": "t", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "600"}

    def copied() -> Any:
        rows = spark.readStream.format("barnabas").options(**options, minPartitions="2").load().selectExpr("value")
        writer = rows.writeStream.format("barnabas").options(**cluster, topic="copy", exactlyOnce="true")
        return writer.option("checkpointLocation", (directory / "copy").as_uri()).trigger(availableNow=True).start()

    left = [Again(one, directory / "enough", failed) for one in (lambda: start(job, spark), copied)]
    while left:
        left = [one for one in left if not one.is_over()]


def tell(failure: str) -> None:
    sys.stdout.write(f"{FAILED} {' | '.join(failure.splitlines())}\n")
    sys.stdout.flush()


def main(bootstrap: str, directory: Path) -> None:
    spark = session("local[2,4]", name="killed", log_level="OFF")
    copy(spark, bootstrap, directory, tell)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
