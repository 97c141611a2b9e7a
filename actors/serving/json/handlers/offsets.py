"""offsets: where the partitions of a topic begin and end, and with `timestamp` where a time is in them.

    {"op":"offsets","topic":"orders","timestamp":1700000000000}
    {"topic":"orders","partitions":[{"partition":0,"earliest":0,"latest":42,"offset":17,"timestamp":1700000000004}]}

`offset` and `timestamp` are those of the first record of that time or later, null if there is none. With isolation
read_committed, `latest` is the last stable offset: what follows it belongs to transactions that are not decided yet.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from attrs import field

from actors.messages.replica import EARLIEST, LATEST, FindOffset
from actors.runtime import Gather
from actors.serving.json.at_leader import AtLeader
from actors.serving.json.handlers.handler import ISOLATION, TIMEOUT_MS, Handler
from protocol.error_codes import ErrorCode
from protocol.json.fields import Field, Fields, count, within, word
from protocol.json.lines import Facts, refusal
from protocol.late_attrs import define

if TYPE_CHECKING:
    from actors.serving.json.connection import JsonCall
    from log.machines.metadata.metadata import Topic
    from log.slices import Slices

PARTITION_MAX = (1 << 31) - 1


def _handle(
    call: JsonCall,
    name: str,
    partition: int | None,
    timestamp: int | None,
    read_committed: bool,  # noqa: FBT001
    timeout_ms: int,
) -> None:
    deadline = call.connection.now + timeout_ms / 1000

    def found(topic: Topic) -> None:
        there = len(topic.partitions)
        if partition is not None and partition >= there:
            text = f"topic {name!r} has no partition {partition}; it has {there}"
            call.refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
            return
        numbers = range(there) if partition is None else (partition,)
        offsets = _Offsets(call, topic, deadline, [{"partition": number} for number in numbers])
        call.connection.in_slices(offsets.ask(timestamp, read_committed))

    call.connection.topic_search.find(call, name, timeout_ms, found)


OFFSETS = Handler(
    Fields(
        {
            "topic": Field(word),
            "partition": Field(within(0, PARTITION_MAX), None),
            "timestamp": Field(count, None),
            "isolation": ISOLATION,
            "timeout_ms": TIMEOUT_MS,
        }
    ),
    _handle,
)


@define(slots=True, eq=False)
class _Offsets:
    """One request until every partition has answered."""

    _call: JsonCall
    _topic: Topic
    _deadline: float
    _answers: list[Facts]
    _error: Facts = field(factory=dict)
    _gather: Gather = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._gather = Gather(self._all_found)

    def ask(self, timestamp: int | None, read_committed: bool) -> Slices[None]:  # noqa: FBT001
        wanted = {"earliest": EARLIEST, "latest": LATEST}
        if timestamp is not None:
            wanted["offset"] = timestamp
        for answer in self._answers:
            yield None
            for name, time in wanted.items():
                find = FindOffset(time, read_committed)
                then = partial(self._found, answer, name)
                self._gather.begin()
                AtLeader(
                    self._call.connection, self._topic, answer["partition"], self._deadline, partial(_same, find), then
                )
        self._gather.done()

    def _found(self, answer: Facts, name: str, asked: AtLeader) -> None:
        if asked.error != ErrorCode.NONE:
            answer.update(refusal(asked.error, asked.message))
            self._error = self._error or {"error": answer["error"]}
        elif name == "offset":
            is_there = asked.result.offset >= 0
            answer["offset"] = asked.result.offset if is_there else None
            answer["timestamp"] = asked.result.timestamp if is_there else None
        else:
            answer[name] = asked.result.offset
        self._gather.done()

    def _all_found(self) -> None:
        self._call.answer({"topic": self._topic.name, "partitions": self._answers, **self._error})


def _same(find: FindOffset, _milliseconds: int) -> FindOffset:
    return find
