"""fetch: records of one partition from an offset on, from its leader.

    {"op":"fetch","topic":"orders","partition":0,"offset":17,"max_records":100,"wait_ms":1000,"as":"json"}

`offset` may be "earliest" or "latest" too. If no record is there, the answer waits up to `wait_ms` for one. The
answer has no control records, and for a reader of committed records none of aborted transactions. `next_offset`, where
to go on, leads past them. `max_bytes` limits all keys, values and headers together, but for the first record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.messages.replica import EARLIEST, LATEST, FindOffset, ReadRecords, ReadResult
from actors.serving.json import reading
from actors.serving.json.at_leader import AtLeader
from actors.serving.json.handlers.handler import ISOLATION, TIMEOUT_MS, WAIT_MS_MAX, Handler
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.json.fields import BadField, Field, Fields, count, one_of, within, word
from protocol.json.lines import Facts, quoted, refusal
from protocol.json.records import told_json_record, told_record
from protocol.late_attrs import define
from protocol.records.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.serving.json.connection import JsonCall
    from log.machines.metadata.metadata import Topic
    from log.slices import Slices

RECORDS_DEFAULT, RECORDS_MAX = 500, 10_000
BYTES_DEFAULT, BYTES_MAX = 1 << 20, 8 << 20
_INT32_MAX = (1 << 31) - 1


def _offset(path: str, value: Any) -> int:
    """An offset, or EARLIEST or LATEST, which are negative."""
    if isinstance(value, str):
        meant: int = one_of({"earliest": EARLIEST, "latest": LATEST})(path, value)
        return meant
    if type(value) is not int:
        raise BadField(f'{path}: must be an offset, "earliest" or "latest", not {quoted(value)}')
    return count(path, value)


def _handle(
    call: JsonCall, name: str, partition: int, offset: int, max_records: int, max_bytes: int, wait_ms: int,
    read_committed: bool, told: Callable[[Record], Facts], timeout_ms: int,  # noqa: FBT001
) -> None:  # fmt: skip
    def found(topic: Topic) -> None:
        if partition >= len(topic.partitions):
            text = f"topic {name!r} has no partition {partition}; it has {len(topic.partitions)}"
            call.refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
            return
        seconds = (wait_ms / 1000, timeout_ms / 1000)
        fetch = _Fetch(call, topic, partition, max_records, max_bytes, seconds, read_committed, told)
        call.connection.fetch_gate.enter(lambda: fetch.begin(offset))

    call.connection.topic_search.find(call, name, timeout_ms, found)


FETCH = Handler(
    Fields(
        {
            "topic": Field(word),
            "partition": Field(within(0, _INT32_MAX)),
            "offset": Field(_offset),
            "max_records": Field(within(1, RECORDS_MAX), RECORDS_DEFAULT),
            "max_bytes": Field(within(1, BYTES_MAX), BYTES_DEFAULT),
            "wait_ms": Field(within(0, WAIT_MS_MAX), 0),
            "isolation": ISOLATION,
            "as": Field(one_of({"text": told_record, "json": told_json_record}), told_record),
            "timeout_ms": TIMEOUT_MS,
        }
    ),
    _handle,
)


@define(slots=True, eq=False)
class _Fetch:
    """One request until it is answered."""

    _call: JsonCall
    _topic: Topic
    _number: int
    _records_max: int
    _bytes_max: int
    _seconds: tuple[float, float]
    """For records to come, and beyond that for an answer to come."""
    _read_committed: bool
    _told: Callable[[Record], Facts]
    _offset: int = 0
    _wait_until: float = 0.0
    _deadline: float = 0.0

    def begin(self, offset: int) -> None:
        wait, more = self._seconds
        self._wait_until = self._call.connection.now + wait
        self._deadline = self._wait_until + more
        if offset >= 0:
            self._read(offset)
            return
        find = FindOffset(offset, self._read_committed)
        AtLeader(self._call.connection, self._topic, self._number, self._deadline, lambda _left: find, self._found)

    def _found(self, asked: AtLeader) -> None:
        if asked.error == ErrorCode.NONE:
            self._read(asked.result.offset)
        else:
            self._refuse(asked.error, asked.message)

    def _read(self, offset: int) -> None:
        self._offset = offset
        AtLeader(self._call.connection, self._topic, self._number, self._deadline, self._question, self._was_read)

    def _question(self, _left: int) -> ReadRecords:
        wait_ms = max(int((self._wait_until - self._call.connection.now) * 1000), 0)
        return ReadRecords(self._offset, self._bytes_max, 1, wait_ms, self._read_committed)

    def _was_read(self, asked: AtLeader) -> None:
        result: ReadResult | None = asked.result
        if asked.error == ErrorCode.OFFSET_OUT_OF_RANGE and result is not None:
            have = f"{self._topic.name}-{self._number} has {result.log_start_offset} to {result.high_watermark}"
            self._refuse(asked.error, f"offset {self._offset} is out of range: {have}")
        elif asked.error != ErrorCode.NONE or result is None:
            self._refuse(asked.error, asked.message)
        else:
            self._call.connection.in_slices(self._tell(result))

    def _tell(self, result: ReadResult) -> Slices[None]:
        try:
            read, next_offset = yield from reading.chosen(result, self._offset, self._records_max, self._bytes_max)
        except ProtocolError as error:
            self._refuse(error.code, f"{self._topic.name}-{self._number} at offset {self._offset}: {error}")
            return
        if not read and next_offset > self._offset:
            self._read(next_offset)  # none of the records may be returned, but more may follow
            return
        pieces = yield from reading.told((({}, record) for record in read), self._told)
        facts = {
            "topic": self._topic.name,
            "partition": self._number,
            "next_offset": next_offset,
            "high_watermark": result.high_watermark,
            "last_stable_offset": result.last_stable_offset,
            "log_start_offset": result.log_start_offset,
        }
        self._call.answer_long(facts, "records", pieces)
        self._call.connection.fetch_gate.leave()

    def _refuse(self, error: int, message: str) -> None:
        self._call.answer(refusal(error, message))
        self._call.connection.fetch_gate.leave()
