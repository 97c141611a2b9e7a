"""`python -m tools.pipeline FILE.toml`: run the job that a file describes, until it ends or Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from pathlib import Path

from tools.pipeline.capture import Capture
from tools.pipeline.file_tail import FileTail
from tools.pipeline.job import CaptureJob, Job, JobError, load
from tools.pipeline.sqlite_changes import SqliteChanges


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.pipeline",
        description="Run the job that a TOML file describes; tools/pipeline/job.py shows one.",
        epilog="example: python -m tools.pipeline orders.toml --master 'local[2]'",
    )
    parser.add_argument("file", type=Path, metavar="FILE.toml")
    parser.add_argument(
        "--master", default="local[*]", help="local[*], spark://host:port or sc://host:port (default: %(default)s)"
    )
    parser.add_argument("--check", action="store_true", help="only look for mistakes in the file")
    options = parser.parse_args()
    try:
        job = load(options.file)
        if options.check:
            print(f"{options.file}: ok: {job.name}")
        elif isinstance(job, CaptureJob):
            _run_capture(job)
        else:
            _run(job, options.master)
    except JobError as error:
        for mistake in error.mistakes:
            print(f"{options.file}: {mistake}", file=sys.stderr)
        return 2
    return 0


def _run(job: Job, master: str) -> None:
    from tools.pipeline.job_runner import run_job  # noqa: PLC0415  a file is looked at without Spark
    from tools.spark.java import NoJava  # noqa: PLC0415
    from tools.spark.session import NoServer, SparkMissing, session  # noqa: PLC0415

    try:
        spark = session(master, name=job.name)
    except (NoJava, NoServer, SparkMissing) as error:
        raise JobError([str(error)]) from error
    try:
        run_job(job, spark)
    finally:
        spark.stop()


def _run_capture(job: CaptureJob) -> None:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    print(f"{job.name}: {made_capture(job).run(stop)} records captured", file=sys.stderr)


def made_capture(job: CaptureJob) -> Capture:
    if job.type == "file":
        return Capture(job.bootstrap, job.topic, FileTail(job.path))
    assert job.table is not None
    changes = SqliteChanges(job.path, job.table)
    changes.install()
    return Capture(job.bootstrap, job.topic, changes)


if __name__ == "__main__":
    sys.exit(main())
