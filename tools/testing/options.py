"""What the plugin is told: an argument of a fixture comes first, then the command line, then the ini file."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

BROKERS = 3


class Options:
    """The options of one session of pytest."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @property
    def brokers(self) -> int:
        given = self._config.getoption("kafka_brokers") or self._config.getini("kafka_brokers") or BROKERS
        return _count(given)

    @property
    def settings(self) -> dict[str, object]:
        """Kafka's settings of a cluster, by Kafka's names. The command line adds to the ini file, name by name."""
        of_ini = _settings(self._config.getini("kafka_config"), "the ini option kafka_config")
        return of_ini | _settings(self._config.getoption("kafka_config"), "--kafka-config")

    @property
    def bootstrap(self) -> str:
        """The servers of a running cluster; "" if none were named."""
        return str(self._config.getoption("kafka_bootstrap") or self._config.getini("kafka_bootstrap") or "")

    def with_arguments(self, brokers: int | None, config: Mapping[str, object] | None) -> tuple[int, dict[str, object]]:
        """The size and the settings of a cluster that a test asks for."""
        return self.brokers if brokers is None else brokers, {**self.settings, **(config or {})}


def add(parser: pytest.Parser) -> None:
    """Make the options known to pytest."""
    group = parser.getgroup("kafka", "Kafka clusters for tests (Barnabas)")
    group.addoption("--kafka-brokers", metavar="N", help=f"brokers of a cluster (default: {BROKERS})")
    group.addoption(
        "--kafka-config", metavar="NAME=VALUE", action="append", default=[],
        help="a setting of a cluster, by Kafka's name; may be repeated",
    )  # fmt: skip
    group.addoption(
        "--kafka-bootstrap", metavar="HOST:PORT,…", help="the running cluster of the fixture kafka_external"
    )
    parser.addini("kafka_brokers", f"brokers of a cluster (default: {BROKERS})", default="")
    parser.addini("kafka_config", "settings of a cluster: a line NAME=VALUE each", type="linelist", default=[])
    parser.addini("kafka_bootstrap", "the running cluster of the fixture kafka_external", default="")


def _count(given: object) -> int:
    text = str(given)
    if not text.isdecimal() or int(text) < 1:
        raise pytest.UsageError(f"kafka_brokers: expected a number of brokers from 1, got {text!r}")
    return int(text)


def _settings(lines: Iterable[str], origin: str) -> dict[str, object]:
    settings: dict[str, object] = {}
    for line in lines:
        name, equals, value = (part.strip() for part in line.partition("="))
        if not (name and equals):
            raise pytest.UsageError(f"{origin}: expected NAME=VALUE, such as num.partitions=6, got {line!r}")
        settings[name] = _value(value)
    return settings


def _value(text: str) -> object:
    """A value as a cluster file would have it."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text
