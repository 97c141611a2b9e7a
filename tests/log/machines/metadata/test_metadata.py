"""What the cluster is: the same records give the same state, replayed or restored."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from log.errors import UnknownFormat
from log.machines.metadata.metadata import (
    ANSWERS_CHARS_MAX,
    ANSWERS_KEPT,
    Metadata,
    PartitionState,
    Registration,
)
from log.machines.metadata.plans import (
    AlterConfigs,
    Circumstances,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    DrainBroker,
    EndMove,
    MoveReplicas,
    Plan,
    RecoverPartition,
    RegisterBroker,
    Request,
    TakeProducerIds,
    plan,
)
from log.machines.metadata.records import (
    BrokerDraining,
    ClusterFormed,
    MetadataRecord,
    PartitionsPlaced,
    ProducerIdsTaken,
    RequestDone,
    TopicDropped,
    TopicMade,
    decode,
    encode,
)
from log.raft.membership import Voter
from protocol.error_codes import ErrorCode
from tests.log.machines.clusters import Cluster, cluster, registered


def moved(made: Cluster, *replicas: int) -> PartitionState:
    assert made.ask(MoveReplicas, "orders", 0, replicas).error == ErrorCode.NONE
    return made.partition()


def ended(made: Cluster, *voters: int) -> PartitionState:
    topic = made.metadata.topic("orders")
    assert topic is not None
    made.ask(EndMove, topic.id, 0, topic.partitions[0].moves, voters)
    return made.partition()


def restored(metadata: Metadata) -> Metadata:
    copy = Metadata()
    copy.restore(metadata.encode())
    return copy


# -- records -----------------------------------------------------------------------------------------------------


def test_a_cluster_is_formed_and_gives_out_producer_ids_that_never_go_back() -> None:
    metadata = Metadata()
    for record in (ClusterFormed("c1"), ProducerIdsTaken(2000), ProducerIdsTaken(1000)):
        assert metadata.apply(record) is None
    assert (metadata.cluster_id, metadata.next_producer_id) == ("c1", 2000)


def test_a_broker_that_registers_again_goes_on_draining() -> None:
    metadata = Metadata()
    metadata.apply(registered(1))
    metadata.apply(BrokerDraining(1, True))
    metadata.apply(registered(1, "another"))
    assert metadata.brokers == {1: Registration(1, "another", "localhost", 9093, draining=True)}
    metadata.apply(BrokerDraining(1, False))
    assert not metadata.brokers[1].draining


def test_a_partition_begins_with_the_directories_that_its_brokers_have_then() -> None:
    made = cluster(2, orders=((2, 1),))
    made.metadata.apply(registered(1, "another"))
    made.ask(CreatePartitions, "orders", 2, ((1, 2),))
    first, second = made.partition(number=0), made.partition(number=1)
    assert first == PartitionState((2, 1), (Voter(2, "directory-2"), Voter(1, "directory-1")))
    assert second.first_voters == (Voter(1, "another"), Voter(2, "directory-2"))


def test_records_tell_which_topic_they_touched() -> None:
    made = cluster(2)
    metadata = made.metadata
    assert metadata.apply(TopicMade("t", "orders", (("retention.ms", "5"),))) == "t"
    assert metadata.apply(PartitionsPlaced("t", 0, ((1, 2), (2, 1)))) == "t"
    assert [(topic.name, number, one.replicas) for topic, number, one in metadata.partitions()] == [
        ("orders", 0, (1, 2)),
        ("orders", 1, (2, 1)),
    ]
    assert metadata.apply(TopicDropped("t")) == "t"
    assert metadata.topic("orders") is None
    assert not metadata.topics
    assert metadata.apply(RequestDone("r", "a")) is None


def test_a_topic_of_the_same_name_is_another() -> None:
    made = cluster(3, orders=((1, 2, 3),))
    old = made.metadata.topic("orders")
    made.ask(DeleteTopic, "orders")
    made.ask(CreateTopic, "orders", 2, 1)
    new = made.metadata.topic("orders")
    assert old is not None
    assert new is not None
    assert old.id != new.id
    assert list(made.metadata.topics) == [new.id]


def test_partitions_are_placed_one_after_the_other() -> None:
    made = cluster(2, orders=((1,),))
    topic = made.metadata.topic("orders")
    assert topic is not None
    with pytest.raises(AssertionError, match="orders: partition 3 is not the next one"):
        made.metadata.apply(PartitionsPlaced(topic.id, 3, ((1,),)))


@pytest.mark.parametrize("through_snapshot", [False, True])
@pytest.mark.parametrize("times", [1, 2])
def test_only_the_latest_answers_are_kept(times: int, through_snapshot: bool) -> None:
    metadata = Metadata()
    count = ANSWERS_KEPT * times + 7
    for number in range(count):
        metadata.apply(RequestDone(f"r{number}", f"a{number}"))
        if through_snapshot and number % 500 == 0:
            metadata = restored(metadata)
    kept = [number for number in range(count) if metadata.answer_to(f"r{number}") == f"a{number}"]
    assert kept == list(range(count - ANSWERS_KEPT, count))
    assert metadata.answer_to("r0") is None


@pytest.mark.parametrize("through_snapshot", [False, True])
def test_the_kept_answers_are_bounded_in_all(through_snapshot: bool) -> None:
    metadata, answer = Metadata(), "x" * (ANSWERS_CHARS_MAX // 10)
    for number in range(35):
        metadata.apply(RequestDone(f"r{number}", answer))
        if through_snapshot:
            metadata = restored(metadata)
        assert len(metadata.encode()) < ANSWERS_CHARS_MAX + 10_000
    assert [number for number in range(35) if metadata.answer_to(f"r{number}")] == list(range(25, 35))
    metadata.apply(RequestDone("large", "x" * (2 * ANSWERS_CHARS_MAX)))
    assert metadata.answer_to("large") is not None, "the newest is kept, or its request would be done twice"
    metadata.apply(RequestDone("next", "done"))
    assert (metadata.answer_to("large"), metadata.answer_to("next")) == (None, "done")


def test_a_copy_stays_as_it_was() -> None:
    made = cluster(3, orders=((1, 2), (2, 3)))
    metadata = made.metadata
    copied, before = metadata.copy(), metadata.encode()
    assert copied.encode() == before
    made.ask(CreatePartitions, "orders", 3)
    made.ask(AlterConfigs, "orders", (("retention.ms", "5"),))
    made.ask(CreateTopic, "audit", 1, 1)
    made.ask(DrainBroker, 3, True)
    assert copied.encode() == before
    assert metadata.encode() != before


# -- moves -------------------------------------------------------------------------------------------------------


def test_while_a_partition_moves_old_and_new_keep_it() -> None:
    made = cluster(5, orders=((1, 2, 3),))
    now = moved(made, 4, 1, 5)
    assert now.replicas == (4, 1, 5)
    assert now.keepers == (4, 1, 5, 2, 3)
    assert (now.moved_from, now.settled, now.left) == ((1, 2, 3), (1, 2, 3), ())


def test_after_a_move_only_the_new_keep_it_and_the_old_have_left() -> None:
    made = cluster(5, orders=((1, 2, 3),))
    first_voters = made.partition().first_voters
    moved(made, 4, 1, 5)
    assert ended(made, 5, 4, 1) == PartitionState((4, 1, 5), first_voters, moves=1, left=(2, 3))


def test_a_move_that_is_cancelled_goes_back_to_where_it_began() -> None:
    made = cluster(4, orders=((1, 2, 3),))
    moved(made, 1, 2, 4)
    back = moved(made)
    assert (back.replicas, back.settled) == ((1, 2, 3), (1, 2, 3))
    assert set(back.keepers) == {1, 2, 3, 4}, "broker 4 may vote already"
    assert moved(made) == back
    assert ended(made, 1, 2, 3).left == (4,)
    assert made.partition().keepers == (1, 2, 3)


def test_a_move_during_a_move_keeps_everybody_and_remembers_the_beginning() -> None:
    made = cluster(6, orders=((1, 2, 3),))
    moved(made, 4, 2, 3)
    now = moved(made, 5, 6, 3)
    assert (now.replicas, set(now.keepers), now.settled) == ((5, 6, 3), {1, 2, 3, 4, 5, 6}, (1, 2, 3))
    assert moved(made).replicas == (1, 2, 3)
    moved(made, 5, 6, 3)
    now = ended(made, 3, 5, 6)
    assert (now.keepers, now.moved_from, now.settled, now.left) == ((5, 6, 3), (), (), (1, 2, 4))


@pytest.mark.parametrize("voters", [(), (1, 2, 3), (1, 2), (1, 2, 3, 4), (1, 2, 4, 4), (1, 2, 5)])
def test_a_move_does_not_end_while_others_vote(voters: tuple[int, ...]) -> None:
    made = cluster(5, orders=((1, 2, 3),))
    before = moved(made, 1, 2, 4)
    assert ended(made, *voters) == before


def test_an_end_that_was_meant_for_an_earlier_goal_ends_nothing() -> None:
    made = cluster(5, orders=((1, 2, 3),))
    moved(made, 1, 2, 4)
    before = moved(made, 1, 2, 5)
    assert ended(made, 1, 2, 4) == before
    assert ended(made, 1, 2, 5).left == (3, 4)


def test_a_broker_that_left_and_comes_back_has_left_until_the_move_ends() -> None:
    made = cluster(4, orders=((1, 2, 3),))
    moved(made, 1, 2, 4)
    ended(made, 1, 2, 4)
    assert moved(made, 1, 2, 3).left == (3,), "what it had is gone"
    assert ended(made, 1, 2, 3).left == (4,)


def test_everybody_who_left_is_remembered() -> None:
    made = cluster(5, orders=((1, 2, 3),))
    for replicas, left in (((1, 2, 4), (3,)), ((1, 5, 4), (2, 3)), ((1, 5, 3), (2, 4))):
        moved(made, *replicas)
        assert ended(made, *replicas).left == left


def test_a_broker_that_comes_back_and_does_not_stay_has_left() -> None:
    made = cluster(4, orders=((1, 2, 3),))
    moved(made, 1, 2, 4)
    ended(made, 1, 2, 4)
    moved(made, 1, 2, 3)
    moved(made)
    assert ended(made, 1, 2, 4).left == (3,)


def test_another_order_of_the_same_brokers_is_a_move_that_leaves_nobody() -> None:
    made = cluster(3, orders=((1, 2, 3),))
    now = moved(made, 3, 1, 2)
    assert (now.keepers, now.settled) == ((3, 1, 2), (1, 2, 3))
    now = ended(made, 1, 2, 3)
    assert (now.replicas, now.settled, now.left) == ((3, 1, 2), (), ())


# -- snapshots ---------------------------------------------------------------------------------------------------


def test_a_snapshot_has_everything() -> None:
    made = cluster(4, orders=((1, 2, 3), (2, 3, 1)), audit=((1,),))
    made.ask(AlterConfigs, "orders", (("retention.ms", "5"),))
    moved(made, 1, 2, 4)
    made.ask(DrainBroker, 3, True)
    made.metadata.apply(ClusterFormed("c1"))
    made.metadata.apply(ProducerIdsTaken(3000))
    made.metadata.apply(RequestDone("r", "answer"))
    copy = restored(made.metadata)
    assert (copy.applied, copy.cluster_id, copy.next_producer_id) == (made.metadata.applied, "c1", 3000)
    assert copy.brokers == made.metadata.brokers
    assert copy.topics == made.metadata.topics
    assert copy.topic("orders") == made.metadata.topic("orders")
    assert copy.answer_to("r") == "answer"


def test_a_copy_shares_nothing_with_its_original() -> None:
    made = cluster(3, orders=((1, 2, 3),))
    copy = restored(made.metadata)
    before = copy.encode()
    moved(made, 1, 2)
    made.ask(AlterConfigs, "orders", (("retention.ms", "5"),))
    made.ask(CreateTopic, "audit", 1, 1)
    assert copy.encode() == before


def test_a_snapshot_replaces_what_was_there() -> None:
    made = cluster(3, orders=((1, 2, 3),))
    made.metadata.restore(Metadata().encode())
    assert made.metadata.encode() == Metadata().encode()
    assert made.metadata.topic("orders") is None


def test_a_snapshot_of_another_version_is_refused() -> None:
    value = orjson.loads(Metadata().encode())
    with pytest.raises(UnknownFormat, match="a metadata snapshot of version 3; 2 is known here"):
        Metadata().restore(orjson.dumps({**value, "version": 3}))


def _damaged() -> list[bytes]:
    whole: dict[str, Any] = orjson.loads(cluster(2, orders=((1, 2),)).metadata.encode())
    wrong: dict[str, Any] = {
        "brokers": [[1, "directory"]],
        "topics": [{"id": "t"}],
        "answers": [["request"]],
    }
    missing = [{key: value for key, value in whole.items() if key != name} for name in whole]
    partitions: list[list[Any]] = [[[]], [[[1]]], [[[1], [[1]], [], [], []]], [7]]
    return [
        *(b"", b"{}", b"[]", b"null", b"7", b'"version"', b"\xff"),
        *map(orjson.dumps, missing),
        *(orjson.dumps({**whole, name: value}) for name, value in wrong.items()),
        *(orjson.dumps({**whole, name: 7}) for name in wrong),
        *(orjson.dumps({**whole, "topics": [{**whole["topics"][0], "partitions": one}]}) for one in partitions),
    ]


@pytest.mark.parametrize("data", _damaged())
def test_a_snapshot_of_unknown_shape_is_refused_and_changes_nothing(data: bytes) -> None:
    made = cluster(3, audit=((1, 2, 3),))
    before = made.metadata.encode()
    with pytest.raises(UnknownFormat, match="is no metadata snapshot of version"):
        made.metadata.restore(data)
    assert made.metadata.encode() == before
    assert made.metadata.topic("audit") is not None


@given(st.data())
def test_a_snapshot_that_was_cut_is_told(data: st.DataObject) -> None:
    whole = cluster(2, orders=((1, 2),)).metadata.encode()
    with pytest.raises(UnknownFormat, match="is no metadata snapshot"):
        Metadata().restore(whole[: data.draw(st.integers(0, len(whole) - 1))])


# -- any operations ----------------------------------------------------------------------------------------------

BROKER = st.integers(1, 5)
"""Broker 5 is there only if it registers; broker 4 cannot be reached."""
NAMES = ("orders", "audit", "a.b", "a_b", "bad name")
NAME = st.sampled_from([*NAMES[:2] * 3, *NAMES])
NUMBER = st.integers(-1, 2)
REPLICAS = st.lists(BROKER, max_size=4).map(tuple)
ASSIGNMENT = st.just(()) | st.lists(REPLICAS, max_size=2).map(tuple)
CONFIG = st.sampled_from([("retention.ms", "5"), ("retention.ms",), ("min.insync.replicas", "2"), ("nonsense", "1")])
CONFIGS = st.lists(CONFIG, max_size=2).map(tuple)
COUNT = st.integers(-1, 4)
ID = st.just("")
"""Given when it is asked."""
ANYTHING: st.SearchStrategy[Request] = st.one_of(
    st.builds(CreateTopic, ID, NAME, COUNT, COUNT, ASSIGNMENT, CONFIGS, st.booleans()),
    st.builds(CreatePartitions, ID, NAME, COUNT, ASSIGNMENT, st.booleans()),
    st.builds(AlterConfigs, ID, NAME, CONFIGS, st.booleans()),
    st.builds(MoveReplicas, ID, NAME, NUMBER, REPLICAS),
    st.builds(EndMove, ID, st.sampled_from(["id-5", "id-7", "none"]), NUMBER, NUMBER, REPLICAS),
    st.builds(RecoverPartition, ID, NAME, NUMBER, REPLICAS, *[st.integers(0, 2)] * 3),
    st.builds(RegisterBroker, ID, BROKER, st.sampled_from(["a", "b"]), st.just("localhost"), st.integers(1, 2)),
)


class TwoCopies(RuleBasedStateMachine):
    """One copy applies records as they were planned; the other reads them back, and is restored now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.metadata = Metadata()
        self.other = Metadata()
        self.ids_given = 0
        self.kept: dict[tuple[str, int], set[int]] = {}
        self.still: dict[tuple[str, int], PartitionState] = {}
        """Partitions as they were when they last did not move."""

    @initialize()
    def form(self) -> None:
        self.write([ClusterFormed("c1")])
        for broker in range(1, 5):
            self.ask(RegisterBroker("", broker, f"directory-{broker}", "localhost", 9092))
        self.ask(CreateTopic("", "orders", 2, 2))
        self.ask(CreateTopic("", "audit", 1, 1))

    @rule(request=ANYTHING)
    def ask_anything(self, request: Request) -> None:
        self.ask(request)

    @rule(name=NAME, count=st.integers(1, 2), factor=st.integers(1, 3))
    def create_topic(self, name: str, count: int, factor: int) -> None:
        self.ask(CreateTopic("", name, count, factor))

    @rule(name=NAME)
    def delete_topic(self, name: str) -> None:
        self.ask(DeleteTopic("", name))

    @rule(at=st.integers(0, 9), order=st.permutations(range(1, 6)), count=st.integers(1, 4))
    def move(self, at: int, order: list[int], count: int) -> None:
        partitions = [(topic.name, number) for topic, number, _ in self.metadata.partitions()]
        if partitions:
            known = tuple(broker for broker in order if broker in self.metadata.brokers and broker != 4)
            self.ask(MoveReplicas("", *partitions[at % len(partitions)], known[:count]))

    @rule()
    def cancel_moves(self) -> None:
        for topic, number, partition in list(self.metadata.partitions()):
            if partition.moved_from:
                self.ask(MoveReplicas("", topic.name, number, ()))
                back = self.metadata.topics[topic.id].partitions[number]
                assert back.replicas == self.still[topic.id, number].replicas

    @rule()
    def end_moves(self) -> None:
        for topic, number, partition in list(self.metadata.partitions()):
            if partition.moved_from:
                self.ask(EndMove("", topic.id, number, partition.moves, partition.replicas[::-1]))
                assert not self.metadata.topics[topic.id].partitions[number].moved_from

    @rule(broker=BROKER, draining=st.booleans())
    def drain(self, broker: int, draining: bool) -> None:
        made = self.ask(DrainBroker("", broker, draining))
        if draining and made.error == ErrorCode.NONE:
            assert not any(broker in partition.replicas for _, _, partition in self.metadata.partitions())

    @rule()
    def take_producer_ids(self) -> None:
        before = self.metadata.next_producer_id
        made = self.ask(TakeProducerIds(""))
        assert made.facts["first"] == before
        assert self.metadata.next_producer_id == before + made.facts["count"]

    @rule(from_this_one=st.booleans())
    def restore_the_other(self, from_this_one: bool) -> None:
        if from_this_one:
            self.other.restore(self.metadata.encode())
        else:
            self.other = restored(self.other)

    def new_id(self) -> str:
        self.ids_given += 1
        return f"id-{self.ids_given}"

    def ask(self, request: Request) -> Plan:
        request = evolve(request, request_id=self.new_id())
        before = self.metadata.encode()
        about = Circumstances(frozenset({1, 2, 3, 5}), self.new_id, 2, 2, 1)
        made = plan(self.metadata, request, about)
        assert self.metadata.encode() == before
        if made.error != ErrorCode.NONE or getattr(request, "validate_only", False):
            assert not made.records
        self.write(made.records)
        for copy in (self.metadata, self.other):
            assert copy.answer_to(request.request_id) == (made.answer if made.records else None)
        return made

    def write(self, records: list[MetadataRecord]) -> None:
        for record in records:
            assert self.metadata.apply(record) == self.other.apply(decode(encode(record)))
            for copy in (self.metadata, self.other):
                copy.applied += 1

    @invariant()
    def copies_are_equal(self) -> None:
        assert self.other.encode() == self.metadata.encode()
        assert self.other.topics == self.metadata.topics
        assert self.other.brokers == self.metadata.brokers
        for name in NAMES:
            assert self.other.topic(name) == self.metadata.topic(name)

    @invariant()
    def names_are_unlike(self) -> None:
        names = [topic.name.replace(".", "_") for topic in self.metadata.topics.values()]
        assert len(set(names)) == len(names)

    @invariant()
    def partitions_are_well_kept(self) -> None:
        for topic, number, one in self.metadata.partitions():
            assert len(set(one.replicas)) == len(one.replicas) > 0
            assert len(set(one.keepers)) == len(one.keepers)
            assert {*one.replicas, *one.moved_from, *one.settled} == set(one.keepers) <= set(self.metadata.brokers)
            kept = self.kept.setdefault((topic.id, number), set())
            kept.update(one.keepers)
            if one.moved_from:
                still = self.still[topic.id, number]
                assert set(one.settled) <= set(one.moved_from)
                assert (one.settled, one.left) == (still.replicas, still.left)
            else:
                assert not one.settled
                assert one.left == tuple(sorted(kept - set(one.replicas)))
                self.still[topic.id, number] = one


def test_copies_that_apply_the_same_are_the_same() -> None:
    run_state_machine_as_test(TwoCopies, settings=settings(max_examples=50, stateful_step_count=40, deadline=None))


def test_while_a_partition_moves_it_has_as_many_replicas_as_before_or_afterwards_whichever_is_less() -> None:
    assert PartitionState((1, 2, 3), ()).factor == 3
    assert PartitionState((1, 2, 3), (), moved_from=(1,), settled=(1,)).factor == 1, "it grows"
    assert PartitionState((4,), (), moved_from=(1, 2, 3), settled=(1, 2, 3)).factor == 1, "it shrinks"
    assert PartitionState((4, 5), (), moved_from=(1, 2), settled=(1, 2)).factor == 2
