"""What a replica does for its cleaner while other things change."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from attrs import evolve

from actors.messages.replica import DescribeReplica
from actors.partition.cleaning import Compact, LogCleaning
from actors.partition.replica import Replica
from actors.runtime import Future
from log.config import CleanupPolicy
from log.disk.memory_filesystem import MemoryFilesystem
from log.slices import LongCall
from protocol.records.compression import Codec
from tests.log.compaction_logs import committed, open_log, put


def test_a_log_whose_cleanup_policy_changes_while_the_other_replicas_answer_is_not_compacted() -> None:
    log, answers = open_log(MemoryFilesystem()), list[Callable[[Future[Any]], None]]()

    def ask_peer(_broker: int, _message: DescribeReplica, answered: Callable[[Future[Any]], None], **_: object) -> None:
        answers.append(answered)

    member = SimpleNamespace(log=log, node=SimpleNamespace(replicas=(1, 2, 3)))
    replica = SimpleNamespace(member=member, node=SimpleNamespace(broker=1), ask_peer=ask_peer)
    reply: Future[bool] = Future()
    LogCleaning(cast("Replica", replica)).begin(reply)
    log.config = evolve(log.config, cleanup_policy=CleanupPolicy.DELETE)
    for answered in answers:
        future: Future[Any] = Future()
        future.set(SimpleNamespace(cleaned_to=0))
        answered(future)
    assert reply.get(timeout=0) is False


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

    replica = SimpleNamespace(
        member=SimpleNamespace(log=log, node=SimpleNamespace(replicas=(1,))), node=SimpleNamespace(broker=1),
        services=SimpleNamespace(wall_ms=lambda: 0), after=lambda _seconds, message: messages.append(message),
        after_call=after_call, sync_soon=log.flush,
    )  # fmt: skip
    reply: Future[bool] = Future()
    cleaning = LogCleaning(cast("Replica", replica))
    cleaning.begin(reply)
    while messages:
        cleaning.compact(messages.pop())
    assert reply.get(timeout=0) is True
    assert calls == 4  # to read the batch twice, to write it, and to sync it
    assert [record.offset for record in committed(log)] == [1]
