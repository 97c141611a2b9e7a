"""The selected partitions of a query and their offsets, from the brokers. Used on the driver; in tasks only when a
partition seems to be deleted.

An exception here ends the query, so requests that fail because a broker is down are retried. A partition counts as
deleted, or a log as truncated, only if that is still so after GONE_AFTER seconds.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from tools.client.admin import Admin
from tools.client.errors import ClientError, ConnectionLost, TimedOut
from tools.client.metadata import Topic, TopicPartition
from tools.client.offsets import EARLIEST, LATEST, OffsetAt
from tools.spark.decisions import TOPIC as DECISIONS
from tools.spark.errors import OptionError
from tools.spark.first_contact import no_answer
from tools.spark.offsets import Offsets
from tools.spark.options import READ_COMMITTED, SourceOptions
from tools.spark.positions import AtEnd, AtOffsets, AtTime, Position

T = TypeVar("T")
_log = logging.getLogger(__name__)
GONE_AFTER = 5.0
_PAUSE = 0.1


class Topics:
    """The selected partitions and their offsets. Connects with the first request."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._committed = options.fetch.isolation == READ_COMMITTED
        self._admin: Admin | None = None
        self._has_answer = False

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    # -- partitions ------------------------------------------------------------------------------------------------

    def first_partitions(self) -> set[TopicPartition]:
        """The partitions at the start of a query. Raises OptionError if a named one is still missing after a while."""
        found, missing = self._named()
        if missing:
            raise OptionError(f"the cluster has no {', '.join(missing)}")
        return found

    def awaited_partitions(self) -> set[TopicPartition]:
        """The partitions at the start of a query or at its restart, when named ones may have been deleted."""
        return self._named()[0]

    def _named(self) -> tuple[set[TopicPartition], list[str]]:
        selection = self._options.selection

        def look() -> tuple[set[TopicPartition], list[str]]:
            found = self._selected()
            if selection.partitions is not None:
                return found, sorted(str(where) for where in selection.partitions - found)
            return found, sorted((selection.topics or frozenset()) - {where.topic for where in found})

        return _awaited(look, lambda found: not found[1], min(self._options.patience, GONE_AFTER))

    def partitions(self, known: Iterable[TopicPartition] = ()) -> set[TopicPartition]:
        """The partitions now. A known one is left out only if it is still missing after GONE_AFTER seconds."""
        before = set(known)
        return _awaited(self._selected, lambda found: before <= found)

    def _selected(self) -> set[TopicPartition]:
        selection = self._options.selection
        if selection.pattern is not None:
            pattern = re.compile(selection.pattern)
            topics = self._asked(lambda admin: admin.list_topics())
            return _all_partitions(
                one
                for one in topics.values()
                if not one.is_internal and one.name != DECISIONS and pattern.fullmatch(one.name)
            )
        named = selection.topics or {where.topic for where in selection.partitions or ()}
        found = _all_partitions(self._asked(lambda admin: admin.describe_topics(named)).values())
        return found if selection.partitions is None else found & selection.partitions

    # -- offsets ---------------------------------------------------------------------------------------------------

    def earliest(self, wheres: Iterable[TopicPartition]) -> Offsets:
        """The log starts of these partitions, without deleted ones."""
        wanted = set(wheres)
        return _offsets(self._at(dict.fromkeys(wanted & self.partitions(wanted), EARLIEST))) if wanted else {}

    def latest(self, wheres: Iterable[TopicPartition], known: Mapping[TopicPartition, int] | None = None) -> Offsets:
        """The ends of the readable records. An end is lower than the known one only if it still is after GONE_AFTER
        seconds: a new leader may not know yet how far its records are committed.
        """
        wanted = dict.fromkeys(wheres, LATEST)

        def is_as_far(found: Offsets) -> bool:
            return all(found[where] >= offset for where, offset in (known or {}).items() if where in found)

        return _awaited(lambda: _offsets(self._at(wanted)), is_as_far)

    def at(self, position: Position, wheres: Iterable[TopicPartition], default: AtEnd) -> Offsets:
        """The offsets of a position, and of the default for partitions that it does not name. A time after the last
        record gives the end of the log.
        """
        known = set(wheres)
        if isinstance(position, AtEnd):
            return _offsets(self._at(dict.fromkeys(known, position.end)))
        if isinstance(position, AtTime):
            return self._at_times(dict.fromkeys(known, position.time))
        named = position.offsets if isinstance(position, AtOffsets) else position.times
        unknown = sorted(str(where) for where in named if where not in known)
        if unknown:
            raise OptionError(f"offsets or times are given for {', '.join(unknown)}, which the query does not read")
        rest = _offsets(self._at(dict.fromkeys(known - named.keys(), default.end)))
        if not isinstance(position, AtOffsets):
            return rest | self._at_times(dict(position.times))
        ends = {where: offset for where, offset in named.items() if offset < 0}
        exact = {where: offset for where, offset in named.items() if offset >= 0}
        return rest | exact | _offsets(self._at(ends))

    def starting(self, position: Position, wheres: Iterable[TopicPartition], default: AtEnd) -> Offsets:
        """The same for the first position, where a time after the last record is an error, by the default strategy."""
        found = self.at(position, wheres, default)
        if isinstance(position, AtEnd | AtOffsets) or self._options.is_latest_where_no_time_matches:
            return found
        times = dict.fromkeys(found, position.time) if isinstance(position, AtTime) else dict(position.times)
        for where, at in self._at(times).items():
            if at.offset < 0:
                raise OptionError(
                    f"No offset matched from request of topic-partition {where} and timestamp {times[where]}."
                )
        return found

    def _at_times(self, times: dict[TopicPartition, int]) -> Offsets:
        found = self._at(times)
        ends = _offsets(self._at({where: LATEST for where, at in found.items() if at.offset < 0}))
        return {where: at.offset for where, at in found.items() if at.offset >= 0} | ends

    def _at(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAt]:
        if not wanted:
            return {}
        times: dict[tuple[str, int], int] = {where: time for where, time in wanted.items()}  # noqa: C416  keys of a wider type
        return self._asked(lambda admin: admin.list_offsets(times, committed=self._committed))

    def _asked(self, question: Callable[[Admin], T]) -> T:
        """The answer, with the retries of the options. Each attempt waits for brokers for `patience` seconds.

        There is no retry if no broker can be reached at all: the address may be wrong.
        """
        retries = max(self._options.offset_retries, 0)
        for left in range(retries, -1, -1):
            if self._admin is None:
                fetch = self._options.fetch
                self._admin = Admin(fetch.bootstrap, seconds=self._options.patience, client_id=fetch.client_id)
            try:
                answer = question(self._admin)
            except ClientError as error:
                self.close()
                if not self._has_answer and isinstance(error.__cause__, ConnectionLost):
                    where, seconds = self._options.fetch.bootstrap, self._options.patience
                    raise TimedOut(no_answer(where, seconds, error.__cause__)) from error
                if not left:
                    raise
                _log.warning("the request to the brokers is retried: %s", error)
                time.sleep(self._options.offset_retry_interval)
            else:
                self._has_answer = True
                return answer
        raise AssertionError("the last attempt returns or raises")


def _awaited(look: Callable[[], T], is_complete: Callable[[T], bool], seconds: float = GONE_AFTER) -> T:
    """The first complete result, or the last one after these seconds."""
    deadline = time.monotonic() + seconds
    while not is_complete(found := look()) and time.monotonic() <= deadline:
        time.sleep(_PAUSE)
    return found


def _all_partitions(topics: Iterable[Topic]) -> set[TopicPartition]:
    return {TopicPartition(topic.name, number) for topic in topics for number in range(len(topic.partitions))}


def _offsets(found: Mapping[TopicPartition, OffsetAt]) -> Offsets:
    return {where: at.offset for where, at in found.items()}
