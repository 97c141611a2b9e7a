"""The cluster file: what it may say. All mistakes in it are reported at once.

The tables are walked by hand. A user who mistyped three keys wants three lines, each with the key as the file
spells it and what to do about it; and most of the rules stand between tables (ports, directories, replication
factors), where a converter that turns one value into one type does not help. So a rule is a function from a value
to a complaint, the keys of each table are listed once with their rules, and one walker applies them. Nothing is
coerced: `true` is not 1, `"9092"` is not 9092 and `1.0` is not 1.

A key that was refused is left out of what the walker returns, so a check between keys is made only on good values
and one mistake gives one line. Tables of an array are counted from one: `broker[2]` is the second [[broker]].
What depends on the machine rather than on the text (free ports, writable disks) is in `actors.process.preflight`.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import attrs

from log.settings import unclean
from log.settings.kinds import Whole, shown
from log.settings.table import BROKER_SETTINGS, BROKERS_MAX, PARTITIONS_MAX, broker_field

TOPIC_NAME_CHARS_MAX: Final = 249

Rule = Callable[[object], str | None]  # a value to the complaint about it, None when it is good
Rules = Mapping[str, Rule]
Table = dict[str, Any]  # as tomllib gives it


class ConfigError(Exception):
    """A cluster file that cannot be used; one line for each mistake in it."""

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)
        self.problems: tuple[str, ...] = problems

    def __str__(self) -> str:
        return "\n".join(self.problems)


def problem(file: Path | None, key: str, complaint: str) -> str:
    """The form of every mistake: the file, the key in it, what is wrong and what to do."""
    return ": ".join(part for part in ("" if file is None else str(file), key, complaint) if part)


def text(good: Callable[[str], bool], otherwise: str) -> Rule:
    def check(value: object) -> str | None:
        if not isinstance(value, str):
            return f"expected text in quotes, got {shown(value)}"
        return None if good(value) else f"{shown(value)} {otherwise}"

    return check


def is_host(value: str) -> bool:
    """An IP address or a host name by its syntax; a name whose last label is a number could only be an address."""
    try:
        ip_address(value)
    except ValueError:
        labels = value.removesuffix(".").split(".")
        named = all(re.fullmatch(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)", label) for label in labels)
        return named and len(value) <= 253 and not labels[-1].isdigit()
    return True


def address_in(value: str) -> tuple[str, int] | None:
    """The host and the port of `host:port`, or of `[IPv6 address]:port`; None if it is neither."""
    match = re.fullmatch(r"(?:\[(?P<v6>[^\]]*:[^\]]*)\]|(?P<host>[^:\[\]]+)):(?P<port>[0-9]{1,5})", value)
    if match is None:
        return None
    host, port = match["v6"] or match["host"], int(match["port"])
    return (host, port) if is_host(host) and 1 <= port <= 65535 else None


def is_topic_name(value: str) -> bool:
    return value not in {".", ".."} and re.fullmatch(rf"[a-zA-Z0-9._-]{{1,{TOPIC_NAME_CHARS_MAX}}}", value) is not None


@attrs.frozen
class KafkaConfig:
    """The settings of brokers, by Kafka's names; log/settings/table.py says what each of them is."""

    num_partitions: int = broker_field("num.partitions")
    default_replication_factor: int = broker_field("default.replication.factor")
    min_insync_replicas: int = broker_field("min.insync.replicas")
    auto_create_topics_enable: bool = broker_field("auto.create.topics.enable")
    leader_replication_throttled_rate: int = broker_field("leader.replication.throttled.rate")
    max_partitions: int = broker_field("max.partitions")
    max_connections: int = broker_field("max.connections")
    max_connections_per_ip: int = broker_field("max.connections.per.ip")
    queued_max_request_bytes: int = broker_field("queued.max.request.bytes")
    connections_max_idle_ms: int = broker_field("connections.max.idle.ms")
    disk_reserve_bytes: int = broker_field("disk.reserve.bytes")
    offsets_topic_num_partitions: int = broker_field("offsets.topic.num.partitions")
    offsets_topic_replication_factor: int = broker_field("offsets.topic.replication.factor")
    offset_metadata_max_bytes: int = broker_field("offset.metadata.max.bytes")
    offsets_retention_minutes: int = broker_field("offsets.retention.minutes")
    offsets_retention_check_interval_ms: int = broker_field("offsets.retention.check.interval.ms")
    group_min_session_timeout_ms: int = broker_field("group.min.session.timeout.ms")
    group_max_session_timeout_ms: int = broker_field("group.max.session.timeout.ms")
    group_initial_rebalance_delay_ms: int = broker_field("group.initial.rebalance.delay.ms")
    group_max_size: int = broker_field("group.max.size")
    group_consumer_session_timeout_ms: int = broker_field("group.consumer.session.timeout.ms")
    group_consumer_heartbeat_interval_ms: int = broker_field("group.consumer.heartbeat.interval.ms")
    group_consumer_max_size: int = broker_field("group.consumer.max.size")
    offsets_topic_max_groups_per_partition: int = broker_field("offsets.topic.max.groups.per.partition")
    transaction_state_log_num_partitions: int = broker_field("transaction.state.log.num.partitions")
    transaction_state_log_replication_factor: int = broker_field("transaction.state.log.replication.factor")
    transaction_max_timeout_ms: int = broker_field("transaction.max.timeout.ms")
    transactional_id_expiration_ms: int = broker_field("transactional.id.expiration.ms")
    producer_id_expiration_ms: int = broker_field("producer.id.expiration.ms")
    transaction_remove_expired_transaction_cleanup_interval_ms: int = broker_field(
        "transaction.remove.expired.transaction.cleanup.interval.ms"
    )
    transaction_state_log_max_ids_per_partition: int = broker_field("transaction.state.log.max.ids.per.partition")
    transaction_two_phase_commit_enable: bool = broker_field("transaction.two.phase.commit.enable")
    log_segment_bytes: int | None = broker_field("log.segment.bytes")
    log_roll_ms: int | None = broker_field("log.roll.ms")
    log_roll_hours: int | None = broker_field("log.roll.hours")
    log_index_size_max_bytes: int | None = broker_field("log.index.size.max.bytes")
    log_index_interval_bytes: int | None = broker_field("log.index.interval.bytes")
    log_flush_interval_messages: int | None = broker_field("log.flush.interval.messages")
    log_flush_interval_ms: int | None = broker_field("log.flush.interval.ms")
    log_retention_ms: int | None = broker_field("log.retention.ms")
    log_retention_minutes: int | None = broker_field("log.retention.minutes")
    log_retention_hours: int | None = broker_field("log.retention.hours")
    log_retention_bytes: int | None = broker_field("log.retention.bytes")
    log_retention_check_interval_ms: int = broker_field("log.retention.check.interval.ms")
    log_cleanup_policy: str | None = broker_field("log.cleanup.policy")
    log_cleaner_delete_retention_ms: int | None = broker_field("log.cleaner.delete.retention.ms")
    log_cleaner_min_compaction_lag_ms: int | None = broker_field("log.cleaner.min.compaction.lag.ms")
    log_cleaner_max_compaction_lag_ms: int | None = broker_field("log.cleaner.max.compaction.lag.ms")
    log_cleaner_min_cleanable_ratio: float | None = broker_field("log.cleaner.min.cleanable.ratio")
    message_max_bytes: int | None = broker_field("message.max.bytes")
    log_message_timestamp_type: str | None = broker_field("log.message.timestamp.type")
    log_message_timestamp_before_max_ms: int | None = broker_field("log.message.timestamp.before.max.ms")
    log_message_timestamp_after_max_ms: int | None = broker_field("log.message.timestamp.after.max.ms")
    compression_type: str | None = broker_field("compression.type")
    unclean_leader_election_enable: bool | None = broker_field(unclean.CONFIG)

    def spelled(self) -> dict[str, str]:
        """Every setting that has a value, by Kafka's names, as Kafka writes it."""
        values = {name: getattr(self, setting.name) for name, setting in SETTINGS.items()}
        return {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in values.items()
            if value is not None
        }


@attrs.frozen
class BrokerConfig:
    id: int
    port: int  # 0: any free port
    data_dir: Path  # absolute
    advertised: tuple[str, int] | None = None  # where clients find it, if not where it listens


@attrs.frozen
class TopicConfig:
    name: str
    partitions: int
    replication_factor: int


@attrs.frozen
class ClusterConfig:
    name: str
    host: str
    data_dir: Path  # absolute
    config: KafkaConfig
    brokers: tuple[BrokerConfig, ...]  # as the file orders them
    topics: tuple[TopicConfig, ...]
    file: Path | None = None  # as the user named it, for messages
    given: frozenset[str] | None = None  # the settings that the file names; None for those that are not the default
    log_format: str = "text"

    @property
    def given_settings(self) -> dict[str, str]:
        """What the file sets, by Kafka's names, as Kafka writes it."""
        usual = KafkaConfig().spelled()
        spelled = self.config.spelled()
        given = {name for name in spelled if usual.get(name) != spelled[name]} if self.given is None else self.given
        return {name: text for name, text in spelled.items() if name in given}


SETTINGS: Final[Mapping[str, Any]] = {setting.metadata["name"]: setting for setting in attrs.fields(KafkaConfig)}

_DIRECTORY = text(lambda value: value != "" and "\0" not in value, "is not a path; give a directory")
_CLUSTER: Rules = {
    "name": text(lambda value: value.strip() != "" and value.isprintable(), "is not a name; give a word to print"),
    "host": text(is_host, "is not a host; give an IP address or a host name, without a port"),
    "data_dir": _DIRECTORY,
    "log_format": text(lambda value: value in ("text", "json"), 'is not a format of log lines; give "text" or "json"'),
}
_CLUSTER_DEFAULTS: Final = {"name": "barnabas", "host": "127.0.0.1", "data_dir": "data", "log_format": "text"}
_CONFIG: Rules = {name: BROKER_SETTINGS[name].kind.complaint for name in SETTINGS}
_BROKER: Rules = {
    "id": Whole(0, 2**31 - 1).complaint,
    "port": Whole(0, 65535).complaint,
    "data_dir": _DIRECTORY,
    "advertised": text(
        lambda value: address_in(value) is not None,
        'is not an address; give "host:port", an IPv6 address in brackets, as clients are to dial it',
    ),
}
_BROKER_REQUIRED: Final = {
    "id": "give the broker a number of its own",
    "port": "give the port to listen on, or 0 for a free one",
}
_TOPIC: Rules = {
    "name": text(
        is_topic_name,
        f'is not a topic name; use 1 to {TOPIC_NAME_CHARS_MAX} of a-z, A-Z, 0-9, ".", "_", "-", but not "." or ".."',
    ),
    "partitions": Whole(1, PARTITIONS_MAX).complaint,
    "replication_factor": Whole(1, BROKERS_MAX).complaint,
}
_TOPIC_REQUIRED: Final = {"name": "give the topic a name"}
_NOTHING_REQUIRED: Final[Mapping[str, str]] = {}
_FILE: Final = ("cluster", "config", "broker", "topic")


def load(path: Path) -> ClusterConfig:
    """Reads a cluster file whole, or raises ConfigError with all that is wrong in it."""
    return _Reading(path, _parse(path)).cluster()


def settings_of(values: Mapping[str, object], brokers: int) -> KafkaConfig:
    """The settings of [config] for so many brokers, or ConfigError with all that is wrong in them."""
    reading = _Reading(None, {})
    settings = reading.settings(dict(values), brokers)
    if reading.problems:
        raise ConfigError(*reading.problems)
    return _kafka_config(settings)


def _kafka_config(settings: Table) -> KafkaConfig:
    return KafkaConfig(**{SETTINGS[name].name: value for name, value in settings.items()})


def _parse(path: Path) -> dict[str, Any]:
    def refused(complaint: str) -> ConfigError:
        return ConfigError(problem(path, "", complaint))

    try:
        return tomllib.loads(path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        raise refused("no such file; give the path of a cluster file") from None
    except IsADirectoryError:
        raise refused("is a directory; give the path of a cluster file in it") from None
    except OSError as error:
        raise refused(f"cannot be read ({error.strerror}); give the path of a file you may read") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise refused(f"byte {error.object[error.start]:#04x} in line {line} is not UTF-8; save it as UTF-8") from None
    except RecursionError:
        raise refused("nested too deeply; a cluster file needs only tables of plain values") from None
    except ValueError as error:  # tomllib's own error, and int()'s for a number of thousands of digits
        raise refused(f"not TOML: {error}; correct it there") from None


class _Reading:
    """One walk over one parsed file, which gathers problems as it goes."""

    def __init__(self, file: Path | None, document: dict[str, Any]) -> None:
        self.file = file
        self.document = document
        self.problems: list[str] = []
        self.taken: dict[tuple[str, object], str] = {}  # what must be unique, and its owner

    def cluster(self) -> ClusterConfig:
        self.refuse_unknown("", self.document, _FILE)
        head = self.values("cluster", _CLUSTER_DEFAULTS | self.table("cluster"), _CLUSTER)
        broker_tables = self.tables("broker")
        settings = self.settings(self.table("config"), len(broker_tables))
        brokers = self.brokers(broker_tables, head.get("data_dir"))
        topics = self.topics(self.tables("topic"), settings, len(broker_tables))
        if self.problems:
            raise ConfigError(*self.problems)
        config = _kafka_config(settings)
        data_dir = Path(self.resolved(head["data_dir"]))
        given = frozenset(self.table("config")) & SETTINGS.keys()
        return ClusterConfig(
            head["name"], head["host"], data_dir, config, brokers, topics, self.file, given, head["log_format"]
        )

    def settings(self, raw: Table, brokers: int) -> Table:
        quoted = {name: value for name, value in raw.items() if name in SETTINGS or not isinstance(value, dict)}
        unquoted = list(_dotted({name: value for name, value in raw.items() if name not in quoted}))
        for name in SETTINGS:
            if name in unquoted:
                self.refuse(_under("config", name), "the name has dots; write it in quotes, as here")
        self.refuse_unknown("config", unquoted, SETTINGS)
        defaults = {
            name: setting.default
            for name, setting in SETTINGS.items()
            if name not in unquoted and setting.default is not None
        }
        settings = self.values("config", defaults | quoted, _CONFIG)
        factor = settings.get("default.replication.factor")
        if factor is not None:
            self.check_replicas(_under("config", "default.replication.factor"), factor, brokers)
        return settings

    def brokers(self, tables: Sequence[tuple[str, Table]], data_dir: str | None) -> tuple[BrokerConfig, ...]:
        if self.document.get("broker", []) == []:
            self.refuse("broker", "there is none; add a [[broker]] with an id and a port")
        if len(tables) > BROKERS_MAX:
            self.refuse("broker", f"{len(tables)} brokers are too many; keep at most {BROKERS_MAX}")
        if data_dir is not None:
            self.taken["broker.data_dir", self.resolved(data_dir)] = "the cluster itself"
        brokers = []
        for at, raw in tables:
            values = self.values(at, raw, _BROKER, _BROKER_REQUIRED)
            number, port, own = values.get("id"), values.get("port"), values.get("data_dir")
            advertised = address_in(values["advertised"]) if "advertised" in values else None
            owner = at if number is None else f"broker {number}"
            unique = number is not None and self.claim(at, "id", number, at)
            if port:
                self.claim(at, "port", port, owner)
            if advertised is not None:
                self.claim(at, "advertised", values["advertised"], owner)
            if own is not None:
                directory = self.resolved(own)
            elif data_dir is not None and unique and "data_dir" not in raw:
                directory = self.resolved(data_dir, str(number))
            else:
                continue  # unknown, for a reason that is reported already
            self.claim(at, "data_dir", directory, owner)
            if number is not None and port is not None:
                brokers.append(BrokerConfig(number, port, Path(directory), advertised))
        return tuple(brokers)

    def topics(self, tables: Sequence[tuple[str, Table]], settings: Table, brokers: int) -> tuple[TopicConfig, ...]:
        partitions: int = settings.get("num.partitions", 1)
        replicas: int = settings.get("default.replication.factor", 1)
        topics = []
        for at, raw in tables:
            values = self.values(at, raw, _TOPIC, _TOPIC_REQUIRED)
            if (factor := values.get("replication_factor")) is not None:
                self.check_replicas(f"{at}.replication_factor", factor, brokers)
            if "name" in values:
                self.check_topic_name(at, values["name"])
                topics.append(TopicConfig(values["name"], values.get("partitions", partitions), factor or replicas))
        self.check_partitions(sum(topic.partitions for topic in topics), settings)
        return tuple(topics)

    def check_partitions(self, count: int, settings: Table) -> None:
        most: int = settings.get("max.partitions", BROKER_SETTINGS["max.partitions"].default)
        if count > most:
            complaint = f"together they have {count} partitions; the cluster may have {most} (max.partitions): raise it"
            self.refuse("topic", complaint)

    def check_replicas(self, key: str, factor: int, brokers: int) -> None:
        if 0 < brokers < factor:  # no broker at all is a mistake of its own
            self.refuse(key, f"{factor} is more than the number of brokers ({brokers}); lower it or add brokers")

    def check_topic_name(self, at: str, name: str) -> None:
        """Kafka names metrics after topics, with "." turned into "_", and so lets only one of such a pair exist."""
        if self.claim(at, "name", name, at):
            other = self.taken.setdefault(("metric", name.replace(".", "_")), name)
            if other != name:
                complaint = f'{shown(name)} differs from {shown(other)} only in "." and "_"; rename one of them'
                self.refuse(f"{at}.name", complaint)

    def claim(self, at: str, name: str, value: object, owner: str) -> bool:
        """Claim a value that only one table may have. False, and refused, if an earlier table has it."""
        kind = at.partition("[")[0]
        what = (f"{kind}.{name}", value)
        if what in self.taken:
            complaint = f"{shown(value)} is already taken by {self.taken[what]}; give each {kind} its own {name}"
            self.refuse(f"{at}.{name}", complaint)
            return False
        self.taken[what] = owner
        return True

    def table(self, name: str) -> Table:
        raw = self.document.get(name, {})
        if isinstance(raw, dict):
            return raw
        self.refuse(name, f"expected a table, got {shown(raw)}; write [{name}] with its keys below")
        return {}

    def tables(self, name: str) -> list[tuple[str, Table]]:
        """The tables of an array, each with its place."""
        raw = self.document.get(name, [])
        if isinstance(raw, list) and all(isinstance(table, dict) for table in raw):
            return [(f"{name}[{place}]", table) for place, table in enumerate(raw, start=1)]
        self.refuse(name, f"expected an array of tables, got {shown(raw)}; write [[{name}]], in double brackets")
        return []

    def values(self, at: str, raw: Table, rules: Rules, required: Mapping[str, str] = _NOTHING_REQUIRED) -> Table:
        """The good values of one table."""
        self.refuse_unknown(at, raw, rules)
        good = {}
        for name, rule in rules.items():
            if name in raw:
                if complaint := rule(raw[name]):
                    self.refuse(_under(at, name), complaint)
                else:
                    good[name] = raw[name]
            elif name in required:
                self.refuse(_under(at, name), f"missing; {required[name]}")
        return good

    def refuse_unknown(self, at: str, names: Iterable[str], known: Iterable[str]) -> None:
        spelled = {name: _spelled(name) for name in known}
        for name in names:
            if name not in spelled:
                near = get_close_matches(name.lower(), spelled, n=1)
                choice = f"remove it (known: {', '.join(spelled.values())})"
                remedy = f"did you mean {spelled[near[0]]}?" if near else choice
                self.refuse(_under(at, name), f"unknown; {remedy}")

    def refuse(self, key: str, complaint: str) -> None:
        self.problems.append(problem(self.file, key, complaint))

    def resolved(self, *parts: str) -> str:
        """A path is taken from the file's own directory and through links, so that two names of one place are equal."""
        assert self.file is not None, "only a file has paths"
        return os.path.realpath(self.file.parent.joinpath(*parts))


def _spelled(name: str) -> str:
    """A key as TOML spells it."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else shown(name)


def _under(at: str, name: str) -> str:
    return f"{at}.{_spelled(name)}" if at else _spelled(name)


def _dotted(raw: Table) -> Iterator[str]:
    """The names of the leaves of nested tables, which TOML makes of a dotted name without quotes."""
    pending = list(raw.items())
    while pending:
        name, value = pending.pop(0)
        if isinstance(value, dict) and value:
            pending[:0] = [(f"{name}.{inner}", leaf) for inner, leaf in value.items()]
        else:
            yield name
