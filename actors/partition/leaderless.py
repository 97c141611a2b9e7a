"""Partitions of one broker that have had no leader for a while: one WARNING a minute says why, for all of them.

A line is logged only where an operator can act: replicas say which others they wait for (log/raft/waiting.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.messages.replica import DescribeSurvivor, replica_address
from actors.runtime import Gather
from log.settings import unclean

if TYPE_CHECKING:
    from actors.raft.leadership import Leadership
    from actors.runtime import Actor, Future

PATIENCE_SECONDS = 10.0
WARN_AGAIN_SECONDS = 60.0
ASKED_MAX = 5
_ASK_SECONDS = 5.0


class Leaderless:
    """The leaderless partitions of one broker."""

    def __init__(self, owner: Actor, leadership: Leadership) -> None:
        self._owner = owner
        self._leadership = leadership
        self._since: dict[str, float] = {}
        self._warned_at: float | None = None

    def look(self, raft_groups: Iterable[str], now: float) -> None:
        """Called now and then with the Raft groups that have a replica here."""
        since = {
            raft_group: self._since.get(raft_group, now)
            for raft_group in raft_groups
            if not self._leadership.is_led(raft_group)
        }
        self._since = since
        overdue = sorted(raft_group for raft_group, at in since.items() if now - at >= PATIENCE_SECONDS)
        if overdue and (self._warned_at is None or now - self._warned_at >= WARN_AGAIN_SECONDS):
            self._warned_at = now
            self._ask(overdue)
        elif not overdue:
            self._warned_at = None

    def _ask(self, raft_groups: list[str]) -> None:
        asked, owner = raft_groups[:ASKED_MAX], self._owner
        reasons: list[str] = []

        def all_answered() -> None:
            if reasons:
                self._warn(reasons, len(raft_groups))

        gather = Gather(all_answered)

        def answered(raft_group: str, future: Future[Any]) -> None:
            reason = "" if future.exception is not None else future.get().waits_for
            if reason:
                reasons.append(f"{raft_group.rpartition('.')[0]} {reason}")
            gather.done()

        for raft_group in asked:
            gather.begin()
            address = replica_address(raft_group, owner.node.broker)
            owner.ask(address, DescribeSurvivor(), partial(answered, raft_group), timeout=_ASK_SECONDS)
        gather.done()

    def _warn(self, reasons: list[str], count: int) -> None:
        self._owner.log.warning(
            "partitions: %d have no leader: %s%s. Start those brokers with the data directories that they had; if these"
            " are lost for ever, `%s` shows what is left and can go on with it",
            count, "; ".join(sorted(reasons)), " …" if count > len(reasons) else "", unclean.COMMAND,
        )  # fmt: skip
