"""A group member on the user's thread: callbacks, positions, and the commits before a revocation.

Partitions are assigned and revoked inside of `poll` and `close` only. Before a revocation their positions are committed
(with auto-commit), then `on_revoked` is called, then they are removed. New partitions are read from their committed
offsets, unless the user seeks.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from attrs import frozen

from tools.client.errors import ClientError, NoCommittedOffset
from tools.client.group_offsets import Committed, Told
from tools.client.membership.classic import ClassicMembership
from tools.client.membership.consumer import ConsumerMembership
from tools.client.membership.group_session import GroupSession
from tools.client.membership.member import GroupSettings, Lose, Membership, Revoke, Subscription, Take, Task
from tools.client.metadata import TopicPartition
from tools.client.network.cluster import Cluster
from tools.client.network.coordinator import Coordinator
from tools.client.reading.committer import Committer
from tools.client.reading.fetcher import Assigned
from tools.client.reading.positions import Reading

_log = logging.getLogger(__name__)
PROTOCOLS: dict[str, Callable[[GroupSettings, Subscription], Membership]] = {
    "classic": ClassicMembership,
    "consumer": ConsumerMembership,
}
LEAVE_SECONDS = 5.0
OnPartitions = Callable[[list[TopicPartition]], object]


@frozen
class Listener:
    """The user's callbacks, called in `poll` and `close` on the user's thread."""

    on_assigned: OnPartitions | None = None
    on_revoked: OnPartitions | None = None
    on_lost: OnPartitions | None = None


class Subscriber:
    """A member of the group while it subscribes. A consumer with assigned partitions uses only its commits."""

    def __init__(
        self,
        cluster: Cluster,
        reading: Reading,
        settings: GroupSettings,
        protocol: str,
        *,
        auto_commit: float | None,
        reset: int | None,
        stable: bool,
    ) -> None:
        if protocol not in PROTOCOLS:
            raise ValueError(f"group_protocol is one of {', '.join(PROTOCOLS)}, not {protocol!r}")
        self.settings = settings
        self._make = PROTOCOLS[protocol]
        self._cluster = cluster
        self._reading = reading
        self._changed = reading.changed
        self._auto_commit = auto_commit
        self._reset = reset
        self._coordinator = Coordinator(cluster, settings.group_id)
        self.committer = Committer(cluster, self._coordinator, stable=stable)
        self._listener = Listener()
        self._next_commit = time.monotonic() + (auto_commit or 0.0)
        self._is_committing = False

    @property
    def session(self) -> GroupSession | None:
        return self.committer.session

    @property
    def has_task(self) -> bool:
        session = self.session
        return session is not None and (session.task is not None or session.error is not None)

    def subscribe(self, subscription: Subscription, listener: Listener) -> None:
        self._listener = listener
        if self.session is not None:
            self.session.subscribe(subscription)
            return
        membership = self._make(self.settings, subscription)
        session = GroupSession(self._cluster, self._coordinator, self.settings, membership, self._changed)
        self.committer.session = session
        session.start(subscription)

    # -- in poll ---------------------------------------------------------------------------------------------------

    def work(self, seconds: float) -> None:
        """Do the membership's tasks. After the last one, raises the error that ended the membership."""
        session = self.session
        while session is not None and (task := session.take()) is not None:
            try:
                self._do(task, seconds)
            finally:
                session.did(task)  # even if the callback raised: it is not called again
        if session is not None and session.error is not None:
            raise session.error

    def _do(self, task: Task, seconds: float) -> None:
        wheres = sorted(task.partitions)
        try:
            match task:
                case Take():
                    self._look_up(self._reading.add(wheres))
                    self._tell(self._listener.on_assigned, wheres)
                case Revoke():
                    self._commit_before(wheres, seconds)
                    self._tell(self._listener.on_revoked, wheres)
                case Lose():
                    self._tell(self._listener.on_lost or self._listener.on_revoked, wheres)
        finally:
            if not isinstance(task, Take):
                self._reading.drop(wheres)

    def _tell(self, call: OnPartitions | None, wheres: list[TopicPartition]) -> None:
        if call is not None and wheres:
            call(wheres)

    def _commit_before(self, wheres: Sequence[TopicPartition], seconds: float) -> None:
        if self._auto_commit is None:
            return
        positions = self._reading.positions()
        offsets = {where: positions[where] for where in wheres if where in positions}
        if offsets:
            try:
                self.committer.commit_at_last(offsets, seconds)
            except ClientError as error:  # the next owner reads the records again; the group does not wait
                _log.warning(
                    "group %s: positions were not committed before the revocation: %s", self.settings.group_id, error
                )

    def commit_in_time(self) -> None:
        """Commit the positions, if the auto-commit interval is over."""
        now = time.monotonic()
        if self._auto_commit is None or now < self._next_commit or self._is_committing:
            return
        self._next_commit = now + self._auto_commit
        offsets = self._reading.positions()
        if offsets:
            self._is_committing = True
            self.committer.commit_soon(offsets, self._committed)

    def _committed(self, error: ClientError | None) -> None:
        self._is_committing = False
        if error is not None:
            _log.warning("group %s: %s", self.settings.group_id, error)

    # -- first positions -------------------------------------------------------------------------------------------

    def _look_up(self, ones: Sequence[Assigned]) -> None:
        turns = {one.where: (one, one.turn) for one in ones}
        self._cluster.loop.soon(self._ask, turns, 0)

    def _ask(self, turns: dict[TopicPartition, tuple[Assigned, int]], failures: int) -> None:
        """Fetch committed offsets, on the loop's thread; repeated while a partition still waits for one."""
        with self._changed:
            left = {
                where: (one, turn)
                for where, (one, turn) in turns.items()
                if one.turn == turn and self._reading.fetcher.assigned.get(where) is one
            }
        if not left:
            return

        def told(answer: Told | ClientError) -> None:
            if isinstance(answer, ClientError) and answer.kind.is_retriable:
                pause = self._cluster.patience.pause(failures)
                self._cluster.loop.after(pause, lambda: self._ask(left, failures + 1))
                return
            self._begin(left, answer)

        self.committer.ask(list(left), told)

    def _begin(self, turns: dict[TopicPartition, tuple[Assigned, int]], answer: Told | ClientError) -> None:
        with self._changed:
            for where, (one, turn) in turns.items():
                if one.turn == turn:
                    self._begin_at(one, answer if isinstance(answer, ClientError) else answer.get(where))
            self._changed.notify_all()
        self._reading.fetcher.pump()

    def _begin_at(self, one: Assigned, told: Committed | ClientError | None) -> None:
        if isinstance(told, Committed):
            one.seek(told.offset)
            one.epoch = one.last_epoch = told.leader_epoch
        elif told is None and self._reset is not None:
            one.seek(None, self._reset)
        else:
            one.is_asking = False
            one.error = told or NoCommittedOffset(self.settings.group_id, one.where)

    # -- leaving ---------------------------------------------------------------------------------------------------

    def unsubscribe(self, seconds: float) -> None:
        """Revoke all partitions and leave the group. Errors are logged: the session times out then."""
        session = self.session
        if session is None:
            self._commit_before(list(self._reading.positions()), seconds)
            return
        if session.identity is not None:
            held = [where for where in self._reading.fetcher.assigned if where in session.owned]
            self._commit_before(held, seconds)
            self._tell(self._listener.on_revoked, sorted(held))
        self._reading.drop(list(self._reading.fetcher.assigned))
        left = threading.Event()
        session.leave("the consumer was closed or unsubscribed", left.set)
        if not left.wait(min(seconds, LEAVE_SECONDS)):
            _log.warning(
                "group %s: the coordinator does not answer; it removes this member when its session times out",
                self.settings.group_id,
            )
        self.committer.session = None
