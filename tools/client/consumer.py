"""A consumer: of assigned partitions, or as a member of a group.

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

Records are fetched ahead on the client's own thread and decoded on the caller's, in `poll`. `poll_batches` returns the
batches in the format of the log, for decoders that are faster than Python. One thread uses a consumer at a time. The
client's thread sends the heartbeats of a group member; partitions are assigned and revoked only in `poll` and `close`.
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
        """`auto_offset_reset` is the position when an offset is not in the log, or when the group has committed none;
        with `none`, `poll` raises.

        With a `group_id` it commits the records of earlier polls every `auto_commit_interval` (None: only in `commit`),
        and may `subscribe`: as a member of a `classic` group, whose leader assigns with one of `assignors`, or of a
        `consumer` group (KIP-848), whose coordinator assigns with `server_assignor`. A static member, with a
        `group_instance_id`, keeps its partitions if it returns within `session_timeout`. A member that does not poll
        for `max_poll_interval` leaves the group. In `consumer` groups the coordinator defines session and heartbeats.
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
        """Commit the records of earlier polls if auto-commit is on, leave the group, and close all connections."""
        try:
            if self._subscriber is not None and self._cluster.loop.closed is None:
                self._subscriber.unsubscribe(self._block)
        finally:
            self._cluster.close()

    # -- partitions --------------------------------------------------------------------------------------------------

    def partitions(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic."""
        known = self._cluster.topic(topic, self._block)
        return [TopicPartition(topic, number) for number in range(len(known.partitions))]

    def assign(self, positions: Mapping[Where, int]) -> None:
        """Read these partitions and no others, each from an offset, or from EARLIEST or LATEST.

        Records fetched ahead are kept for a partition whose position does not change.
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

        The functions are called in `poll` and `close`: `on_assigned` with new partitions (read from the committed
        offset unless the function calls `seek`), `on_revoked` with partitions that are revoked after the call, and
        `on_lost` with partitions that another member may own already (without it, `on_revoked` is called).
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
        """Revoke all partitions, as `close` does, and leave the group."""
        self._in_group().unsubscribe(self._block)

    @property
    def assignment(self) -> list[TopicPartition]:
        return list(self._reading.fetcher.assigned)

    @property
    def generation(self) -> int:
        """The group's generation, or the member's epoch; −1 while this consumer is no member."""
        session = self._in_group().session
        return -1 if session is None else session.generation

    @property
    def member(self) -> Identity:
        """The member for Producer.send_offsets: the group refuses the offsets after it has removed this member."""
        session = self._in_group().session
        if session is None:
            return Identity()
        if session.identity is None:  # without a member, the group could not fence these offsets
            raise CommitFailed("this consumer is no member of its group at the moment")
        return session.identity

    def seek(self, where: Where, offset: int) -> None:
        """Continue at an offset, or at EARLIEST or LATEST."""
        self._reading.seek(where, *_start(offset))

    def seek_to_beginning(self, *wheres: Where) -> None:
        for where in wheres or self.assignment:
            self._reading.seek(where, None, EARLIEST)

    def seek_to_end(self, *wheres: Where) -> None:
        for where in wheres or self.assignment:
            self._reading.seek(where, None, LATEST)

    def seek_to_time(self, where: Where, timestamp_ms: int) -> None:
        """Continue at the first record with this timestamp or a later one; if there is none, at the end."""
        if timestamp_ms < 0:
            raise ValueError(f"{timestamp_ms} is no time")
        self._reading.seek(where, None, timestamp_ms)

    def position(self, where: Where, seconds: float | None = None) -> int:
        """The offset of the next record that `poll` returns; waits until it is known."""
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
        """Stop fetching these partitions; `poll` returns no records of them."""
        for where in wheres:
            self._reading.pause(where)

    def resume(self, *wheres: Where) -> None:
        for where in wheres:
            self._reading.resume(where)

    def watermarks(self, where: Where) -> tuple[int, int]:
        """The log start and the end visible to this consumer, from the last fetch; −1 before the first."""
        one = self._reading.of(where)
        return one.log_start_offset, one.last_stable_offset if self._committed_only else one.high_watermark

    def beginning_offsets(self, wheres: Iterable[Where], seconds: float | None = None) -> dict[TopicPartition, int]:
        return self._ends(wheres, EARLIEST, seconds)

    def end_offsets(self, wheres: Iterable[Where], seconds: float | None = None) -> dict[TopicPartition, int]:
        """The high watermark; for read_committed, the last stable offset."""
        return self._ends(wheres, LATEST, seconds)

    def offsets_for_times(
        self, times_ms: Mapping[Where, int], seconds: float | None = None
    ) -> dict[TopicPartition, OffsetAt]:
        """The first record of each partition with this timestamp or a later one."""
        wanted = {TopicPartition(*where): timestamp for where, timestamp in times_ms.items()}
        return list_offsets(self._cluster, wanted, committed=self._committed_only, seconds=seconds or self._block)

    # -- committed offsets -------------------------------------------------------------------------------------------

    def commit(self, positions: Positions | None = None) -> None:
        """Commit these offsets, or the positions after all records that `poll` returned, and wait for the answer.

        Raises CommitFailed if the partitions are not this member's any more.
        """
        offsets = self._offsets(positions)
        if offsets:
            self._in_group().committer.commit(offsets, self._block)

    def commit_soon(
        self, positions: Positions | None = None, then: Callable[[ClientError | None], object] = lambda _: None
    ) -> None:
        """Commit without waiting or retrying; `then` is called on the client's thread with the error or None."""
        offsets = self._offsets(positions)
        if offsets:
            self._in_group().committer.commit_soon(offsets, then)
        else:
            then(None)

    def committed(self, wheres: Iterable[Where], seconds: float | None = None) -> dict[TopicPartition, Committed]:
        """The committed offsets of those of these partitions that have one."""
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
        """At most `max_records` records by partition, in the order of their offsets; none if none came in time.

        Raises the error of a partition that cannot be read, until a `seek`, and the error that ended the membership.
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
        """Whole batches in the format of the log, in order; aborted and control batches are left out.

        The batches are views of the Fetch response, which is freed with the last of them. After `poll`, `seek` before
        calling this, and the other way round.
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
        """Measures the time between polls: after `max_poll_interval` the member leaves its group."""
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

    # -- group and offsets -------------------------------------------------------------------------------------------

    def _in_group(self) -> Subscriber:
        if self._subscriber is None:
            raise ValueError("this consumer has no group; give it a group_id")
        return self._subscriber

    def _ends(self, wheres: Iterable[Where], end: int, seconds: float | None) -> dict[TopicPartition, int]:
        found = self.offsets_for_times(dict.fromkeys(wheres, end), seconds)
        return {where: at.offset for where, at in found.items()}


def _start(offset: int) -> tuple[int | None, int | None]:
    """The arguments of `Assigned.seek`: an offset, or an end of the log."""
    if offset in (EARLIEST, LATEST):
        return None, offset
    if offset < 0:
        raise ValueError(f"{offset} is no offset; write one from 0 on, EARLIEST or LATEST")
    return offset, None
