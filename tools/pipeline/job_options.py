"""Options of the source and of topics, as a job's file gives them: their names, values, and what is wrong with them.

Spark passes over a name that it does not know, so a mistyped one would be a job that does something else.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tools.spark.errors import OptionError
from tools.spark.options import BOOTSTRAP, ONCE, STRATEGIES, Options, sink_options, stream_options

_SOURCE = (
    *STRATEGIES,
    "startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy",
    "endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp",
    "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions", "maxRecordsPerPartition",
    "failOnDataLoss", "includeHeaders", "groupIdPrefix", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs",
    "kafkaConsumer.pollTimeoutMs",
)  # fmt: skip
_SINK = (ONCE,)
_CLIENT = "kafka."


def texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Options as Spark has them."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in options.items()}


def source_mistakes(options: Mapping[str, Any], bootstrap: str) -> list[str]:
    """Of a stream's source."""
    return _mistakes(options, bootstrap, _SOURCE, "source", stream_options)


def sink_mistakes(options: Mapping[str, Any], bootstrap: str, where: str) -> list[str]:
    """Of a topic that is written to."""
    return _mistakes(options, bootstrap, _SINK, where, sink_options)


def bootstrap_mistakes(bootstrap: str, where: str) -> list[str]:
    """Of the brokers' addresses alone."""
    return _refusal({BOOTSTRAP: bootstrap}, where, lambda given: Options(given).bootstrap())


def unknown(key: str, keys: Sequence[str], where: str) -> str:
    close = difflib.get_close_matches(key, keys, 1)
    return f"{where}{key}: unknown" + (f"; did you mean {close[0]!r}?" if close else "")


def _mistakes(
    options: Mapping[str, Any],
    bootstrap: str,
    names: Sequence[str],
    where: str,
    check: Callable[[Mapping[str, str]], object],
) -> list[str]:
    mistakes = []
    known = {name.lower() for name in names}
    for key, value in options.items():
        if isinstance(value, dict):
            mistakes.append(
                f'{where}.{key}: a text, not a table; a name with dots needs quotes: "kafka.group.id" = "g"'
            )
        elif key.lower() == BOOTSTRAP:
            mistakes.append(f"{where}.{key}: write bootstrap")
        elif key.lower() not in known and not key.lower().startswith(_CLIENT):
            mistakes.append(unknown(key, names, f"{where}."))
        elif not isinstance(value, (str, int, float)):
            mistakes.append(f"{where}.{key}: a text, a number, true or false, not {value!r}")
    return mistakes or _refusal({**texts(options), BOOTSTRAP: bootstrap}, where, check)


def _refusal(given: Mapping[str, str], where: str, check: Callable[[Mapping[str, str]], object]) -> list[str]:
    try:
        check(given)
    except OptionError as error:
        return [f"{where}: {error}"]
    return []
