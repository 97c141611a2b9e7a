"""What a replica does for its cleaner while other things change."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve

from actors.partition.cleaning import Compact, LogCleaning
from actors.runtime import Future
from log.config import CleanupPolicy
from log.disk.memory_filesystem import Fault, MemoryFilesystem
from log.partition.partition_log import PartitionLog
from log.slices import LongCall
from protocol.records.compression import Codec
from tests.log.compaction_logs import committed, open_log, put


def cleaning_of(
    log: PartitionLog,
    replicas: tuple[int, ...],
    *,
    is_sure: Callable[[], bool] = lambda: True,
    transactions: Any = None,
    **actions: Callable[..., Any],
) -> LogCleaning:
    """Of a replica on broker 1."""
    node: Any = SimpleNamespace(broker=1, replicas=replicas)
    calendar: Any = SimpleNamespace(wall_ms=lambda: 0, is_sure=is_sure, elapsed=lambda: 0.0)
    does: Any = SimpleNamespace(**actions)
    logger = logging.LoggerAdapter(logging.getLogger("barnabas"), {"broker": 1})
    return LogCleaning("orders-0", log, node, does, calendar, transactions, logger)


class Peers:
    """A replica with two others, which have not answered yet how far they have compacted."""

    def __init__(self) -> None:
        self.log = open_log(MemoryFilesystem())
        self.is_sure = True
        self.begun: list[Compact] = []
        self._answers: list[Callable[[Future[Any]], None]] = []
        self.cleaning = cleaning_of(
            self.log, (1, 2, 3), is_sure=lambda: self.is_sure, sync_soon=self.log.flush,
            ask_peer=lambda _broker, _message, answered, **_: self._answers.append(answered),
            after=lambda _seconds, message: self.begun.append(message),
        )  # fmt: skip

    def answer(self) -> None:
        for answered in self._answers:
            future: Future[Any] = Future()
            future.set(SimpleNamespace(cleaned_to=0))
            answered(future)


def test_a_log_whose_cleanup_policy_changes_while_the_other_replicas_answer_is_not_compacted() -> None:
    peers, reply = Peers(), Future[bool]()
    peers.cleaning.begin(reply)
    peers.log.config = evolve(peers.log.config, cleanup_policy=CleanupPolicy.DELETE)
    peers.answer()
    assert reply.get(timeout=0) is False


@pytest.mark.parametrize("is_sure", [True, False])
def test_a_log_is_not_compacted_if_the_wall_clock_jumps_while_the_other_replicas_answer(is_sure: bool) -> None:
    peers, reply = Peers(), Future[bool]()
    peers.cleaning.begin(reply)
    peers.is_sure = is_sure
    peers.answer()
    assert len(peers.begun) == is_sure
    assert reply.done is not is_sure


@pytest.mark.parametrize(("error", "tries"), [(errno.ENOSPC, 3), (errno.EDQUOT, 3), (errno.EIO, 9)])
def test_a_compaction_that_fails_is_logged_once_a_minute_and_put_off_where_there_is_no_space(
    caplog: pytest.LogCaptureFixture, error: int, tries: int
) -> None:
    files, messages, begun = MemoryFilesystem(), list[Compact](), 0

    def after_call(call: LongCall, message: Compact) -> None:
        call.run()
        messages.append(message)

    log = open_log(files)
    put(log, (b"a", b"1"), (b"a", b"2"))
    log.roll()
    files.faults.append(Fault("write", error, "*.cleaned", times=None))
    now = 0.0
    cleaning = cleaning_of(
        log, (1,), transactions=SimpleNamespace(producer_id_expiration_ms=1), now=lambda: now, sync_soon=log.flush,
        after=lambda _seconds, message: messages.append(message), after_call=after_call,
    )  # fmt: skip
    for now in range(0, 135, 15):  # noqa: B007  the cleaning asks for it
        if not cleaning.clean_up(retention=False):
            begun += 1
            cleaning.begin(Future())
        while messages:
            cleaning.compact(messages.pop())
    assert begun == tries
    assert len([record for record in caplog.records if "orders-0 was not compacted" in record.getMessage()]) == 3
    files.faults.clear()
    now += 60
    assert not cleaning.clean_up(retention=False)
    cleaning.begin(Future())
    while messages:
        cleaning.compact(messages.pop())
    assert [record.offset for record in committed(log)] == [1]


def test_large_batches_are_compacted_with_the_help_of_another_thread() -> None:
    log = open_log(MemoryFilesystem())
    put(log, (b"a", b"1"), (b"a", bytes(2 << 20)), codec=Codec.ZSTD)
    log.roll()
    messages, calls = list[Compact](), 0

    def after_call(call: LongCall, message: Compact) -> None:
        nonlocal calls
        calls += 1
        call.run()
        messages.append(message)

    reply: Future[bool] = Future()
    cleaning = cleaning_of(
        log, (1,), after=lambda _seconds, message: messages.append(message), after_call=after_call, sync_soon=log.flush
    )
    cleaning.begin(reply)
    while messages:
        cleaning.compact(messages.pop())
    assert reply.get(timeout=0) is True
    assert calls == 4  # to read the batch twice, to write it, and to sync it
    assert [record.offset for record in committed(log)] == [1]
