"""Rows into Parquet files, each micro-batch once: written to a temporary directory, then renamed into place.

    <path>/query=<id>/batch=<number>/part-….parquet

Readers see whole batches only: unfinished ones are in a directory whose name begins with `_`, which readers skip. The
directory must be on a file system that the driver and all executors share, where a rename is atomic.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from attrs import field, frozen
from pyspark.sql import DataFrame

from tools.pipeline.sinks.sink import BatchId


def _local(path: str | Path) -> Path:
    text = str(path).removeprefix("file://")
    if "://" in text:
        raise ValueError(f"{path}: only a local or a mounted directory can be renamed in")
    return Path(text).absolute()


@frozen
class ParquetSink:
    path: Path = field(converter=_local)

    def apply(self, rows: DataFrame, batch: BatchId) -> bool:
        final = self.path / f"query={batch.query}" / f"batch={batch.number}"
        if final.exists():
            return False
        aside = self.path / f"_{batch.query}-{batch.number}"
        shutil.rmtree(aside, ignore_errors=True)
        rows.write.parquet(aside.as_uri())
        final.parent.mkdir(parents=True, exist_ok=True)
        for one in (*aside.rglob("*"), aside, self.path):
            _sync(one)
        aside.rename(final)
        _sync(final.parent)
        return True


def _sync(path: Path) -> None:
    """Sync a file or a directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
