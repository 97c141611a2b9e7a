"""Commits offsets of a group and fetches committed ones, at the group's coordinator.

An asynchronous commit is tried once: repeated after a newer commit, it would move the group back. A synchronous commit
is retried, in the generation at that time, while the member still owns the partitions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from protocol.apis import OFFSET_COMMIT, OFFSET_FETCH
from protocol.error_codes import ErrorCode
from tools.client.errors import ClientError, CommitFailed, ErrorClass, KafkaError
from tools.client.group_offsets import (
    NAMES_VERSION,
    Committed,
    Told,
    commit_errors,
    commit_request,
    fetch_request,
    fetch_told,
    version_max,
)
from tools.client.membership.group_session import GroupSession
from tools.client.membership.member import Identity
from tools.client.metadata import TopicPartition
from tools.client.network.cluster import Cluster
from tools.client.network.coordinator import Coordinator

Offsets = Mapping[TopicPartition, Committed]
UNDER_WAY_MAX = 1000
_LANE = "commit"
_FENCED = {
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
}


class Rebalancing(CommitFailed):
    """Retriable: the group rebalances."""

    kind = ErrorClass.RETRIABLE


class Behind(CommitFailed):
    """Retriable: this member gets its new epoch with its next heartbeat."""

    kind = ErrorClass.RETRIABLE


_PASSING = {ErrorCode.REBALANCE_IN_PROGRESS: Rebalancing, ErrorCode.STALE_MEMBER_EPOCH: Behind}


class Committer:
    """Of one group. Without a `session`, which is set while the consumer subscribes, it commits without a member."""

    def __init__(self, cluster: Cluster, coordinator: Coordinator, *, stable: bool) -> None:
        self.session: GroupSession | None = None
        self._cluster = cluster
        self._loop = cluster.loop
        self._coordinator = coordinator
        self._stable = stable
        self._under_way = 0

    # -- for the user's thread -----------------------------------------------------------------------------------

    def commit(self, offsets: Offsets, seconds: float) -> None:
        """Raises CommitFailed if the group refuses these offsets, or the last error."""
        self._persist(lambda then: self._commit(offsets, then), seconds)

    def commit_at_last(self, offsets: Offsets, seconds: float) -> None:
        """Commit before a revocation. Without a retry while the group rebalances, because it waits for this."""

        def ask(then: Callable[[Any], object]) -> None:
            def answered(error: ClientError | None) -> None:
                then(CommitFailed(str(error)) if isinstance(error, Rebalancing) else error)

            self._commit(offsets, answered)

        self._persist(ask, seconds)

    def commit_soon(self, offsets: Offsets, then: Callable[[ClientError | None], object]) -> None:
        """`then` is called on the client's thread."""
        self._loop.soon(self._commit, offsets, then)

    def committed(self, wheres: Collection[TopicPartition] | None, seconds: float) -> dict[TopicPartition, Committed]:
        """The committed offsets of these partitions, or of all; partitions without one are left out."""
        told: Told = self._persist(lambda then: self.ask(wheres, then), seconds)
        return {where: one for where, one in told.items() if isinstance(one, Committed)}

    def _persist(self, ask: Callable[[Callable[[Any], object]], None], seconds: float) -> Any:
        deadline = time.monotonic() + seconds

        def attempt() -> Any:
            left = max(deadline - time.monotonic(), 0.0)
            return self._cluster.answer(ask, left, f"the coordinator of {self._coordinator.what}")

        return self._cluster.persist(attempt, seconds, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    # -- for the loop's thread -----------------------------------------------------------------------------------

    def _commit(self, offsets: Offsets, then: Callable[[ClientError | None], object]) -> None:
        refusal = self._refusal(offsets)
        if refusal is not None:
            then(refusal)
            return
        identity = Identity() if self.session is None else self.session.identity
        assert identity is not None, "else it was refused"
        view = self._cluster.view
        self._under_way += 1

        def answered(response: Any) -> None:
            self._under_way -= 1
            if isinstance(response, ClientError):
                then(response)
            else:
                then(self._why_failed(list(commit_errors(view, response, offsets).values())))

        request = commit_request(view, self._coordinator.key, identity, offsets)
        most = version_max(view, offsets)
        self._coordinator.ask(OFFSET_COMMIT, request, answered, lane=_LANE, version_max=most)

    def _refusal(self, offsets: Offsets) -> CommitFailed | None:
        """Why this member must not commit these offsets; None if it may."""
        if self._under_way >= UNDER_WAY_MAX:
            return CommitFailed(f"{self._under_way} commits are under way; wait for some of them")
        if self.session is None:
            return None
        group_id = self._coordinator.key
        if self.session.identity is None:
            return CommitFailed(f"this consumer is no member of group {group_id} now; what it had may be another's")
        strange = offsets.keys() - self.session.owned
        if strange:
            some = ", ".join(map(str, sorted(strange)[:3]))
            return CommitFailed(f"{some} {'is' if len(strange) == 1 else 'are'} not this member's in group {group_id}")
        return None

    def _why_failed(self, errors: list[KafkaError]) -> ClientError | None:
        if not errors:
            return None
        error = errors[0]
        self._coordinator.refused(error)
        made: ClientError = error
        if error.code in _FENCED:
            made = CommitFailed(f"{error}: the group has gone on without this member")
        elif error.code in _PASSING:
            made = _PASSING[error.code](str(error))
        if made is not error:
            made.__cause__ = error
        return made

    def ask(self, wheres: Collection[TopicPartition] | None, then: Callable[[Told | ClientError], object]) -> None:
        """Fetch committed offsets. The error of one partition is the answer for all: the whole request is retried."""
        view = self._cluster.view
        identity = (self.session.identity if self.session is not None else None) or Identity()
        asked: Iterable[TopicPartition] = wheres or ()

        def answered(response: Any) -> None:
            try:
                if isinstance(response, ClientError):
                    raise response
                told = fetch_told(view, response, asked)
                for one in told.values():
                    if isinstance(one, KafkaError):
                        raise one
            except ClientError as error:
                self._coordinator.refused(error)
                then(self._passing(error))
                return
            then(told)

        request = fetch_request(view, self._coordinator.key, identity, wheres, stable=self._stable)
        most = NAMES_VERSION if wheres is None else version_max(view, asked)
        self._coordinator.ask(OFFSET_FETCH, request, answered, lane=_LANE, version_max=most)

    @staticmethod
    def _passing(error: ClientError) -> ClientError:
        """Errors of the member's epoch are retriable: it gets the new epoch with its next heartbeat."""
        if isinstance(error, KafkaError) and error.code in (*_PASSING, *_FENCED):
            passing = Behind(str(error))
            passing.__cause__ = error
            return passing
        return error
