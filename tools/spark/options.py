"""What a user may say about a source or a sink: the stock Kafka connector's options, by its names and with its errors.

Names are compared without regard to case, as Spark does. `kafka.*` are the configs of Kafka's own clients; those that
mean something to ours are used, those that would break a promise are refused, and of the others it is said that they
mean nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attrs import evolve, frozen

from tools.client.metadata import TopicPartition
from tools.client.offsets import EARLIEST, LATEST
from tools.client.producer import ACKS, CODECS
from tools.spark.errors import OptionError
from tools.spark.positions import ENDS, AtEnd, AtOffsets, AtTime, AtTimes, Position, named_partitions, partition_numbers

BOOTSTRAP = "kafka.bootstrap.servers"
ONCE, ONCE_ID, ONCE_BATCH = "exactlyOnce", "exactlyOnceId", "exactlyOnceBatch"
STRATEGIES = ("subscribe", "subscribePattern", "assign")
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
    "kafka.batch.size", "kafka.delivery.timeout.ms",
})  # fmt: skip
_DURATION = re.compile(r"(\d+)\s*(us|ms|s|sec|second|m|min|minute|h|hour|d|day)?s?")
_SECONDS = {"us": 1e-6, "ms": 0.001, None: 0.001, "s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60,
            "h": 3600, "hour": 3600, "d": 86400, "day": 86400}  # fmt: skip


@frozen
class Selection:
    """Which partitions: exactly one of the three is given."""

    topics: frozenset[str] | None = None
    pattern: str | None = None
    partitions: frozenset[TopicPartition] | None = None


@frozen
class Fetch:
    """How records are fetched. The same for every task of a query, so that they can share consumers."""

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
    patience: float = 60.0
    poll_timeout: float = 120.0


@frozen
class MicroBatch:
    """Which write it is, for a sink that shall do it once."""

    writer: str
    """Of all micro-batches of a query into a target, and of no others."""
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
    client_id: str = "barnabas-spark"

    @property
    def producer_settings(self) -> dict[str, Any]:
        """Arguments of every producer, whatever it promises."""
        names = ("compression", "linger", "batch_bytes", "delivery", "client_id")
        return {name: getattr(self, name) for name in names}


class Options:
    """Options by their lower-case names; each is read with what it must be."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._given

    def text(self, name: str) -> str | None:
        return self._given.get(name.lower())

    def number(self, name: str, default: int) -> int:
        text = self.text(name)
        if text is None:
            return default
        try:
            return int(text)
        except ValueError:
            raise OptionError(f"option '{name}' is a number, not {text!r}") from None

    def count(self, name: str) -> int | None:
        """A number from 1 on, if it is given."""
        if name not in self:
            return None
        number = self.number(name, 1)
        if number < 1:
            raise OptionError(f"{name} must be positive, not {number}")
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
            raise OptionError(f"option '{name}' is a time like '15m' or '30 seconds', not {text!r}")
        return int(found[1]) * _SECONDS[found[2]]

    def choice(self, name: str, default: str, choices: Mapping[str, object] | tuple[str, ...]) -> str:
        text = (self.text(name) or default).lower()
        if text not in choices:
            raise OptionError(f"option '{name}' is one of {', '.join(choices)}, not {text!r}")
        return text

    def truth(self, name: str, default: str) -> bool:
        return self.choice(name, default, ("true", "false")) == "true"

    def bootstrap(self) -> str:
        text = self.text(BOOTSTRAP)
        if not text:
            raise OptionError(f"Option '{BOOTSTRAP}' must be specified for configuring Kafka consumer and producer")
        for one in text.split(","):
            host, colon, port = one.strip().rpartition(":")
            if not colon or not host or not port.isdecimal():
                raise OptionError(f"option '{BOOTSTRAP}' is host:port,…, and {one.strip()!r} in it is not")
        return text

    def kafka_names(self) -> set[str]:
        return {name for name in self._given if name.startswith("kafka.")}

    def refuse(self, refused: Mapping[str, str]) -> None:
        for name, instead in refused.items():
            if name in self:
                raise OptionError(f"Kafka option '{name.removeprefix('kafka.')}' is not supported. {instead}")
        for name, only in _PLAIN.items():
            if self.text(name) not in (None, only):
                raise OptionError(f"option '{name}' can only be {only}: this source speaks to trusted networks")


def unused_by_source(given: Mapping[str, str]) -> list[str]:
    """Configs of Kafka's own clients that mean nothing to a source."""
    return sorted(Options(given).kafka_names() - _USED_BY_SOURCE)


def unused_by_sink(given: Mapping[str, str]) -> list[str]:
    return sorted(Options(given).kafka_names() - _USED_BY_SINK)


# -- the source -----------------------------------------------------------------------------------------------------


def stream_options(given: Mapping[str, str]) -> SourceOptions:
    """For a streaming query."""
    options = Options(given)
    for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
        if name in options:
            raise OptionError(f"{name} is not valid in streaming queries")
    return source_options(given)


def batch_options(given: Mapping[str, str]) -> SourceOptions:
    """For a batch query."""
    options = source_options(given)
    starting, ending = options.starting, options.ending
    if starting == AtEnd(LATEST):
        raise OptionError("starting offset can't be latest for batch queries on Kafka")
    if ending == AtEnd(EARLIEST):
        raise OptionError("ending offset can't be earliest for batch queries on Kafka")
    for option, position, end, name in (
        ("startingOffsets", starting, LATEST, "latest"),
        ("endingOffsets", ending, EARLIEST, "earliest"),
    ):
        if isinstance(position, AtOffsets):
            for where, offset in position.offsets.items():
                if offset == end:
                    raise OptionError(f"{option} for {where} can't be {name} for batch queries on Kafka")
    return evolve(options, starting=starting or AtEnd(EARLIEST), ending=ending or AtEnd(LATEST))


def source_options(given: Mapping[str, str]) -> SourceOptions:
    """What both kinds of queries have in common."""
    options = Options(given)
    selection = _selection(options)
    options.refuse(_REFUSED_BY_SOURCE)
    rows_min, rows_max = options.count("minOffsetsPerTrigger"), options.count("maxOffsetsPerTrigger")
    if rows_min is not None and rows_max is not None and rows_min > rows_max:
        raise OptionError(
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
        starting=_position(options, "starting"),
        ending=_position(options, "ending"),
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
        patience=options.milliseconds("kafka.default.api.timeout.ms", 60.0),
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
    for name in (ONCE_ID, ONCE_BATCH):
        if name in Options(given):
            raise OptionError(f"option '{name}' is not for streams: their checkpoints tell micro-batches apart")
    return sink_options(given)


def named_batch(given: Mapping[str, str]) -> MicroBatch | None:
    """Which micro-batch a batch write is; None if it is written at least once."""
    options = Options(given)
    names = [name for name in (ONCE_ID, ONCE_BATCH) if name in options]
    if not is_exactly_once(given):
        if names:
            raise OptionError(f"option '{names[0]}' means nothing without option '{ONCE}' = 'true'")
        return None
    writer = options.text(ONCE_ID)
    number = options.number(ONCE_BATCH, -1)
    if not writer or len(names) < 2:
        raise OptionError(
            f"option '{ONCE}' of a batch write needs options '{ONCE_ID}' (of the query and its target) and "
            f"'{ONCE_BATCH}' (the number that foreachBatch gives): only they tell one write from another"
        )
    if number < 0:
        raise OptionError(f"option '{ONCE_BATCH}' is a number from 0 on, not {number}")
    return MicroBatch(writer, number)


def is_exactly_once(given: Mapping[str, str]) -> bool:
    return Options(given).truth(ONCE, "false")


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """What both kinds of writes have in common."""
    options = Options(given)
    options.refuse(_REFUSED_BY_SINK)
    is_once = is_exactly_once(given)
    acks = options.choice("kafka.acks", "all", ACKS)
    if is_once and ACKS[acks] != -1:
        raise OptionError(f"option '{ONCE}' needs kafka.acks=all, not {acks}")
    return SinkOptions(
        options.bootstrap(),
        topic=options.text("topic"),
        is_exactly_once=is_once,
        acks=acks,
        compression=options.choice("kafka.compression.type", "none", CODECS),
        linger=options.milliseconds("kafka.linger.ms", 0.005),
        batch_bytes=options.count("kafka.batch.size") or 256 << 10,
        delivery=options.milliseconds("kafka.delivery.timeout.ms", 120.0),
        client_id=options.text("kafka.client.id") or "barnabas-spark",
    )
