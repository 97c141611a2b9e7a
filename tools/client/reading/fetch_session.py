"""A fetch session with one broker (KIP-227): after the first request only changed partitions are named.

Without I/O. A broker that opens no session answers with id 0; then every request names all partitions.
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
    """A partition to read, its fetch offset, and its topic's id."""

    topic_id: bytes
    partition: FetchPartition


@frozen
class Said:
    """The session's fields of a request."""

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
        """The fields that tell the broker to read these partitions and no others."""
        has_ids = all(one.topic_id != NO_UUID for one in wanted.values())
        if has_ids != self._has_ids:
            self.restart()
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
        """Continue or end the session by the broker's answer."""
        if error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._id = _NO_SESSION
            self.restart()
        elif error:
            self.restart()
        elif session_id == _NO_SESSION:
            self._id = _NO_SESSION
            self.restart()
        else:
            self._id = session_id
            self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1

    def restart(self) -> None:
        """Name all partitions with the next request, which ends the current session and opens another."""
        self._epoch = _INITIAL_EPOCH
        self._told = {}
