"""The deserialiser of the examples returns an event or a named refusal, whatever a message has."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.examples.envelope import Envelope, Reason, Refused, first_event, read
from tools.examples.poison import pills, with_pills

CONTRACT = {"tea.poured": {"cups": int, "warmth": float, "guests": list}}
TEA = first_event(
    "tea.poured", "kitchen", "table-4", {"cups": 2, "warmth": 80, "guests": ["Ada"]}, timestamp=5, seed=1, number=0
)


def test_an_event_comes_back_as_it_was_sent() -> None:
    assert read(TEA.encode(), CONTRACT) == TEA


@pytest.mark.parametrize("reason", Reason)
def test_each_way_to_be_wrong_has_its_name(reason: Reason) -> None:
    refused = read(pills(TEA)[reason], CONTRACT)
    assert isinstance(refused, Refused)
    assert refused.reason is reason
    assert str(refused).startswith(f"{reason.name}: ")
    assert len(str(refused)) < 300
    assert "\n" not in str(refused)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"timestamp": True}, Reason.WRONG_FIELD),
        ({"timestamp": 1e300}, Reason.WRONG_FIELD),
        ({"timestamp": 1 << 60}, Reason.BAD_TIMESTAMP),
        ({"event_id": None}, Reason.WRONG_FIELD),
        ({"event_id": TEA.event_id.upper()}, Reason.BAD_EVENT_ID),
        ({"sender": "x" * 201}, Reason.WRONG_FIELD),
        ({"data": []}, Reason.WRONG_FIELD),
        ({"data": {"cups": True, "warmth": 1, "guests": []}}, Reason.WRONG_DATA),
        ({"data": {"cups": 1 << 63, "warmth": 1, "guests": []}}, Reason.WRONG_DATA),
        ({"data": {"cups": 1, "warmth": "hot", "guests": []}}, Reason.WRONG_DATA),
    ],
)
def test_fields_have_their_types(change: dict[str, object], reason: Reason) -> None:
    refused = read(orjson.dumps({**orjson.loads(TEA.encode()), **change}), CONTRACT)
    assert isinstance(refused, Refused)
    assert refused.reason is reason


def test_what_a_sender_adds_is_ignored() -> None:
    fields = orjson.loads(TEA.encode())
    fields["version"] = 2
    fields["data"]["sugar"] = "none"
    event = read(orjson.dumps(fields), CONTRACT)
    assert isinstance(event, Envelope)
    assert event.event_id == TEA.event_id


@given(st.none() | st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_bytes_crash_the_reader(value: bytes | None) -> None:
    assert isinstance(read(value, CONTRACT), Refused)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=20), st.data())
def test_no_value_of_a_field_crashes_the_reader(value: object, data: st.DataObject) -> None:
    fields = orjson.loads(TEA.encode())
    name = data.draw(st.sampled_from(sorted(fields)))
    try:
        wrong = orjson.dumps({**fields, name: value})
    except TypeError:  # JSON has no such integer
        return
    assert isinstance(read(wrong, CONTRACT), Envelope | Refused)


def test_deep_nesting_is_refused() -> None:
    refused = read(b"[" * 100_000, CONTRACT)
    assert isinstance(refused, Refused)
    assert refused.reason is Reason.NOT_JSON


def test_an_effect_of_one_cause_has_one_id() -> None:
    one, two = (TEA.follows("cup.washed", "sink", {}) for _ in range(2))
    assert one == two
    assert one.correlation_id == TEA.correlation_id
    assert one.event_id not in (TEA.event_id, TEA.follows("cup.broken", "sink", {}).event_id)


@pytest.mark.parametrize("count", [1, 5, 40])
def test_pills_are_sent_once_among_the_events(count: int) -> None:
    values = [value for _, value in with_pills([TEA] * count, pills(TEA))]
    assert len(values) == count + len(Reason)
    assert sum(isinstance(read(value, CONTRACT), Refused) for value in values) == len(Reason)
