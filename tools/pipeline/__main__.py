"""`python -m tools.pipeline FILE.toml`: run the job that a file describes, until it ends or Ctrl-C.

Every error is one line. The exit code is 2 for mistakes in the file, 1 for other errors.
"""

from __future__ import annotations

import argparse
import signal
import sqlite3
import sys
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from tools.client.errors import ClientError
from tools.pipeline.capture import Capture, CaptureError
from tools.pipeline.file_tail import FileTail
from tools.pipeline.job import CaptureJob, Job, JobError, load
from tools.pipeline.sqlite_changes import SqliteChanges
from tools.spark.first_contact import await_broker
from tools.spark.options import BOOTSTRAP, stream_options

_INTERRUPTED = 130
_LOG_LEVELS = ("OFF", "ERROR", "WARN", "INFO")


class JobFailed(Exception):
    """A valid job failed; the message says why in one line."""


def main(arguments: Sequence[str] | None = None, prog: str = f"python -m {__package__}") -> int:
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Run the job that a TOML file describes; tools/pipeline/job.py shows one.",
        epilog="example: %(prog)s orders.toml --master 'local[2]'",
    )
    parser.add_argument("file", type=Path, metavar="FILE.toml")
    parser.add_argument(
        "--master", default="local[*]", help="local[*], spark://host:port or sc://host:port (default: %(default)s)"
    )
    parser.add_argument("--check", action="store_true", help="only look for mistakes in the file")
    parser.add_argument(
        "--spark-log", default="OFF", metavar="LEVEL", choices=_LOG_LEVELS,
        help=f"what Spark itself writes to stderr, by log level: {', '.join(_LOG_LEVELS)} (default: %(default)s)",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    try:
        job = load(options.file)
        if options.check:
            print(f"{options.file}: ok: {job.name}")
        elif isinstance(job, CaptureJob):
            _run_capture(job)
        else:
            _run(job, options.master, options.spark_log)
    except JobError as error:
        for mistake in error.mistakes:
            print(f"{options.file}: {mistake}", file=sys.stderr)
        return 2
    except (JobFailed, CaptureError, ClientError, sqlite3.Error, OSError) as error:
        print(f"{options.file}: {str(error) or type(error).__name__}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # before the job was started
        return _INTERRUPTED
    return 0


def _run(job: Job, master: str, log_level: str) -> None:
    if find_spec("pyspark") is None:
        raise JobFailed("pyspark is not installed: pip install 'barnabas[spark]'")
    from py4j.protocol import Py4JError  # noqa: PLC0415  --check needs no Spark
    from pyspark.errors import PySparkException  # noqa: PLC0415

    from tools.pipeline.job_runner import run_job  # noqa: PLC0415
    from tools.spark.errors import reason  # noqa: PLC0415
    from tools.spark.java import NoJava  # noqa: PLC0415
    from tools.spark.session import NoServer, SparkMissing, is_connect, session  # noqa: PLC0415

    if not is_connect(master):  # the server of Spark Connect may reach other addresses than this process
        await_broker(job.bootstrap, stream_options({**job.source, BOOTSTRAP: job.bootstrap}).patience)
        print(f"{job.name}: Spark starts on {master}", file=sys.stderr)
    try:
        spark = session(master, name=job.name, log_level=log_level)
        try:
            run_job(job, spark)
        finally:
            spark.stop()
    except (NoJava, NoServer, SparkMissing, PySparkException, Py4JError) as error:
        raise JobFailed(reason(error)) from error


def _run_capture(job: CaptureJob) -> None:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    print(f"{job.name}: {made_capture(job).run(stop)} records captured", file=sys.stderr)


def made_capture(job: CaptureJob) -> Capture:
    if job.type == "file":
        return Capture(job.bootstrap, job.topic, FileTail(job.path))
    assert job.table is not None
    changes = SqliteChanges(job.path, job.table, job.topic)
    changes.install()
    return Capture(job.bootstrap, job.topic, changes)


if __name__ == "__main__":
    sys.exit(main())
