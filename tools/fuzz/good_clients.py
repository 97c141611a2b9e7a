"""Well-behaved clients, which must notice nothing of the attack."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

from protocol.apis import FETCH, PRODUCE, Api
from protocol.error_codes import ErrorCode
from protocol.framing import ClientConnection, Response
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.batches import Record, build_batch, check_batches, records
from tools.fuzz.victim import Address

PATIENCE_SECONDS = 20.0
_PRODUCE_VERSION, _FETCH_VERSION = 9, 12
_LIMIT = 1 << 20


class GoodClient(threading.Thread):
    """Writes numbers to a partition of its own and reads each of them back, one after another. Its leader stays."""

    def __init__(self, topic: str, partition: int, leader: Address) -> None:
        super().__init__(name=f"good client {partition}", daemon=True)
        self._topic = topic
        self._partition = partition
        self._address = leader
        self._ending = threading.Event()
        self._protocol = ClientConnection("good")
        self._socket: socket.socket
        self.count = 0
        self.failure: Exception | None = None
        self.failed_at = 0.0
        self.slowest_seconds = 0.0
        """The longest time that one write or read took."""

    def end(self) -> None:
        self._ending.set()

    def run(self) -> None:
        try:
            with socket.create_connection(self._address, timeout=PATIENCE_SECONDS) as self._socket:
                while not self._ending.is_set():
                    self._write(b"%d" % self.count)
                    self._read(b"%d" % self.count)
                    self.count += 1
        except Exception as error:  # noqa: BLE001  every failure of a good client counts
            self.failure, self.failed_at = error, time.time()

    def _write(self, value: bytes) -> None:
        batch = build_batch([Record(0, 1_700_000_000_000, None, value, ())])
        data = PartitionProduceData(index=self._partition, records=bytes(batch))
        request = ProduceRequest(
            acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name=self._topic, partition_data=[data])]
        )
        (answer,) = self._asked(PRODUCE, request, _PRODUCE_VERSION).responses[0].partition_responses
        self._check(answer.error_code == ErrorCode.NONE, f"write {value!r}: {answer}")
        self._check(answer.base_offset == self.count, f"write {value!r}: at {answer.base_offset}")

    def _read(self, value: bytes) -> None:
        wanted = FetchPartition(partition=self._partition, fetch_offset=self.count, partition_max_bytes=_LIMIT)
        request = FetchRequest(
            max_wait_ms=10_000, min_bytes=1, topics=[FetchTopic(topic=self._topic, partitions=[wanted])]
        )
        (answer,) = self._asked(FETCH, request, _FETCH_VERSION).responses[0].partitions
        self._check(answer.error_code == ErrorCode.NONE, f"read {value!r}: {answer}")
        (batch,) = check_batches(bytes(answer.records)).headers
        found = [record.value for record in records(answer.records, limit=_LIMIT)]
        self._check((batch.base_offset, found) == (self.count, [value]), f"read {found} instead of {value!r}")

    def _asked(self, api: Api, request: Any, version: int) -> Any:
        began = time.monotonic()
        for buffer in self._protocol.send(api, request, version):
            self._socket.sendall(buffer)
        while not isinstance(event := self._protocol.next_event(), Response):
            self._protocol.receive_data(self._socket.recv(1 << 16))
            self._check(self._socket.fileno() >= 0, "the connection was closed")
        self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - began)
        return event.read(api.response)

    def _check(self, good: bool, otherwise: str) -> None:  # noqa: FBT001  it reads as an assertion
        if not good:
            raise ConnectionError(otherwise)
