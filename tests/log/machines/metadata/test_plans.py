"""What operations write, and why they may not be done."""

from __future__ import annotations

from collections import Counter

import orjson
import pytest
from attrs import evolve

from log.machines.metadata.plans import (
    APPEND,
    MESSAGE_CHARS_MAX,
    PARTITIONS_MAX,
    PRODUCER_IDS_AT_ONCE,
    SUBTRACT,
    TOPIC_NAME_CHARS_MAX,
    AlterConfigs,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    DrainBroker,
    EndMove,
    MoveReplicas,
    RegisterBroker,
    Request,
    TakeProducerIds,
)
from log.machines.metadata.records import (
    BrokerDraining,
    BrokerRegistered,
    ConfigsSet,
    MoveEnded,
    PartitionsPlaced,
    ProducerIdsTaken,
    ReplicasMoved,
    RequestDone,
    TopicDropped,
    TopicMade,
)
from protocol.error_codes import ErrorCode
from tests.log.machines.clusters import Cluster, cluster, registered, written

ONE = "replication factor 1 tolerates no failure: what its only broker loses is lost; take 3"
TWO = "replication factor 2 tolerates no failure: without both replicas nothing is committed; take 3"


def topic_id(of: Cluster, name: str = "orders") -> str:
    topic = of.metadata.topic(name)
    assert topic is not None
    return topic.id


# -- topics ------------------------------------------------------------------------------------------------------


def test_a_topic_is_made_with_its_partitions_and_configs() -> None:
    made = cluster(3).plan(CreateTopic, "orders", 2, 3, configs=(("segment.ms", "7"), ("retention.ms", "5")))
    topic = made.facts["topic_id"]
    assert written(made) == [
        TopicMade(topic, "orders", (("retention.ms", "5"), ("segment.ms", "7"))),
        PartitionsPlaced(topic, 0, ((1, 2, 3), (2, 3, 1))),
    ]
    assert made.facts == {"topic_id": topic, "partitions": 2, "replication_factor": 3}
    assert made.warnings == []


def test_what_a_topic_does_not_say_is_the_clusters_default() -> None:
    of = cluster(3)
    of.about = evolve(of.about, partitions_default=4, replication_factor_default=3)
    assert of.ask(CreateTopic, "orders").facts["partitions"] == 4
    assert len(of.partition().replicas) == 3
    assert of.ask(CreateTopic, "audit", 1).facts["replication_factor"] == 3
    assert of.ask(CreateTopic, "views", replication_factor=1).facts["partitions"] == 4


def test_an_assignment_says_who_keeps_what() -> None:
    of = cluster(3)
    made = of.ask(CreateTopic, "orders", assignment=((3, 1), (1, 2), (2, 3)))
    assert made.facts == {"topic_id": topic_id(of), "partitions": 3, "replication_factor": 2}
    assert [of.partition(number=number).replicas for number in range(3)] == [(3, 1), (1, 2), (2, 3)]


def test_brokers_that_are_alive_and_not_drained_get_something_new_first() -> None:
    of = cluster(4)
    of.about = evolve(of.about, alive=frozenset({1, 2, 3, 9}))
    of.ask(DrainBroker, 2, True)
    of.ask(CreateTopic, "orders", 2, 2)
    assert [of.partition(number=number).replicas for number in range(2)] == [(1, 3), (3, 1)]
    of.ask(CreateTopic, "audit", 3, 3)
    assert [of.partition("audit", number).replicas for number in range(3)] == [(1, 3, 4), (3, 1, 4), (1, 3, 4)]
    assert of.refusal(CreateTopic, "views", 1, 4) == (
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "replication factor 4 with 3 brokers to place on; give 1 to 3",
    )


def test_a_topic_needs_a_majority_of_its_replicas_alive_and_the_refusal_names_the_brokers_that_are_down() -> None:
    of = cluster(5)
    of.about = evolve(of.about, alive=frozenset({2, 4}))
    of.ask(CreateTopic, "orders", 1, 3)
    assert of.partition().replicas == (2, 4, 1)
    of.ask(CreatePartitions, "orders", 2)
    assert of.partition(number=1).replicas == (4, 2, 3)
    refusal = (
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "replication factor 4 needs 3 brokers alive; start the brokers that are down (1, 3, 5), then try again",
    )
    assert of.refusal(CreateTopic, "audit", 1, 4) == refusal
    of.about = evolve(of.about, alive=frozenset({2}))
    assert of.refusal(CreatePartitions, "orders", 3)[0] == ErrorCode.INVALID_REPLICATION_FACTOR
    assert of.ask(CreateTopic, "views", 1, 1).error == ErrorCode.NONE


def test_an_assignment_needs_a_majority_alive_too() -> None:
    of = cluster(3)
    of.about = evolve(of.about, alive=frozenset({1, 2}))
    assert of.ask(CreateTopic, "orders", assignment=((3, 1, 2), (1, 2, 3))).error == ErrorCode.NONE
    assert of.partition().replicas == (3, 1, 2)
    for operation, arguments in ((CreateTopic, ("audit",)), (CreatePartitions, ("views", 2))):
        of.ask(CreateTopic, "views", 1, 2)
        assert of.refusal(operation, *arguments, assignment=((1, 3),)) == (
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "too few of [1, 3] are alive to elect a leader; start the brokers that are down (3), then try again",
        )


def test_a_broker_that_the_file_no_longer_names_gets_nothing() -> None:
    of = cluster(4)
    of.about = evolve(of.about, alive=frozenset({1, 2}), removed=frozenset({3}))
    of.ask(CreateTopic, "orders", 1, 3)
    assert of.partition().replicas == (1, 2, 4)
    assert of.refusal(CreateTopic, "audit", 1, 4) == (
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "replication factor 4 with 3 brokers to place on; give 1 to 3",
    )


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "x" * TOPIC_NAME_CHARS_MAX, "__consumer_offsets"])
def test_names_that_are_good(name: str) -> None:
    assert cluster(1).plan(CreateTopic, name, 1, 1).error == ErrorCode.NONE


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a b", "a/b", "ä", "a\n", "a\x00", "a:b", "x" * (TOPIC_NAME_CHARS_MAX + 1), "\ud800", "٣"]
)
def test_names_that_are_not(name: str) -> None:
    assert cluster(1).refusal(CreateTopic, name, 1, 1) == (
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        f"{name!r} is not a topic name; use 1 to 249 of a-z, A-Z, 0-9, '.', '_', '-', but not '.' or '..'",
    )


def test_a_name_that_is_taken_or_as_good_as_taken() -> None:
    of = cluster(1)
    of.ask(CreateTopic, "a.b", 1, 1)
    assert of.refusal(CreateTopic, "a.b", 1, 1) == (ErrorCode.TOPIC_ALREADY_EXISTS, "topic 'a.b' exists")
    assert of.refusal(CreateTopic, "a_b", 1, 1) == (
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        "'a_b' differs from topic 'a.b' only in '.' and '_'; choose another name",
    )
    of.ask(DeleteTopic, "a.b")
    assert of.plan(CreateTopic, "a_b", 1, 1).error == ErrorCode.NONE


@pytest.mark.parametrize("count", [0, -2, PARTITIONS_MAX + 1])
def test_counts_that_are_out_of_range(count: int) -> None:
    expected = (ErrorCode.INVALID_PARTITIONS, f"{count} partitions are out of range; give 1 to 10000")
    assert cluster(1).refusal(CreateTopic, "orders", count, 1) == expected


def test_an_assignment_is_no_way_to_more_partitions() -> None:
    error, _ = cluster(1).refusal(CreateTopic, "orders", assignment=((1,),) * (PARTITIONS_MAX + 1))
    assert error == ErrorCode.INVALID_PARTITIONS
    assert cluster(1).plan(CreateTopic, "orders", PARTITIONS_MAX, 1).facts["partitions"] == PARTITIONS_MAX


def test_all_topics_together_have_so_many_partitions_and_no_more() -> None:
    of = cluster(3, orders=((1, 2), (2, 3)))
    of.about = evolve(of.about, partitions_max=5)
    text = "the cluster has 2 partitions and may have 5, so 4 more are too many"
    for operation, arguments in (
        (CreateTopic, ("audit", 4, 1)),
        (CreateTopic, ("audit", -1, -1, ((1,),) * 4)),
        (CreatePartitions, ("orders", 6)),
    ):
        error, message = of.refusal(operation, *arguments)
        assert error == ErrorCode.POLICY_VIOLATION
        assert message == f"{text}; delete topics, or raise max.partitions in cluster.toml"
    assert of.ask(CreateTopic, "__consumer_offsets", 8, 3).error == ErrorCode.NONE, "groups need it in any case"
    assert of.ask(CreateTopic, "audit", 2, 1).error == ErrorCode.NONE
    assert of.ask(CreatePartitions, "orders", 3).error == ErrorCode.NONE
    assert of.refusal(CreateTopic, "views", 1, 1)[0] == ErrorCode.POLICY_VIOLATION
    of.ask(DeleteTopic, "audit")
    assert of.ask(CreateTopic, "views", 2, 1).error == ErrorCode.NONE


@pytest.mark.parametrize("factor", [0, -2, 4])
def test_factors_that_are_out_of_range(factor: int) -> None:
    assert cluster(3).refusal(CreateTopic, "orders", 1, factor) == (
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"replication factor {factor} with 3 brokers to place on; give 1 to 3",
    )


ASSIGNMENTS = [
    (((1, 9),), "there is no broker 9"),
    (((1, 2), (2, 9)), "there is no broker 9"),
    (((1, 1),), "[1, 1] are not 2 different brokers"),
    (((1, 2), (3,)), "[3] are not 2 different brokers"),
    (((1, 2), (1, 2, 3)), "[1, 2, 3] are not 2 different brokers"),
    (((1, 2), ()), "[] are not 2 different brokers"),
]


@pytest.mark.parametrize(("assignment", "message"), [*ASSIGNMENTS, (((),), "[] are not 0 different brokers")])
def test_assignments_that_cannot_be(assignment: tuple[tuple[int, ...], ...], message: str) -> None:
    expected = (ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    assert cluster(3).refusal(CreateTopic, "orders", assignment=assignment) == expected


@pytest.mark.parametrize(("count", "factor"), [(1, -1), (-1, 2), (1, 2)])
def test_an_assignment_and_numbers_too(count: int, factor: int) -> None:
    assert cluster(3).refusal(CreateTopic, "orders", count, factor, ((1, 2),)) == (
        ErrorCode.INVALID_REQUEST,
        "an assignment says it all; leave out partitions and replication factor",
    )


CONFIGS = [
    (("retention.ms", "-2"), "retention.ms: -2 is out of range; give a whole number from -1 to 9223372036854775807"),
    (("retention.m", "5"), "there is no topic config 'retention.m'; did you mean retention.ms?"),
    (("retention.ms", "5", "6"), "('retention.ms', '5', '6') is not a name and its value"),
    ((), "() is not a name and its value"),
]


@pytest.mark.parametrize(
    ("config", "message"), [*CONFIGS, (("retention.ms",), "('retention.ms',) is not a name and its value")]
)
def test_configs_that_a_topic_cannot_have(config: tuple[str, ...], message: str) -> None:
    made = cluster(3).refusal(CreateTopic, "orders", 1, 3, configs=(("segment.ms", "5"), config))
    assert made == (ErrorCode.INVALID_CONFIG, message)


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        (DeleteTopic, ("orders",)),
        (CreatePartitions, ("orders", 9)),
        (AlterConfigs, ("orders", (("retention.ms", "5"),))),
        (MoveReplicas, ("orders", 0, (1,))),
        (MoveReplicas, ("orders", 0, ())),
    ],
)
def test_what_is_asked_of_no_topic(operation: type[Request], arguments: tuple[object, ...]) -> None:
    of = cluster(3, audit=((1,),))
    assert of.refusal(operation, *arguments) == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "there is no topic 'orders'",
    )


def test_a_topic_is_dropped() -> None:
    of = cluster(3, orders=((1,),))
    dropped = topic_id(of)
    made = of.ask(DeleteTopic, "orders")
    assert written(made) == [TopicDropped(dropped)]
    assert made.facts == {"topic_id": dropped, "name": "orders"}
    assert of.metadata.topic("orders") is None


# -- more partitions ---------------------------------------------------------------------------------------------


def test_more_partitions_are_placed_after_those_there_are() -> None:
    of = cluster(3, orders=((1, 2, 3),))
    made = of.ask(CreatePartitions, "orders", 3)
    assert written(made) == [PartitionsPlaced(topic_id(of), 1, ((2, 3, 1), (3, 1, 2)))]
    assert made.facts == {"topic_id": topic_id(of), "first": 1, "partitions": 3}
    made = of.ask(CreatePartitions, "orders", 5, ((3, 2, 1), (2, 1, 3)))
    assert written(made) == [PartitionsPlaced(topic_id(of), 3, ((3, 2, 1), (2, 1, 3)))]


@pytest.mark.parametrize("count", [2, 1, 0, -1])
def test_partitions_only_become_more(count: int) -> None:
    assert cluster(3, orders=((1,), (2,))).refusal(CreatePartitions, "orders", count) == (
        ErrorCode.INVALID_PARTITIONS,
        "topic 'orders' has 2 partitions; they only become more",
    )


def test_partitions_become_so_many_and_no_more() -> None:
    of = cluster(3, orders=((1,),))
    assert of.plan(CreatePartitions, "orders", PARTITIONS_MAX).error == ErrorCode.NONE
    assert of.refusal(CreatePartitions, "orders", PARTITIONS_MAX + 1) == (
        ErrorCode.INVALID_PARTITIONS,
        "10001 partitions are out of range; give 1 to 10000",
    )


@pytest.mark.parametrize(("assignment", "message"), [one for one in ASSIGNMENTS if len(one[0]) == 2])
def test_new_partitions_that_cannot_be(assignment: tuple[tuple[int, ...], ...], message: str) -> None:
    expected = (ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    assert cluster(3, orders=((1, 2),)).refusal(CreatePartitions, "orders", 3, assignment) == expected


@pytest.mark.parametrize("count", [2, 4])
def test_an_assignment_of_more_or_fewer_partitions_than_are_new(count: int) -> None:
    assert cluster(3, orders=((1, 2),)).refusal(CreatePartitions, "orders", count, ((1, 2), (2, 1))) == (
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        f"2 partitions are assigned; {count - 1} are new",
    )


def test_a_topic_that_moves_does_not_grow() -> None:
    of = cluster(4, orders=((1, 2), (2, 3)))
    of.ask(MoveReplicas, "orders", 1, (2, 4))
    refusal = (ErrorCode.REASSIGNMENT_IN_PROGRESS, "topic 'orders' is being moved; wait until it is done")
    assert of.refusal(CreatePartitions, "orders", 3) == refusal
    assert of.refusal(CreatePartitions, "orders", 3, ((1, 2),)) == refusal
    of.ask(EndMove, topic_id(of), 1, 1, (2, 4))
    assert of.plan(CreatePartitions, "orders", 3).error == ErrorCode.NONE


def test_a_topic_does_not_grow_where_too_few_brokers_live() -> None:
    of = cluster(3, orders=((1, 2, 3),))
    of.about = evolve(of.about, alive=frozenset({1}))
    assert of.refusal(CreatePartitions, "orders", 2) == (
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "replication factor 3 needs 2 brokers alive; start the brokers that are down (2, 3), then try again",
    )


# -- configs -----------------------------------------------------------------------------------------------------


def test_configs_are_set_and_taken_back_one_by_one() -> None:
    of = cluster(3, orders=((1, 2, 3),))
    made = of.ask(AlterConfigs, "orders", (("segment.ms", "7"), ("retention.ms", "5")))
    assert written(made) == [ConfigsSet(topic_id(of), (("retention.ms", "5"), ("segment.ms", "7")))]
    made = of.ask(AlterConfigs, "orders", (("retention.ms", "6"), ("segment.ms",), ("flush.ms",)))
    assert written(made) == [ConfigsSet(topic_id(of), (("retention.ms", "6"),))]


@pytest.mark.parametrize(
    "configs", [(), (("retention.ms", "5"),), (("flush.ms",),), (("flush.ms", "1"), ("flush.ms",))]
)
def test_configs_that_are_so_already_write_nothing(configs: tuple[tuple[str, ...], ...]) -> None:
    of = cluster(3, orders=((1, 2, 3),))
    of.ask(AlterConfigs, "orders", (("retention.ms", "5"),))
    made = of.plan(AlterConfigs, "orders", configs)
    assert (made.error, made.records) == (ErrorCode.NONE, [])


def test_padded_configs_are_kept_and_answered_without_their_padding() -> None:
    of = cluster(1)
    padding = " " * 1_000_000
    made = of.ask(CreateTopic, "orders", 1, 1, configs=(("retention.ms", f"{padding}5"),))
    made = of.ask(
        AlterConfigs,
        "orders",
        (("segment.ms", f"{padding}7{padding}"), ("cleanup.policy", "delete," * 9999 + "delete")),
    )
    kept = {"retention.ms": "5", "segment.ms": "7", "cleanup.policy": "delete"}
    assert (made.facts["configs"], of.metadata.topics[topic_id(of)].configs) == (kept, kept)
    assert len(of.metadata.encode()) < 2000
    again = of.ask(AlterConfigs, "orders", (("segment.ms", f"7{padding}"),))
    assert written(again) == []


@pytest.mark.parametrize(("config", "message"), CONFIGS)
def test_one_bad_config_changes_none(config: tuple[str, ...], message: str) -> None:
    of = cluster(3, orders=((1, 2, 3),))
    assert of.refusal(AlterConfigs, "orders", (("segment.ms", "5"), config)) == (ErrorCode.INVALID_CONFIG, message)


def test_replaced_configs_are_exactly_those_that_are_given() -> None:
    of = cluster(3, orders=((1, 2, 3),))
    of.ask(AlterConfigs, "orders", (("retention.ms", "5"), ("flush.ms", "1")))
    made = of.ask(AlterConfigs, "orders", (("flush.ms", "2"),), replace=True)
    assert written(made) == [ConfigsSet(topic_id(of), (("flush.ms", "2"),))]
    assert made.facts == {"configs": {"flush.ms": "2"}}


def test_words_are_added_to_lists_and_taken_out_of_them() -> None:
    of = cluster(3, orders=((1, 2, 3),))

    def policy(words: str, change: str) -> str:
        made = of.ask(AlterConfigs, "orders", (("cleanup.policy", words, change),))
        assert made.error == ErrorCode.NONE, made.message
        return str(made.facts["configs"]["cleanup.policy"])

    assert policy("compact", APPEND) == "delete,compact"
    assert policy("compact, delete", APPEND) == "delete,compact"
    assert policy("delete", SUBTRACT) == "compact"
    assert policy("delete", SUBTRACT) == "compact"
    assert policy("compact", SUBTRACT) == ""
    assert policy("delete", APPEND) == "delete"


def test_words_for_what_is_no_list_are_refused() -> None:
    of = cluster(3, orders=((1, 2, 3),))
    for config, words in (
        (("cleanup.policy", "keep", APPEND), "is no cleanup policy"),
        (("retention.ms", "5", APPEND), "retention.ms is no list"),
        (("cleanup.polizy", "compact", APPEND), "did you mean cleanup.policy?"),
    ):
        error, message = of.refusal(AlterConfigs, "orders", (config,))
        assert (error, words in message) == (ErrorCode.INVALID_CONFIG, True)


def test_a_config_that_never_was_is_not_deleted() -> None:
    of = cluster(3, orders=((1, 2, 3),))
    error, message = of.refusal(AlterConfigs, "orders", (("retention.msec",),))
    assert (error, "did you mean retention.ms?" in message) == (ErrorCode.INVALID_CONFIG, True)


def test_a_topic_is_dropped_by_its_id_whatever_its_name() -> None:
    of = cluster(3, orders=((1,),))
    dropped = topic_id(of)
    made = of.ask(DeleteTopic, "", dropped)
    assert (written(made), made.facts["name"]) == ([TopicDropped(dropped)], "orders")
    assert of.refusal(DeleteTopic, "", dropped)[0] == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_move_may_be_kept_from_changing_the_replication_factor() -> None:
    of = cluster(4, orders=((1, 2),))
    error, message = of.refusal(MoveReplicas, "orders", 0, (3,), may_change_factor=False)
    assert (error, message) == (ErrorCode.INVALID_REPLICATION_FACTOR, "orders-0 has 2 replicas, and 1 are given")
    assert of.ask(MoveReplicas, "orders", 0, (3, 4), may_change_factor=False).error == ErrorCode.NONE
    assert of.ask(MoveReplicas, "orders", 0, (3, 1), may_change_factor=False).error == ErrorCode.NONE


# -- moves -------------------------------------------------------------------------------------------------------


def test_a_move_its_cancel_and_its_end() -> None:
    of = cluster(4, orders=((1, 2, 3),))
    topic = topic_id(of)
    assert written(of.ask(MoveReplicas, "orders", 0, (4, 2, 3))) == [ReplicasMoved(topic, 0, (4, 2, 3))]
    assert written(of.ask(MoveReplicas, "orders", 0, (2, 4))) == [ReplicasMoved(topic, 0, (2, 4))]
    assert written(of.ask(MoveReplicas, "orders", 0, ())) == [ReplicasMoved(topic, 0, (1, 2, 3))]
    assert written(of.ask(EndMove, topic, 0, 3, (3, 2, 1))) == [MoveEnded(topic, 0)]
    assert of.partition().replicas == (1, 2, 3)


def test_a_move_to_where_it_goes_already_writes_nothing() -> None:
    of = cluster(4, orders=((1, 2, 3),))
    assert of.plan(MoveReplicas, "orders", 0, (1, 2, 3)).records == []
    of.ask(MoveReplicas, "orders", 0, (4, 2, 3))
    assert of.plan(MoveReplicas, "orders", 0, (4, 2, 3)).records == []
    of.ask(MoveReplicas, "orders", 0, ())
    made = of.plan(MoveReplicas, "orders", 0, ())
    assert (made.error, made.records) == (ErrorCode.NONE, [])


def test_what_does_not_move_cannot_be_cancelled() -> None:
    of = cluster(4, orders=((1, 2, 3),))
    refusal = (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "orders-0 is not being moved")
    assert of.refusal(MoveReplicas, "orders", 0, ()) == refusal
    of.ask(MoveReplicas, "orders", 0, (4, 2, 3))
    of.ask(EndMove, topic_id(of), 0, 1, (4, 2, 3))
    assert of.refusal(MoveReplicas, "orders", 0, ()) == refusal


@pytest.mark.parametrize("number", [-1, 1, 1 << 31])
def test_partitions_that_are_not_there(number: int) -> None:
    of = cluster(3, orders=((1, 2, 3),))
    refusal = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic 'orders' has no partition {number}")
    assert of.refusal(MoveReplicas, "orders", number, (1, 2)) == refusal
    assert of.refusal(MoveReplicas, "orders", number, ()) == refusal
    assert of.refusal(EndMove, topic_id(of), number, 1, (1, 2)) == refusal


@pytest.mark.parametrize(
    ("replicas", "message"),
    [((1, 9), "there is no broker 9"), ((2, 2), "[2, 2] are not 2 different brokers")],
)
def test_moves_that_cannot_be(replicas: tuple[int, ...], message: str) -> None:
    expected = (ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    assert cluster(3, orders=((1, 2, 3),)).refusal(MoveReplicas, "orders", 0, replicas) == expected


def test_a_broker_that_cannot_be_reached_keeps_what_it_has_but_gets_nothing() -> None:
    of = cluster(5, orders=((1, 2, 3),))
    of.about = evolve(of.about, alive=frozenset({1, 2, 5}))
    assert of.refusal(MoveReplicas, "orders", 0, (1, 2, 4)) == (
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "broker 4 cannot be reached; start it, then move",
    )
    of.ask(MoveReplicas, "orders", 0, (3, 5))
    assert of.partition().replicas == (3, 5)
    of.ask(MoveReplicas, "orders", 0, (1, 5))
    assert of.ask(MoveReplicas, "orders", 0, (3, 1, 5)).error == ErrorCode.NONE, "it has not left yet"
    of.about = evolve(of.about, alive=frozenset())
    assert of.plan(MoveReplicas, "orders", 0, ()).error == ErrorCode.NONE


def test_word_of_an_earlier_move_does_not_end_a_later_one() -> None:
    of = cluster(4, orders=((1, 2, 3),))
    for replicas in ((4, 2, 3), (1, 2, 3), (4, 2, 3)):
        of.ask(MoveReplicas, "orders", 0, replicas)
    refusal = (ErrorCode.REASSIGNMENT_IN_PROGRESS, "that was move 1; now it is move 3")
    assert of.refusal(EndMove, topic_id(of), 0, 1, (4, 2, 3)) == refusal
    assert written(of.ask(EndMove, topic_id(of), 0, 3, (4, 2, 3))) == [MoveEnded(topic_id(of), 0)]


def test_a_move_ends_only_as_it_shall() -> None:
    of = cluster(4, orders=((1, 2, 3),))
    topic = topic_id(of)
    made = of.plan(EndMove, topic, 0, 1, (1, 2))
    assert (made.error, made.records) == (ErrorCode.NONE, []), "it has ended, for every broker that reports it"
    of.ask(MoveReplicas, "orders", 0, (4, 3, 1))
    refusal = (ErrorCode.REASSIGNMENT_IN_PROGRESS, "[1, 2, 3] vote; [1, 3, 4] are assigned")
    assert of.refusal(EndMove, topic, 0, 1, (3, 1, 2)) == refusal
    unknown = (ErrorCode.UNKNOWN_TOPIC_ID, "there is no topic with id nobody")
    assert of.refusal(EndMove, "nobody", 0, 1, (4, 3, 1)) == unknown


# -- drains ------------------------------------------------------------------------------------------------------


def test_a_drain_moves_everything_away() -> None:
    of = cluster(4, orders=((1, 2, 3), (4, 1, 2)), audit=((4,), (1,)))
    made = of.ask(DrainBroker, 1, True)
    orders, audit = topic_id(of), topic_id(of, "audit")
    assert written(made) == [
        BrokerDraining(1, True),
        ReplicasMoved(orders, 0, (3, 2, 4)),
        ReplicasMoved(orders, 1, (4, 3, 2)),
        ReplicasMoved(audit, 1, (2,)),
    ]
    assert made.facts == {"moves": 3}
    assert of.metadata.brokers[1].draining
    assert all(1 not in partition.replicas for _, _, partition in of.metadata.partitions())
    assert all(1 in partition.keepers for partition in (of.partition(), of.partition(number=1)))


def test_a_drain_that_is_asked_again_moves_what_came_back() -> None:
    of = cluster(5, orders=((1, 2, 3),))
    of.ask(DrainBroker, 1, True)
    again = of.plan(DrainBroker, 1, True)
    assert (again.error, again.records, again.facts) == (ErrorCode.NONE, [], {"moves": 0})
    of.ask(MoveReplicas, "orders", 0, ())
    again = of.ask(DrainBroker, 1, True)
    assert written(again) == [ReplicasMoved(topic_id(of), 0, (2, 4, 3))]
    assert 1 not in of.partition().replicas


def test_a_drain_that_ends_moves_nothing_back() -> None:
    of = cluster(4, orders=((1, 2, 3),))
    assert of.plan(DrainBroker, 1, False).records == []
    of.ask(DrainBroker, 1, True)
    assert written(of.ask(DrainBroker, 1, False)) == [BrokerDraining(1, False)]
    assert 1 not in of.partition().replicas
    of.ask(CreateTopic, "audit", 1, 4)
    assert 1 in of.partition("audit").replicas


def test_a_drain_that_leaves_too_few_brokers_is_refused() -> None:
    of = cluster(4, audit=((1,),), orders=((1, 2, 3),))
    message = (
        "orders-0 has 3 replicas and no broker is left to take the one of broker 1; add a broker, or give the topic "
        "fewer replicas"
    )
    of.about = evolve(of.about, alive=frozenset({1, 2, 3}))
    assert of.refusal(DrainBroker, 1, True) == (ErrorCode.INVALID_REPLICATION_FACTOR, message)
    of.about = evolve(of.about, alive=frozenset({1, 2, 3, 4}))
    of.ask(DrainBroker, 4, True)
    assert of.refusal(DrainBroker, 1, True) == (ErrorCode.INVALID_REPLICATION_FACTOR, message)
    of.ask(DrainBroker, 4, False)
    assert of.plan(DrainBroker, 1, True).error == ErrorCode.NONE


def test_a_broker_that_is_drained_gets_nothing_new_by_name_either() -> None:
    of = cluster(5, orders=((1, 2, 3),), audit=((2, 3, 4),))
    of.ask(DrainBroker, 5, True)
    expected = (
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "broker 5 is being drained; choose another, or end its draining first",
    )
    assert of.refusal(CreateTopic, "other", assignment=((1, 2), (5, 2))) == expected
    assert of.refusal(CreatePartitions, "orders", 2, assignment=((5, 2, 3),)) == expected
    assert of.refusal(MoveReplicas, "orders", 0, (1, 2, 5)) == expected
    of.ask(DrainBroker, 5, False)
    assert of.ask(MoveReplicas, "orders", 0, (1, 2, 5)).error == ErrorCode.NONE


def test_what_a_drained_broker_still_has_may_be_moved_around_it() -> None:
    of = cluster(5, orders=((1, 2, 3),))
    of.ask(DrainBroker, 1, True)
    assert of.refusal(MoveReplicas, "orders", 0, (1, 2, 3))[0] == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    of.ask(MoveReplicas, "orders", 0, ())  # back to where it was
    assert of.ask(MoveReplicas, "orders", 0, (1, 2, 4)).error == ErrorCode.NONE


def test_a_drain_leaves_moves_alone_that_are_under_way() -> None:
    of = cluster(4, orders=((1, 2), (3, 4)) * 6)
    of.ask(MoveReplicas, "orders", 1, (4, 3))
    made = of.ask(DrainBroker, 1, True)
    assert all(record.partition != 1 for record in written(made) if isinstance(record, ReplicasMoved))
    kept = Counter(broker for _, _, partition in of.metadata.partitions() for broker in partition.replicas)
    assert kept == {2: 8, 3: 8, 4: 8}


@pytest.mark.parametrize("draining", [True, False])
def test_a_broker_that_is_not_there_is_not_drained(draining: bool) -> None:
    expected = (ErrorCode.BROKER_ID_NOT_REGISTERED, "there is no broker 9")
    assert cluster(3).refusal(DrainBroker, 9, draining) == expected


# -- brokers -----------------------------------------------------------------------------------------------------


def test_a_broker_registers_when_something_is_new() -> None:
    of = Cluster()
    made = of.ask(RegisterBroker, 1, "directory", "localhost", 9092)
    assert written(made) == [BrokerRegistered(1, "directory", "localhost", 9092)]
    assert of.plan(RegisterBroker, 1, "directory", "localhost", 9092).records == []
    for new in (("another", "localhost", 9092), ("directory", "elsewhere", 9092), ("directory", "localhost", 9093)):
        assert written(of.plan(RegisterBroker, 1, *new)) == [BrokerRegistered(1, *new)]


def test_producer_ids_are_given_once() -> None:
    of = cluster(1)
    blocks: list[int] = []
    for _ in range(3):
        made = of.ask(TakeProducerIds)
        assert written(made) == [ProducerIdsTaken(made.facts["first"] + PRODUCER_IDS_AT_ONCE)]
        blocks += range(made.facts["first"], made.facts["first"] + made.facts["count"])
    assert blocks == list(range(3 * PRODUCER_IDS_AT_ONCE))


# -- requests ----------------------------------------------------------------------------------------------------


def operations(of: Cluster) -> list[Request]:
    """One of each, all of which write something."""
    topic = topic_id(of)
    return [
        CreateTopic("1", "audit", 2, 3),
        CreatePartitions("2", "audit", 4),
        AlterConfigs("3", "audit", (("retention.ms", "5"),)),
        DeleteTopic("4", "audit"),
        MoveReplicas("5", "orders", 0, (1, 2, 4)),
        EndMove("6", topic, 0, 1, (1, 2, 4)),
        DrainBroker("7", 4, True),
        RegisterBroker("8", 9, "directory", "localhost", 9092),
        TakeProducerIds("9"),
    ]


def test_a_request_that_comes_again_is_answered_again_and_done_once() -> None:
    of = cluster(4, orders=((1, 2, 3),))
    answers = {}
    for request in operations(of):
        before = of.metadata.encode()
        answers[request.request_id] = of.answer(request)
        after = of.metadata.encode()
        assert answers[request.request_id]["error"] == ErrorCode.NONE
        assert after != before
        assert of.answer(request) == answers[request.request_id]
        assert of.metadata.encode() == after
    end = of.metadata.encode()
    of.metadata.restore(end)
    for request in operations(of):
        assert of.answer(request) == answers[request.request_id]
    assert of.metadata.encode() == end


def test_a_request_without_an_id_is_planned_each_time() -> None:
    """As the end of a move is: said again and again, and no difference after the first time."""
    of = cluster(4, orders=((1, 2, 3),))
    for move, replicas in enumerate(((3, 2, 1), (1, 2, 3)), start=1):
        of.ask(MoveReplicas, "orders", 0, replicas)
        end = EndMove("", topic_id(of), 0, move, (1, 2, 3))
        assert of.answer(end)["error"] == ErrorCode.NONE
        assert not of.partition().moved_from
        after = of.metadata.encode()
        assert of.answer(end)["error"] == ErrorCode.NONE
        assert of.metadata.encode() == after
    assert of.metadata.answer_to("") is None


def test_the_same_request_under_another_id_is_another() -> None:
    of = cluster(3)
    assert of.answer(CreateTopic("1", "orders", 1, 3))["error"] == ErrorCode.NONE
    assert of.answer(CreateTopic("2", "orders", 1, 3))["error"] == ErrorCode.TOPIC_ALREADY_EXISTS


def test_what_was_refused_may_be_asked_again() -> None:
    of = cluster(3)
    assert of.answer(DeleteTopic("1", "orders"))["error"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    of.ask(CreateTopic, "orders", 1, 3)
    assert of.answer(DeleteTopic("1", "orders"))["error"] == ErrorCode.NONE


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        (CreateTopic, ("audit", 2, 2)),
        (CreatePartitions, ("orders", 4)),
        (AlterConfigs, ("orders", (("retention.ms", "5"), ("min.insync.replicas", "3")))),
    ],
)
def test_to_validate_only_says_the_same_and_writes_nothing(
    operation: type[Request], arguments: tuple[object, ...]
) -> None:
    of = cluster(3, orders=((1, 2, 3),))
    real = of.plan(operation, *arguments)
    tried = of.plan(operation, *arguments, validate_only=True)
    assert written(real) != []
    assert (tried.error, tried.records) == (ErrorCode.NONE, [])
    assert tried.warnings == real.warnings
    assert {**tried.facts, "topic_id": ""} == {**real.facts, "topic_id": ""}


@pytest.mark.parametrize(
    ("operation", "arguments", "error"),
    [
        (CreateTopic, ("orders", 1, 1), ErrorCode.TOPIC_ALREADY_EXISTS),
        (CreatePartitions, ("orders", 1), ErrorCode.INVALID_PARTITIONS),
        (AlterConfigs, ("orders", (("retention.ms", "x"),)), ErrorCode.INVALID_CONFIG),
    ],
)
def test_to_validate_only_is_refused_as_the_real_thing_is(
    operation: type[Request], arguments: tuple[object, ...], error: ErrorCode
) -> None:
    of = cluster(3, orders=((1, 2, 3),))
    assert of.refusal(operation, *arguments, validate_only=True) == of.refusal(operation, *arguments)
    assert of.refusal(operation, *arguments)[0] == error


def test_an_answer_is_json_with_error_message_warnings_and_facts() -> None:
    of = cluster(3)
    made = of.plan(CreateTopic, "orders", 1, 2)
    assert orjson.loads(made.answer) == {
        "error": 0, "message": "", "warnings": [TWO], "topic_id": made.facts["topic_id"], "partitions": 1,
        "replication_factor": 2,
    }  # fmt: skip
    assert isinstance(made.records[-1], RequestDone)
    refused = of.plan(DeleteTopic, "orders")
    assert orjson.loads(refused.answer) == {"error": 3, "message": "there is no topic 'orders'", "warnings": []}


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        (CreateTopic, ("x" * 1_000_000, 1, 1)),
        (CreateTopic, ("audit", 1, 1, (), (("x" * 1_000_000, "1"),))),
        (CreateTopic, ("audit", 1, 1, (), (("retention.ms", "x" * 1_000_000),))),
        (CreateTopic, ("audit", 1, 1, (), (("retention.ms", "7" * 1_000_000),))),
        (CreateTopic, ("audit", 1, 1, (), (("cleanup.policy", "delete," * 100_000),))),
        (CreateTopic, ("audit", -1, -1, ((1,), (1,) * 100_000))),
        (AlterConfigs, ("orders", (("x" * 1_000_000, "y", "z"),))),
        (DeleteTopic, ("x" * 1_000_000,)),
        (MoveReplicas, ("orders", 0, (1,) * 100_000)),
        (EndMove, ("x" * 1_000_000, 0, 1, (1,))),
    ],
)
def test_a_refusal_of_much_is_short(operation: type[Request], arguments: tuple[object, ...]) -> None:
    assert len(cluster(3, orders=((1, 2, 3),)).refusal(operation, *arguments)[1]) <= MESSAGE_CHARS_MAX


# -- warnings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("brokers", "factor", "min_insync", "warnings"),
    [
        (1, 1, 1, []),
        (3, 1, 1, [ONE]),
        (3, 2, 1, [TWO]),
        (3, 2, 2, [TWO]),
        (3, 3, 1, []),
        (3, 3, 2, []),
        (3, 3, 3, ["min.insync.replicas 3 of 3 replicas tolerates no failure of acks=all writes"]),
        (4, 4, 4, ["min.insync.replicas 4 of 4 replicas tolerates no failure of acks=all writes"]),
        (3, 3, 4, ["min.insync.replicas 4 of 3 replicas tolerates no failure of acks=all writes"]),
        (1, 1, 2, []),
        (3, 1, 2, [ONE]),
        (3, 2, 3, [TWO]),
    ],
)
def test_choices_that_tolerate_no_failure_are_made_and_said_to_be_such(
    brokers: int, factor: int, min_insync: int, warnings: list[str]
) -> None:
    by_config, by_default, later = cluster(brokers), cluster(brokers), cluster(brokers)
    configs = (("min.insync.replicas", str(min_insync)),)
    made = by_config.ask(CreateTopic, "orders", 1, factor, configs=configs)
    assert (made.error, made.warnings) == (ErrorCode.NONE, warnings)
    by_default.about = evolve(by_default.about, min_insync_replicas=min_insync)
    assert by_default.ask(CreateTopic, "orders", 1, factor).warnings == warnings
    later.ask(CreateTopic, "orders", assignment=(tuple(range(1, factor + 1)),))
    assert later.ask(AlterConfigs, "orders", configs).warnings == warnings
    assert later.ask(CreatePartitions, "orders", 2).warnings == warnings
    assert orjson.loads(made.answer)["warnings"] == warnings


def test_a_move_to_fewer_replicas_is_warned_of() -> None:
    of = cluster(4, orders=((1, 2, 3),))
    assert of.plan(MoveReplicas, "orders", 0, (4,)).warnings == [ONE]
    assert of.plan(MoveReplicas, "orders", 0, (1, 4)).warnings == [TWO]
    assert of.plan(MoveReplicas, "orders", 0, (1, 2, 4)).warnings == []
    of.metadata.apply(registered(5))
    of.ask(AlterConfigs, "orders", (("min.insync.replicas", "3"),))
    assert of.plan(MoveReplicas, "orders", 0, (1, 2, 4)).warnings == [
        "min.insync.replicas 3 of 3 replicas tolerates no failure of acks=all writes"
    ]
    assert of.plan(MoveReplicas, "orders", 0, (1, 2, 4, 3)).warnings == []
