"""One replica: the real `Member` and `RaftNode` over a model of a log, and what can happen to it.

Every event happens at the same moment, `NOW`, and afterwards all times are made equal: a timer is set or it is not. To
let one fire, its time is moved to the past.
"""

from __future__ import annotations

import io
import math
import pickle
import random
from typing import Any, cast

from attrs import evolve

from log.partition.partition_log import PartitionLog
from log.raft.candidate import Candidate, Election
from log.raft.config import RaftConfig
from log.raft.follower import Follower
from log.raft.leader import Leader
from log.raft.membership import Membership, MembershipHistory, Voter
from log.raft.messages import Append, BeginFromSnapshot, Message
from log.raft.node import RaftNode
from log.raft.ready import Vote
from log.replica.member import Member
from protocol.records.batches import Record, build_batch, check_batches
from tools.explorer.model_log import ModelLog
from tools.explorer.scenario import Scenario

NOW = 1000.0
_LONG_AGO = NOW - 500.0
_CONFIG = RaftConfig()
_SHARED = ("config", "rng", "pacer", "ready", "_wall_ms", "machine", "state")
"""What all replicas have in common, what is empty between two events, and what a role has of its own node."""


class _Steady(random.Random):
    """Not random: it only decides when a timer fires, and timers fire at any time here."""

    def uniform(self, a: float, _b: float) -> float:
        return a


_RNG = _Steady()


def _wall_ms() -> int:
    return 0


class ExploredReplica:
    """Alive (`member`), or dead with what its disk kept."""

    def __init__(self, member: Member, saved: Vote) -> None:
        self.member: Member | None = member
        self.saved = saved
        """The vote that is on disk."""

    @property
    def node(self) -> RaftNode:
        assert self.member is not None
        return self.member.node

    @property
    def log(self) -> ModelLog:
        assert self.member is not None
        return cast("ModelLog", self.member.log)

    # -- events ----------------------------------------------------------------------------------------------------

    def happen(self, event: tuple[Any, ...]) -> None:
        """Let this event happen."""
        getattr(self, f"_on_{event[0]}")(*event[1:])

    def _on_step(self, message: Message) -> None:
        self._alive.step(message, NOW)

    def _on_timer(self) -> None:
        """The timer for an election, or for repeating one, fires."""
        self._alive.tick(NOW)

    def _on_unheard(self) -> None:
        """The check-quorum timer fires: the leader has not heard from a majority for too long."""
        self.node.heard.clear()
        for progress in _leader(self.node).progress.values():
            progress.linked_at = _LONG_AGO
        self._alive.tick(NOW)

    def _on_resend(self) -> None:
        """A leader has waited too long for the answers of its followers."""
        for progress in _leader(self.node).progress.values():
            progress.sent_at = _LONG_AGO
        self._alive.tick(NOW)

    def _on_give_up(self) -> None:
        """The target of a leadership transfer has not taken over in time."""
        _leader(self.node).successor_until = _LONG_AGO
        self._alive.tick(NOW)

    def _on_stall(self) -> None:
        """The leader has looked twice, and nothing was committed in between."""
        leader = _leader(self.node)
        leader.looked_at, leader.waiting_at = _LONG_AGO, self.node.watermark
        self._alive.tick(NOW)

    def _on_vote_saved(self) -> None:
        self.save_vote()

    def save_vote(self) -> None:
        while self.member is not None and self.member.unsaved_vote is not None:
            self.saved = self.member.unsaved_vote
            self.member.vote_saved(self.saved, NOW)

    def _on_synced(self) -> None:
        self.log.flushed_offset = self.log.end_offset
        self._alive.flushed(NOW)

    def _on_append(self, number: int) -> None:
        batch = build_batch([Record(0, 0, None, b"batch %d" % number, ())])
        self._alive.append(check_batches(batch), NOW)

    def _on_beat(self, to: int) -> None:
        self._alive.outbox += [(broker, beat) for broker, beat in self.node.beats() if broker == to]

    def _on_want(self, wanted: tuple[int, ...]) -> None:
        self._alive.want(wanted, (), NOW, move=1)

    def _on_recover(self, survivors: tuple[int, ...]) -> None:
        """An operator has given up the other replicas: a new generation begins."""
        membership = Membership(tuple(_voter(broker) for broker in survivors), generation=1)
        self._alive.begin_generation(membership, NOW, keeps_log=self.node.broker in survivors)

    def _on_leader_gone(self) -> None:
        self._alive.leader_gone(NOW)

    def _on_up(self, broker: int) -> None:
        self._alive.peer_up(broker, NOW)

    def _on_down(self, broker: int) -> None:
        self._alive.peer_down(broker, NOW)

    def _on_kill(self) -> None:
        """The process dies; its log is in the page cache, a vote that is not saved is not."""
        self._die(self.log.end_offset, eligible=self.node.eligible)

    def _on_lose_power(self, kept: int) -> None:
        """The log ends at `kept` now. If it acknowledged more than was on disk, it is ineligible."""
        self._die(kept, eligible=self.node.eligible and self.node.config.flush_before_ack)

    def _die(self, kept: int, *, eligible: bool) -> None:
        node, log = self.node, self.log
        flushed = min(kept, log.flushed_offset) if node.config.flush_before_ack else 0
        self.disk = (
            node.broker, node.directory, tuple(log.batches[:kept]), flushed, node.history.encode(), eligible,
            node.is_new, node.wanted, node.move, node.config.flush_before_ack,
        )  # fmt: skip
        self.member = None

    def _on_start(self) -> None:
        broker, directory, batches, flushed, history, eligible, is_new, wanted, move, flush = self.disk
        del self.disk
        log = ModelLog(batches, flushed)
        self.member = _member(
            broker, directory, MembershipHistory.decode(history), self.saved, log,
            eligible=eligible, is_new=is_new, wanted=wanted, move=move, flush=flush,
        )  # fmt: skip

    @property
    def _alive(self) -> Member:
        assert self.member is not None
        return self.member

    # -- states ----------------------------------------------------------------------------------------------------

    def make_timeless(self) -> None:
        """Every timer that is set is set to the same time, and everything that ever happened has just happened."""
        if self.member is None:
            return
        node = self.member.node
        node.heard = dict.fromkeys(sorted(node.online), NOW)
        node.seen.clear()  # shown to operators, and used by no decision
        node.voted_at = NOW
        first = node.retry_s == node.config.election_retry_s
        node.retry_s = node.config.election_retry_s if first else node.config.election_retry_s_max
        role = node.role
        if isinstance(role, Follower):
            role.campaign_at = _set(role.campaign_at)
        elif isinstance(role, Election):
            role.retry_at = NOW if role.retry_at != math.inf else math.inf
            if isinstance(role, Candidate):
                role.asked_at = NOW
        elif isinstance(role, Leader):
            role.successor_until = NOW + 1
            role.looked_at = NOW
            for progress in role.progress.values():
                progress.linked_at = progress.sent_at = progress.last_ack_at = progress.goal_set_at = NOW
                progress.caught_up_at = NOW if progress.caught_up_at > 0 else -math.inf


def _set(time: float | None) -> float | None:
    return time if time is None or time == math.inf else NOW


def _voter(broker: int) -> Voter:
    return Voter(broker, f"dir-{broker}")


def _leader(node: RaftNode) -> Leader:
    assert isinstance(node.role, Leader)
    return node.role


def first_replica(broker: int, scenario: Scenario) -> ExploredReplica:
    voters = Membership(tuple(_voter(broker) for broker in scenario.voters))
    history = MembershipHistory([(-1, voters)])
    member = _member(
        broker, _voter(broker).directory, history, Vote(), ModelLog(),
        eligible=True, is_new=False, wanted=scenario.voters, move=0, flush=scenario.flush,
    )  # fmt: skip
    return ExploredReplica(member, Vote())


def _member(
    broker: int,
    directory: str,
    history: MembershipHistory,
    vote: Vote,
    log: ModelLog,
    *,
    eligible: bool,
    is_new: bool,
    wanted: tuple[int, ...],
    move: int,
    flush: bool,
) -> Member:
    node = RaftNode(
        broker, directory, history, vote, log,
        config=_FLUSHING if flush else _CONFIG, rng=_RNG, now=NOW,
        eligible=eligible, is_new=is_new, wanted=wanted, move=move,
    )  # fmt: skip
    return Member(cast("PartitionLog", log), node, _wall_ms)


_FLUSHING = evolve(_CONFIG, flush_before_ack=True)


def with_own_bytes(message: Message) -> Message:
    """The same, apart from the log that the leader goes on writing."""
    if isinstance(message, Append) and len(message.batches):
        return evolve(message, batches=memoryview(bytes(message.batches)))
    assert not isinstance(message, BeginFromSnapshot), "logs start at 0 here"
    return message


def frozen_state(value: Any) -> Any:
    """The same for two states that cannot be told apart."""
    if value is None or isinstance(value, int | str | bytes | float):
        return value
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, set | frozenset):
        return tuple(sorted(value))
    if isinstance(value, dict):
        return tuple((key, frozen_state(value[key])) for key in sorted(value))
    if isinstance(value, list | tuple) or type(value).__name__ == "deque":
        return tuple(map(frozen_state, value))
    if type(value).__name__ == "Pace":
        return value.name
    names = vars(value) if hasattr(value, "__dict__") else _slots(type(value))
    said = [frozen_state(getattr(value, name)) for name in sorted(names) if name not in _SHARED]
    return (type(value).__name__, *said)


def _slots(kind: type) -> list[str]:
    return [
        name for cls in kind.__mro__ for name in getattr(cls, "__slots__", ()) if name not in ("__weakref__", "changed")
    ]


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        return (memoryview, (bytes(value),)) if isinstance(value, memoryview) else NotImplemented

    def persistent_id(self, value: Any) -> Any:
        return next((at for at, shared in enumerate(_PERSISTENT) if value is shared), None)


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, at: int) -> Any:
        return _PERSISTENT[at]


_PERSISTENT: tuple[Any, ...] = (_CONFIG, _FLUSHING, _RNG, _wall_ms)


def dump(replica: ExploredReplica) -> bytes:
    file = io.BytesIO()
    _Pickler(file).dump(replica)
    return file.getvalue()


def load(data: bytes) -> ExploredReplica:
    return cast("ExploredReplica", _Unpickler(io.BytesIO(data)).load())
