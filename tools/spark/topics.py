"""What the brokers say about the partitions that a query reads. Asked on the driver, by tasks only when one seems gone.

Whatever a broker that is gone, or just coming back, makes fail is asked again: an exception here ends the query. That a
partition is gone for good is only believed when it is still missing after a while.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from tools.client.admin import Admin
from tools.client.errors import ClientError
from tools.client.metadata import Topic, TopicPartition
from tools.client.offsets import EARLIEST, LATEST, OffsetAt
from tools.spark.decisions import TOPIC as DECISIONS
from tools.spark.errors import OptionError
from tools.spark.offsets import Offsets
from tools.spark.options import READ_COMMITTED, SourceOptions
from tools.spark.positions import AtEnd, AtOffsets, AtTime, Position

T = TypeVar("T")
_log = logging.getLogger(__name__)
GONE_AFTER = 5.0
_PAUSE = 0.1


class Topics:
    """The partitions that the options select, and their offsets. Connects when it is first asked."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._committed = options.fetch.isolation == READ_COMMITTED
        self._admin: Admin | None = None

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    # -- which partitions ------------------------------------------------------------------------------------------

    def first_partitions(self) -> set[TopicPartition]:
        """Those that are there when a query begins. What was named must be there within a while."""
        found, missing = self._named()
        if missing:
            raise OptionError(f"the cluster has no {', '.join(missing)}")
        return found

    def awaited_partitions(self) -> set[TopicPartition]:
        """Those that are there when a query begins or goes on. What was named may be gone by then."""
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
        """Those that are there now. One that was known is missing only when it still is after a while."""
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

    # -- their offsets ---------------------------------------------------------------------------------------------

    def earliest(self, wheres: Iterable[TopicPartition]) -> Offsets:
        """Of those that are there: what is missing after a while is left out."""
        wanted = set(wheres)
        return _offsets(self._at(dict.fromkeys(wanted & self.partitions(wanted), EARLIEST))) if wanted else {}

    def latest(self, wheres: Iterable[TopicPartition], known: Mapping[TopicPartition, int] | None = None) -> Offsets:
        """Behind the last record that may be read. It is less than what was known only if it still is after a while:
        a leader that has just been elected may not know yet how far its records are committed.
        """
        wanted = dict.fromkeys(wheres, LATEST)

        def is_as_far(found: Offsets) -> bool:
            return all(found[where] >= offset for where, offset in (known or {}).items() if where in found)

        return _awaited(lambda: _offsets(self._at(wanted)), is_as_far)

    def at(self, position: Position, wheres: Iterable[TopicPartition], default: AtEnd) -> Offsets:
        """Offsets of a position. What it does not name is at the default; a time that nothing matches is looked at
        by `matched`, here it is at the end of the log.
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
        """The same for the beginning, where a time that nothing matches is a mistake unless it was said not to be."""
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
        """The answer, asked again as often as the options say. Each time the client itself waits for brokers."""
        retries = max(self._options.offset_retries, 0)
        for left in range(retries, -1, -1):
            if self._admin is None:
                fetch = self._options.fetch
                self._admin = Admin(fetch.bootstrap, seconds=self._options.patience, client_id=fetch.client_id)
            try:
                return question(self._admin)
            except ClientError as error:
                self.close()
                if not left:
                    raise
                _log.warning("the brokers are asked again: %s", error)
                time.sleep(self._options.offset_retry_interval)
        raise AssertionError("the last try gives an answer or raises")


def _awaited(look: Callable[[], T], is_complete: Callable[[T], bool], seconds: float = GONE_AFTER) -> T:
    """What is found once it is complete, or after these seconds."""
    deadline = time.monotonic() + seconds
    while not is_complete(found := look()) and time.monotonic() <= deadline:
        time.sleep(_PAUSE)
    return found


def _all_partitions(topics: Iterable[Topic]) -> set[TopicPartition]:
    return {TopicPartition(topic.name, number) for topic in topics for number in range(len(topic.partitions))}


def _offsets(found: Mapping[TopicPartition, OffsetAt]) -> Offsets:
    return {where: at.offset for where, at in found.items()}
