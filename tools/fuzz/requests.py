"""Whole requests of any API in any version, filled at random with what its schema allows and a broker might take."""

from __future__ import annotations

import copy
import random
import struct
from typing import Any

import crc32c
import orjson

from actors.serving.json.handlers import HANDLERS
from actors.serving.kafka.handlers import SERVED
from protocol.apis import CREATE_PARTITIONS, CREATE_TOPICS, Api
from protocol.framing import ClientConnection
from protocol.records.batches import Record, build_batch
from protocol.records.compression import Codec
from protocol.schema.declaration import Array, Blob, Fixed, MessageField, Struct, Text, Type, struct_of

TOPICS = ("fuzz-0", "fuzz-1", "fuzz-nowhere", "", "no/name", "x" * 300)
_RANGES = {"b": 7, "h": 15, "H": 16, "i": 31, "I": 32, "q": 63}
_CRC_AT, _COVERED_FROM = 17, 21
_OPS = (
    "status", "topics", "brokers", "create_topic", "alter_configs", "elect_leaders", "produce", "fetch", "subscribe",
    "poll", "commit", "offsets", "dance",
)  # fmt: skip
_ONLY_VALIDATED = ("create_topic", "alter_configs")
_VALUES: tuple[Any, ...] = (1, -1, 1.5, None, True, "x", "\u0000", [], [[]], {}, {"a": None})
_MANY = (100, 1000, 5000, 20_000)
_LIKELY: dict[str, tuple[Any, ...]] = {
    "name": TOPICS,
    "topic": TOPICS,
    "topics": tuple([name] for name in TOPICS),
    "group": ("fuzz",),
    "partition": (0, 0, 1, -1),
    "offset": (0, 1, -1),
    "offsets": ([{"topic": "fuzz-0", "partition": 0, "offset": 1}], [{}], []),
    "records": ([{"value": "x"}], [{}], [{"key": "k", "value": None}]),
    "timeout_ms": (0, 1, 10, -1),
}
"""Values that a client might send, by the names of fields."""


def _has_array(api: Api) -> bool:
    request: Any = api.request
    return any(isinstance(one.type, Array) for one in struct_of(request).fields)


_WITH_ARRAYS = [api for api in SERVED if _has_array(api)]


class Requests:
    """Makes requests by seed. Changes of the cluster are only validated, never done."""

    def __init__(self, rng: random.Random, topic_ids: tuple[bytes, ...] = ()) -> None:
        self._rng = rng
        self._topic_ids = (*topic_ids, bytes(16), b"nobody has this.")
        self._connection = ClientConnection("fuzz")
        self._many = 0
        """How many elements the next array has."""

    def frame(self) -> bytes:
        """Any request, with its size."""
        api = self._rng.choice(SERVED)
        return self.of(api, self._rng.choice([version for version in api.versions if version in api.advertised]))

    def large(self) -> bytes:
        """Any request with an array, which has very many elements."""
        rng, api = self._rng, self._rng.choice(_WITH_ARRAYS)
        self._many = rng.choice(_MANY)
        return self.of(api, rng.choice([version for version in api.versions if version in api.advertised]))

    def of(self, api: Api, version: int) -> bytes:
        request: Any = api.request
        message = self._struct(struct_of(request), version)
        self._many = 0
        if api in (CREATE_TOPICS, CREATE_PARTITIONS):
            message.validate_only = True
        return b"".join(self._connection.send_unanswered(api, message, version))

    def line(self) -> bytes:
        """A request in newline JSON."""
        rng, op = self._rng, self._rng.choice(_OPS)
        request: dict[str, Any] = {"op": op, "id": rng.choice(_VALUES)} if rng.random() < 0.3 else {"op": op}
        for field in HANDLERS[op].fields.known if op in HANDLERS else ("topic",):
            if field in _LIKELY and rng.random() < 0.8:
                request[field] = rng.choice(_LIKELY[field])
            elif rng.random() < 0.2:
                request[field] = rng.choice(_VALUES)
        if op in _ONLY_VALIDATED:
            request["validate_only"] = True
        return orjson.dumps(request) + b"\n"

    def batch(self) -> bytes:
        """A record batch; sometimes one that is damaged inside and has the right checksum."""
        rng = self._rng
        kept = [
            Record(number, rng.choice((0, 1, 1_700_000_000_000)), rng.choice((None, b"", b"key")), rng.randbytes(9), ())
            for number in range(rng.randint(1, 3))
        ]
        batch = build_batch(kept, codec=rng.choice(list(Codec)))
        if rng.random() < 0.5:
            for _ in range(rng.randint(1, 3)):
                batch[rng.randrange(len(batch))] = rng.randrange(256)
            struct.pack_into(">I", batch, _CRC_AT, crc32c.crc32c(batch[_COVERED_FROM:]))
        return bytes(batch)

    # -- by schema -----------------------------------------------------------------------------------------------

    def _struct(self, kind: Struct, version: int) -> Any:
        message = kind.cls()
        for field in kind.fields:
            if version in field.versions and self._rng.random() < 0.8:
                setattr(message, field.name, self._value(field, field.type, version))
        return message

    def _value(self, field: MessageField, kind: Type, version: int) -> Any:
        rng = self._rng
        if version in field.nullable and rng.random() < 0.1:
            return None
        match kind:
            case Array(element) if self._many and rng.random() < 0.7:
                return self._very_many(field, element, version)
            case Array(element):
                return [self._element(field, element, version) for _ in range(rng.choice((0, 1, 1, 1, 2)))]
            case Struct():
                return self._struct(kind, version)
        return self._element(field, kind, version)

    def _element(self, field: MessageField, kind: Type, version: int) -> Any:
        rng = self._rng
        match kind:
            case Struct():
                return self._struct(kind, version)
            case Text():
                return rng.choice(TOPICS)
            case Blob():
                return self.batch()
            case Fixed("bool"):
                return rng.random() < 0.5
            case Fixed("uuid"):
                return rng.choice(self._topic_ids)
            case Fixed("float64"):
                return rng.choice((0.0, -1.0, float("inf"), float("nan")))
            case Fixed():
                return self._number(kind)
        raise AssertionError(f"{field.name} is {kind}")

    def _very_many(self, field: MessageField, kind: Type, version: int) -> list[Any]:
        """A few over and over, or as many that differ in a name or number. Only one array of a request is so long."""
        count, self._many = self._many, 0
        few = [self._element(field, kind, version) for _ in range(10)]
        if isinstance(kind, Blob) or self._rng.random() < 0.5:
            return [few[at % len(few)] for at in range(count)]
        if isinstance(kind, Text):
            return [f"{few[0]}{at}" for at in range(count)]
        if isinstance(kind, Fixed):
            return [at % 128 for at in range(count)] if kind.code in _RANGES else [few[0]] * count
        assert isinstance(kind, Struct)
        return [_changed(few[at % len(few)], kind, version, at) for at in range(count)]

    def _number(self, kind: Fixed) -> int:
        bits = _RANGES[kind.code]
        low = 0 if kind.code.isupper() else -(1 << bits)
        usual = (0, 0, 0, 1, 1, 2, 3, 100, low, (1 << bits) - 1, self._rng.randrange(1 << bits))
        number = self._rng.choice(usual if low == 0 else (*usual, -1, -1, -2))
        return max(low, min(number, (1 << bits) - 1))


def _changed(message: Any, kind: Struct, version: int, at: int) -> Any:
    """A copy with another name, or else another number."""
    copied = copy.copy(message)
    for field in kind.fields:
        if version in field.versions and isinstance(field.type, Text):
            setattr(copied, field.name, f"fuzz-{at}")
            break
        if version in field.versions and isinstance(field.type, Fixed) and field.type.code == "i":
            setattr(copied, field.name, at)
            break
    return copied
