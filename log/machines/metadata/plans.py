"""What an operation writes into the metadata log, or why it may not be done. Pure: a controller carries it out.

A request carries an id that its sender made. Its answer is written with what was done, in the same batch, so a request
that comes again (its sender did not get the answer) is answered again and done once. A request without an id is planned
again: it makes no difference the second time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson
from attrs import Factory

from log.machines.metadata import placement
from log.machines.metadata.metadata import INTERNAL_TOPICS, Metadata, PartitionState, Topic
from log.machines.metadata.records import (
    BrokerDraining,
    BrokerRegistered,
    ConfigsSet,
    MetadataRecord,
    MoveEnded,
    PartitionRecovered,
    PartitionRecoveredBeyond,
    PartitionsPlaced,
    ProducerIdsTaken,
    ReplicasMoved,
    RequestDone,
    TopicDropped,
    TopicMade,
)
from log.raft.generation import GENERATIONS_MAX
from log.settings.kinds import InvalidConfig
from log.topic_configs import LISTS, TOPIC_CONFIGS, check, unknown_config
from protocol.error_codes import ErrorCode
from protocol.late_attrs import define, frozen

PARTITIONS_MAX = 10_000
TOPIC_NAME_CHARS_MAX = 249
PRODUCER_IDS_AT_ONCE = 1000
MESSAGE_CHARS_MAX = 1000
Assignment = tuple[tuple[int, ...], ...]
APPEND, SUBTRACT = "append", "subtract"


@frozen(slots=True)
class CreateTopic:
    """-1 partitions or replicas: as many as the cluster's default. An assignment names the replicas instead."""

    request_id: str
    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignment: Assignment = ()
    configs: tuple[tuple[str, ...], ...] = ()
    validate_only: bool = False


@frozen(slots=True)
class DeleteTopic:
    """The topic of this name, or, if that is given, the one with this id, under any name."""

    request_id: str
    name: str
    topic_id: str = ""


@frozen(slots=True)
class CreatePartitions:
    """Let the topic have `count` partitions, more than now."""

    request_id: str
    name: str
    count: int
    assignment: Assignment = ()
    validate_only: bool = False


@frozen(slots=True)
class AlterConfigs:
    """(name, value) sets a config, (name,) takes it back to its default.

    (name, words, APPEND or SUBTRACT) adds words to a list, or takes them out of it. With `replace`, every other
    config goes back to its default too.
    """

    request_id: str
    name: str
    configs: tuple[tuple[str, ...], ...]
    validate_only: bool = False
    replace: bool = False


@frozen(slots=True)
class MoveReplicas:
    """Let these brokers keep a partition, the preferred leader first. None at all cancels a move that is under way."""

    request_id: str
    name: str
    partition: int
    replicas: tuple[int, ...]
    may_change_factor: bool = True


@frozen(slots=True)
class EndMove:
    """The partition's leader reports that its voters are those of this move."""

    request_id: str
    topic_id: str
    partition: int
    move: int
    voters: tuple[int, ...]


@frozen(slots=True)
class RecoverPartition:
    """Accept that what only the other replicas had is lost: the survivors continue without them.

    `generation` is the partition's as the sender saw it, so that a late request gives up nothing more.
    """

    request_id: str
    name: str
    partition: int
    survivors: tuple[int, ...]
    generation: int
    begun: int = 0
    """The latest generation that a survivor has begun."""
    heard: int = 0
    """The latest generation that any reachable replica knows."""


@frozen(slots=True)
class DrainBroker:
    """Move everything away from a broker, and place nothing new on it; or allow that again."""

    request_id: str
    broker: int
    draining: bool


@frozen(slots=True)
class RegisterBroker:
    """A broker registers its directory and the address for clients."""

    request_id: str
    broker: int
    directory: str
    host: str
    port: int


@frozen(slots=True)
class TakeProducerIds:
    """A block of producer ids for one broker to give out."""

    request_id: str


Request = (
    CreateTopic
    | DeleteTopic
    | CreatePartitions
    | AlterConfigs
    | MoveReplicas
    | EndMove
    | DrainBroker
    | RegisterBroker
    | TakeProducerIds
    | RecoverPartition
)


@define(slots=True)
class Circumstances:
    """What a plan needs to know beside the metadata."""

    alive: frozenset[int]
    """Brokers that can be reached."""
    new_topic_id: Callable[[], str]
    partitions_default: int = 1
    replication_factor_default: int = 1
    min_insync_replicas: int = 1
    topic_defaults: Mapping[str, str] = Factory(dict)
    """Configs of topics that have none of their own."""
    partitions_max: int = PARTITIONS_MAX
    """How many partitions all topics may have together, but for those of coordinators."""
    removed: frozenset[int] = frozenset()
    """Brokers that are registered and no longer in the cluster's file: they do not come back."""
    in_sync: Callable[[Topic, int], tuple[int, ...]] = lambda _topic, _number: ()
    """The replicas of a partition that are in sync with its leader; none if it has no leader."""


@define(slots=True)
class Plan:
    """What to write, and what to answer once that is committed."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    warnings: list[str] = Factory(list)
    facts: dict[str, Any] = Factory(dict)
    records: list[MetadataRecord] = Factory(list)

    @property
    def answer(self) -> str:
        value = {"error": self.error, "message": self.message, "warnings": self.warnings, **self.facts}
        return orjson.dumps(value).decode()


class OperationRefused(Exception):
    """The operation may not be done."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


def plan(metadata: Metadata, request: Request, about: Circumstances) -> Plan:
    """What this request comes to."""
    made = Plan()
    try:
        _PLANS[type(request)](metadata, request, about, made)
    except OperationRefused as refusal:
        return Plan(refusal.error, str(refusal)[:MESSAGE_CHARS_MAX])
    if getattr(request, "validate_only", False):
        made.records = []
    elif made.records and request.request_id:
        made.records.append(RequestDone(request.request_id, made.answer))
    return made


# -- topics ------------------------------------------------------------------------------------------------------


def _create_topic(metadata: Metadata, request: CreateTopic, about: Circumstances, made: Plan) -> None:
    _check_name(metadata, request.name)
    configs = dict(_checked_configs(request.configs))
    if request.assignment:
        if request.partitions != -1 or request.replication_factor != -1:
            raise OperationRefused(
                ErrorCode.INVALID_REQUEST, "an assignment says it all; leave out partitions and replication factor"
            )
        count, factor = len(request.assignment), len(request.assignment[0])
    else:
        count = about.partitions_default if request.partitions == -1 else request.partitions
        factor = about.replication_factor_default if request.replication_factor == -1 else request.replication_factor
    _check_count(count)
    _check_room(metadata, request.name, count, about)
    if request.assignment:
        _check_new_partitions(metadata, request.assignment, factor, about)
    replicas = request.assignment or _placed(metadata, count, factor, about)
    topic_id = about.new_topic_id()
    made.warnings += _warnings(metadata, factor, configs, about)
    made.facts = {"topic_id": topic_id, "partitions": len(replicas), "replication_factor": factor}
    made.records = [
        TopicMade(topic_id, request.name, tuple(sorted(configs.items()))),
        PartitionsPlaced(topic_id, 0, replicas),
    ]


def _delete_topic(metadata: Metadata, request: DeleteTopic, _about: Circumstances, made: Plan) -> None:
    topic = _topic_with_id(metadata, request.topic_id) if request.topic_id else _topic(metadata, request.name)
    made.facts = {"topic_id": topic.id, "name": topic.name}
    made.records = [TopicDropped(topic.id)]


def _create_partitions(metadata: Metadata, request: CreatePartitions, about: Circumstances, made: Plan) -> None:
    topic = _topic(metadata, request.name)
    have, factor = len(topic.partitions), len(topic.partitions[0].replicas)
    if request.count <= have:
        raise OperationRefused(
            ErrorCode.INVALID_PARTITIONS, f"topic {topic.name!r} has {have} partitions; they only become more"
        )
    _check_count(request.count)
    _check_room(metadata, topic.name, request.count - have, about)
    if any(partition.moved_from for partition in topic.partitions):
        raise OperationRefused(
            ErrorCode.REASSIGNMENT_IN_PROGRESS, f"topic {topic.name!r} is being moved; wait until it is done"
        )
    if request.assignment:
        if len(request.assignment) != request.count - have:
            text = f"{len(request.assignment)} partitions are assigned; {request.count - have} are new"
            raise OperationRefused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        _check_new_partitions(metadata, request.assignment, factor, about)
        replicas = request.assignment
    else:
        replicas = _placed(metadata, request.count - have, factor, about)
    made.warnings += _warnings(metadata, factor, topic.configs, about)
    made.facts = {"topic_id": topic.id, "first": have, "partitions": request.count}
    made.records = [PartitionsPlaced(topic.id, have, replicas)]


def _alter_configs(metadata: Metadata, request: AlterConfigs, about: Circumstances, made: Plan) -> None:
    topic = _topic(metadata, request.name)
    configs = {} if request.replace else dict(topic.configs)
    for config in request.configs:
        if len(config) == 1:
            _known_config(config[0], topic.configs)
            configs.pop(config[0], None)
        elif len(config) == 3 and config[2] in (APPEND, SUBTRACT):
            words = _changed_words(config[0], config[1], config[2], configs, about)
            configs.update(_checked_configs(((config[0], words),)))
        else:
            configs.update(_checked_configs((config,)))
    made.warnings += _warnings(metadata, len(topic.partitions[0].replicas), configs, about)
    made.facts = {"configs": configs}
    if configs != topic.configs:
        made.records = [ConfigsSet(topic.id, tuple(sorted(configs.items())))]


def _known_config(name: str, configs: Mapping[str, str]) -> None:
    if name not in configs and name not in TOPIC_CONFIGS:
        raise OperationRefused(ErrorCode.INVALID_CONFIG, unknown_config(name))


def _changed_words(name: str, given: str, change: str, configs: Mapping[str, str], about: Circumstances) -> str:
    """The value of a list once these words are added to it or taken out of it."""
    _known_config(name, configs)
    if name not in LISTS:
        raise OperationRefused(ErrorCode.INVALID_CONFIG, f"{name} is no list; set it to a value instead")
    words = _words(configs.get(name, about.topic_defaults.get(name, LISTS[name])))
    if change == APPEND:
        words += [word for word in _words(given) if word not in words]
    else:
        words = [word for word in words if word not in _words(given)]
    return ",".join(words)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")] if text.strip() else []


# -- moves -------------------------------------------------------------------------------------------------------


def _move_replicas(metadata: Metadata, request: MoveReplicas, about: Circumstances, made: Plan) -> None:
    topic = _topic(metadata, request.name)
    partition = _partition(topic, request.partition)
    if not request.replicas:
        if not partition.moved_from:
            text = f"{topic.name}-{request.partition} is not being moved"
            raise OperationRefused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, text)
        if partition.replicas != partition.settled:
            made.records = [ReplicasMoved(topic.id, request.partition, partition.settled)]
        return
    _check_assignment(metadata, (request.replicas,), len(request.replicas))
    _check_draining(metadata, set(request.replicas) - set(partition.replicas))
    factor = len(partition.settled or partition.replicas)
    if not request.may_change_factor and len(request.replicas) != factor:
        text = f"{topic.name}-{request.partition} has {factor} replicas, and {len(request.replicas)} are given"
        raise OperationRefused(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    missing = [broker for broker in request.replicas if broker not in partition.keepers and broker not in about.alive]
    if missing:
        raise OperationRefused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"broker {missing[0]} cannot be reached; start it, then move"
        )
    made.warnings += _warnings(metadata, len(request.replicas), topic.configs, about)
    if request.replicas != partition.replicas:
        made.records = [ReplicasMoved(topic.id, request.partition, request.replicas)]


def _end_move(metadata: Metadata, request: EndMove, _about: Circumstances, made: Plan) -> None:
    topic = _topic_with_id(metadata, request.topic_id)
    partition = _partition(topic, request.partition)
    if not partition.moved_from:
        return
    if request.move != partition.moves:
        text = f"that was move {request.move}; now it is move {partition.moves}"
        raise OperationRefused(ErrorCode.REASSIGNMENT_IN_PROGRESS, text)
    if sorted(request.voters) != sorted(partition.replicas):
        text = f"{sorted(request.voters)} vote; {sorted(partition.replicas)} are assigned"
        raise OperationRefused(ErrorCode.REASSIGNMENT_IN_PROGRESS, text)
    made.records = [MoveEnded(topic.id, request.partition)]


def _recover_partition(metadata: Metadata, request: RecoverPartition, about: Circumstances, made: Plan) -> None:
    topic = _topic(metadata, request.name)
    partition = _partition(topic, request.partition)
    name = f"{topic.name}-{request.partition}"
    if request.generation != partition.generation:
        text = f"{name} has generation {partition.generation}, not {request.generation}; look at its replicas again"
        raise OperationRefused(ErrorCode.INVALID_REQUEST, text)
    latest = max(partition.generation, request.begun, request.heard)
    if latest >= GENERATIONS_MAX:
        text = f"{name} was recovered {latest} times and cannot be recovered again; copy it to a new topic"
        raise OperationRefused(ErrorCode.INVALID_REQUEST, text)
    if len(about.in_sync(topic, request.partition)) >= placement.majority(partition.factor):
        raise OperationRefused(
            ErrorCode.ELECTION_NOT_NEEDED, f"{name} has a leader and a majority; nothing has to be given up"
        )
    survivors = request.survivors
    if not survivors or len(set(survivors)) != len(survivors):
        raise OperationRefused(ErrorCode.INVALID_REQUEST, f"{list(survivors)} are not one or more different survivors")
    for broker in survivors:
        if broker not in partition.keepers:
            text = f"broker {broker} keeps no replica of {name}; name some of {sorted(partition.keepers)}"
            raise OperationRefused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        if broker not in about.alive:
            text = f"broker {broker} cannot be reached; start it, or leave it out and lose what only it has"
            raise OperationRefused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    made.facts = {"generation": latest + 1, "survivors": list(survivors)}
    if latest == partition.generation:
        made.records = [PartitionRecovered(topic.id, request.partition, survivors)]
    else:
        made.records = [PartitionRecoveredBeyond(topic.id, request.partition, survivors, latest + 1, request.begun)]


def _drain_broker(metadata: Metadata, request: DrainBroker, about: Circumstances, made: Plan) -> None:
    known = metadata.brokers.get(request.broker)
    if known is None:
        raise OperationRefused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no broker {request.broker}")
    if known.draining != request.draining:
        made.records.append(BrokerDraining(request.broker, request.draining))
    if not request.draining:
        return
    load = placement.Load.of(metadata)
    brokers = [broker for broker in _brokers_to_move_to(metadata, about) if broker != request.broker]
    everything = list(metadata.partitions())
    under_way = {at for at, (_, _, partition) in enumerate(everything) if partition.moved_from}
    after = placement.drain(load, brokers, [one.replicas for _, _, one in everything], request.broker, under_way)
    for (topic, number, partition), replicas in zip(everything, after, strict=True):
        if request.broker in replicas:
            raise OperationRefused(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"{topic.name}-{number} has {len(partition.replicas)} replicas and no broker is left to take the one "
                f"of broker {request.broker}; add a broker, or give the topic fewer replicas",
            )
        if replicas != partition.replicas:
            made.records.append(ReplicasMoved(topic.id, number, replicas))
    made.facts = {"moves": sum(1 for record in made.records if isinstance(record, ReplicasMoved))}


# -- brokers -----------------------------------------------------------------------------------------------------


def _register_broker(metadata: Metadata, request: RegisterBroker, _about: Circumstances, made: Plan) -> None:
    known = metadata.brokers.get(request.broker)
    new = (request.directory, request.host, request.port)
    if known is None or (known.directory, known.host, known.port) != new:
        made.records = [BrokerRegistered(request.broker, *new)]


def _take_producer_ids(metadata: Metadata, _request: TakeProducerIds, _about: Circumstances, made: Plan) -> None:
    first = metadata.next_producer_id
    made.facts = {"first": first, "count": PRODUCER_IDS_AT_ONCE}
    made.records = [ProducerIdsTaken(first + PRODUCER_IDS_AT_ONCE)]


# -- rules -------------------------------------------------------------------------------------------------------


def topic_name_problem(name: str) -> str | None:
    """What is wrong with this name of a topic, if anything is."""
    if name in {".", ".."} or not re.fullmatch(rf"[a-zA-Z0-9._-]{{1,{TOPIC_NAME_CHARS_MAX}}}", name):
        return (
            f"{name[:300]!r} is not a topic name; use 1 to {TOPIC_NAME_CHARS_MAX} of a-z, A-Z, 0-9, '.', '_', '-', but "
            "not '.' or '..'"
        )
    if name == "__cluster_metadata":
        return f"{name!r} is the cluster's own; choose another name"
    return None


def _check_name(metadata: Metadata, name: str) -> None:
    problem = topic_name_problem(name)
    if problem is not None:
        raise OperationRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if metadata.topic(name) is not None:
        raise OperationRefused(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} exists")
    alike = name.replace(".", "_")
    for topic in metadata.topics.values():
        if topic.name.replace(".", "_") == alike:
            text = f"{name!r} differs from topic {topic.name!r} only in '.' and '_'; choose another name"
            raise OperationRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, text)


def _check_count(count: int) -> None:
    if not 1 <= count <= PARTITIONS_MAX:
        raise OperationRefused(
            ErrorCode.INVALID_PARTITIONS, f"{count} partitions are out of range; give 1 to {PARTITIONS_MAX}"
        )


def _check_room(metadata: Metadata, name: str, more: int, about: Circumstances) -> None:
    """Every partition costs each of its brokers files, memory and an election. Coordinators get theirs in any case."""
    if name in INTERNAL_TOPICS:
        return
    topics = (topic for topic in metadata.topics.values() if topic.name not in INTERNAL_TOPICS)
    have = sum(len(topic.partitions) for topic in topics)
    if have + more > about.partitions_max:
        text = (
            f"the cluster has {have} partitions and may have {about.partitions_max}, so {more} more are too many; "
            "delete topics, or raise max.partitions in cluster.toml"
        )
        raise OperationRefused(ErrorCode.POLICY_VIOLATION, text)


def _placed(metadata: Metadata, count: int, factor: int, about: Circumstances) -> Assignment:
    """Replicas of new partitions: on brokers that are alive, and where these are too few on those that are down."""
    usable = [one.broker for one in metadata.brokers.values() if not one.draining and one.broker not in about.removed]
    if not 1 <= factor <= len(usable):
        text = f"replication factor {factor} with {len(usable)} brokers to place on; give 1 to {len(usable)}"
        raise OperationRefused(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    alive = [broker for broker in usable if broker in about.alive]
    down = [broker for broker in usable if broker not in about.alive]
    if len(alive) < placement.majority(factor):
        text = f"replication factor {factor} needs {placement.majority(factor)} brokers alive; {_are_down(down)}"
        raise OperationRefused(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    return placement.place(placement.Load.of(metadata), alive, count, factor, down)


def _are_down(brokers: Iterable[int]) -> str:
    return f"start the brokers that are down ({', '.join(map(str, sorted(brokers)))}), then try again"


def _check_new_partitions(metadata: Metadata, assignment: Assignment, factor: int, about: Circumstances) -> None:
    """Partitions that are made now must find a leader now, so a majority of each one's replicas has to be alive."""
    _check_assignment(metadata, assignment, factor)
    _check_draining(metadata, {broker for replicas in assignment for broker in replicas})
    for replicas in assignment:
        down = [broker for broker in replicas if broker not in about.alive]
        if len(replicas) - len(down) < placement.majority(len(replicas)):
            text = f"too few of {list(replicas)} are alive to elect a leader; {_are_down(down)}"
            raise OperationRefused(ErrorCode.INVALID_REPLICATION_FACTOR, text)


def _check_assignment(metadata: Metadata, assignment: Assignment, factor: int) -> None:
    for replicas in assignment:
        unknown = [broker for broker in replicas if broker not in metadata.brokers]
        if unknown:
            raise OperationRefused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"there is no broker {unknown[0]}")
        if len(set(replicas)) != len(replicas) or len(replicas) != factor or not replicas:
            text = f"{list(replicas)} are not {factor} different brokers"
            raise OperationRefused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)


def _check_draining(metadata: Metadata, newcomers: set[int]) -> None:
    """What is being emptied gets nothing new, also by name."""
    for broker in sorted(newcomers):
        if metadata.brokers[broker].draining:
            text = f"broker {broker} is being drained; choose another, or end its draining first"
            raise OperationRefused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)


def _checked_configs(configs: tuple[tuple[str, ...], ...]) -> list[tuple[str, str]]:
    checked = []
    for config in configs:
        if len(config) != 2:
            raise OperationRefused(ErrorCode.INVALID_CONFIG, f"{config!r} is not a name and its value")
        try:
            checked.append((config[0], check(*config)))
        except InvalidConfig as error:
            raise OperationRefused(ErrorCode.INVALID_CONFIG, str(error)) from None
    return checked


def _warnings(metadata: Metadata, factor: int, configs: dict[str, str], about: Circumstances) -> list[str]:
    """Choices that tolerate no failure are allowed, and said to be such."""
    min_insync = int(configs.get("min.insync.replicas", about.min_insync_replicas))
    warnings = []
    if factor == 1 and len(metadata.brokers) > 1:
        warnings.append("replication factor 1 tolerates no failure: what its only broker loses is lost; take 3")
    elif factor == 2:
        warnings.append("replication factor 2 tolerates no failure: without both replicas nothing is committed; take 3")
    elif min_insync >= factor > 1:
        warnings.append(
            f"min.insync.replicas {min_insync} of {factor} replicas tolerates no failure of acks=all writes"
        )
    return warnings


def _brokers_to_move_to(metadata: Metadata, about: Circumstances) -> list[int]:
    return sorted(one.broker for one in metadata.brokers.values() if one.broker in about.alive and not one.draining)


def _topic(metadata: Metadata, name: str) -> Topic:
    topic = metadata.topic(name)
    if topic is None:
        raise OperationRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name[:300]!r}")
    return topic


def _topic_with_id(metadata: Metadata, topic_id: str) -> Topic:
    topic = metadata.topics.get(topic_id)
    if topic is None:
        raise OperationRefused(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with id {topic_id[:300]}")
    return topic


def _partition(topic: Topic, number: int) -> PartitionState:
    if not 0 <= number < len(topic.partitions):
        raise OperationRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic.name!r} has no partition {number}")
    return topic.partitions[number]


_PLANS: dict[type, Callable[[Metadata, Any, Circumstances, Plan], None]] = {
    CreateTopic: _create_topic,
    DeleteTopic: _delete_topic,
    CreatePartitions: _create_partitions,
    AlterConfigs: _alter_configs,
    MoveReplicas: _move_replicas,
    EndMove: _end_move,
    DrainBroker: _drain_broker,
    RegisterBroker: _register_broker,
    TakeProducerIds: _take_producer_ids,
    RecoverPartition: _recover_partition,
}
