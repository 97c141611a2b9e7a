"""A blocking client of a broker's newline JSON.

    with JsonClient("127.0.0.1:9092,127.0.0.1:9093") as client:
        client.call("create_topic", name="orders", partitions=6)
        client.produce("orders", {"total": 5}, key="k")
        client.call("fetch", topic="orders", partition=0, offset="earliest")

It has one connection at a time, to the first address that accepts one. A request that finds no controller, or whose
connection breaks, is retried for a few seconds at the next address, if a second execution does no harm:

- a request that only reads may be repeated;
- a request to the controller has a request_id, so the controller executes it once;
- `produce` sends this client's own producer id and a sequence, so the broker writes each record once. If `produce`
  gives up without an answer, the record may have been written; the client then continues with a new producer id.

A `call("produce", …)` without a producer is sent once: if its answer is lost, the record may have been written.
"""

from __future__ import annotations

import socket
import time
import uuid
from base64 import b64encode
from collections import deque
from collections.abc import Mapping
from typing import Any, BinaryIO, Self

import orjson
from attrs import frozen

from protocol.json.records import read_data
from protocol.partitioner import partition_for_key
from tools.client.addresses import Address, addresses, shown

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 20.0
"""Longer than a broker needs to say that it has no answer. The request's own wait is added."""
RETRY_SECONDS = 8.0
PAUSE_SECONDS = 0.1
TOPIC_SECONDS = 60.0
"""For how long the number of a topic's partitions is cached."""
READING = frozenset(
    {
        "status", "versions", "metadata", "describe_topic", "init_producer", "fetch", "offsets",
        "subscribe", "poll", "commit", "unsubscribe", "rebalances",
    }
)  # fmt: skip
_PASSING = frozenset({"NOT_CONTROLLER", "COORDINATOR_NOT_AVAILABLE"})

Answer = dict[str, Any]


class ClientError(Exception):
    """The request failed."""


class Unreachable(ClientError):
    """No address accepts a connection."""


class ConnectionBroken(ClientError):
    """The connection ended before the answer: whether the request was executed is not known."""


class NotABroker(ClientError):
    """The server at this address is no Barnabas broker."""


class Refused(ClientError):
    """The cluster refused the request. `answer` is the broker's, `name` is Kafka's name of the error."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.name: str = answer["error"]["name"]
        super().__init__(f"{self.name}: {answer['error']['message']}")


@frozen(slots=True)
class Written:
    """Where a record is."""

    partition: int
    offset: int


class JsonClient:
    """Every method blocks until its answer is there. Used by one thread at a time."""

    def __init__(self, bootstrap: str | list[Address]) -> None:
        self._addresses = deque(addresses(bootstrap) if isinstance(bootstrap, str) else bootstrap)
        """The first one is in use."""
        self._socket: socket.socket | None = None
        self._lines: BinaryIO
        self._producer: int | None = None
        self._sequences: dict[tuple[str, int], int] = {}
        self._topics: dict[str, tuple[int, float]] = {}
        """The number of partitions, and until when it is cached."""
        self._turns = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._socket is not None:
            self._lines.close()
            self._socket.close()
            self._socket = None

    def connect(self) -> None:
        """Connect now. Raises Unreachable if no address accepts a connection."""
        self._connected()

    def call(self, op: str, **fields: Any) -> Answer:
        """Execute any operation and return the broker's answer. Fields that are None are left out."""
        given = {name: value for name, value in fields.items() if value is not None}
        if op not in READING and op != "produce":
            given = {"request_id": str(uuid.uuid4()), **given}
        return self._ask(op, given, is_repeatable=op != "produce" or "producer" in given)

    def produce(
        self, topic: str, value: Any, *, key: Any = None, headers: Any = None, timestamp: int | None = None,
        partition: int | None = None, timeout_ms: int | None = None,
    ) -> Written:  # fmt: skip
        """Write one record, once, to a topic that exists. Key and value may be bytes too."""
        if partition is None:
            partition = self._partition_for(topic, read_data("key", _as_json(key)))
        if self._producer is None:
            self._producer = self.call("init_producer")["producer"]
            self._sequences.clear()
        sequence = self._sequences.get((topic, partition), 0)
        options = {"key": _as_json(key), "headers": headers, "timestamp": timestamp, "timeout_ms": timeout_ms}
        request = {
            "topic": topic,
            "value": _as_json(value),
            **{name: one for name, one in options.items() if one is not None},
            "partition": partition,
            "producer": self._producer,
            "sequence": sequence,
        }
        try:
            answer = self._ask("produce", request, is_repeatable=True)
        except BaseException:  # also KeyboardInterrupt: whether the record was written is not known
            self._producer = None
            raise
        self._sequences[topic, partition] = (sequence + 1) & 0x7FFFFFFF
        return Written(answer["partition"], answer["offset"])

    def _partition_for(self, topic: str, key: bytes | None) -> int:
        count, cached_until = self._topics.get(topic, (0, 0.0))
        if cached_until < time.monotonic():
            count = len(self.call("describe_topic", topic=topic)["partitions"])
            self._topics[topic] = count, time.monotonic() + TOPIC_SECONDS
        if key is not None:
            return partition_for_key(key, count)
        self._turns += 1
        return self._turns % count

    # -- requests ------------------------------------------------------------------------------------------------

    def _ask(self, op: str, fields: Mapping[str, Any], *, is_repeatable: bool) -> Answer:
        """The answer to a request, which is retried while that can help and does no harm."""
        try:
            line = orjson.dumps({"op": op, **fields}, option=orjson.OPT_APPEND_NEWLINE)
        except orjson.JSONEncodeError as error:
            raise ClientError(f"{op}: cannot be said in JSON: {error}") from None
        seconds = ANSWER_SECONDS + (fields.get("wait_ms", 0) + fields.get("timeout_ms", 0)) / 1000
        deadline = time.monotonic() + RETRY_SECONDS
        was_sent = False
        while True:
            try:
                return self._answer(self._exchange(line, seconds))
            except Unreachable:
                if not was_sent or time.monotonic() >= deadline:
                    raise
            except ConnectionBroken:
                if not is_repeatable or time.monotonic() >= deadline:
                    raise
            except Refused as refused:
                if refused.name not in _PASSING or time.monotonic() >= deadline:
                    raise
            was_sent = True
            self.close()
            self._addresses.rotate(-1)
            time.sleep(PAUSE_SECONDS)

    def _exchange(self, line: bytes, seconds: float) -> bytes:
        """Send a line and return the line that answers it."""
        connection = self._connected()
        try:
            connection.settimeout(seconds)
            connection.sendall(line)
            answer = self._lines.readline()
        except BaseException as error:
            self.close()  # a late answer would be taken for the answer to the next request
            if isinstance(error, OSError):
                reason = f"the connection to {shown(self._addresses[0])} broke: {error.strerror or error}"
                raise ConnectionBroken(reason) from error
            raise
        if not answer.endswith(b"\n"):
            self.close()
            where = shown(self._addresses[0])
            raise ConnectionBroken(f"{where} closed the connection without an answer; is a Barnabas broker there?")
        return answer

    def _connected(self) -> socket.socket:
        """The connection that stands, or one to the first address that accepts it."""
        if self._socket is not None:
            return self._socket
        reasons = []
        for _ in range(len(self._addresses)):
            try:
                self._socket = socket.create_connection(self._addresses[0], timeout=CONNECT_SECONDS)
            except (OSError, UnicodeError) as error:
                reason = error.strerror if isinstance(error, OSError) and error.strerror else error
                reasons.append(f"{shown(self._addresses[0])} ({reason})")
                self._addresses.rotate(-1)
            else:
                self._lines = self._socket.makefile("rb")
                return self._socket
        raise Unreachable(
            f"nobody answers at {', '.join(reasons)}; is the cluster running? --bootstrap or"
            " BARNABAS_BOOTSTRAP says where it is looked for"
        )

    def _answer(self, line: bytes) -> Answer:
        try:
            answer = orjson.loads(line)
        except orjson.JSONDecodeError:
            answer = None
        if not isinstance(answer, dict):
            where = shown(self._addresses[0])
            raise NotABroker(f"{where} answers something else than JSON; is a Barnabas broker there?")
        if "error" in answer:
            raise Refused(answer)
        return answer


def _as_json(data: Any) -> Any:
    """Keys and values as a request has them: bytes in base64."""
    return {"base64": b64encode(data).decode()} if isinstance(data, bytes) else data
