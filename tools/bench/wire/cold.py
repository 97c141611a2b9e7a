"""Cold data: a log that is not in memory, read over a socket, beside plain sendfile of the same bytes.

A disk of a virtual machine may be fast until it has spent its credit. So both are measured twice, in an order that
favours neither: ours, plain, plain, ours.
"""

from __future__ import annotations

import os
import socket
import struct
import tempfile
import threading
from pathlib import Path
from time import perf_counter, sleep, time

from attrs import frozen

from actors.cluster_file.config import KafkaConfig
from actors.harness import Cluster
from protocol.apis import FETCH, PRODUCE
from protocol.framing import ClientConnection, Response
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from protocol.records.batches import Record, build_batch

TOPIC = "cold"
_RECORDS = 64
_NOW_MS = int(time() * 1000)  # older ones would be taken away by retention
_BATCH = bytes(build_batch([Record(at, _NOW_MS, None, os.urandom((1 << 20) // 64 - 32)) for at in range(_RECORDS)]))
_FETCH_BYTES = 16 << 20
_READ_BYTES = 1 << 20
_SIZE = struct.Struct(">i")


@frozen(slots=True)
class ColdRates:
    """Bytes a second."""

    ours: float
    plain: float


def cold_rates(batches: int) -> ColdRates:
    """Fill a log with so many batches of 1 MB, and read it through the broker and with nothing but sendfile.

    It is evicted each time.
    """
    with tempfile.TemporaryDirectory(prefix="barnabas-cold-") as data_dir:
        with Cluster(1, processes=True, data_dir=Path(data_dir), config=KafkaConfig()) as cluster:
            cluster.admin.create_topic(TOPIC, 1, 1)
            while cluster.admin.topic(TOPIC)["partitions"][0]["leader"] is None:
                sleep(0.01)
            host, _, port = cluster.bootstrap.partition(":")
            with socket.create_connection((host, int(port))) as sock:
                _fill(sock, batches)
                (path,) = Path(data_dir).rglob(f"{TOPIC}-0.*/*.log")
                _evict(path)
                ours = _read_through_broker(sock, batches)
                _evict(path)
                plain = _read_plainly(path, batches)
                _evict(path)
                plain += _read_plainly(path, batches)
                _evict(path)
                ours += _read_through_broker(sock, batches)
        size = 2 * batches * len(_BATCH)
        return ColdRates(size / ours, size / plain)


def _fill(sock: socket.socket, batches: int) -> None:
    client = ClientConnection("bench")
    for _ in range(batches):
        data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=_BATCH)])
        request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])
        sock.sendall(b"".join(client.send(PRODUCE, request, 9)))
        while not isinstance(event := client.next_event(), Response):
            client.receive_data(sock.recv(_READ_BYTES))
        answer = event.read(ProduceResponse).responses[0].partition_responses[0]
        assert not answer.error_code, answer


def _evict(path: Path) -> None:
    """Drop the file from the page cache, so that the next reader has to wait for the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _read_through_broker(sock: socket.socket, batches: int) -> float:
    """Fetch everything, and give the seconds.

    All batches have one size, so the size of an answer says how many batches it holds.
    """
    client, taken = ClientConnection("bench"), 0
    begun = perf_counter()
    while taken < batches:
        wanted = FetchPartition(partition=0, fetch_offset=taken * _RECORDS, partition_max_bytes=_FETCH_BYTES)
        request = FetchRequest(
            max_wait_ms=100, min_bytes=1, max_bytes=_FETCH_BYTES, session_epoch=-1,
            topics=[FetchTopic(topic=TOPIC, partitions=[wanted])],
        )  # fmt: skip
        sock.sendall(b"".join(client.send_unanswered(FETCH, request, 12)))
        (size,) = _SIZE.unpack(_exactly(sock, _SIZE.size))
        _drop(sock, size)
        assert size >= len(_BATCH), f"an answer of {size} bytes holds no batch"
        taken += size // len(_BATCH)
    return perf_counter() - begun


def _read_plainly(path: Path, batches: int) -> float:
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = threading.Thread(target=_send, args=(server, path))
        sender.start()
        with socket.create_connection(server.getsockname()) as sock:
            begun = perf_counter()
            _drop(sock, batches * len(_BATCH))
            seconds = perf_counter() - begun
        sender.join()
    return seconds


def _send(server: socket.socket, path: Path) -> None:
    sock, _ = server.accept()
    with sock, path.open("rb") as file:
        at = 0
        while sent := os.sendfile(sock.fileno(), file.fileno(), at, _FETCH_BYTES):
            at += sent


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += sock.recv(size - len(data))
    return data


def _drop(sock: socket.socket, size: int) -> None:
    """Receive so many bytes and ignore them."""
    buffer = memoryview(bytearray(_READ_BYTES))
    while size:
        count = sock.recv_into(buffer[: min(size, len(buffer))])
        assert count, f"the connection ended {size} bytes too early"
        size -= count
