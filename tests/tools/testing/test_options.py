"""What the plugin is told: an argument before the command line before the ini file."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tools.testing.options import BROKERS, Options


class Config:
    """As much of pytest's config as is asked."""

    def __init__(self, command_line: dict[str, Any], ini: dict[str, Any]) -> None:
        self._command_line = command_line
        self._ini = ini

    def getoption(self, name: str) -> Any:
        return self._command_line.get(name)

    def getini(self, name: str) -> Any:
        return self._ini.get(name)


def options(command_line: dict[str, Any] | None = None, ini: dict[str, Any] | None = None) -> Options:
    given = {"kafka_config": [], **(command_line or {})}
    return Options(cast(pytest.Config, Config(given, {"kafka_config": [], **(ini or {})})))


def test_without_a_word_a_cluster_is_replicated() -> None:
    assert options().brokers == BROKERS == 3
    assert options().settings == {}
    assert options().bootstrap == ""


def test_the_command_line_comes_before_the_ini_file() -> None:
    ini = {"kafka_brokers": "5", "kafka_bootstrap": "a:1", "kafka_config": ["num.partitions = 2", "log.dirs=x"]}
    assert options(ini=ini).brokers == 5
    told = options({"kafka_brokers": "1", "kafka_bootstrap": "b:2", "kafka_config": ["num.partitions=6"]}, ini)
    assert told.brokers == 1
    assert told.bootstrap == "b:2"
    assert told.settings == {"num.partitions": 6, "log.dirs": "x"}


def test_an_argument_comes_before_both() -> None:
    told = options({"kafka_brokers": "1", "kafka_config": ["num.partitions=6"]})
    assert told.with_arguments(None, None) == (1, {"num.partitions": 6})
    assert told.with_arguments(2, {"num.partitions": 7}) == (2, {"num.partitions": 7})


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("6", 6), ("0.5", 0.5), ("compact,delete", "compact,delete")]
)
def test_a_value_is_what_a_cluster_file_would_have(text: str, value: object) -> None:
    assert options({"kafka_config": [f"a.b={text}"]}).settings == {"a.b": value}


@pytest.mark.parametrize("brokers", ["0", "-1", "three"])
def test_a_number_of_brokers_is_needed(brokers: str) -> None:
    with pytest.raises(pytest.UsageError, match="kafka_brokers: expected a number of brokers from 1"):
        _ = options({"kafka_brokers": brokers}).brokers


@pytest.mark.parametrize("line", ["num.partitions", "=6", ""])
def test_a_setting_needs_a_name(line: str) -> None:
    with pytest.raises(pytest.UsageError, match="--kafka-config: expected NAME=VALUE"):
        _ = options({"kafka_config": [line]}).settings
