"""The options of the source and the sink: the stock Kafka connector's names, with its errors.

Names are case-insensitive, as in Spark. `kafka.*` are the configs of Kafka's own clients: some are used, some are
refused because they would break a promise of the source or the sink, and all others have no effect, with a warning. Any
other unknown name is an error, because a misspelt option would change what the query does. All mistakes are in one
OptionError.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from attrs import evolve, frozen

from tools.client.metadata import TopicPartition
from tools.client.offsets import EARLIEST, LATEST
from tools.client.producer import ACKS, CODECS
from tools.spark.errors import OptionError
from tools.spark.positions import ENDS, AtEnd, AtOffsets, AtTime, AtTimes, Position, named_partitions, partition_numbers

T = TypeVar("T")
BOOTSTRAP = "kafka.bootstrap.servers"
ONCE, ONCE_ID, ONCE_BATCH = "exactlyOnce", "exactlyOnceId", "exactlyOnceBatch"
STRATEGIES = ("subscribe", "subscribePattern", "assign")
SOURCE_NAMES = (
    *STRATEGIES,
    "startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy",
    "endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp",
    "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions", "maxRecordsPerPartition",
    "failOnDataLoss", "includeHeaders", "groupIdPrefix", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs",
    "kafkaConsumer.pollTimeoutMs",
)  # fmt: skip
SINK_NAMES = ("topic", ONCE, ONCE_ID, ONCE_BATCH)
CLIENT = "kafka."
_SPARKS = ("path", "checkpointLocation", "queryName")
"""Options of Spark itself, which it passes on."""
READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
_OFFSETS = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TIMES = '{"topicA":{"0":1000,"1":1000},"topicB":{"0":2000}}'
_REFUSED_BY_SOURCE = {
    "kafka.auto.offset.reset": "Instead set the source option 'startingOffsets' to 'earliest' or 'latest'.",
    "kafka.key.deserializer": "Keys are given as binary; use DataFrame operations to deserialize them.",
    "kafka.value.deserializer": "Values are given as binary; use DataFrame operations to deserialize them.",
    "kafka.enable.auto.commit": "Offsets are committed by this source alone, to the group that kafka.group.id names.",
    "kafka.interceptor.classes": "There is no Java that could run them.",
}
_REFUSED_BY_SINK = {
    "kafka.key.serializer": "Keys are written as binary or text; use DataFrame operations to serialize them.",
    "kafka.value.serializer": "Values are written as binary or text; use DataFrame operations to serialize them.",
}
_PLAIN = {"kafka.security.protocol": "PLAINTEXT"}
_USED_BY_SOURCE = frozenset({
    BOOTSTRAP, "kafka.security.protocol", "kafka.client.id", "kafka.isolation.level", "kafka.max.partition.fetch.bytes",
    "kafka.fetch.max.bytes", "kafka.fetch.max.wait.ms", "kafka.check.crcs", "kafka.group.id",
    "kafka.default.api.timeout.ms",
})  # fmt: skip
_USED_BY_SINK = frozenset({
    BOOTSTRAP, "kafka.security.protocol", "kafka.client.id", "kafka.acks", "kafka.compression.type", "kafka.linger.ms",
    "kafka.batch.size", "kafka.delivery.timeout.ms", "kafka.max.block.ms",
})  # fmt: skip
_DURATION = re.compile(r"(\d+)\s*(us|ms|s|sec|second|m|min|minute|h|hour|d|day)?s?")
_SECONDS = {"us": 1e-6, "ms": 0.001, None: 0.001, "s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60,
            "h": 3600, "hour": 3600, "d": 86400, "day": 86400}  # fmt: skip


@frozen
class Selection:
    """The selected partitions, by exactly one of these."""

    topics: frozenset[str] | None = None
    pattern: str | None = None
    partitions: frozenset[TopicPartition] | None = None


@frozen
class Fetch:
    """The settings of a consumer. The same for all tasks of a query, so that they can share consumers."""

    bootstrap: str
    isolation: str = READ_COMMITTED
    partition_bytes: int = 4 << 20
    bytes_max: int = 50 << 20
    wait: float = 0.5
    check_crcs: bool = True
    client_id: str = "barnabas-spark"


@frozen
class SourceOptions:
    fetch: Fetch
    selection: Selection
    starting: Position | None = None
    ending: Position | None = None
    is_latest_where_no_time_matches: bool = False
    rows_max: int | None = None
    rows_min: int | None = None
    trigger_delay_max: float = 15 * 60.0
    tasks_min: int | None = None
    task_rows_max: int | None = None
    fails_on_data_loss: bool = True
    has_headers: bool = False
    group: str | None = None
    offset_retries: int = 3
    offset_retry_interval: float = 0.01
    patience: float = 30.0
    poll_timeout: float = 120.0


@frozen
class MicroBatch:
    """The id of a write, for a sink that writes it exactly once."""

    writer: str
    """The same for all micro-batches of a query into one target, and unique."""
    number: int


@frozen
class SinkOptions:
    bootstrap: str
    topic: str | None = None
    is_exactly_once: bool = False
    acks: str = "all"
    compression: str = "none"
    linger: float = 0.005
    batch_bytes: int = 256 << 10
    delivery: float = 120.0
    block: float = 30.0
    client_id: str = "barnabas-spark"

    @property
    def producer_settings(self) -> dict[str, Any]:
        """The arguments of every producer of a sink."""
        names = ("compression", "linger", "batch_bytes", "delivery", "block", "client_id")
        return {name: getattr(self, name) for name in names}


class Options:
    """Options by their lower-case names, with a reader for each kind of value.

    A reader notes a mistake and returns the default, so that `check` can raise all mistakes at once.
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        self.mistakes: list[str] = []
        self._names = {name.lower(): name for name in given}
        self._given = {name.lower(): value for name, value in given.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._given

    def check(self) -> None:
        """Raise an OptionError with all mistakes, if there are any."""
        if self.mistakes:
            raise OptionError(*self.mistakes)

    def text(self, name: str) -> str | None:
        return self._given.get(name.lower())

    def number(self, name: str, default: int) -> int:
        text = self.text(name)
        if text is None:
            return default
        try:
            return int(text)
        except ValueError:
            self.mistakes.append(f"option '{name}' is a number, not {text!r}")
            return default

    def count(self, name: str) -> int | None:
        """A number from 1 on, if it is given."""
        if name not in self:
            return None
        number = self.number(name, 1)
        if number < 1:
            self.mistakes.append(f"{name} must be positive, not {number}")
            return None
        return number

    def milliseconds(self, name: str, default: float) -> float:
        """In seconds."""
        return self.number(name, 0) / 1000 if name in self else default

    def duration(self, name: str, default: float) -> float:
        text = self.text(name)
        if text is None:
            return default
        found = _DURATION.fullmatch(text.strip().lower())
        if found is None:
            self.mistakes.append(f"option '{name}' is a time like '15m' or '30 seconds', not {text!r}")
            return default
        return int(found[1]) * _SECONDS[found[2]]

    def choice(self, name: str, default: str, choices: Mapping[str, object] | tuple[str, ...]) -> str:
        text = (self.text(name) or default).lower()
        if text not in choices:
            self.mistakes.append(f"option '{name}' is one of {', '.join(choices)}, not {text!r}")
            return default
        return text

    def truth(self, name: str, default: str) -> bool:
        return self.choice(name, default, ("true", "false")) == "true"

    def read(self, read: Callable[[], T], default: T) -> T:
        """The value that a function reads, which raises an OptionError if it is malformed."""
        try:
            return read()
        except OptionError as error:
            self.mistakes += error.mistakes
            return default

    def bootstrap(self) -> str:
        text = self.text(BOOTSTRAP)
        if not text:
            self.mistakes.append(f"Option '{BOOTSTRAP}' must be specified for configuring Kafka consumer and producer")
            return ""
        for one in text.split(","):
            host, colon, port = one.strip().rpartition(":")
            if not colon or not host or not port.isdecimal():
                self.mistakes.append(f"option '{BOOTSTRAP}' is host:port,…, and {one.strip()!r} in it is not")
        return text

    def kafka_names(self) -> set[str]:
        return {name for name in self._given if name.startswith(CLIENT)}

    def must_be_known(self, known: Sequence[str]) -> None:
        """Refuse every name that is neither known, nor a config of Kafka's clients, nor an option of Spark."""
        allowed = {name.lower() for name in (*known, *_SPARKS)}
        self.mistakes += [
            f"option '{name}' is unknown{suggestion(name, known)}"
            for lower, name in self._names.items()
            if lower not in allowed and not lower.startswith(CLIENT)
        ]

    def refuse(self, refused: Mapping[str, str]) -> None:
        for name, instead in refused.items():
            if name in self:
                self.mistakes.append(f"Kafka option '{name.removeprefix(CLIENT)}' is not supported. {instead}")
        for name, only in _PLAIN.items():
            if self.text(name) not in (None, only):
                self.mistakes.append(f"option '{name}' can only be {only}: there is no encryption or authentication")


def suggestion(name: str, known: Sequence[str]) -> str:
    """The known name that an unknown one resembles, as the end of a message."""
    by_lower = {one.lower(): one for one in known}
    close = difflib.get_close_matches(name.lower(), by_lower, 1)
    return f"; did you mean '{by_lower[close[0]]}'?" if close else ""


def unused_by_source(given: Mapping[str, str]) -> list[str]:
    """Configs of Kafka's own clients that have no effect on a source."""
    return sorted(Options(given).kafka_names() - _USED_BY_SOURCE)


def unused_by_sink(given: Mapping[str, str]) -> list[str]:
    return sorted(Options(given).kafka_names() - _USED_BY_SINK)


# -- the source -----------------------------------------------------------------------------------------------------


def stream_options(given: Mapping[str, str]) -> SourceOptions:
    """For a streaming query."""
    options = Options(given)
    made = _source_options(options)
    for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
        if name in options:
            options.mistakes.append(f"{name} is not valid in streaming queries")
    options.check()
    return made


def batch_options(given: Mapping[str, str]) -> SourceOptions:
    """For a batch query."""
    options = Options(given)
    made = _source_options(options)
    starting, ending = made.starting, made.ending
    if starting == AtEnd(LATEST):
        options.mistakes.append("starting offset can't be latest for batch queries on Kafka")
    if ending == AtEnd(EARLIEST):
        options.mistakes.append("ending offset can't be earliest for batch queries on Kafka")
    for option, position, end, name in (
        ("startingOffsets", starting, LATEST, "latest"),
        ("endingOffsets", ending, EARLIEST, "earliest"),
    ):
        if isinstance(position, AtOffsets):
            options.mistakes += [
                f"{option} for {where} can't be {name} for batch queries on Kafka"
                for where, offset in position.offsets.items()
                if offset == end
            ]
    options.check()
    return evolve(made, starting=starting or AtEnd(EARLIEST), ending=ending or AtEnd(LATEST))


def source_options(given: Mapping[str, str]) -> SourceOptions:
    """The options of both kinds of queries."""
    options = Options(given)
    made = _source_options(options)
    options.check()
    return made


def _source_options(options: Options) -> SourceOptions:
    options.must_be_known(SOURCE_NAMES)
    selection = options.read(lambda: _selection(options), Selection())
    options.refuse(_REFUSED_BY_SOURCE)
    rows_min, rows_max = options.count("minOffsetsPerTrigger"), options.count("maxOffsetsPerTrigger")
    if rows_min is not None and rows_max is not None and rows_min > rows_max:
        options.mistakes.append(
            f"The value of minOffsetsPerTrigger({rows_min}) is higher than the maxOffsetsPerTrigger({rows_max})."
        )
    isolation = options.choice("kafka.isolation.level", READ_COMMITTED, (READ_COMMITTED, READ_UNCOMMITTED))
    fetch = Fetch(
        bootstrap=options.bootstrap(),
        isolation=isolation,
        partition_bytes=options.count("kafka.max.partition.fetch.bytes") or 4 << 20,
        bytes_max=options.count("kafka.fetch.max.bytes") or 50 << 20,
        wait=options.milliseconds("kafka.fetch.max.wait.ms", 0.5),
        check_crcs=options.truth("kafka.check.crcs", "true"),
        client_id=options.text("kafka.client.id") or "barnabas-spark",
    )
    strategy = options.choice("startingOffsetsByTimestampStrategy", "error", ("error", "latest"))
    return SourceOptions(
        fetch,
        selection,
        starting=options.read(lambda: _position(options, "starting"), None),
        ending=options.read(lambda: _position(options, "ending"), None),
        is_latest_where_no_time_matches=strategy == "latest",
        rows_max=rows_max,
        rows_min=rows_min,
        trigger_delay_max=options.duration("maxTriggerDelay", 15 * 60.0),
        tasks_min=options.count("minPartitions"),
        task_rows_max=options.count("maxRecordsPerPartition"),
        fails_on_data_loss=options.truth("failOnDataLoss", "true"),
        has_headers=options.truth("includeHeaders", "false"),
        group=options.text("kafka.group.id"),
        offset_retries=options.number("fetchOffset.numRetries", 3),
        offset_retry_interval=options.milliseconds("fetchOffset.retryIntervalMs", 0.01),
        patience=options.milliseconds("kafka.default.api.timeout.ms", 30.0),
        poll_timeout=options.milliseconds("kafkaConsumer.pollTimeoutMs", 120.0),
    )


def _selection(options: Options) -> Selection:
    given = [name for name in STRATEGIES if name in options]
    names = ", ".join(STRATEGIES)
    if not given:
        raise OptionError(f"One of the following options must be specified for Kafka source: {names}.")
    if len(given) > 1:
        raise OptionError(f"Only one of the following options can be specified for Kafka source: {names}.")
    (name,) = given
    text = (options.text(name) or "").strip()
    if name == "assign":
        partitions = named_partitions(name, text)
        if not partitions:
            raise OptionError(f"No topicpartitions to assign as specified value for option 'assign' is {text!r}")
        return Selection(partitions=partitions)
    if name == "subscribe":
        topics = frozenset(topic for part in text.split(",") if (topic := part.strip()))
        if not topics:
            raise OptionError(f"No topics to subscribe to as specified value for option 'subscribe' is {text!r}")
        return Selection(topics=topics)
    if not text:
        raise OptionError(f"Pattern to subscribe is empty as specified value for option 'subscribePattern' is {text!r}")
    try:
        re.compile(text)
    except re.error as error:
        raise OptionError(f"option 'subscribePattern' is a regular expression, and {text!r} is none: {error}") from None
    return Selection(pattern=text)


def _position(options: Options, side: str) -> Position | None:
    """A time that holds for all wins over times, and times over offsets, as with the stock connector."""
    if f"{side}Timestamp" in options:
        time = options.number(f"{side}Timestamp", 0)
        if time < 0:
            raise OptionError(f"option '{side}Timestamp' is in milliseconds since 1970, not {time}")
        return AtTime(time)
    text = options.text(name := f"{side}OffsetsByTimestamp")
    if text is not None:
        times = partition_numbers(name, text, _TIMES)
        for where, time in times.items():
            if time < 0:
                raise OptionError(f"option '{name}' is in milliseconds since 1970, not {time} for {where}")
        return AtTimes(times)
    text = options.text(name := f"{side}Offsets")
    if text is None:
        return None
    if text.strip().lower() in ENDS:
        return AtEnd(ENDS[text.strip().lower()])
    offsets = partition_numbers(name, text, _OFFSETS)
    for where, offset in offsets.items():
        if offset < EARLIEST:
            raise OptionError(f"option '{name}' has offset {offset} for {where}; -2 is earliest, -1 latest")
    return AtOffsets(offsets)


# -- the sink -------------------------------------------------------------------------------------------------------


def stream_sink_options(given: Mapping[str, str]) -> SinkOptions:
    """For a stream."""
    options = Options(given)
    made = _sink_options(options)
    options.mistakes += [
        f"option '{name}' is not for streams: their checkpoints tell micro-batches apart"
        for name in (ONCE_ID, ONCE_BATCH)
        if name in options
    ]
    options.check()
    return made


def named_batch(given: Mapping[str, str]) -> MicroBatch | None:
    """The micro-batch of a batch write; None if it is written at least once."""
    options = Options(given)
    names = [name for name in (ONCE_ID, ONCE_BATCH) if name in options]
    if not is_exactly_once(given):
        if names:
            raise OptionError(f"option '{names[0]}' means nothing without option '{ONCE}' = 'true'")
        return None
    writer = options.text(ONCE_ID)
    number = options.number(ONCE_BATCH, -1)
    options.check()
    if not writer or len(names) < 2:
        raise OptionError(
            f"option '{ONCE}' of a batch write needs options '{ONCE_ID}' (of the query and its target) and "
            f"'{ONCE_BATCH}' (the number that foreachBatch gives): only they tell one write from another"
        )
    if number < 0:
        raise OptionError(f"option '{ONCE_BATCH}' is a number from 0 on, not {number}")
    return MicroBatch(writer, number)


def is_exactly_once(given: Mapping[str, str]) -> bool:
    options = Options(given)
    is_once = options.truth(ONCE, "false")
    options.check()
    return is_once


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """The options of both kinds of writes."""
    options = Options(given)
    made = _sink_options(options)
    options.check()
    return made


def _sink_options(options: Options) -> SinkOptions:
    options.must_be_known(SINK_NAMES)
    options.refuse(_REFUSED_BY_SINK)
    is_once = options.truth(ONCE, "false")
    acks = options.choice("kafka.acks", "all", ACKS)
    if is_once and ACKS[acks] != -1:
        options.mistakes.append(f"option '{ONCE}' needs kafka.acks=all, not {acks}")
    return SinkOptions(
        options.bootstrap(),
        topic=options.text("topic"),
        is_exactly_once=is_once,
        acks=acks,
        compression=options.choice("kafka.compression.type", "none", CODECS),
        linger=options.milliseconds("kafka.linger.ms", 0.005),
        batch_bytes=options.count("kafka.batch.size") or 256 << 10,
        delivery=options.milliseconds("kafka.delivery.timeout.ms", 120.0),
        block=options.milliseconds("kafka.max.block.ms", 30.0),
        client_id=options.text("kafka.client.id") or "barnabas-spark",
    )
