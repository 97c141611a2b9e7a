"""A member of a new consumer group (KIP-848): one heartbeat says everything, and its coordinator assigns.

It first revokes the partitions that are not in its assignment any more, then reports that; only then does it take new
ones. It reports everything when it joins and whenever an answer was lost.
"""

from __future__ import annotations

import random
import uuid

from protocol.apis import CONSUMER_GROUP_HEARTBEAT
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tools.simulator.groups.member import ConsumerServices, SimulatedConsumer
from tools.simulator.settings.groups import MemberSettings

VERSION = 1
JOINS, LEAVES, LEAVES_FOR_A_WHILE = 0, -1, -2
_REJOINS = frozenset((ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND))


class NewConsumer(SimulatedConsumer):
    """See the module's docstring."""

    def __init__(self, services: ConsumerServices, rng: random.Random, member: MemberSettings) -> None:
        super().__init__(services, rng, member)
        self._asks = False
        self._says_all = True
        self._target: frozenset[int] = frozenset()
        self._told: frozenset[int] | None = None
        """What it last said it has."""
        self._gives_up = False
        self._beats = 0
        """Counts chains of heartbeats: one is enough."""

    def begin_life(self) -> None:
        self._gives_up = False
        super().begin_life()

    def join(self) -> None:
        self.member_id = str(uuid.UUID(int=self.rng.getrandbits(128), version=4))
        self._join_again()

    def _join_again(self) -> None:
        self.forget_all()
        self.epoch, self.stable = JOINS, False
        self._target, self._told, self._says_all, self._asks = frozenset(), None, True, False
        self._beat_now()

    # -- heartbeats --------------------------------------------------------------------------------------------------

    def _beat_now(self) -> None:
        self._beats += 1
        self._beat(self._beats)

    def _beat_later(self, seconds: float) -> None:
        self._beats += 1
        beats = self._beats
        self.later(seconds, lambda: self._beat(beats))

    def _beat(self, beats: int) -> None:
        if beats != self._beats or self._asks:
            return
        has = frozenset(self.owned)
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.member.instance_id,
        )
        if self._says_all:
            request.rebalance_timeout_ms = int(self.settings.rebalance_s * 1000)
            request.subscribed_topic_names = [self.services.topic]
        if self._says_all or has != self._told:
            request.topic_partitions = self._as_message(has)
        self._asks = True
        member_id, epoch = self.member_id, self.epoch
        self.ask_coordinator(
            CONSUMER_GROUP_HEARTBEAT, request, VERSION, lambda told: self._beaten(member_id, epoch, has, told)
        )

    def _as_message(self, partitions: frozenset[int]) -> list[TopicPartitions]:
        if not partitions:
            return []
        return [TopicPartitions(topic_id=self.services.topic_id, partitions=sorted(partitions))]

    def _beaten(
        self, member_id: str, epoch: int, has: frozenset[int], response: ConsumerGroupHeartbeatResponse | None
    ) -> None:
        if (member_id, epoch) != (self.member_id, self.epoch):
            return
        self._asks = False
        if response is None or self.has_moved(response.error_code):
            self._says_all = True
            self._beat_later(self.rng.uniform(0.02, 0.15))
        elif response.error_code != ErrorCode.NONE:
            self.refused(response.error_code, member_id, epoch)
        else:
            self._says_all, self._told = False, has
            self.epoch = response.member_epoch
            given = None
            if response.assignment is not None:
                given = frozenset(number for one in response.assignment.topic_partitions for number in one.partitions)
                self._target = given
            self.view.beaten(self.group, self.member_id, self.epoch, given)
            self._beat_later(response.heartbeat_interval_ms / 1000)
            self._reconcile()

    def _reconcile(self) -> None:
        """Come closer to what it was given."""
        if self._gives_up:
            return
        has = frozenset(self.owned)
        lost = has - self._target
        if lost:
            self._gives_up = True
            self.commit(lambda: self._give_up(lost))
            return
        self.take(self._target - has)
        self.stable = self._told == self._target
        if not self.stable:
            self._beat_now()

    def _give_up(self, lost: frozenset[int]) -> None:
        self._gives_up = False
        for number in lost:
            self.owned.pop(number, None)
        if self.epoch > JOINS:
            self._reconcile()

    # -- going -------------------------------------------------------------------------------------------------------

    def refused(self, error: int, member_id: str, epoch: int) -> None:
        if (member_id, epoch) != (self.member_id, self.epoch) or error == ErrorCode.STALE_MEMBER_EPOCH:
            return
        if error == ErrorCode.FENCED_INSTANCE_ID:
            self.die(silently=False)
        elif error == ErrorCode.UNRELEASED_INSTANCE_ID:
            self._beat_later(self.settings.heartbeat_s)
        else:
            if error not in _REJOINS:
                text = f"{self.address}: {ErrorCode(error).name}"
                self.services.clients.history.violate("a good heartbeat was refused", "", text)
            self._join_again()

    def leave(self) -> None:
        self.commit(self._send_leave)

    def _send_leave(self) -> None:
        is_static = self.member.instance_id is not None
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=LEAVES_FOR_A_WHILE if is_static and self.rng.random() < 0.5 else LEAVES,
            instance_id=self.member.instance_id,
        )
        self.ask_coordinator(CONSUMER_GROUP_HEARTBEAT, request, VERSION, lambda _told: self.die(silently=False))
