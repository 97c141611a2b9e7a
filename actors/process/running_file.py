"""Which cluster runs in a data directory: `running.json`, for `barnabas down`, `status` and `doctor`.

    {"version": 1, "pid": 4711, "name": "barnabas", "file": "/home/k/cluster.toml",
     "started_at": "2026-11-19T21:40:41Z", "bootstrap": "127.0.0.1:9092,…", "brokers": {"1": "/home/k/data/1", …}}

The bootstrap is empty until the cluster is ready, the file is null if there is none. The lock of the directory decides
whether the cluster runs: a killed one leaves this file behind, and the next one replaces it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import attrs
import orjson

from actors.broker.directory_lock import owner_of
from actors.cluster_file.config import ClusterConfig
from log.disk.filesystem import DiskFilesystem

FILE_NAME = "running.json"
_VERSION = 1
_log = logging.getLogger("barnabas.launcher")


@attrs.frozen
class RunningCluster:
    """The content of the file."""

    pid: int
    name: str
    file: str | None
    started_at: str
    bootstrap: str
    brokers: Mapping[int, Path]
    """The directory of each broker."""

    @classmethod
    def of(cls, config: ClusterConfig) -> RunningCluster:
        """This process starts to run this cluster."""
        file = None if config.file is None else str(config.file.resolve())
        started_at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        directories = {broker.id: broker.data_dir for broker in config.brokers}
        return cls(os.getpid(), config.name, file, started_at, "", directories)

    def write(self, data_dir: Path) -> None:
        """Write it whole or not at all. A cluster whose disk refuses this runs without the file."""
        brokers = {str(broker): str(directory) for broker, directory in self.brokers.items()}
        value = {"version": _VERSION, **attrs.asdict(self, recurse=False), "brokers": brokers}
        try:
            DiskFilesystem().write_atomically(str(data_dir / FILE_NAME), orjson.dumps(value))
        except OSError as error:
            text = "launcher: %s cannot be written (%s): `barnabas down` will not find this cluster"
            _log.warning(text, data_dir / FILE_NAME, error.strerror)

    @classmethod
    def read(cls, data_dir: Path) -> RunningCluster | None:
        """The cluster that runs in this directory; None if none does, or none that was started as a command."""
        try:
            value = orjson.loads((data_dir / FILE_NAME).read_bytes())
            if owner_of(data_dir) != f"pid {value['pid']}" or value["version"] != _VERSION:
                return None
            brokers = {int(broker): Path(directory) for broker, directory in value["brokers"].items()}
            return cls(
                int(value["pid"]), str(value["name"]), value["file"], str(value["started_at"]), str(value["bootstrap"]),
                brokers,
            )  # fmt: skip
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, KeyError, TypeError, AttributeError):  # damaged: as good as none
            return None

    @staticmethod
    def remove(data_dir: Path) -> None:
        """The cluster ends."""
        (data_dir / FILE_NAME).unlink(missing_ok=True)
