"""A driver that dies while it commits a micro-batch of foreachBatch to a topic: `dying_driver.py JOB.toml MOMENT`.

Spark commits in a process of its own. It must find DyingSource under the name of our source: then it kills the whole
driver and itself at the moment that is said, which is `undecided`, `half` (decided, and one transaction committed) or
`never`.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql.types import StructType

from tools.client.prepared import complete_prepared
from tools.pipeline.job import Job, load
from tools.pipeline.job_runner import run_job
from tools.spark.decisions import Decider, last_decision
from tools.spark.options import named_batch, sink_options
from tools.spark.session import session
from tools.spark.source import BarnabasSource
from tools.spark.writing import exactly_once
from tools.spark.writing.exactly_once import ExactlyOnceBatchSink

DRIVER, MOMENT = "DYING_DRIVER", "DYING_MOMENT"


def die(*_: Any) -> None:
    os.killpg(int(os.environ[DRIVER]), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def dying_completion() -> Any:
    calls = itertools.count()

    def complete(*given: Any, **options: Any) -> None:
        if next(calls):
            threading.Event().wait()
        complete_prepared(*given, **options)
        die()

    return complete


class DyingSink(ExactlyOnceBatchSink):
    def commit(self, messages: list[Any]) -> None:
        fatal: dict[str, tuple[object, str, Any]] = {
            "undecided": (Decider, "decide", die),
            "half": (exactly_once, "complete_prepared", dying_completion()),
            "never": (exactly_once, "last_decision", last_decision),
        }
        with patch.object(*fatal[os.environ[MOMENT]]):
            super().commit(messages)


class DyingSource(BarnabasSource):
    def writer(self, schema: StructType, overwrite: bool) -> Any:
        batch = named_batch(self.options)
        assert batch is not None
        return DyingSink(sink_options(self.options), batch, schema)


def main(file: Path, moment: str) -> None:
    os.environ[DRIVER], os.environ[MOMENT] = str(os.getpgid(0)), moment
    spark = session("local[2]", name="dying")
    job = load(file)
    assert isinstance(job, Job)
    run_job(job, spark)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
