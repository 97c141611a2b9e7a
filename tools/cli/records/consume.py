"""Print the records of a topic of any Kafka cluster, and follow it. Ctrl-C ends.

With `--group` its partitions are shared with the group's other members, and the printed records are committed.

In a pipe: a line per record, its value alone, byte for byte. In a terminal: also partition, offset, time and key, in
colours. An absent key is shown as (no key), a tombstone as (no value), and an empty one as "".
"""

from __future__ import annotations

import argparse
import string
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson

from protocol.records.record import Record
from tools.cli import output, tables
from tools.cli.records import group_reader
from tools.client.consumer import Consumer
from tools.client.metadata import TopicPartition
from tools.client.offsets import EARLIEST, LATEST

_SECONDS = 8.0
_POLL_SECONDS = 0.5
_FIELDS = ("topic", "partition", "offset", "timestamp", "time", "key", "value", "headers")
_DIM, _KEY, _PLAIN = "\x1b[2m", "\x1b[36m", "\x1b[0m"
_ABSENT = "null"
_EMPTY = '""'
Show = Callable[[TopicPartition, Record], bytes]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    output.add_connection_arguments(
        parser,
        "%(prog)s orders --from beginning --exit\n"
        "  %(prog)s orders --from 2026-01-31T12:00 --format '{partition}:{offset} {key} {value}'",
    )
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "--from",
        dest="start",
        metavar="WHERE",
        type=_start,
        default="beginning",
        help="beginning, end, an offset, or a time as 2026-01-31T12:00 or @milliseconds (default: beginning)",
    )
    parser.add_argument(
        "--partition", metavar="N", type=int, action="append", help="read this one; repeatable (default: all)"
    )
    parser.add_argument("--group", metavar="NAME", help="share the topic with the other members of this group")
    parser.add_argument(
        "--group-protocol", choices=("classic", "consumer"), default="classic", help="of the group (default: classic)"
    )
    parser.add_argument("--max", metavar="N", type=_count, help="end after so many records")
    parser.add_argument("--exit", action="store_true", help="end where the topic ended at the start")
    parser.add_argument("--committed", action="store_true", help="read only committed records (read_committed)")
    parser.add_argument(
        "--format",
        metavar="TEXT",
        type=_format,
        help=f"how to print a record, out of {{{'}, {'.join(_FIELDS)}}}; an absent key or value is null",
    )


def run(options: argparse.Namespace) -> int:
    return output.run_in_kafkas_protocol(lambda: _run(options), options)


def _run(options: argparse.Namespace) -> int:
    isolation = "read_committed" if options.committed else "read_uncommitted"
    try:
        if options.group is not None:
            return group_reader.read(options, _reset(options), isolation, _SECONDS, _shower(options))
        with Consumer(options.bootstrap, isolation=isolation, block=_SECONDS, client_id=output.CLIENT_ID) as consumer:
            return _consume(consumer, options)
    except ValueError as error:
        return output.failed(options, error)


def _consume(consumer: Consumer, options: argparse.Namespace) -> int:
    wheres = consumer.partitions(options.topic)
    if options.partition is not None:
        wheres = [TopicPartition(options.topic, number) for number in options.partition]
    kind, number = options.start
    consumer.assign(dict.fromkeys(wheres, number if kind == "offset" else LATEST))
    if kind == "time":
        for where in wheres:
            consumer.seek_to_time(where, number)
    ends = consumer.end_offsets(wheres) if options.exit else {}
    show = _shower(options)
    left = options.max if options.max is not None else sys.maxsize
    out = sys.stdout.buffer
    while left > 0:
        for where in [where for where, end in ends.items() if consumer.position(where) >= end]:
            del ends[where]
            consumer.pause(where)
        if options.exit and not ends:
            break
        for where, records in consumer.poll(_POLL_SECONDS, max_records=min(left, 10_000)).items():
            shown = records
            if options.exit:
                shown = [record for record in records if record.offset < ends[where]]
            left -= len(shown)
            out.writelines([show(where, record) for record in shown])
        out.flush()
    return 0


def _reset(options: argparse.Namespace) -> str:
    """Where a group begins without committed offsets."""
    if options.partition is not None:
        raise ValueError("--partition and --group do not go together: the group assigns all partitions")
    kind, number = options.start
    if kind != "offset" or number not in (EARLIEST, LATEST):
        raise ValueError(
            "--group continues at its committed offsets, or --from beginning or end; `groups reset` changes them"
        )
    return "earliest" if number == EARLIEST else "latest"


# -- how a record looks ------------------------------------------------------------------------------------------------


def _shower(options: argparse.Namespace) -> Show:
    if options.json:
        return _as_json
    if options.format is not None:
        return partial(_formatted, options.format)
    if sys.stdout.isatty():
        return partial(_readable, *((_DIM, _KEY, _PLAIN) if output.has_colours() else ("", "", "")))
    return _value_alone


def _value_alone(_: TopicPartition, record: Record) -> bytes:
    return (record.value or b"") + b"\n"


def _readable(dim: str, colour: str, plain: str, where: TopicPartition, record: Record) -> bytes:
    def shown(data: bytes | None, begin: str, absent: str) -> str:
        if data:
            return f"{begin}{tables.visible(_text(data))}{plain if begin else ''}"
        return f"{dim}{absent if data is None else _EMPTY}{plain}"

    place = f"{dim}{where.partition}:{record.offset} {_time(record.timestamp)}{plain}"
    key, value = shown(record.key, colour, "(no key)"), shown(record.value, "", "(no value)")
    return f"{place} {key} {value}\n".encode("utf-8", "replace")


def _formatted(text: str, where: TopicPartition, record: Record) -> bytes:
    return (text.format_map(_fields(where, record)) + "\n").encode("utf-8", "surrogateescape")


def _fields(where: TopicPartition, record: Record) -> dict[str, Any]:
    return {
        "topic": where.topic,
        "partition": where.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "time": _time(record.timestamp),
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": ",".join(f"{name}={_text(value)}" for name, value in record.headers),
    }


def _time(timestamp_ms: int) -> str:
    try:
        return output.time_of(timestamp_ms)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)


def _text(data: bytes | None) -> str:
    return _ABSENT if data is None else data.decode("utf-8", "surrogateescape")


def _as_json(where: TopicPartition, record: Record) -> bytes:
    told = {
        "topic": where.topic,
        "partition": where.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": output.plain_data(record.key),
        "value": output.plain_data(record.value),
        "headers": [
            [name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), output.plain_data(value)]
            for name, value in record.headers
        ],
    }
    return orjson.dumps(told, option=orjson.OPT_APPEND_NEWLINE)


# -- arguments ---------------------------------------------------------------------------------------------------------


def _start(text: str) -> tuple[str, int]:
    if text in ("beginning", "end"):
        return "offset", EARLIEST if text == "beginning" else LATEST
    if text.isascii() and text.isdigit():
        return "offset", int(text)
    try:
        return "time", output.moment(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither beginning, end, an offset, nor a time such as 2026-01-31T12:00 or @1769860800000"
        ) from None


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of records")
    return int(text)


def _format(text: str) -> str:
    made = text.replace("\\n", "\n").replace("\\t", "\t")
    try:
        names = [name for _, name, _, _ in string.Formatter().parse(made) if name is not None]
        unknown = [name for name in names if name not in _FIELDS]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no format: {error}") from None
    if unknown:
        raise argparse.ArgumentTypeError(f"{{{unknown[0]}}} is not known; there are {', '.join(_FIELDS)}")
    return made
