"""produce: one record, or many in `records`, to the partitions of a topic.

    {"op":"produce","topic":"orders","key":"k","value":"v"}
    {"op":"produce","topic":"orders","records":[{"key":"k","value":{"total":5}},{"value":null,"partition":3}]}

A record goes to the partition that is given, in it or for all; else to that of its key, as Kafka's own clients have it;
else, with all others of its request, to the next partition that has a leader. What goes to one partition is one batch.
A topic that is missing may be made. With `producer` (from init_producer) and `sequence` (of the first record: 0, and
then as many more as records were sent to that partition) a request may be sent again over any connection.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import field

from actors.messages.replica import ALL
from actors.runtime import Gather
from actors.serving.json.handlers.handler import TIMEOUT_MS
from actors.serving.json.lanes import Batch
from log.slices import called
from protocol.error_codes import ErrorCode
from protocol.json.fields import BadField, Field, Fields, count, one_of, within, word
from protocol.json.lines import Facts, quoted, refusal
from protocol.json.records import NewRecord, read_record
from protocol.late_attrs import define
from protocol.partitioner import partition_for_key
from protocol.records.compression import Codec
from protocol.records.record import Record

if TYPE_CHECKING:
    from actors.serving.json.connection import JsonCall, Served
    from log.machines.metadata.metadata import Topic
    from log.slices import Slices

RECORDS_MAX = 10_000
"""The most records of one request. A fetch gives as many at most."""
PAUSE_AFTER = 100
"""Records that are read, or given a place, without a pause."""
LONG_KEY_BYTES = 256 << 10
"""The hash of a longer key is computed in a LongCall: of a megabyte it takes 80 ms."""
_INT32_MAX = (1 << 31) - 1
_OF_ONE_RECORD = ("key", "value", "headers", "timestamp", "partition")


def _as_it_is(_path: str, value: Any) -> Any:
    return value


_FIELDS = Fields(
    {
        "topic": Field(word),
        "acks": Field(one_of({"all": ALL, -1: ALL, 1: 1, 0: 0}), ALL),
        "compression": Field(one_of({codec.name.lower(): codec for codec in Codec}), Codec.NONE),
        "timeout_ms": TIMEOUT_MS,
        "producer": Field(count, None),
        "sequence": Field(within(0, _INT32_MAX), None),
        **{name: Field(_as_it_is, None) for name in (*_OF_ONE_RECORD, "records")},
    }
)


class _Handler:
    """It differs from other handlers: a field that is null is not a field that was left out."""

    fields = _FIELDS

    def begin(self, call: JsonCall, given: Facts) -> None:
        values = _FIELDS.read(given)
        call.connection.in_slices(_begin(call, given, *values))


def _begin(
    call: JsonCall, given: Facts, name: str, acks: int, codec: Codec, timeout_ms: int, producer: int | None,
    sequence: int | None, *_of_records: object,
) -> Slices[None]:  # fmt: skip
    try:
        new = yield from _records(given)
        _check_own_producer(new, producer, sequence, acks)
    except BadField as error:
        call.refuse(ErrorCode.INVALID_REQUEST, str(error))
        return
    deadline = call.connection.now + timeout_ms / 1000
    produce = _Produce(call, new, "records" in given)
    batch = partial(Batch, acks=acks, codec=codec, deadline=deadline, producer=producer, sequence=sequence or 0)
    call.connection.topic_search.find_or_make(call, name, timeout_ms, partial(produce.begin, batch))


PRODUCE: Served = _Handler()


def _records(given: Facts) -> Slices[list[NewRecord]]:
    if "records" not in given:
        return [read_record("", {name: given[name] for name in _OF_ONE_RECORD if name in given})]
    many = given["records"]
    if not isinstance(many, list) or not many:
        raise BadField(f'records: must be a list, such as [{{"key":"k","value":"v"}}], not {quoted(many)}')
    if len(many) > RECORDS_MAX:
        raise BadField(f"records: has {len(many)}, of which {RECORDS_MAX} are allowed; send several requests")
    for name in _OF_ONE_RECORD[:-1]:
        if name in given:
            raise BadField(f"{name}: belongs into each of the records")
    for_all = {"partition": given["partition"]} if "partition" in given else {}
    made = []
    for at, one in enumerate(many, start=1):
        made.append(read_record(f"records[{at - 1}]", {**for_all, **one} if isinstance(one, dict) else one))
        if at % PAUSE_AFTER == 0:
            yield None
    return made


def _check_own_producer(new: list[NewRecord], producer: int | None, sequence: int | None, acks: int) -> None:
    if (producer is None) != (sequence is None):
        missing = "sequence" if sequence is None else "producer"
        raise BadField(f"{missing}: is missing; producer and sequence belong together")
    if producer is None:
        return
    if acks == 0:
        raise BadField("producer: is of no use with acks 0, which is never sent again")
    if new[0].partition is None or any(one.partition != new[0].partition for one in new):
        raise BadField("producer: needs one partition for all records, since each has sequences of its own")


@define(slots=True, eq=False)
class _Produce:
    """One request until every partition has answered."""

    _call: JsonCall
    _records: list[NewRecord]
    _is_list: bool
    _answers: list[Facts] = field(factory=list)
    _name: str = ""
    _gather: Gather = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._gather = Gather(self._all_written)

    def begin(self, batch: partial[Batch], topic: Topic) -> None:
        self._name = topic.name
        self._call.connection.in_slices(self._send(batch, topic))

    def _send(self, batch: partial[Batch], topic: Topic) -> Slices[None]:
        now = self._call.serving.context.wall_ms()
        records: dict[int, list[Record]] = {}
        places: dict[int, list[int]] = {}
        keyless, there = None, len(topic.partitions)
        for at, new in enumerate(self._records):
            if at % PAUSE_AFTER == 0:
                yield None
            number = new.partition
            if number is None and new.key is not None:
                number = yield from _partition_for(new.key, there)
            elif number is None:
                if keyless is None:
                    keyless = self._call.connection.lanes.next_partition(topic)
                number = keyless
            elif number >= there:
                text = f"topic {topic.name!r} has no partition {number}; it has {there}"
                self._call.refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
                return
            batched = records.setdefault(number, [])
            timestamp = now if new.timestamp is None else new.timestamp
            batched.append(Record(len(batched), timestamp, new.key, new.value, new.headers))
            places.setdefault(number, []).append(at)
        self._answers = [{} for _ in self._records]
        for number, batched in records.items():
            yield None
            self._gather.begin()
            written = partial(self._written, number, places[number])
            self._call.connection.lanes.put(topic, number, batch(batched, written=written))
        self._gather.done()

    def _written(self, number: int, places: list[int], error: int, message: str, base_offset: int) -> None:
        for step, at in enumerate(places):
            if error != ErrorCode.NONE:
                self._answers[at] = {"partition": number, **refusal(error, message)}
            else:
                self._answers[at] = {"partition": number, "offset": base_offset + step if base_offset >= 0 else -1}
        self._gather.done()

    def _all_written(self) -> None:
        if self._is_list:
            failed = next((one for one in self._answers if "error" in one), {})
            error = {"error": failed["error"]} if failed else {}
            self._call.answer({"topic": self._name, "records": self._answers, **error})
        else:
            self._call.answer({"topic": self._name, **self._answers[0]})


def _partition_for(key: bytes, partitions: int) -> Slices[int]:
    if len(key) <= LONG_KEY_BYTES:
        return partition_for_key(key, partitions)
    return (yield from called(lambda: partition_for_key(key, partitions)))
