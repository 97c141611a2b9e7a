"""When a new consumer group's epoch grows, and the target assignment of that epoch."""

from __future__ import annotations

from collections import Counter

from log.machines.coordination import Moment
from log.machines.group.consumer.assignors import ASSIGNORS, DEFAULT_ASSIGNOR
from log.machines.group.consumer.epoch_history import EpochHistory
from log.machines.group.consumer.records import ConsumerRecords
from log.machines.group.consumer.state import ConsumerState
from log.machines.group.consumer.subscriber import Subscriber
from log.machines.metadata.metadata import INTERNAL_TOPICS, Metadata
from log.machines.metadata.topic_ids import id_bytes
from log.machines.names.pattern import NamePattern


class ConsumerEpochs:
    """Looks at what the members want and at the topics that exist."""

    __slots__ = ("_matched_at", "_metadata", "_patterns", "_records", "_state", "are_topics_known", "history")

    def __init__(self, records: ConsumerRecords, metadata: Metadata) -> None:
        self.history = EpochHistory()
        self.are_topics_known = True
        """False after a failover: topics may have changed meanwhile. The next heartbeat will look."""
        self._records = records
        self._state: ConsumerState = records.state
        self._metadata = metadata
        self._patterns: dict[str, NamePattern] = {}
        self._matched_at = -1
        """The metadata with which the expressions were last matched."""

    @property
    def assignor(self) -> str:
        """The one that most members ask for."""
        asked = Counter(member.assignor for member in self._state.members.values() if member.assignor in ASSIGNORS)
        return min(asked, key=lambda name: (-asked[name], name or ""), default=None) or DEFAULT_ASSIGNOR

    def begin(self, cause: str, moment: Moment) -> None:
        """Something happened to the members: an epoch begins."""
        self._look(cause, moment)

    def begin_if_topics_changed(self, moment: Moment) -> None:
        """Begin an epoch if subscribed topics were created, deleted or extended."""
        self._look("", moment)

    def _look(self, cause: str, moment: Moment) -> None:
        self.are_topics_known = True
        self._match(moment)
        found = self._found()
        if found != self._state.topics:
            cause = cause or _difference(self._state.topics, found)
            self._records.put_topics(found)
        if cause:
            self._records.put_epoch(self._state.epoch + 1)
            self.history.begin(self._state.epoch, cause, moment)

    def take_over_topics(self) -> None:
        """The members came over from a classic group, with what they have: that begins no epoch."""
        self._records.put_topics(self._found())

    def _found(self) -> dict[str, tuple[bytes, int]]:
        """The topics that members want, as far as they exist."""
        found: dict[str, tuple[bytes, int]] = {}
        subscriptions = {self._state.wanted_by(member) for member in self._state.members.values()}
        for name in frozenset[str]().union(*subscriptions):  # few, since most members want the same
            topic = self._metadata.topic(name)
            if topic is not None and topic.partitions:
                found[name] = id_bytes(topic.id), len(topic.partitions)
        return found

    def _match(self, moment: Moment) -> None:
        """Which topics do the members' expressions stand for? Those of Kafka itself must be named to be consumed."""
        asked = {member.regex for member in self._state.members.values() if member.regex}
        for regex in sorted(self._state.matches.keys() - asked):
            self._patterns.pop(regex, None)
            self._records.drop_matches(regex)
        is_current = self._matched_at == self._metadata.applied
        self._matched_at = self._metadata.applied
        for regex in sorted(asked):
            if is_current and regex in self._state.matches:
                continue
            if regex not in self._patterns:
                self._patterns[regex] = NamePattern(regex)
            names = frozenset(
                topic.name
                for topic in self._metadata.topics.values()
                if topic.name not in INTERNAL_TOPICS and self._patterns[regex].matches(topic.name)
            )
            if names != self._state.matches.get(regex):
                self._records.put_matches(regex, names, self._metadata.applied, moment)

    def update_target(self) -> None:
        """Compute the target assignment of this epoch, unless that was done."""
        state = self._state
        if state.epoch == state.target_epoch:
            return
        subscriptions = {member.member_id: state.wanted_by(member) for member in state.members.values()}
        topic_ids = {names: state.topic_ids(names) for names in set(subscriptions.values())}
        subscribers = {
            member.member_id: Subscriber(
                topic_ids[subscriptions[member.member_id]], state.target_of(member.member_id), member.instance_id
            )
            for member in state.members.values()
        }
        targets = ASSIGNORS[self.assignor](subscribers, dict(state.topics.values()))
        for member_id in sorted(targets):
            if member_id not in state.target or targets[member_id] != state.target[member_id]:
                self._records.put_target(member_id, targets[member_id])
        self._records.put_target_epoch(state.epoch)


def _difference(before: dict[str, tuple[bytes, int]], after: dict[str, tuple[bytes, int]]) -> str:
    """What happened to topics, in words."""
    changes = [
        f"{name} came" if name not in before
        else f"{name} went" if name not in after
        else f"{name} was made again" if before[name][0] != after[name][0]
        else f"{name} has {after[name][1]} partitions"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]  # fmt: skip
    return f"topics changed: {', '.join(changes)}"
