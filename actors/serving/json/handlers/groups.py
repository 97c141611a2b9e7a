"""subscribe, poll, commit, unsubscribe: the connection itself is a member of a group. rebalances: why one rebalanced.

    {"op":"subscribe","group":"kitchen","topics":["orders"]}
    {"op":"poll","wait_ms":5000}
    {"op":"commit"}

A poll that waits is answered when records come, or when partitions come or go: the answer has the `assignment` if it
has changed. `commit` commits the offsets after the records of all polls, or the given `offsets`. A connection that ends
leaves its group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from actors.messages.coordinator import RebalancesTold, TellRebalances
from actors.messages.replica import EARLIEST, LATEST
from actors.serving.at_coordinator import AtCoordinator
from actors.serving.json.group_reader import GroupReader, Poll
from actors.serving.json.handlers.fetch import RECORDS_DEFAULT, RECORDS_MAX
from actors.serving.json.handlers.handler import ISOLATION, TIMEOUT_MS, WAIT_MS_MAX, Handler
from actors.serving.json.membership import Offsets
from protocol.error_codes import ErrorCode
from protocol.json.fields import BadField, Field, Fields, count, one_of, refuse_unknown, within, word, words
from protocol.json.lines import quoted, refusal
from protocol.json.records import told_json_record, told_record

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.serving.json.connection import JsonCall
    from protocol.json.lines import Facts
    from protocol.records.record import Record

POLL_INTERVAL_MS_DEFAULT = 300_000
TOPICS_MAX = 1000
_INT32_MAX = (1 << 31) - 1
_OFFSET = Fields({"topic": Field(word), "partition": Field(within(0, _INT32_MAX)), "offset": Field(count)})
_WHY = {ErrorCode.STALE_MEMBER_EPOCH: "the partition is not assigned to this connection, or no longer"}


def _topics(path: str, value: Any) -> tuple[str, ...]:
    topics = words(path, value)
    if not 1 <= len(topics) <= TOPICS_MAX:
        raise BadField(f"{path}: must name 1 to {TOPICS_MAX} topics, not {len(topics)}")
    return topics


def _offsets(path: str, value: Any) -> Offsets:
    if not isinstance(value, list) or not value:
        raise BadField(
            f'{path}: must be a list such as [{{"topic":"orders","partition":0,"offset":5}}], not {quoted(value)}'
        )
    read: Offsets = {}
    for at, one in enumerate(value):
        if not isinstance(one, dict):
            raise BadField(f"{path}[{at}]: must be an object, not {quoted(one)}")
        if not one.keys() <= _OFFSET.known.keys():
            refuse_unknown(one, _OFFSET.known, f"{path}[{at}].")
        topic, partition, offset = _OFFSET.read(one)
        read[topic, partition] = offset
    return read


def _subscribe(
    call: JsonCall,
    group: str,
    topics: tuple[str, ...],
    begin_at: int,
    read_committed: bool,  # noqa: FBT001
    interval_ms: int,
) -> None:
    connection = call.connection
    before = connection.group

    def join() -> None:
        connection.group = GroupReader(
            connection, group, topics, begin_at, interval_ms / 1000, read_committed=read_committed
        )
        connection.group.subscribed(call)

    if before is None:
        join()
    else:
        before.membership.leave(join)


def _poll(call: JsonCall, records_max: int, wait_ms: int, told: Callable[[Record], Facts]) -> None:
    connection = call.connection
    if connection.group is None:
        call.refuse(ErrorCode.UNKNOWN_MEMBER_ID, "this connection is in no group; subscribe first")
        return
    connection.group.poll(Poll(call, records_max, connection.now + wait_ms / 1000, told))


def _commit(call: JsonCall, offsets: Offsets | None) -> None:
    reader = call.connection.group
    if reader is None:
        call.refuse(ErrorCode.UNKNOWN_MEMBER_ID, "this connection is in no group; subscribe first")
        return
    if reader.membership.error is not None:
        call.refuse(*reader.membership.error)
        return
    reader.when_polled(lambda: _commit_now(call, reader, offsets))


def _commit_now(call: JsonCall, reader: GroupReader, offsets: Offsets | None) -> None:
    given = dict(reader.polled) if offsets is None else offsets
    if not given:
        call.answer({"committed": []})
        return

    def committed(outcomes: dict[tuple[str, int], ErrorCode]) -> None:
        told = [
            {"topic": topic, "partition": number, "offset": given[topic, number]}
            | (refusal(error, f"not committed: {_WHY.get(error, error.name)}") if error else {})
            for (topic, number), error in sorted(outcomes.items())
        ]
        failed = next((error for error in outcomes.values() if error), None)
        call.answer({"committed": told} | (refusal(failed, "not everything is committed") if failed else {}))

    reader.membership.commit(given, committed)


def _unsubscribe(call: JsonCall) -> None:
    reader, call.connection.group = call.connection.group, None
    if reader is None:
        call.answer({})
    else:
        reader.membership.leave(lambda: call.answer({"group": reader.membership.group}))


def _rebalances(call: JsonCall, group: str, timeout_ms: int) -> None:
    def read(told: RebalancesTold) -> tuple[Any, ErrorCode]:
        return orjson.loads(told.rebalances) if told.error == ErrorCode.NONE else None, ErrorCode(told.error)

    def then(answer: Any, error: ErrorCode) -> None:
        if error == ErrorCode.NONE:
            call.answer({"group": group, "rebalances": answer})
        elif error == ErrorCode.GROUP_ID_NOT_FOUND:
            call.refuse(error, f"there is no group {group[:300]!r}")
        else:
            call.refuse(error, f"the coordinator of {group[:300]!r} cannot be asked")

    deadline = call.connection.now + timeout_ms / 1000
    AtCoordinator(call.connection, group, TellRebalances(group), deadline, read, then)


SUBSCRIBE = Handler(
    Fields(
        {
            "group": Field(word),
            "topics": Field(_topics),
            "from": Field(one_of({"earliest": EARLIEST, "latest": LATEST}), EARLIEST),
            "isolation": ISOLATION,
            "max_poll_interval_ms": Field(within(1000, _INT32_MAX), POLL_INTERVAL_MS_DEFAULT),
        }
    ),
    _subscribe,
)
POLL = Handler(
    Fields(
        {
            "max_records": Field(within(1, RECORDS_MAX), RECORDS_DEFAULT),
            "wait_ms": Field(within(0, WAIT_MS_MAX), 0),
            "as": Field(one_of({"text": told_record, "json": told_json_record}), told_record),
        }
    ),
    _poll,
)
COMMIT = Handler(Fields({"offsets": Field(_offsets, None)}), _commit)
UNSUBSCRIBE = Handler(Fields({}), _unsubscribe)
REBALANCES = Handler(Fields({"group": Field(word), "timeout_ms": TIMEOUT_MS}), _rebalances)
