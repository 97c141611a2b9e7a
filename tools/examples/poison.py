"""A wrong message for each way in which a message can be wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import orjson

from tools.examples.envelope import VALUE_BYTES_MAX, Envelope, Reason

Sent = tuple[bytes | None, bytes | None]
"""A key and a value."""


def pills(event: Envelope) -> Mapping[Reason, bytes | None]:
    """This event, made wrong in each way. Its data has at least one field."""
    fields = orjson.loads(event.encode())
    field = next(iter(fields["data"]))

    def changed(**new: object) -> bytes:
        return orjson.dumps({**fields, **new})

    return {
        Reason.NO_VALUE: None,
        Reason.TOO_LONG: changed(padding=" " * VALUE_BYTES_MAX),
        Reason.NOT_UTF8: event.encode().replace(b'"sender"', b'"sender\xff"'),
        Reason.NOT_JSON: event.encode()[:-9],
        Reason.NOT_AN_OBJECT: b'["an", "array"]',
        Reason.MISSING_FIELD: orjson.dumps({name: value for name, value in fields.items() if name != "sender"}),
        Reason.WRONG_FIELD: changed(correlation_id=""),
        Reason.BAD_EVENT_ID: changed(event_id="42"),
        Reason.BAD_TIMESTAMP: changed(timestamp=-1),
        Reason.UNKNOWN_TYPE: changed(type="cat.fed"),
        Reason.MISSING_DATA: changed(data={}),
        Reason.WRONG_DATA: changed(data={**fields["data"], field: None}),
    }


def with_pills(events: Sequence[Envelope], wrong: Mapping[Reason, bytes | None]) -> Iterator[Sent]:
    """Keys and values of the events, keyed by correlation id, with the wrong messages spread among them."""
    left = list(wrong.items())
    every = max(len(events) // (len(left) + 1), 1)
    for number, event in enumerate(events, 1):
        yield event.correlation_id.encode(), event.encode()
        if number % every == 0 and left:
            reason, value = left.pop()
            yield reason.name.encode(), value
    for reason, value in left:
        yield reason.name.encode(), value
