"""The standard event envelope, and a deserialiser that never fails: it returns the event, or the message's refusal.

    {"event_id": "…", "type": "order.placed", "timestamp": 1767225600000, "correlation_id": "order-0042",
     "sender": "shop", "data": {"order": "order-0042", "cents": 142}}

event_id        a UUID; an event that is sent twice has it twice, so that a reader can apply it once
type            what happened, and which fields `data` has
timestamp       when it happened, in milliseconds since 1970
correlation_id  the same in all events that one cause has
sender          the service that says so

Fields that a reader does not know are ignored, so that a sender may add some.
"""

from __future__ import annotations

import enum
import re
import uuid
from collections.abc import Mapping
from typing import Any

import orjson
from attrs import frozen

VALUE_BYTES_MAX = 256 << 10
TEXT_LENGTH_MAX = 200
TIMESTAMP_MAX = 253_402_300_799_999
"""The last millisecond of the year 9999."""
Contract = Mapping[str, Mapping[str, type]]
"""The types of events that a reader knows, each with the fields of its data: str, int, float, list or dict."""
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FIELDS: Mapping[str, type] = {
    "event_id": str, "type": str, "timestamp": int, "correlation_id": str, "sender": str, "data": dict,
}  # fmt: skip
_TEXTS = ("type", "correlation_id", "sender")


class Reason(enum.StrEnum):
    """Each way in which a message can be wrong."""

    NO_VALUE = "the message has no value"
    TOO_LONG = "the value is longer than the limit"
    NOT_UTF8 = "the value is not UTF-8"
    NOT_JSON = "the value is not JSON"
    NOT_AN_OBJECT = "the value is JSON but not an object"
    MISSING_FIELD = "a field of the envelope is missing"
    WRONG_FIELD = "a field of the envelope has a wrong value"
    BAD_EVENT_ID = "the event id is not a UUID"
    BAD_TIMESTAMP = "the timestamp is not a time"
    UNKNOWN_TYPE = "the reader does not know this type of event"
    MISSING_DATA = "a field of the data is missing"
    WRONG_DATA = "a field of the data has a wrong value"


@frozen
class Refused:
    """A message that is not an event of the contract."""

    reason: Reason
    what: str
    """The part of the message that is wrong."""

    def __str__(self) -> str:
        return f"{self.reason.name}: {self.what}"


@frozen
class Envelope:
    event_id: str
    type: str
    timestamp: int
    correlation_id: str
    sender: str
    data: Mapping[str, Any]

    def encode(self) -> bytes:
        return orjson.dumps({name: getattr(self, name) for name in _FIELDS})

    def follows(self, type_: str, sender: str, data: Mapping[str, Any]) -> Envelope:
        """An event that this one causes. Its id is made from this one's, so a cause has one effect."""
        event_id = str(uuid.uuid5(uuid.UUID(self.event_id), f"{type_}/{sender}"))
        return Envelope(event_id, type_, self.timestamp, self.correlation_id, sender, data)


def first_event(
    type_: str, sender: str, correlation_id: str, data: Mapping[str, Any], *, timestamp: int, seed: int, number: int
) -> Envelope:
    """An event without a cause. Seed, type, sender and number give its id, so that a run can be repeated."""
    event_id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{seed}/{type_}/{sender}/{number}"))
    return Envelope(event_id, type_, timestamp, correlation_id, sender, data)


def read(value: bytes | None, contract: Contract) -> Envelope | Refused:
    """The event in the value of a message, or the refusal that says what is wrong with it."""
    fields = _fields(value)
    if isinstance(fields, Refused):
        return fields
    refused = _refusal(fields, contract)
    return refused or Envelope(**{name: fields[name] for name in _FIELDS})


def _fields(value: bytes | None) -> dict[str, Any] | Refused:
    if value is None:
        return Refused(Reason.NO_VALUE, "null")
    if len(value) > VALUE_BYTES_MAX:
        return Refused(Reason.TOO_LONG, f"{len(value)} bytes; at most {VALUE_BYTES_MAX} are read")
    try:
        value.decode()
    except UnicodeDecodeError as error:
        return Refused(Reason.NOT_UTF8, f"{error.reason} at byte {error.start}")
    try:
        found = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        return Refused(Reason.NOT_JSON, str(error))
    if not isinstance(found, dict):
        return Refused(Reason.NOT_AN_OBJECT, type(found).__name__)
    return found


def _refusal(fields: Mapping[str, Any], contract: Contract) -> Refused | None:
    for name, kind in _FIELDS.items():
        if name not in fields:
            return Refused(Reason.MISSING_FIELD, name)
        if not _is(fields[name], kind):
            return Refused(Reason.WRONG_FIELD, f"{name}: {kind.__name__} is needed, not {_shown(fields[name])}")
    if not _UUID.fullmatch(fields["event_id"]):
        return Refused(Reason.BAD_EVENT_ID, _shown(fields["event_id"]))
    if not 0 <= fields["timestamp"] <= TIMESTAMP_MAX:
        return Refused(Reason.BAD_TIMESTAMP, _shown(fields["timestamp"]))
    for name in _TEXTS:
        if not 1 <= len(fields[name]) <= TEXT_LENGTH_MAX:
            return Refused(Reason.WRONG_FIELD, f"{name}: 1 to {TEXT_LENGTH_MAX} characters, not {len(fields[name])}")
    if fields["type"] not in contract:
        return Refused(Reason.UNKNOWN_TYPE, _shown(fields["type"]))
    data = fields["data"]
    for name, kind in contract[fields["type"]].items():
        if name not in data:
            return Refused(Reason.MISSING_DATA, name)
        if not _is(data[name], kind):
            return Refused(Reason.WRONG_DATA, f"{name}: {kind.__name__} is needed, not {_shown(data[name])}")
    return None


def _is(value: object, kind: type) -> bool:
    """JSON has one kind of number; true and false are none, and an int has 64 bits."""
    if isinstance(value, bool):
        return False
    if kind is int:
        return isinstance(value, int) and -(1 << 63) <= value < 1 << 63
    return isinstance(value, (int, float) if kind is float else kind)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
