"""Prints records as a member of a group, and commits printed records only."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable

from protocol.records.record import Record
from tools.cli import output
from tools.client.consumer import Consumer
from tools.client.errors import ClientError, CommitFailed
from tools.client.metadata import TopicPartition

_POLL_SECONDS = 0.5
_COMMIT_SECONDS = 1.0
Show = Callable[[TopicPartition, Record], bytes]


def read(options: argparse.Namespace, reset: str, isolation: str, seconds: float, show: Show) -> int:
    """Read until Ctrl-C, `--max` records, or, with `--exit`, the ends of this member's partitions."""
    with Consumer(
        options.bootstrap,
        isolation=isolation,
        auto_offset_reset=reset,
        block=seconds,
        client_id=output.CLIENT_ID,
        group_id=options.group,
        group_protocol=options.group_protocol,
        auto_commit_interval=None,
    ) as consumer:
        reader = _GroupReader(consumer, show)
        consumer.partitions(options.topic)  # an unknown topic is an error at once
        consumer.subscribe([options.topic], on_revoked=reader.commit, on_lost=reader.forget)
        try:
            reader.read(options.max if options.max is not None else sys.maxsize, to_ends=options.exit)
        finally:
            reader.commit(reader.printed.copy())
    return 0


class _GroupReader:
    def __init__(self, consumer: Consumer, show: Show) -> None:
        self.printed: dict[TopicPartition, int] = {}
        """The offsets after printed records that are not committed yet."""
        self._consumer = consumer
        self._show = show

    def read(self, left: int, *, to_ends: bool) -> None:
        ends: dict[TopicPartition, int] = {}
        commit_at = time.monotonic() + _COMMIT_SECONDS
        while left > 0:
            for where, records in self._consumer.poll(_POLL_SECONDS, max_records=min(left, 10_000)).items():
                left -= len(records)
                self._print(where, records)
            if time.monotonic() >= commit_at:
                self._consumer.commit_soon(self.printed, _told)
                commit_at = time.monotonic() + _COMMIT_SECONDS
            if to_ends and self._is_at(ends):
                return

    def _print(self, where: TopicPartition, records: list[Record]) -> None:
        out = sys.stdout.buffer
        out.writelines([self._show(where, record) for record in records])
        out.flush()
        self.printed[where] = records[-1].offset + 1

    def _is_at(self, ends: dict[TopicPartition, int]) -> bool:
        """Are all partitions read to the ends that they had when they were assigned?"""
        assigned = self._consumer.assignment
        new = [where for where in assigned if where not in ends]
        if new:
            ends.update(self._consumer.end_offsets(new))
        return bool(assigned) and all(self._consumer.position(where) >= ends[where] for where in assigned)

    def commit(self, wheres: Iterable[TopicPartition]) -> None:
        offsets = {where: self.printed.pop(where) for where in wheres if where in self.printed}
        try:
            self._consumer.commit(offsets)
        except CommitFailed as error:
            _told(error)

    def forget(self, wheres: Iterable[TopicPartition]) -> None:
        for where in wheres:
            self.printed.pop(where, None)


def _told(error: ClientError | None) -> None:
    if error is not None:
        print(f"not committed: {error}", file=sys.stderr)
