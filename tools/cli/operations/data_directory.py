"""The data directory that `up`, `down` and `doctor` mean, and what is in it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from actors.cluster_file.config import ClusterConfig

DEFAULT = "barnabas-data"
PORT = 9092
BROKERS = 3


@frozen
class Given:
    """What the command line says of a cluster. None: not given."""

    data: Path | None = None
    brokers: int | None = None
    port: int | None = None
    file: Path | None = None

    def data_dir(self) -> Path:
        """Where the cluster is. ConfigError if the file is not right."""
        return (self.data or Path(DEFAULT)).absolute() if self.file is None else self.config().data_dir

    def config(self) -> ClusterConfig:
        """The cluster of the file, or one without a file: as many brokers as the directory has, or three."""
        from actors.cluster_file.config import BrokerConfig, ClusterConfig, ConfigError, KafkaConfig, load  # noqa: PLC0415

        if self.file is not None:
            return load(self.file)
        data_dir = (self.data or Path(DEFAULT)).absolute()
        known = known_brokers(data_dir)
        count = max(known, default=BROKERS) if self.brokers is None else self.brokers
        if not known <= set(range(1, count + 1)):
            told = ", ".join(map(str, sorted(known)))
            raise ConfigError(
                f"--brokers: {data_dir} has data of brokers {told}; start at least {max(known)}, or give another --data"
                if 0 not in known
                else f"--data: {data_dir} has data of brokers {told}, of a cluster with a file; give it with --file"
            )
        port = PORT if self.port is None else self.port
        if port + count - 1 > 65535:
            raise ConfigError(f"--port: {port} leaves no room for {count} brokers; give {65536 - count} or less")
        brokers = tuple(
            BrokerConfig(number, port and port + number - 1, data_dir / str(number)) for number in range(1, count + 1)
        )
        settings = KafkaConfig(
            num_partitions=3, default_replication_factor=min(3, count), min_insync_replicas=min(2, count)
        )
        return ClusterConfig("barnabas", "127.0.0.1", data_dir, settings, brokers, ())


def known_brokers(data_dir: Path) -> set[int]:
    """The brokers that have data in the directory."""
    from actors.broker.identity import FILE_NAME  # noqa: PLC0415

    return {int(path.parent.name) for path in data_dir.glob(f"*/{FILE_NAME}") if path.parent.name.isdigit()}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--data` and `--file`."""
    parser.add_argument("--data", metavar="DIR", type=Path, help=f"the cluster's data directory (default: {DEFAULT})")
    parser.add_argument("--file", metavar="FILE", type=Path, help="a cluster file, such as cluster.toml, instead")
