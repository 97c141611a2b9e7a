"""A fetch session with one broker (KIP-227): partitions are named once, afterwards only what has changed.

Without I/O. A broker that wants no session answers with id 0; then every request names everything.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic
from protocol.schema.declaration import NO_UUID
from tools.client.metadata import TopicPartition

_NO_SESSION = 0
_INITIAL_EPOCH = 0
_EPOCH_MAX = (1 << 31) - 1


@frozen
class Wanted:
    """A partition to read, from where, and the id of its topic."""

    topic_id: bytes
    partition: FetchPartition


@frozen
class Said:
    """What a request says of the session."""

    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]
    has_ids: bool


class FetchSession:
    """The client's side. One request at a time."""

    def __init__(self) -> None:
        self._id = _NO_SESSION
        self._epoch = _INITIAL_EPOCH
        self._has_ids = False
        self._told: dict[TopicPartition, Wanted] = {}

    def request(self, wanted: Mapping[TopicPartition, Wanted]) -> Said:
        """What to say so that the broker knows that these, and no others, are read."""
        has_ids = all(one.topic_id != NO_UUID for one in wanted.values())
        if has_ids != self._has_ids:
            self.begin_anew()
        self._has_ids = has_ids
        if self._epoch == _INITIAL_EPOCH:
            changed, gone = dict(wanted), {}
        else:
            changed = {where: one for where, one in wanted.items() if self._told.get(where) != one}
            gone = {
                where: one
                for where, one in self._told.items()
                if where not in wanted or wanted[where].topic_id != one.topic_id
            }
        self._told = dict(wanted)
        topics: dict[str, FetchTopic] = {}
        for where, one in changed.items():
            topic = topics.setdefault(where.topic, FetchTopic(topic=where.topic, topic_id=one.topic_id))
            topic.partitions.append(one.partition)
        forgotten: dict[tuple[str, bytes], ForgottenTopic] = {}
        for where, one in gone.items():
            key = where.topic, one.topic_id
            if key not in forgotten:
                forgotten[key] = ForgottenTopic(topic=where.topic, topic_id=one.topic_id)
            forgotten[key].partitions.append(where.partition)
        return Said(self._id, self._epoch, list(topics.values()), list(forgotten.values()), has_ids)

    def answered(self, session_id: int, error: int) -> None:
        """What the broker made of it."""
        if error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._id = _NO_SESSION
            self.begin_anew()
        elif error:
            self.begin_anew()
        elif session_id == _NO_SESSION:
            self._id = _NO_SESSION
            self.begin_anew()
        else:
            self._id = session_id
            self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1

    def begin_anew(self) -> None:
        """Name everything with the next request. It ends the session that there may be, and opens another."""
        self._epoch = _INITIAL_EPOCH
        self._told = {}
