"""What a replica does for its cleaner while other things change."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from attrs import evolve

from actors.log_cleaning import LogCleaning
from actors.replica import Replica
from actors.replica_messages import DescribeReplica
from actors.runtime import Future
from log.config import CleanupPolicy
from log.memory_filesystem import MemoryFilesystem
from tests.log.compaction_logs import open_log


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
