"""Outside data into a topic, resumable, each piece once.

Every record says in a header where in its source it ends. A source goes to one partition, in order, through an
idempotent producer; so what the partition has is always the source's beginning, and after any crash the last record
there says where to go on. Nothing else needs to be remembered, and no record is missing or there twice.

That holds as long as one process at a time captures a source (a lock file sees to that on one machine), nothing of one
that was killed is still on its way to the broker when the next begins, and the partition keeps the last record.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from attrs import frozen

from protocol.partitioner import partition_for_key
from protocol.record import Record
from tools.client.consumer import Consumer
from tools.client.last_record import last_record
from tools.client.producer import Producer

SOURCE, POSITION = "capture.source", "capture.position"
_IDLE = 0.2


class CaptureError(Exception):
    """A source cannot be captured as it is; the message says why."""


@frozen
class Piece:
    """One record to be, and the position behind it."""

    key: bytes | None
    value: bytes | None
    position: Any
    """JSON."""


class Captured(Protocol):
    """What is captured."""

    @property
    def name(self) -> str:
        """The same after a restart, and no other's."""
        ...

    def pieces(self, position: Any) -> Iterator[Piece]:
        """What is there behind a position; None is the beginning. Ends when there is nothing more for now."""
        ...


@frozen
class Capture:
    bootstrap: str
    topic: str
    source: Captured

    def run(self, stop: threading.Event, idle: float = _IDLE) -> int:
        """Capture until told to stop. Gives the number of records written."""
        written = 0
        with self._alone(), Producer(self.bootstrap, client_id="barnabas-capture") as producer:
            partition = partition_for_key(self.source.name.encode(), producer.partitions(self.topic))
            position = self.position(partition)
            while not stop.is_set():
                count, position = self._write_what_is_there(producer, partition, position)
                written += count
                if not count:
                    stop.wait(idle)
        return written

    def once(self) -> int:
        """Capture what is there now."""
        with self._alone(), Producer(self.bootstrap, client_id="barnabas-capture") as producer:
            partition = partition_for_key(self.source.name.encode(), producer.partitions(self.topic))
            return self._write_what_is_there(producer, partition, self.position(partition))[0]

    def _write_what_is_there(self, producer: Producer, partition: int, position: Any) -> tuple[int, Any]:
        count = 0
        delivery = None
        for piece in self.source.pieces(position):
            position = piece.position
            headers = [(SOURCE, self.source.name.encode()), (POSITION, json.dumps(position).encode())]
            delivery = producer.send(self.topic, piece.value, key=piece.key, partition=partition, headers=headers)
            count += 1
        if delivery is not None:
            producer.flush()
            delivery.result()  # of one partition none can be missing when the last is there
        return count, position

    def position(self, partition: int) -> Any:
        """Where the last record of this source in the partition ends; None if there is none."""
        where = (self.topic, partition)
        source = self.source.name.encode()

        def is_of_source(record: Record) -> bool:
            return dict(record.headers).get(SOURCE) == source

        with Consumer(self.bootstrap, client_id="barnabas-capture") as consumer:
            found = last_record(consumer, where, is_of_source)
            (begin,) = consumer.beginning_offsets([where]).values()
        if found is not None:
            return json.loads(dict(found.headers)[POSITION] or b"null")
        if begin > 0:
            raise CaptureError(
                f"{self.topic}-{partition} has lost its first {begin} records, and with them where {self.source.name} "
                "was; capture into a topic that keeps its records (retention.ms=-1)"
            )
        return None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        name = sha256(f"{self.topic}\0{self.source.name}".encode()).hexdigest()[:16]
        path = Path(tempfile.gettempdir()) / f"barnabas-capture-{name}.lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise CaptureError(f"{self.source.name} is being captured into {self.topic} already") from None
        try:
            yield
        finally:
            os.close(descriptor)
