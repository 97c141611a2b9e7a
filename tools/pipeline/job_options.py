"""Options of the source and of topics in a job's file: their names, their values, and their mistakes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tools.spark.errors import OptionError
from tools.spark.options import (
    BOOTSTRAP,
    CLIENT,
    ONCE,
    SOURCE_NAMES,
    Options,
    sink_options,
    stream_options,
    suggestion,
)


def texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Options as Spark has them."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in options.items()}


def source_mistakes(options: Mapping[str, Any], bootstrap: str) -> list[str]:
    """The mistakes in the options of a stream's source."""
    return _mistakes(options, bootstrap, SOURCE_NAMES, "source", stream_options)


def sink_mistakes(options: Mapping[str, Any], bootstrap: str, where: str) -> list[str]:
    """The mistakes in the options of a topic that is written to."""
    return _mistakes(options, bootstrap, (ONCE,), where, sink_options)


def bootstrap_mistakes(bootstrap: str, where: str) -> list[str]:
    """The mistakes in the brokers' addresses."""
    return _refusal({BOOTSTRAP: bootstrap}, where, _check_bootstrap)


def unknown(key: str, keys: Sequence[str], where: str) -> str:
    return f"{where}{key}: unknown{suggestion(key, keys)}"


def _check_bootstrap(given: Mapping[str, str]) -> None:
    options = Options(given)
    options.bootstrap()
    options.check()


def _mistakes(
    options: Mapping[str, Any],
    bootstrap: str,
    names: Sequence[str],
    where: str,
    check: Callable[[Mapping[str, str]], object],
) -> list[str]:
    mistakes: dict[str, str] = {}
    known = {name.lower() for name in names}
    checked: dict[str, Any] = {}
    for key, value in options.items():
        if isinstance(value, dict):
            mistakes[key] = f'{where}.{key}: a text, not a table; a name with dots needs quotes: "kafka.group.id" = "g"'
        elif key.lower() == BOOTSTRAP:
            mistakes[key] = f"{where}.{key}: write bootstrap"
        elif key.lower() not in known and not key.lower().startswith(CLIENT):
            mistakes[key] = unknown(key, names, f"{where}.")
        else:
            checked[key] = value
            if not isinstance(value, (str, int, float)):
                mistakes[key] = f"{where}.{key}: a text, a number, true or false, not {value!r}"
    refusals = _refusal({**texts(checked), BOOTSTRAP: bootstrap}, where, check)
    others = [one for one in refusals if not any(f"'{key}'" in one for key in mistakes)]
    return [*mistakes.values(), *others]


def _refusal(given: Mapping[str, str], where: str, check: Callable[[Mapping[str, str]], object]) -> list[str]:
    try:
        check(given)
    except OptionError as error:
        return [f"{where}: {mistake}" for mistake in error.mistakes]
    return []
