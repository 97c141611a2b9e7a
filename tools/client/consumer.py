"""A consumer: of partitions that it is given, or of those that its group gives it.

    with Consumer("127.0.0.1:9092") as consumer:
        consumer.assign({("orders", 0): EARLIEST, ("orders", 1): 4711})
        for where, records in consumer.poll(1.0).items():
            for record in records:
                print(where, record.offset, record.value)

    with Consumer("127.0.0.1:9092", group_id="billing", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["orders"])
        while True:
            for where, records in consumer.poll(1.0).items():
                bill(records)
            consumer.commit()

Records are fetched ahead on the client's own thread and decoded on the caller's, in `poll`. `poll_batches` gives the
batches as they lie in the log, for readers that are faster than Python. One thread uses a consumer at a time. Its
membership in a group is kept up by the client's thread; partitions come and go in `poll` and `close` alone.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Self

from tools.client.errors import ClientError, CommitFailed, TimedOut
from tools.client.group_offsets import Committed
from tools.client.membership.assignors import named
from tools.client.membership.member import GroupSettings, Identity, Subscription
from tools.client.metadata import TopicPartition
from tools.client.network.broker import Patience
from tools.client.network.cluster import Bootstrap, Cluster
from tools.client.offsets import EARLIEST, LATEST, OffsetAt, list_offsets
from tools.client.reading.fetched import RawBatch
from tools.client.reading.fetcher import Fetching
from tools.client.reading.positions import Corrupt, Reading, Records, Where
from tools.client.reading.subscriber import Listener, OnPartitions, Subscriber

__all__ = ["Consumer", "Corrupt"]
RESETS = {"earliest": EARLIEST, "latest": LATEST, "none": None}
ISOLATIONS = {"read_uncommitted": False, "read_committed": True}
Positions = Mapping[TopicPartition, int | Committed] | Mapping[Where, int | Committed]


class Consumer:
    """Times are in seconds."""

    def __init__(
        self,
        bootstrap: Bootstrap,
        *,
        isolation: str = "read_uncommitted",
        auto_offset_reset: str = "none",
        fetch_wait: float = 0.5,
        fetch_bytes_min: int = 1,
        fetch_bytes_max: int = 50 << 20,
        partition_bytes: int = 1 << 20,
        buffer_bytes: int = 64 << 20,
        check_crcs: bool = True,
        block: float = 60.0,
        client_id: str = "barnabas-consumer",
        patience: Patience | None = None,
        group_id: str | None = None,
        group_protocol: str = "classic",
        group_instance_id: str | None = None,
        assignors: Iterable[str] = ("range", "cooperative-sticky"),
        server_assignor: str | None = None,
        session_timeout: float = 45.0,
        heartbeat_interval: float = 3.0,
        max_poll_interval: float = 300.0,
        auto_commit_interval: float | None = 5.0,
    ) -> None:
        """`auto_offset_reset` says where to go on when an offset is not in the log, and where to begin when the group
        has committed none; with `none`, `poll` raises.

        With a `group_id` it commits, every `auto_commit_interval`, what earlier polls gave (None: only when it is told
        to), and may `subscribe`: as a member of a `classic` group, whose leader assigns by one of `assignors`, or of a
        `consumer` group (KIP-848), where the coordinator does by its `server_assignor`. A member under the name of a
        `group_instance_id` has what it had when it comes back within `session_timeout`. One that does not poll for
        `max_poll_interval` leaves the group. Session and heartbeats are the coordinator's to say in `consumer` groups.
        """
        if isolation not in ISOLATIONS:
            raise ValueError(f"isolation is one of {', '.join(ISOLATIONS)}, not {isolation!r}")
        if auto_offset_reset not in RESETS:
            raise ValueError(f"auto_offset_reset is one of {', '.join(RESETS)}, not {auto_offset_reset!r}")
        fetching = Fetching(
            committed=ISOLATIONS[isolation],
            reset=RESETS[auto_offset_reset],
            wait=fetch_wait,
            bytes_min=fetch_bytes_min,
            bytes_max=fetch_bytes_max,
            partition_bytes=partition_bytes,
            buffer_bytes=buffer_bytes,
        )
        settings = None
        if group_id is not None:
            settings = GroupSettings(
                group_id,
                group_instance_id,
                session_timeout=session_timeout,
                heartbeat_interval=heartbeat_interval,
                max_poll_interval=max_poll_interval,
                assignors=named(assignors),
                server_assignor=server_assignor,
            )
        self._committed_only = fetching.committed
        self._block = block
        self._cluster = Cluster(bootstrap, client_id=client_id, patience=patience)
        self._reading = Reading(self._cluster, fetching, check_crcs=check_crcs)
        self._subscriber: Subscriber | None = None
        if settings is not None:
            self._subscriber = subscriber = Subscriber(
                self._cluster,
                self._reading,
                settings,
                group_protocol,
                auto_commit=auto_commit_interval,
                reset=fetching.reset,
                stable=fetching.committed,
            )
            self._reading.is_interrupted = lambda: subscriber.has_task

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Commit what was read, if it commits by itself; leave the group; end."""
        try:
            if self._subscriber is not None and self._cluster.loop.closed is None:
                self._subscriber.unsubscribe(self._block)
        finally:
            self._cluster.close()

    # -- what is read ------------------------------------------------------------------------------------------------

    def partitions(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic."""
        known = self._cluster.topic(topic, self._block)
        return [TopicPartition(topic, number) for number in range(len(known.partitions))]

    def assign(self, positions: Mapping[Where, int]) -> None:
        """Read these partitions and no others, each from an offset, or from EARLIEST or LATEST.

        What was fetched ahead of a partition that is read on from where it was is kept.
        """
        if self._subscriber is not None and self._subscriber.session is not None:
            raise ValueError("this consumer subscribes; unsubscribe it before it is assigned partitions")
        starts = {}
        for (topic, number), offset in positions.items():
            known = self._cluster.topic(topic, self._block)
            if known.partition(number) is None:
                raise ValueError(f"there is no partition {number} in {topic}, which has {len(known.partitions)}")
            starts[TopicPartition(topic, number)] = _start(offset)
        self._reading.assign(starts)

    def subscribe(
        self,
        topics: Iterable[str] | re.Pattern[str],
        *,
        on_assigned: OnPartitions | None = None,
        on_revoked: OnPartitions | None = None,
        on_lost: OnPartitions | None = None,
    ) -> None:
        """Share these topics, or all whose name the pattern matches, with the other members of the group.

        The functions are called in `poll` and `close`: with partitions that are read from then on (`seek` says from
        where, else where the group stopped), with those that are given up, after which nothing of them can be
        committed, and with those that are another's already (without `on_lost`, `on_revoked` is told those too).
        """
        subscriber = self._in_group()
        if subscriber.session is None and self._reading.fetcher.assigned:
            raise ValueError("this consumer was assigned partitions; assign({}) before it subscribes")
        if isinstance(topics, str):
            raise ValueError(f"subscribe to a list of topics or to a compiled pattern, not to {topics!r}")
        if isinstance(topics, re.Pattern):
            subscription = Subscription(pattern=topics)
        else:
            subscription = Subscription(frozenset(topics))
        subscriber.subscribe(subscription, Listener(on_assigned, on_revoked, on_lost))

    def unsubscribe(self) -> None:
        """Give everything up, as `close` does, and leave the group."""
        self._in_group().unsubscribe(self._block)

    @property
    def assignment(self) -> list[TopicPartition]:
        return list(self._reading.fetcher.assigned)

    @property
    def generation(self) -> int:
        """Of the group, or the member's epoch; −1 while this consumer is no member."""
        session = self._in_group().session
        return -1 if session is None else session.generation

    @property
    def member(self) -> Identity:
        """As whom it commits, for Producer.send_offsets: a group that has gone on without this consumer refuses it."""
        session = self._in_group().session
        if session is None:
            return Identity()
        if session.identity is None:  # committed as nobody, offsets would be refused to no one
            raise CommitFailed("this consumer is no member of its group at the moment")
        return session.identity

    def seek(self, where: Where, offset: int) -> None:
        """Read on from an offset, or from EARLIEST or LATEST."""
        self._reading.seek(where, *_start(offset))

    def seek_to_beginning(self, *wheres: Where) -> None:
        for where in wheres or self.assignment:
            self._reading.seek(where, None, EARLIEST)

    def seek_to_end(self, *wheres: Where) -> None:
        for where in wheres or self.assignment:
            self._reading.seek(where, None, LATEST)

    def seek_to_time(self, where: Where, timestamp_ms: int) -> None:
        """Read on from the first record that is not older; if there is none, from the end."""
        if timestamp_ms < 0:
            raise ValueError(f"{timestamp_ms} is no time")
        self._reading.seek(where, None, timestamp_ms)

    def position(self, where: Where, seconds: float | None = None) -> int:
        """The offset of the next record that `poll` gives; waits until it is known."""
        one = self._reading.of(where)
        waited = self._block if seconds is None else seconds
        fetcher, changed = self._reading.fetcher, self._reading.changed
        with changed:
            changed.wait_for(lambda: one.position >= 0 or one.error or fetcher.closed, waited)
            error = fetcher.closed or one.error
            if error is not None:
                raise error
            if one.position < 0:
                raise TimedOut(f"the position in {one.where} is not known after {waited:g} s: {self._cluster.error}")
        return self._reading.position(one)

    def pause(self, *wheres: Where) -> None:
        """Fetch nothing from these, and let `poll` give nothing of them."""
        for where in wheres:
            self._reading.pause(where)

    def resume(self, *wheres: Where) -> None:
        for where in wheres:
            self._reading.resume(where)

    def watermarks(self, where: Where) -> tuple[int, int]:
        """Where the log begins and ends for this consumer, as the last fetch said; −1 before there was one."""
        one = self._reading.of(where)
        return one.log_start_offset, one.last_stable_offset if self._committed_only else one.high_watermark

    def beginning_offsets(self, wheres: Iterable[Where], seconds: float | None = None) -> dict[TopicPartition, int]:
        return self._ends(wheres, EARLIEST, seconds)

    def end_offsets(self, wheres: Iterable[Where], seconds: float | None = None) -> dict[TopicPartition, int]:
        """Behind the last record that this consumer may see."""
        return self._ends(wheres, LATEST, seconds)

    def offsets_for_times(
        self, times_ms: Mapping[Where, int], seconds: float | None = None
    ) -> dict[TopicPartition, OffsetAt]:
        """The first record of each partition that is not older than a time."""
        wanted = {TopicPartition(*where): timestamp for where, timestamp in times_ms.items()}
        return list_offsets(self._cluster, wanted, committed=self._committed_only, seconds=seconds or self._block)

    # -- what the group has read -------------------------------------------------------------------------------------

    def commit(self, positions: Positions | None = None) -> None:
        """Let the group begin there: at these offsets, or behind everything that `poll` gave. Waits for it.

        Raises CommitFailed if the partitions are not this member's any more.
        """
        offsets = self._offsets(positions)
        if offsets:
            self._in_group().committer.commit(offsets, self._block)

    def commit_soon(
        self, positions: Positions | None = None, then: Callable[[ClientError | None], object] = lambda _: None
    ) -> None:
        """The same without waiting, and tried once; `then` is called on the client's thread, with why it failed."""
        offsets = self._offsets(positions)
        if offsets:
            self._in_group().committer.commit_soon(offsets, then)
        else:
            then(None)

    def committed(self, wheres: Iterable[Where], seconds: float | None = None) -> dict[TopicPartition, Committed]:
        """Where the group begins in these partitions; those are left out in which nothing is committed."""
        wanted = [TopicPartition(*where) for where in wheres]
        return self._in_group().committer.committed(wanted, seconds or self._block)

    def _offsets(self, positions: Positions | None) -> dict[TopicPartition, Committed]:
        if positions is None:
            return self._reading.positions()
        return {
            TopicPartition(*where): one if isinstance(one, Committed) else Committed(one)
            for where, one in positions.items()
        }

    # -- reading -----------------------------------------------------------------------------------------------------

    def poll(self, seconds: float, max_records: int = 10_000) -> Records:
        """Records by partition, at most so many, in the order of their offsets; none if none came in time.

        Raises what keeps a partition from being read, until it is sought elsewhere, and what ended the membership.
        """
        deadline = time.monotonic() + seconds
        with self._polling():
            self._work()
            while not self._reading.has_records:
                left = deadline - time.monotonic()
                if not self._reading.decode_more(left, max_records):
                    if left <= 0:
                        return {}
                    self._work()
            return self._reading.give(max_records)

    def poll_batches(self, seconds: float, max_bytes: int = 64 << 20) -> list[RawBatch]:
        """Whole batches as they lie in the log, in order; aborted and control batches are left out.

        The bytes belong to the answer they came in, which lives as long as one of its batches does. Not to be mixed
        with `poll` without a `seek` in between.
        """
        deadline = time.monotonic() + seconds
        with self._polling():
            self._work()
            while True:
                left = deadline - time.monotonic()
                batches = self._reading.batches(left, max_bytes)
                if batches or left <= 0:
                    return batches
                self._work()

    @contextmanager
    def _polling(self) -> Iterator[None]:
        """Between two polls the user works on records; the group waits for it only so long."""
        session = None if self._subscriber is None else self._subscriber.session
        if session is None:
            yield
            return
        session.begins_to_poll()
        try:
            yield
        finally:
            session.ends_to_poll()

    def _work(self) -> None:
        if self._subscriber is not None:
            self._subscriber.commit_in_time()
            self._subscriber.work(self._block)

    # -- how ---------------------------------------------------------------------------------------------------------

    def _in_group(self) -> Subscriber:
        if self._subscriber is None:
            raise ValueError("this consumer has no group; give it a group_id")
        return self._subscriber

    def _ends(self, wheres: Iterable[Where], end: int, seconds: float | None) -> dict[TopicPartition, int]:
        found = self.offsets_for_times(dict.fromkeys(wheres, end), seconds)
        return {where: at.offset for where, at in found.items()}


def _start(offset: int) -> tuple[int | None, int | None]:
    """As `Assigned.seek` wants it."""
    if offset in (EARLIEST, LATEST):
        return None, offset
    if offset < 0:
        raise ValueError(f"{offset} is no offset; write one from 0 on, EARLIEST or LATEST")
    return offset, None
