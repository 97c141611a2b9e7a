"""A member of a new consumer group (KIP-848): one heartbeat joins, stays and leaves; the coordinator assigns.

    OUT ──► IN ──► OUT …      (fenced: its partitions are lost, and it joins again under the same id)

A heartbeat contains only the fields that changed since the last answered heartbeat; after an unanswered one, all
fields. The target assignment comes with an answer, by topic ids. Once the user has revoked and taken the partitions,
the next heartbeat is sent at once with the partitions that are owned now, because another member may wait for them.

A heartbeat claims the partitions that the user has, and all assigned ones, which the user may take before the answer
comes. The coordinator assigns to other members every partition that this member does not claim.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

from attrs import frozen

from protocol.apis import CONSUMER_GROUP_HEARTBEAT
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tools.client.errors import ClientError, KafkaError, error_code
from tools.client.membership.member import GroupSettings, Identity, Reconciliation, Say, Subscription, Task
from tools.client.metadata import TopicPartition, View

JOIN, LEAVE, LEAVE_FOR_A_WHILE = 0, -1, -2
"""Values of the member epoch with a meaning of their own."""
_FENCED = {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID}


class Phase(enum.Enum):
    OUT = enum.auto()
    IN = enum.auto()
    LEFT = enum.auto()


Claims = frozenset[tuple[bytes, int]]


@frozen
class _Facts:
    """The content of a heartbeat. Without a subscription it is empty."""

    subscription: Subscription | None = None
    claims: Claims = frozenset()
    """Partitions, by topic ids."""
    is_done: bool = False
    """Has the user no more tasks?"""
    claims_aloud: bool = False
    """Are the claims in the heartbeat? If not, they have not changed."""


class ConsumerMembership:
    """See member.Membership."""

    def __init__(self, settings: GroupSettings, subscription: Subscription) -> None:
        self.reconciliation = Reconciliation()
        self.error: ClientError | None = None
        self.phase = Phase.OUT
        self.member_id = str(uuid.uuid4())
        self.epoch = JOIN
        self._settings = settings
        self._subscription = subscription
        self._is_speaking = False
        self._heartbeat_at = 0.0
        self._interval = settings.heartbeat_interval
        self._saying: _Facts | None = None
        self._heard = _Facts()
        """The content of the last answered heartbeat."""
        self._owes_claims = False
        """Has the coordinator sent an assignment that no heartbeat has claimed yet?"""
        self._target: Mapping[bytes, list[int]] | None = None
        """The target assignment by topic ids; metadata gives the names."""
        self._ids: dict[str, bytes] = {}

    @property
    def identity(self) -> Identity | None:
        if self.epoch <= JOIN or self.reconciliation.is_lost:
            return None
        return Identity(self.member_id, self.epoch, self._settings.instance_id)

    @property
    def generation(self) -> int:
        return self.epoch if self.epoch > JOIN else -1

    @property
    def topics(self) -> frozenset[str]:
        """The topics whose metadata this member needs."""
        return self._subscription.topics

    @property
    def is_blind(self) -> bool:
        """Are topics assigned whose names are not known yet?"""
        return not frozenset(self._target or ()) <= frozenset(self._ids.values())

    @property
    def next_at(self) -> float | None:
        is_held = self.phase is Phase.LEFT or (self.phase is Phase.OUT and not self.reconciliation.is_done)
        return None if self._is_speaking or is_held else self._heartbeat_at

    # -- requests ----------------------------------------------------------------------------------------------------

    def say(self, now: float) -> Say | None:
        if self._is_speaking or self.error is not None or self.phase is Phase.LEFT:
            return None
        if self.phase is Phase.OUT and not self.reconciliation.is_done:
            return None
        if now < self._heartbeat_at and not (self.phase is Phase.IN and self._has_news()):
            return None
        self._is_speaking = True
        self._heartbeat_at = now + self._interval
        return Say(CONSUMER_GROUP_HEARTBEAT, self._request())

    def _has_news(self) -> bool:
        """Is there a change that the coordinator waits for? Not while the user has tasks."""
        facts = self._facts()
        return facts.subscription != self._heard.subscription or (facts.is_done and facts.claims_aloud)

    def _facts(self) -> _Facts:
        held = {(self._ids[where.topic], where.partition) for where in self.reconciliation.held}
        assigned = {(topic_id, number) for topic_id, numbers in (self._target or {}).items() for number in numbers}
        claims, is_done = frozenset(held | assigned), self.reconciliation.is_done
        is_news = self._heard.subscription is None or claims != self._heard.claims
        return _Facts(self._subscription, claims, is_done, is_news or (is_done and self._owes_claims))

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        settings, facts, heard = self._settings, self._facts(), self._heard
        self._saying = facts
        request = ConsumerGroupHeartbeatRequest(
            group_id=settings.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
        )
        is_everything = heard.subscription is None
        if is_everything:
            request.instance_id = settings.instance_id
            request.rebalance_timeout_ms = int(settings.max_poll_interval * 1000)
            request.server_assignor = settings.server_assignor
        if facts.subscription != heard.subscription:
            pattern = self._subscription.pattern
            request.subscribed_topic_names = sorted(self._subscription.topics)
            request.subscribed_topic_regex = "" if pattern is None else pattern.pattern  # "" takes one back
        if facts.claims_aloud:
            request.topic_partitions = [
                TopicPartitions(topic_id=topic_id, partitions=[number for _, number in some])
                for topic_id, some in groupby(sorted(facts.claims), key=itemgetter(0))
            ]
        return request

    # -- answers -----------------------------------------------------------------------------------------------------

    def told(self, response: Any, now: float) -> None:
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        self._is_speaking = False
        if self.phase is Phase.LEFT:
            return
        code = error_code(response.error_code)
        if code in _FENCED or (code is ErrorCode.GROUP_ID_NOT_FOUND and self.epoch > JOIN):
            # A deleted group is created again by its first member. A group that refuses a new member has another type.
            self._out(Phase.OUT)
        elif code is not ErrorCode.NONE:
            what = f"group {self._settings.group_id}"
            self._fail(KafkaError(response.error_code, what, response.error_message))
        else:
            self.member_id = response.member_id or self.member_id
            self.epoch = response.member_epoch
            self._interval = response.heartbeat_interval_ms / 1000
            self._heartbeat_at = now + self._interval
            if self.epoch <= JOIN:  # known to the coordinator, but not a member yet: send again
                return
            assert self._saying is not None
            self.phase, self._heard = Phase.IN, self._saying
            if self._saying.claims_aloud and self._saying.is_done:
                self._owes_claims = False
            if response.assignment is not None:
                self._assigned(response.assignment.topic_partitions, self._saying)

    def _assigned(self, told: list[TopicPartitions], said: _Facts) -> None:
        self._target = {one.topic_id: one.partitions for one in told}
        wanted = {(one.topic_id, number) for one in told for number in one.partitions}
        if not (said.claims_aloud and said.claims == wanted):
            self._owes_claims = True
        self._name()

    def unheard(self, error: ClientError, now: float) -> None:
        """The coordinator may have received the heartbeat or not: the next one contains all fields."""
        self._is_speaking = False
        if not error.kind.is_retriable:
            self._fail(error)
        self._heard = _Facts()
        self._heartbeat_at = now

    def seen(self, view: View) -> None:
        ids = {name: topic.id for name, topic in view.topics.items()}
        # Held topics keep their ids: a topic that was created again under an old name is another one, and a broker that
        # is behind may not know the topic for a while.
        held = {where.topic for where in self.reconciliation.held}
        self._ids = ids | {name: known for name, known in self._ids.items() if name in held}
        self._name()

    def _name(self) -> None:
        """Make the target of the partitions with a known name; the others follow with newer metadata."""
        if self._target is None or self.phase is not Phase.IN:
            return
        names = {known: name for name, known in self._ids.items()}
        self.reconciliation.target = frozenset(
            TopicPartition(names[topic_id], number)
            for topic_id, numbers in self._target.items()
            if topic_id in names
            for number in numbers
        )

    # -- the user ----------------------------------------------------------------------------------------------------

    def done(self, task: Task) -> None:
        self.reconciliation.done(task)

    def subscribe(self, subscription: Subscription) -> None:
        self._subscription = subscription

    def leave(self, reason: str) -> Say | None:  # noqa: ARG002  a heartbeat has no place for it
        was_member = self.phase is Phase.IN and self.error is None
        is_static = self._settings.instance_id is not None
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._settings.group_id,
            member_id=self.member_id,
            member_epoch=LEAVE_FOR_A_WHILE if is_static else LEAVE,
            instance_id=self._settings.instance_id,
        )
        self._is_speaking = False
        self._out(Phase.LEFT)
        return Say(CONSUMER_GROUP_HEARTBEAT, request) if was_member else None

    def come_back(self) -> None:
        if self.phase is Phase.LEFT:
            self.phase = Phase.OUT

    def _out(self, phase: Phase) -> None:
        self.phase = phase
        self.epoch = JOIN
        self._heard = _Facts()
        self._heartbeat_at = 0.0
        self._target = None
        self._owes_claims = False
        self.reconciliation.lose()

    def _fail(self, error: ClientError) -> None:
        self.error = error
        self._out(Phase.LEFT)
