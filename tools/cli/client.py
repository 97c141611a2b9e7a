"""A blocking client for a broker's newline JSON.

    with Client(addresses("127.0.0.1:9092,127.0.0.1:9093")) as client:
        client.call("create_topic", name="orders", partitions=6)

Whoever of the addresses answers is asked. A request that finds no controller, or whose connection breaks, is sent again
for a few seconds, to the next address and with the same request_id, so it is done once.
"""

from __future__ import annotations

import socket
import time
import uuid
from typing import Any, BinaryIO, Self

import orjson

PORT_DEFAULT = 9092
BOOTSTRAP_DEFAULT = f"127.0.0.1:{PORT_DEFAULT}"
RETRY_SECONDS = 8.0
CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 20.0
"""Longer than a broker takes to say that it has no answer."""
_PAUSE_SECONDS = 0.1

AddressPair = tuple[str, int]


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

    def __init__(self, answer: dict[str, Any]) -> None:
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


class Client:
    """One connection at a time, made when it is needed."""

    def __init__(self, bootstrap: list[AddressPair]) -> None:
        self._addresses = bootstrap
        self._at = 0
        self._socket: socket.socket | None = None
        self._lines: BinaryIO

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._socket is not None:
            self._lines.close()
            self._socket.close()
            self._socket = None

    def call(self, op: str, **fields: Any) -> dict[str, Any]:
        """The facts that a broker answers with. Fields that are None are left out."""
        given = {name: value for name, value in fields.items() if value is not None}
        try:
            line = orjson.dumps({"op": op, "request_id": str(uuid.uuid4()), **given}, option=orjson.OPT_APPEND_NEWLINE)
        except orjson.JSONEncodeError as error:
            raise ClientError(f"{op}: cannot be said in JSON: {error}") from None
        deadline = time.monotonic() + RETRY_SECONDS
        sent = False
        while True:
            try:
                self._connect()
                sent = True
                return self._ask(line)
            except (Unreachable, ConnectionBroken):
                if not sent or time.monotonic() >= deadline:
                    raise
            except Refused as refused:
                if refused.name != "NOT_CONTROLLER" or time.monotonic() >= deadline:
                    raise
            self._turn_to_next()
            time.sleep(_PAUSE_SECONDS)

    def _connect(self) -> None:
        """To the first address that lets us, beginning with the one that is in use."""
        if self._socket is not None:
            return
        reasons = []
        for _ in self._addresses:
            address = self._addresses[self._at]
            try:
                self._socket = socket.create_connection(address, timeout=CONNECT_SECONDS)
            except (OSError, UnicodeError) as error:
                reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
                reasons.append(f"{shown(address)} ({reason})")
                self._turn_to_next()
            else:
                self._socket.settimeout(ANSWER_SECONDS)
                self._lines = self._socket.makefile("rb")
                return
        raise Unreachable(f"nobody answers at {', '.join(reasons)}; is the cluster running? --bootstrap says where")

    def _ask(self, line: bytes) -> dict[str, Any]:
        assert self._socket is not None, "connected before"
        where = shown(self._addresses[self._at])
        try:
            self._socket.sendall(line)
            told = self._lines.readline()
        except OSError as error:
            raise ConnectionBroken(f"the connection to {where} broke: {error.strerror or error}") from error
        if not told.endswith(b"\n"):
            raise ConnectionBroken(f"{where} closed the connection without an answer; is a Barnabas broker there?")
        try:
            answer = orjson.loads(told)
        except orjson.JSONDecodeError:
            answer = None
        if not isinstance(answer, dict):
            raise NotABroker(f"{where} answers something else than JSON; is a Barnabas broker there?")
        if "error" in answer:
            raise Refused(answer)
        return answer

    def _turn_to_next(self) -> None:
        self.close()
        self._at = (self._at + 1) % len(self._addresses)
