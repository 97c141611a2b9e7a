"""The newline-JSON dialect without a connection: lines, requests, answers, fields, records."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.error_codes import ErrorCode
from protocol.json.fields import BadField, Field, Fields, count, one_of, within, word, words
from protocol.json.lines import (
    DEPTH_MAX,
    LINE_BYTES_MAX,
    BadRequest,
    LineCutter,
    LineTooLong,
    is_deeper,
    read_request,
    refusal,
    write_answer,
)
from protocol.json.records import NewRecord, read_data, read_record, told_json_record, told_record
from protocol.records.record import Record


def fed(cutter: LineCutter, *pieces: bytes) -> list[bytes]:
    lines: list[bytes] = []
    for piece in pieces:
        for at in range(0, len(piece), len(cutter.space)):
            part = piece[at : at + len(cutter.space)]
            cutter.space[: len(part)] = part
            lines += map(bytes, cutter.received(len(part)))
    return lines


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


# -- lines -------------------------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=20).filter(lambda line: b"\n" not in line)), st.data())
def test_a_stream_is_cut_into_the_same_lines_however_it_comes(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines) + b"rest"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    cutter = LineCutter()
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert fed(cutter, *pieces) == lines
    assert cutter.unfinished == len(b"rest")
    assert not cutter.is_lost


def test_the_longest_line_is_taken_and_a_longer_one_is_the_last() -> None:
    longest = b"x" * LINE_BYTES_MAX
    cutter = LineCutter()
    assert fed(cutter, b"a\n" + longest + b"\nb\n") == [b"a", longest, b"b"]
    cutter = LineCutter()
    lines = fed(cutter, b"a\n" + longest + b"y\nb\n")
    assert (lines[0], len(lines), len(lines[1])) == (b"a", 2, LINE_BYTES_MAX + 1)
    assert cutter.is_lost
    assert fed(cutter, b"c\n") == []


def test_a_line_without_an_end_is_given_up_before_it_ends() -> None:
    cutter = LineCutter()
    (line,) = fed(cutter, b"{" * (2 * LINE_BYTES_MAX))
    with pytest.raises(LineTooLong, match=f"a line of more than {LINE_BYTES_MAX} bytes"):
        read_request(line)
    assert (cutter.is_lost, cutter.unfinished) == (True, 0)


# -- requests and answers ----------------------------------------------------------------------------------------


def test_a_request_is_read() -> None:
    request = read_request(b' {"op":"fetch","id":7,"topic":"a"}\r')
    assert (request.id, request.op, request.fields) == (7, "fetch", {"topic": "a"})
    assert read_request(b'{"op":"status"}').id is None


@pytest.mark.parametrize(
    ("line", "own_id", "complaint"),
    [
        (b"", None, "not JSON: "),
        (b'{"op":"status"', None, "line 1 column 15"),
        (b'{"op":"\\ud800"}', None, "column 8"),
        (b'{"op":1e999}', None, "infinity"),
        (b"[" * 5000, None, "not JSON: "),
        (b"[]", None, "a request is a JSON object"),
        (b"3", None, "a request is a JSON object"),
        (b'{"id":7}', 7, "unknown op null; "),
        (b'{"id":"x","op":5}', "x", "unknown op 5; "),
        (b'{"id":7,"op":["status"]}', 7, "an op is a word"),
        (b'{"id":{},"op":"status"}', None, "an id is a word or a number"),
        (orjson.dumps({"op": "a", "b": nested(DEPTH_MAX)}), None, f"b: nested more than {DEPTH_MAX} deep"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_bad_line_says_what_is_wrong_and_where(line: bytes, own_id: Any, complaint: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read_request(line)
    assert complaint in str(caught.value)
    assert caught.value.own_id == own_id


@pytest.mark.parametrize("depth", [1, 5, DEPTH_MAX - 1, DEPTH_MAX, DEPTH_MAX + 1, 300])
def test_depth_is_counted(depth: int) -> None:
    for value in (nested(depth), {"a": nested(depth - 1)}, [1, "x", nested(depth - 1)]):
        assert is_deeper(value, depth - 1)
        assert not is_deeper(value, depth)


def test_what_may_come_may_go() -> None:
    """What is not too deep for a request is not too deep for an answer."""
    request = read_request(orjson.dumps({"op": "a", "b": nested(DEPTH_MAX - 1)}))
    assert orjson.loads(write_answer(1, {"records": [{"value": request.fields["b"]}]}))["id"] == 1


def test_answers_and_errors_have_one_form() -> None:
    assert write_answer(None, {"a": 1}) == b'{"a":1}\n'
    assert write_answer(0, {"a": 1}) == b'{"id":0,"a":1}\n'
    error = refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no topic 'x'")
    told = b'{"id":"q","error":{"code":3,"name":"UNKNOWN_TOPIC_OR_PARTITION","message":"there is no topic \'x\'"}}\n'
    assert write_answer("q", error) == told


# -- fields ------------------------------------------------------------------------------------------------------

FIELDS = Fields(
    {
        "topic": Field(word),
        "offset": Field(count, 0),
        "size": Field(within(1, 10), 5),
        "acks": Field(one_of({"all": -1, 1: 1}), -1),
        "names": Field(words, None),
    }
)


def test_fields_are_read_in_order_and_null_is_left_out() -> None:
    assert FIELDS.read({"acks": 1, "topic": "a", "size": None}) == ["a", 0, 5, 1, None]
    assert FIELDS.read({"topic": "a", "names": ["x"], "offset": 2**62}) == ["a", 2**62, 5, -1, ("x",)]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({}, "topic: is missing"),
        ({"topic": "a", "tpoic": 1}, "tpoic: unknown field; known: topic, offset, size, acks, names"),
        ({"topic": "a", "offset": -1}, "offset: must be a whole number, 0 or more, not -1"),
        ({"topic": "a", "offset": 2**63}, "offset: must be a whole number"),
        ({"topic": "a", "offset": 1.0}, "offset: must be a whole number"),
        ({"topic": "a", "size": 11}, "size: must be a whole number from 1 to 10, not 11"),
        ({"topic": "a", "size": True}, "size: must be a whole number from 1 to 10, not true"),
        ({"topic": "a", "acks": "none"}, 'acks: must be one of "all", 1, not "none"'),
        ({"topic": "a", "acks": True}, 'acks: must be one of "all", 1, not true'),
        ({"topic": "a", "acks": [1]}, 'acks: must be one of "all", 1, not a list'),
        ({"topic": "a", "names": "x"}, "names: must be a list of strings"),
        ({"topic": "a", "names": ["x", 5]}, "names[1]: must be a string"),
    ],
)
def test_a_bad_field_is_named(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(BadField) as caught:
        FIELDS.read(given)
    assert str(caught.value).startswith(complaint)


# -- records -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "data"),
    [
        ("text", b"text"),
        ("", b""),
        ("ä€🎉", "ä€🎉".encode()),
        (None, None),
        (5, b"5"),
        (1.5, b"1.5"),
        (True, b"true"),
        ([1, {"a": None}], b'[1,{"a":null}]'),
        ({"a": "b"}, b'{"a":"b"}'),
        ({}, b"{}"),
        ({"base64": "//4="}, b"\xff\xfe"),
        ({"base64": ""}, b""),
        ({"base64": "x", "more": 1}, b'{"base64":"x","more":1}'),
    ],
    ids=str,
)
def test_keys_and_values_stand_for_bytes(given: Any, data: bytes | None) -> None:
    assert read_data("value", given) == data


def test_a_record_is_read() -> None:
    given = {"key": "k", "value": None, "headers": {"a": "1", "b": None}, "timestamp": 5, "partition": 3}
    assert read_record("", given) == NewRecord(b"k", None, (("a", b"1"), ("b", None)), 5, 3)
    pairs = {"value": "v", "headers": [["a", "1"], ["a", {"base64": "/w=="}]]}
    assert read_record("", pairs) == NewRecord(None, b"v", (("a", b"1"), ("a", b"\xff")), None, None)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (5, "records[2]: must be an object"),
        ({}, "records[2].value: is missing; null is a tombstone"),
        ({"value": 1, "vlaue": 1}, "records[2].vlaue: unknown field; known: key, value, headers, timestamp, partition"),
        ({"value": {"base64": "?"}}, 'records[2].value.base64: must be base64, not "?"'),
        ({"value": {"base64": 5}}, "records[2].value.base64: must be base64, not 5"),
        ({"value": {"base64": "ä"}}, "records[2].value.base64: must be base64"),
        ({"value": 1, "key": {"base64": "a"}}, "records[2].key.base64: must be base64"),
        ({"value": 1, "headers": "a"}, "records[2].headers: must be an object or a list of pairs"),
        ({"value": 1, "headers": [["a"]]}, "records[2].headers[0]: must be a pair"),
        ({"value": 1, "headers": [["a", 1], [2, "b"]]}, "records[2].headers[1][0]: must be a string"),
        ({"value": 1, "headers": {"a": {"base64": "a"}}}, "records[2].headers.a.base64: must be base64"),
        ({"value": 1, "timestamp": -1}, "records[2].timestamp: must be a whole number"),
        ({"value": 1, "timestamp": "now"}, "records[2].timestamp: must be a whole number"),
        ({"value": 1, "partition": -1}, "records[2].partition: must be a whole number from 0"),
    ],
    ids=str,
)
def test_a_bad_record_says_what_is_wrong_and_where(given: Any, complaint: str) -> None:
    with pytest.raises(BadField) as caught:
        read_record("records[2]", given)
    assert str(caught.value).startswith(complaint)


def test_bytes_come_back_as_text_where_they_are_text() -> None:
    record = Record(7, 5, b"k", b"\xff\xfe", (("a", b"1"), ("a", None), ("\udcff", b"\xff")))
    assert orjson.loads(orjson.dumps(told_record(record))) == {
        "offset": 7,
        "timestamp": 5,
        "key": "k",
        "value": {"base64": "//4="},
        "headers": [["a", "1"], ["a", None], [{"base64": "/w=="}, {"base64": "/w=="}]],
    }


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (b'{"total": 5}', {"total": 5}),
        (b"5", 5),
        (b'"text"', "text"),
        (b"null", None),
        (b"text", "text"),
        (b"\xff", {"base64": "/w=="}),
        (b"[" * 300 + b"]" * 300, "[" * 300 + "]" * 300),
        (None, None),
    ],
    ids=str,
)
def test_values_that_are_json_may_come_as_such(value: bytes | None, told: Any) -> None:
    assert told_json_record(Record(0, 0, b"5", value))["value"] == told
    assert told_json_record(Record(0, 0, b"5", value))["key"] == "5"


@given(st.none() | st.text() | st.binary())
def test_what_comes_back_may_be_sent_again(data: str | bytes | None) -> None:
    raw = data.encode("utf-8", "replace") if isinstance(data, str) else data
    told = orjson.loads(orjson.dumps(told_record(Record(0, 0, raw, raw, (("h", raw),)))))
    assert read_record("", {name: told[name] for name in ("key", "value", "headers")}) == NewRecord(
        raw, raw, (("h", raw),), None, None
    )
