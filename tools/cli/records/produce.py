"""Send every line of stdin as a record, to any Kafka cluster. Ctrl-C sends the lines that were read, and ends."""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import Iterator

import orjson

from tools.cli import output
from tools.client.producer import ACKS, CODECS, Producer
from tools.client.writing.batch import Delivery

_SECONDS = 15.0
_OPEN_MAX = 10_000  # deliveries that are not checked yet


def add_arguments(parser: argparse.ArgumentParser) -> None:
    output.add_connection_arguments(
        parser, "%(prog)s orders < orders.txt\n  echo 'table 4:two cups' | %(prog)s orders --key :"
    )
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "--key", metavar="SEPARATOR", type=_separator, help="a line is a key, this separator and a value (\\t is a tab)"
    )
    parser.add_argument("--partition", metavar="N", type=int, help="send all to this one (default: by key, else any)")
    parser.add_argument(
        "--header", metavar="NAME=VALUE", type=_header, action="append", default=[], help="of every record; repeatable"
    )
    parser.add_argument(
        "--acks", choices=("all", "1", "0"), default="all", help="replicas that must have a record (default: all)"
    )
    parser.add_argument("--compression", choices=tuple(CODECS), default="none", help="of the batches (default: none)")
    assert set(ACKS) >= {"all", "1", "0"}


def run(options: argparse.Namespace) -> int:
    return output.run_in_kafkas_protocol(lambda: _run(options), options)


def _run(options: argparse.Namespace) -> int:
    try:
        with Producer(
            options.bootstrap,
            acks=options.acks,
            compression=options.compression,
            block=_SECONDS,
            delivery=_SECONDS,
            client_id=output.CLIENT_ID,
        ) as producer:
            return _produce(producer, options)
    except ValueError as error:
        return output.failed(options, error)


def _produce(producer: Producer, options: argparse.Namespace) -> int:
    sent: deque[Delivery] = deque()
    count = code = 0
    lines = _lines()
    while True:
        try:
            line = next(lines, None)
        except KeyboardInterrupt:
            line, code = None, 130
        if line is None:
            break
        key, value = _split(line, options.key)
        sent.append(producer.send(options.topic, value, key=key, partition=options.partition, headers=options.header))
        count += 1
        while sent and (len(sent) > _OPEN_MAX or sent[0].done()):
            _tell(sent.popleft(), options)
    producer.flush()
    for delivery in sent:
        _tell(delivery, options)
    if sys.stdin.isatty() or sys.stdout.isatty():
        print(f"{count} records sent", file=sys.stderr)
    return code


def _lines() -> Iterator[bytes]:
    for line in sys.stdin.buffer:
        yield line.removesuffix(b"\n")


def _split(line: bytes, separator: bytes | None) -> tuple[bytes | None, bytes]:
    """A line without the separator has no key."""
    if separator is None:
        return None, line
    key, found, value = line.partition(separator)
    return (key, value) if found else (None, line)


def _tell(delivery: Delivery, options: argparse.Namespace) -> None:
    """Print where the record is. Raises its error."""
    where = delivery.result()
    if options.json:
        print(orjson.dumps({"topic": where.topic, "partition": where.partition, "offset": where.offset}).decode())


def _separator(text: str) -> bytes:
    made = text.replace("\\t", "\t").encode("utf-8", "surrogateescape")
    if not made:
        raise argparse.ArgumentTypeError("a separator is at least one character")
    return made


def _header(text: str) -> tuple[str, bytes]:
    name, value = output.config(text)
    return name, value.encode("utf-8", "surrogateescape")
