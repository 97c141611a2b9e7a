"""External data into a topic, resumable, each record once.

Every record has the position in its source in a header. A source is written to one partition, in order, in
transactions: read_committed consumers always see a prefix of the source, and after a crash the last committed record
has the position to continue at. There is no other state, and no record is lost or written twice.

The transactional id is made of source and topic. A capture first takes it over and then reads the position: the brokers
refuse delayed records of its predecessor, on this machine or another, from then on. A lock file refuses a second
capture on the same machine at once. All this holds while the partition keeps the last record.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from attrs import frozen

from protocol.partitioner import partition_for_key
from protocol.records.record import Record
from tools.client.errors import ProducerFenced, TransactionFailed
from tools.client.producer import Producer
from tools.spark.last_record import last_record

SOURCE, POSITION = "capture.source", "capture.position"
_IDLE = 0.2
_AT_ONCE = 5_000
"""Records in a transaction, so that it is short."""


class CaptureError(Exception):
    """A source cannot be captured; the message says why."""


@frozen
class Piece:
    """A record to write, and the position after it."""

    key: bytes | None
    value: bytes | None
    position: Any
    """JSON."""


class Captured(Protocol):
    """A source."""

    @property
    def name(self) -> str:
        """Unique, and the same after a restart."""
        ...

    def pieces(self, position: Any) -> Iterator[Piece]:
        """The records after a position; None is the beginning. Ends when there are no more for now."""
        ...

    def captured(self, position: Any) -> None:
        """All records up to this position are committed, and will not be read again."""
        ...

    def close(self) -> None:
        """Called when the capture ends."""
        ...


@frozen
class Capture:
    bootstrap: str
    topic: str
    source: Captured

    def run(self, stop: threading.Event, idle: float = _IDLE) -> int:
        """Capture until `stop` is set. Returns the number of records."""
        written = 0
        with self._writing() as (producer, partition):
            position = self.position(partition)
            while not stop.is_set():
                count, position = self._write_what_is_there(producer, partition, position)
                written += count
                if not count:
                    stop.wait(idle)
        return written

    def once(self) -> int:
        """Capture the current records. Returns their number."""
        with self._writing() as (producer, partition):
            return self._write_what_is_there(producer, partition, self.position(partition))[0]

    @contextmanager
    def _writing(self) -> Iterator[tuple[Producer, int]]:
        """The only producer of this source, and the source's partition."""
        with (
            self._alone(),
            closing(self.source),
            Producer(
                self.bootstrap, client_id="barnabas-capture", transactional_id=f"barnabas-capture-{self._id}"
            ) as producer,
        ):
            partition = partition_for_key(self.source.name.encode(), producer.partitions(self.topic))
            producer.init_transactions()
            try:
                yield producer, partition
            except ProducerFenced as error:
                raise CaptureError(
                    f"{self.source.name} is now captured into {self.topic} by another: {error}"
                ) from error

    def _write_what_is_there(self, producer: Producer, partition: int, position: Any) -> tuple[int, Any]:
        count = 0
        pieces = self.source.pieces(position)
        while some := list(islice(pieces, _AT_ONCE)):
            producer.begin()
            for piece in some:
                headers = [(SOURCE, self.source.name.encode()), (POSITION, json.dumps(piece.position).encode())]
                producer.send(self.topic, piece.value, key=piece.key, partition=partition, headers=headers)
            try:
                producer.commit()
            except TransactionFailed:
                producer.abort()  # raises ProducerFenced if another capture has taken over
                raise
            count, position = count + len(some), some[-1].position
            self.source.captured(position)
        return count, position

    def position(self, partition: int) -> Any:
        """The position of the last committed record of this source; None if there is none."""
        source = self.source.name.encode()

        def is_of_source(record: Record) -> bool:
            return dict(record.headers).get(SOURCE) == source

        found, begin = last_record(self.bootstrap, (self.topic, partition), is_of_source, client_id="barnabas-capture")
        if found is not None:
            return json.loads(dict(found.headers)[POSITION] or b"null")
        if begin > 0:
            raise CaptureError(
                f"{self.topic}-{partition} has lost its first {begin} records, and with them where {self.source.name} "
                "was; capture into a topic that keeps its records (retention.ms=-1)"
            )
        return None

    @property
    def _id(self) -> str:
        return sha256(f"{self.topic}\0{self.source.name}".encode()).hexdigest()[:16]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        path = Path(tempfile.gettempdir()) / f"barnabas-capture-{self._id}.lock"
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
