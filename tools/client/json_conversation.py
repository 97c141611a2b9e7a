"""What a client says to a broker in newline JSON, without the connection, which is json_client's.

Whoever of the addresses answers is asked. A request that finds no controller, or whose connection breaks, is sent again
for a few seconds and to the next address, if that does no harm:

- what only reads may be sent again;
- what a controller does has a request_id, by which it is done once;
- records that `produce` sends have this client's own producer id and sequence, by which they are written once. If it
  gives up and nobody knows whether a record was written, it goes on with another producer id.

A `call("produce", …)` without a producer is sent once: if its answer is lost, nobody knows whether it was written.
"""

from __future__ import annotations

import uuid
from base64 import b64encode
from collections.abc import Callable, Generator, Mapping
from typing import Any

import orjson
from attrs import define, field, frozen

from protocol.json.records import read_data
from protocol.partitioner import partition_for_key

PORT_DEFAULT = 9092
BOOTSTRAP_DEFAULT = f"127.0.0.1:{PORT_DEFAULT}"
CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 20.0
"""Longer than a broker takes to say that it has no answer. What may wait longer at the broker waits longer here."""
RETRY_SECONDS = 8.0
PAUSE_SECONDS = 0.1
TOPIC_SECONDS = 60.0
"""So long a topic is believed to have as many partitions as it had."""
READING = frozenset(
    {
        "status", "versions", "metadata", "describe_topic", "init_producer", "fetch", "offsets",
        "subscribe", "poll", "commit", "unsubscribe", "rebalances",
    }
)  # fmt: skip
_PASSING = frozenset({"NOT_CONTROLLER", "COORDINATOR_NOT_AVAILABLE"})

AddressPair = tuple[str, int]
Answer = dict[str, Any]


class ClientError(Exception):
    """The request came to nothing."""


class Unreachable(ClientError):
    """Nobody answers at any of the addresses."""


class ConnectionBroken(ClientError):
    """The connection ended before the answer: whether the request was done is not known."""


class NotABroker(ClientError):
    """Somebody else answers there."""


class Refused(ClientError):
    """The cluster will not do that. `answer` is what it said, `name` Kafka's name of the error."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.name: str = answer["error"]["name"]
        super().__init__(f"{self.name}: {answer['error']['message']}")


def addresses(text: str) -> list[AddressPair]:
    """`host:port,host,[::1]:port` as pairs; ValueError says which of them is none."""
    return [_address(one.strip()) for one in text.split(",")]


def _address(text: str) -> AddressPair:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        colon, port = rest[:1], rest[1:]
        sound = bool(bracket) and rest[:1] in ("", ":")
    else:
        host, colon, port = text.partition(":")
        sound = True
        if ":" in port:
            raise ValueError(f"{text!r} is no address; write an IPv6 one as [::1]:{PORT_DEFAULT}")
    if not colon:
        port = str(PORT_DEFAULT)
    if not sound or not host or not (port.isascii() and port.isdigit()) or not 1 <= int(port) <= 65535:
        raise ValueError(f"{text!r} is no address; write host:port, such as {BOOTSTRAP_DEFAULT}")
    return host, int(port)


def shown(address: AddressPair) -> str:
    """As it is written."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Addresses:
    """Where brokers are, and which of them is in use."""

    def __init__(self, bootstrap: str | list[AddressPair]) -> None:
        self._all = addresses(bootstrap) if isinstance(bootstrap, str) else bootstrap
        self._at = 0

    def __len__(self) -> int:
        return len(self._all)

    @property
    def current(self) -> AddressPair:
        return self._all[self._at]

    @property
    def shown(self) -> str:
        return shown(self.current)

    def turn(self) -> None:
        self._at = (self._at + 1) % len(self._all)

    def unreachable(self, reasons: list[str]) -> Unreachable:
        return Unreachable(
            f"nobody answers at {', '.join(reasons)}; is the cluster running? --bootstrap says where it is looked for"
        )

    def broke(self, error: OSError) -> ConnectionBroken:
        return ConnectionBroken(f"the connection to {self.shown} broke: {error.strerror or error}")

    def closed(self) -> ConnectionBroken:
        return ConnectionBroken(f"{self.shown} closed the connection without an answer; is a Barnabas broker there?")


def reason_of(error: OSError | UnicodeError) -> str:
    """Why there is no connection."""
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def answer_seconds(*, wait_ms: int | None = None, timeout_ms: int | None = None, **_others: Any) -> float:
    """How long to wait for the answer to a request with these fields."""
    return ANSWER_SECONDS + (wait_ms or 0) / 1000 + (timeout_ms or 0) / 1000


def record_of(value: Any, key: Any, headers: Any, timestamp: int | None, partition: int | None) -> dict[str, Any]:
    """A record as a request has it. Keys and values may be bytes too."""
    given = {"key": _sayable(key), "headers": headers, "timestamp": timestamp, "partition": partition}
    return {"value": _sayable(value), **{name: one for name, one in given.items() if one is not None}}


def _sayable(data: Any) -> Any:
    return {"base64": b64encode(data).decode()} if isinstance(data, bytes) else data


# -- what is to be done --------------------------------------------------------------------------------------------


@frozen(slots=True)
class Exchange:
    """Connect if need be, send this line, and come back with the one that answers it.

    Unreachable or ConnectionBroken if that does not work; the next address is taken then.
    """

    line: bytes


@frozen(slots=True)
class Pause:
    """Wait so long, then take the next address."""

    seconds: float


Steps = Generator[Exchange | Pause, Any, Answer]
"""What a client has to do to get an answer; it is sent what came of each step."""


@frozen(slots=True)
class Written:
    """Where a record is."""

    partition: int
    offset: int


@define(slots=True)
class _Topic:
    partitions: int
    known_until: float


@define(slots=True)
class Conversation:
    """One client's. `now` is its clock."""

    now: Callable[[], float]
    _producer: int | None = None
    _sequences: dict[tuple[str, int], int] = field(factory=dict)
    _topics: dict[str, _Topic] = field(factory=dict)
    _turns: int = 0

    def call(self, op: str, fields: Mapping[str, Any]) -> Steps:
        """Any operation. Fields that are None are left out."""
        given = {name: value for name, value in fields.items() if value is not None}
        if op not in READING and op != "produce":
            given = {"request_id": str(uuid.uuid4()), **given}
        is_repeatable = op != "produce" or "producer" in given
        return (yield from self._ask(_line({"op": op, **given}), is_repeatable=is_repeatable))

    def produce(self, topic: str, record: Mapping[str, Any], options: Mapping[str, Any]) -> Steps:
        """A record, once."""
        partition = record.get("partition")
        if partition is None:
            partition = yield from self._partition_for(topic, read_data("key", record.get("key")))
        if self._producer is None:
            self._producer = (yield from self.call("init_producer", {}))["producer"]
            self._sequences.clear()
        sequence = self._sequences.get((topic, partition), 0)
        mine = {"partition": partition, "producer": self._producer, "sequence": sequence}
        given = {name: value for name, value in options.items() if value is not None}
        line = _line({"op": "produce", "topic": topic, **record, **given, **mine})
        try:
            answer = yield from self._ask(line, is_repeatable=True)
        except BaseException:  # also when whoever runs this gives up
            self._producer = None
            raise
        self._sequences[topic, partition] = (sequence + 1) & 0x7FFFFFFF
        return answer

    def _partition_for(self, topic: str, key: bytes | None) -> Generator[Exchange | Pause, Any, int]:
        known = self._topics.get(topic)
        if known is None or known.known_until < self.now():
            told = yield from self.call("describe_topic", {"topic": topic})
            known = self._topics[topic] = _Topic(len(told["partitions"]), self.now() + TOPIC_SECONDS)
        if key is not None:
            return partition_for_key(key, known.partitions)
        self._turns += 1
        return self._turns % known.partitions

    def _ask(self, line: bytes, *, is_repeatable: bool) -> Steps:
        deadline = self.now() + RETRY_SECONDS
        was_sent = False
        while True:
            try:
                told: bytes = yield Exchange(line)
                return _answer(told)
            except Unreachable:
                if not was_sent or self.now() >= deadline:
                    raise
            except ConnectionBroken:
                if not is_repeatable or self.now() >= deadline:
                    raise
                was_sent = True
            except Refused as refused:
                if refused.name not in _PASSING or self.now() >= deadline:
                    raise
                was_sent = True
            yield Pause(PAUSE_SECONDS)


def _line(request: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(request, option=orjson.OPT_APPEND_NEWLINE)
    except orjson.JSONEncodeError as error:
        raise ClientError(f"{request['op']}: cannot be said in JSON: {error}") from None


def _answer(told: bytes) -> Answer:
    try:
        answer = orjson.loads(told)
    except orjson.JSONDecodeError:
        answer = None
    if not isinstance(answer, dict):
        raise NotABroker("answers something else than JSON; is a Barnabas broker there?")
    if "error" in answer:
        raise Refused(answer)
    return answer
