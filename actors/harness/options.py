"""Kafka's settings as a plain dict, `Cluster(config={"num.partitions": 6})`: checked as [config] of cluster.toml is."""

from __future__ import annotations

from collections.abc import Mapping

from actors.cluster_file.config import ConfigError, KafkaConfig, settings_of
from actors.harness.errors import HarnessError

FACTOR = "default.replication.factor"
FACTOR_MAX = 3


def kafka_config(config: object, brokers: int) -> KafkaConfig:
    """The settings of a cluster of so many brokers. A topic gets up to three replicas unless `config` says otherwise.

    A KafkaConfig is taken as it is.
    """
    if isinstance(config, KafkaConfig):
        return config
    given = {} if config is None else config
    if not (isinstance(given, Mapping) and all(isinstance(name, str) for name in given)):
        raise HarnessError(f"config: expected a dict of Kafka's names, such as {{'num.partitions': 6}}, got {config!r}")
    try:
        return settings_of({FACTOR: min(FACTOR_MAX, brokers), **given}, brokers)
    except ConfigError as error:
        raise HarnessError(str(error)) from None
