"""The first or the last position of a query: an end of the log, offsets, times."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from tools.client.metadata import TopicPartition
from tools.client.offsets import EARLIEST, LATEST
from tools.spark.errors import OptionError

ENDS = {"earliest": EARLIEST, "latest": LATEST}


@frozen
class AtEnd:
    """The same end of every log: EARLIEST or LATEST."""

    end: int


@frozen
class AtOffsets:
    """These offsets, or EARLIEST and LATEST in place of one. Other partitions have the default position."""

    offsets: Mapping[TopicPartition, int]


@frozen
class AtTimes:
    """The first records with these timestamps, in milliseconds, or later ones."""

    times: Mapping[TopicPartition, int]


@frozen
class AtTime:
    """The same time everywhere."""

    time: int


Position = AtEnd | AtOffsets | AtTimes | AtTime


def partition_numbers(option: str, text: str, example: str) -> dict[TopicPartition, int]:
    """Read `{"topic": {"0": 23}}`."""
    what = f"option '{option}' is JSON like {example}"
    given = _json(text, what)
    if not isinstance(given, dict):
        raise OptionError(f"{what}, not {text!r}")
    found = {}
    for topic, numbers in given.items():
        if not isinstance(numbers, dict):
            raise OptionError(f"{what}; of topic {topic!r} it says {numbers!r}")
        for partition, number in numbers.items():
            if not partition.isdecimal() or type(number) is not int:
                raise OptionError(f"{what}; of topic {topic!r} it says {partition!r}: {number!r}")
            found[TopicPartition(topic, int(partition))] = number
    return found


def named_partitions(option: str, text: str) -> frozenset[TopicPartition]:
    """Read `{"topic": [0, 1]}`."""
    what = f'option \'{option}\' is JSON like {{"topicA":[0,1],"topicB":[2,4]}}'
    given = _json(text, what)
    if not isinstance(given, dict):
        raise OptionError(f"{what}, not {text!r}")
    for topic, numbers in given.items():
        if not isinstance(numbers, list) or any(type(number) is not int or number < 0 for number in numbers):
            raise OptionError(f"{what}; of topic {topic!r} it says {numbers!r}")
    return frozenset(TopicPartition(topic, number) for topic, numbers in given.items() for number in numbers)


def _json(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise OptionError(f"{what}, not {text!r}: {error}") from None
