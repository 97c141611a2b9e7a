"""What a replica answers, and when, while others are slow, silent or gone."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest
from attrs import evolve, frozen

from actors.cluster_file.facts import ClusterFacts
from actors.messages.coordinator import GROUPS_TOPIC
from actors.messages.replica import (
    ALL,
    EARLIEST,
    LATEST,
    AppendMarker,
    AppendRecords,
    AppendResult,
    ConfirmLeadership,
    FindOffset,
    LeadershipAnswer,
    LogMoved,
    ReadRecords,
    ReadSlice,
    TransferLeadership,
    UnwatchLog,
    WatchLog,
    replica_address,
)
from actors.partition import transaction_gate
from actors.partition.replica import Replica
from actors.runtime import Actor, Address, Future, Payload, handles
from actors.serving.answers import Answers
from actors.serving.connection import Received
from actors.serving.context import Serving
from actors.serving.fetch_sessions import FetchSessions
from actors.serving.kafka import handlers as apis
from actors.serving.kafka.connection import KafkaConnection
from protocol.apis import FETCH
from protocol.error_codes import ErrorCode
from protocol.framing import ClientConnection
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.records.batches import ControlType, Record, build_batch, check_batches, end_txn_marker
from tests.actors.serving.test_answers import Taken
from tools.simulator.cluster.settled import unsettled
from tools.simulator.record.report import TraceKeeper
from tools.simulator.settings.layout import CLIENT_NODES
from tools.simulator.settings.seed import choose
from tools.simulator.world import World

LAG_SECONDS = 1.0


@frozen(slots=True)
class _Ask:
    address: Address
    request: object


class Asker(Actor):
    """Keeps the answers, in the order in which they come."""

    restart = None

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[Any] = []
        self.moved: list[LogMoved] = []

    @handles(_Ask)
    def put(self, message: _Ask) -> None:
        def answered(future: Future[Any]) -> None:
            self.answers.append(future.exception or future.get())

        self.ask(message.address, message.request, answered, timeout=60.0)

    @handles(LogMoved)
    def log_moved(self, message: LogMoved) -> None:
        self.moved.append(message)


class Partition:
    """One partition with three replicas, and somebody who writes to it and reads it when told to."""

    def __init__(self, *, min_insync_replicas: int, configs: Mapping[str, str] = MappingProxyType({})) -> None:
        settings = choose(1, faults=(), brokers=3, partitions=1, admins=0, groups=(), transactions=False, seconds=5.0)
        defaults = {**dict(settings.topic_defaults), "min.insync.replicas": str(min_insync_replicas), **configs}
        raft = evolve(settings.raft, lag_s_max=LAG_SECONDS)
        self.world = World(
            evolve(settings, writers=0, readers=0, raft=raft, topic_defaults=tuple(defaults.items())), TraceKeeper()
        )
        self.run(1.0)
        assert self.world.form()
        self.run(1.0)
        assert unsettled(self.world) is None
        self.asker = self.asker_at(CLIENT_NODES[0])
        (self.group,) = self.world.groups
        leader = self.world.leader(self.group)
        assert leader is not None
        self.leader = leader
        self.followers = [broker for broker in self.world.brokers if broker != leader]

    def asker_at(self, number: int) -> Asker:
        node = self.world.sim.nodes[number]
        node.spawn(Asker, address=Address("asker", "", number))
        asker = node.actor(Address("asker", "", number))
        assert isinstance(asker, Asker)
        return asker

    def run(self, seconds: float) -> None:
        self.world.sim.run(seconds=seconds)
        assert not self.world.history.violations, self.world.history.violations[0]

    @property
    def replica(self) -> Replica:
        replica = self.world.replica(self.group, self.leader)
        assert isinstance(replica, Replica)
        return replica

    def ask(self, request: object, *, of: int | None = None) -> None:
        """The leader, or the replica on another broker."""
        message = _Ask(replica_address(self.group, self.leader if of is None else of), request)
        self.world.sim.nodes[self.asker.address.broker].tell_local(self.asker.address, message)

    def append(self, *, timeout_ms: int = 30_000) -> None:
        batch = build_batch([Record(0, 1, None, b"value", ())])
        self.ask(AppendRecords(ALL, timeout_ms, Payload(memoryview(batch))))

    def append_numbered(self, sequence: int) -> None:
        made = [Record(0, 1, None, b"%d" % sequence, ())]
        batch = build_batch(made, producer_id=7, producer_epoch=0, base_sequence=sequence)
        self.ask(AppendRecords(ALL, 30_000, Payload(memoryview(batch))))

    def append_transactional(self, *, producer_epoch: int, sequence: int = 0) -> None:
        batch = transactional_batch(7, producer_epoch, sequence)
        self.ask(AppendRecords(ALL, 30_000, Payload(memoryview(batch)), transactional_id="some"))

    def silence(self, broker: int) -> None:
        """Nothing from this follower arrives, and the leader is not told: its link stands."""
        self.world.sim.blocked.add((broker, self.leader))

    def unsilence(self, broker: int) -> None:
        self.world.sim.blocked.discard((broker, self.leader))

    @property
    def errors(self) -> list[ErrorCode]:
        assert all(isinstance(answer, AppendResult) for answer in self.asker.answers), self.asker.answers
        return [ErrorCode(answer.error) for answer in self.asker.answers]


def transactional_batch(producer: int, epoch: int, sequence: int = 0) -> bytearray:
    made = [Record(0, 1, None, b"value", ())]
    return build_batch(made, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, transactional=True)


def test_acks_all_waits_until_so_many_replicas_hold_it_however_many_are_in_sync() -> None:
    partition = Partition(min_insync_replicas=3)
    partition.silence(partition.followers[0])
    partition.append()
    partition.run(0.3)
    assert partition.replica.member.node.watermark == partition.replica.member.log.end_offset
    assert len(partition.replica.member.node.in_sync(partition.world.now)) == 3, "it was in sync a moment ago"
    assert partition.errors == [], "two of three hold it"
    partition.unsilence(partition.followers[0])
    partition.run(1.5)
    assert partition.errors == [ErrorCode.NONE], "the third has said that it does, though nothing more was committed"


def test_what_is_committed_is_refused_at_once_if_too_few_are_in_sync_then() -> None:
    partition = Partition(min_insync_replicas=3)
    partition.silence(partition.followers[0])
    partition.append()
    partition.run(0.3)
    assert partition.errors == []
    partition.unsilence(partition.followers[0])
    partition.world.kill(partition.followers[0])
    partition.run(0.2)
    assert partition.errors == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]


@pytest.mark.parametrize("known", [True, False])
def test_what_was_sent_behind_a_batch_that_was_refused_for_now_is_not_out_of_order(known: bool) -> None:
    """librdkafka would number everything again that is under way, and write it twice; what is not known yet would begin
    with the second batch, and the first would never be taken."""
    partition = Partition(min_insync_replicas=3)
    first = 0
    if known:
        partition.append_numbered(0)
        partition.run(0.1)
        assert partition.errors == [ErrorCode.NONE]
        partition.asker.answers.clear()
        first = 1
    partition.world.kill(partition.followers[0])
    partition.run(0.1)
    partition.append_numbered(first)
    partition.run(0.1)
    assert partition.errors == [ErrorCode.NOT_ENOUGH_REPLICAS]
    partition.world.start(partition.followers[0])
    partition.run(2.0)
    partition.append_numbered(first + 1)
    partition.run(0.1)
    assert partition.errors == [ErrorCode.NOT_ENOUGH_REPLICAS] * 2
    for sequence in (first, first + 1, first):
        partition.append_numbered(sequence)
    partition.run(0.1)
    assert partition.errors[2:] == [ErrorCode.NONE] * 3
    offsets = [answer.base_offset for answer in partition.asker.answers[2:]]
    assert offsets == [first, first + 1, first]


def test_what_was_sent_behind_a_batch_that_its_coordinator_could_not_vouch_for_yet_is_not_out_of_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = [ErrorCode.NOT_COORDINATOR, ErrorCode.NONE]
    monkeypatch.setattr(transaction_gate, "ask_to_vouch", lambda *asked, **_: asked[-1](words.pop(0)))
    partition = Partition(min_insync_replicas=2)
    for sequence in (0, 1, 0, 1):
        partition.append_transactional(producer_epoch=0, sequence=sequence)
        partition.run(0.1)
    assert partition.errors == [ErrorCode.NOT_ENOUGH_REPLICAS] * 2 + [ErrorCode.NONE] * 2
    assert not words, "the second was not asked for: it had to wait for the first in any case"


def test_what_was_sent_behind_a_batch_that_waited_for_its_coordinator_when_its_leader_was_deposed_is_not_out_of_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It leads again when the second one arrives, and knows nothing of the producer: that would begin there."""
    monkeypatch.setattr(transaction_gate, "ask_to_vouch", lambda *_, **__: None)
    partition = Partition(min_insync_replicas=2)
    partition.append_transactional(producer_epoch=0, sequence=0)
    partition.run(0.1)
    partition.replica.on_leads(leads=False)
    partition.run(0.1)
    monkeypatch.setattr(transaction_gate, "ask_to_vouch", lambda *asked, **_: asked[-1](ErrorCode.NONE))
    for sequence in (1, 0, 1):
        partition.append_transactional(producer_epoch=0, sequence=sequence)
        partition.run(0.1)
    assert partition.errors == [
        ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NONE, ErrorCode.NONE,
    ]  # fmt: skip


def test_what_was_sent_behind_a_batch_that_another_leader_cuts_off_is_not_out_of_order() -> None:
    """It was written, and refused when its leader was deposed. The same broker leads again when the second arrives."""
    partition = Partition(min_insync_replicas=2)
    for follower in partition.followers:
        partition.silence(follower)
        partition.world.sim.blocked.add((partition.leader, follower))
    partition.append_numbered(0)
    partition.run(0.1)
    assert partition.errors == [], "it is written, and held by nobody else"
    partition.run(3.0)
    assert partition.errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    partition.world.heal()
    partition.run(1.0)
    successor = partition.world.leader(partition.group)
    assert successor is not None
    deposed, partition.leader = partition.leader, successor
    partition.append()
    partition.run(1.0)
    partition.leader = deposed
    assert partition.replica.producers.get(7) is None, "the next leader has cut it off"
    transfer = TransferLeadership(partition.leader)
    partition.world.sim.nodes[successor].tell_local(replica_address(partition.group, successor), transfer)
    partition.run(1.0)
    assert partition.world.leader(partition.group) == partition.leader
    for sequence in (1, 0, 1):
        partition.append_numbered(sequence)
        partition.run(0.1)
    assert partition.errors[1:] == [
        ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NONE, ErrorCode.NONE,
    ]  # fmt: skip


def test_an_append_whose_time_is_up_is_judged_by_what_is_so_then() -> None:
    partition = Partition(min_insync_replicas=3)
    partition.silence(partition.followers[0])
    partition.append(timeout_ms=400)
    partition.run(0.6)
    assert partition.errors == [ErrorCode.REQUEST_TIMED_OUT]


def test_who_leads_is_confirmed_by_a_majority_or_not_at_all() -> None:
    partition = Partition(min_insync_replicas=2)
    epoch = partition.replica.member.node.term
    partition.ask(ConfirmLeadership(epoch))
    partition.run(0.1)
    assert partition.asker.answers == [LeadershipAnswer(ErrorCode.NONE)]
    for follower in partition.followers:
        partition.silence(follower)
    partition.ask(ConfirmLeadership(epoch))
    partition.run(0.5)
    assert len(partition.asker.answers) == 1, "its links stand, and nobody answers"
    partition.unsilence(partition.followers[0])
    partition.run(2.0)
    assert partition.asker.answers[1:] == [LeadershipAnswer(ErrorCode.NONE)]
    partition.ask(ConfirmLeadership(epoch - 1))
    partition.run(0.1)
    assert partition.asker.answers[2:] == [LeadershipAnswer(ErrorCode.FENCED_LEADER_EPOCH)]


def test_a_leader_that_steps_down_is_not_confirmed() -> None:
    partition = Partition(min_insync_replicas=2)
    for follower in partition.followers:
        partition.world.sim.blocked.update(((follower, partition.leader), (partition.leader, follower)))
    partition.ask(ConfirmLeadership(-1))
    partition.run(5.0)
    assert partition.asker.answers == [LeadershipAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER)]


def test_only_a_leader_that_a_majority_confirms_reports_a_missing_batch() -> None:
    """A deposed leader that has not heard of its successor lacks what that one has written."""
    partition = Partition(min_insync_replicas=1)
    for sequence in (0, 5):
        partition.append_numbered(sequence)
        partition.run(0.1)
    assert partition.errors == [ErrorCode.NONE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    for follower in partition.followers:
        partition.world.sim.blocked.update(((follower, partition.leader), (partition.leader, follower)))
    partition.append_numbered(5)
    partition.run(0.5)
    assert len(partition.errors) == 2, "its links stand, and no follower confirms that it leads"
    partition.run(5.0)
    assert partition.errors[2:] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_two_who_watch_on_one_connection_are_both_told() -> None:
    partition = Partition(min_insync_replicas=2)
    watcher = partition.asker_at(partition.leader)
    for number in (7, 8, 9):
        partition.replica.watch_log(watch(watcher, number=number))
    partition.replica.unwatch_log(UnwatchLog(watcher.address, 9))
    partition.append()
    partition.run(0.1)
    assert [message.number for message in watcher.moved] == [7, 8]
    assert not partition.replica._reads.waits


def watch(watcher: Asker, *, number: int = 1, offset: int = 0, lacks: int = 1, wanted: int = 1) -> WatchLog:
    return WatchLog(watcher.address, number, 0, offset, False, lacks, wanted)


def test_a_watcher_is_told_once_when_all_the_bytes_are_there_that_it_lacks() -> None:
    partition = Partition(min_insync_replicas=2)
    watcher, size = partition.asker_at(partition.leader), len(build_batch([Record(0, 1, None, b"value", ())]))
    partition.append()
    partition.run(0.1)
    partition.replica.watch_log(watch(watcher, offset=1, lacks=2 * size + 1, wanted=2 * size + 1))
    for _ in range(2):
        partition.append()
        partition.run(0.1)
    assert not watcher.moved, "one byte is missing"
    partition.append()
    partition.append()
    partition.run(0.1)
    assert [(message.end, message.size) for message in watcher.moved] in ([(4, 3 * size)], [(5, 4 * size)])


def test_a_watcher_of_a_log_that_has_moved_already_is_told_at_once() -> None:
    partition = Partition(min_insync_replicas=2)
    watcher, size = partition.asker_at(partition.leader), len(build_batch([Record(0, 1, None, b"value", ())]))
    for _ in range(2):
        partition.append()
    partition.run(0.1)
    partition.replica.watch_log(watch(watcher, offset=1, lacks=1000))
    partition.run(0.1)
    assert watcher.moved == [LogMoved(1, 0, 2, size)]


def test_a_watcher_of_records_beyond_the_high_watermark_is_not_told_of_those_below() -> None:
    partition = Partition(min_insync_replicas=2)
    watcher = partition.asker_at(partition.leader)
    partition.replica.watch_log(watch(watcher, offset=1))
    partition.append()
    partition.run(0.1)
    assert not watcher.moved
    partition.append()
    partition.run(0.1)
    assert [message.end for message in watcher.moved] == [2]


def test_a_watcher_is_told_when_the_replica_leads_no_longer() -> None:
    partition = Partition(min_insync_replicas=2)
    watcher = partition.asker_at(partition.leader)
    partition.replica.watch_log(watch(watcher, lacks=1000, wanted=1000))
    partition.ask(TransferLeadership(partition.followers[0]))
    partition.run(1.0)
    partition.replica.watch_log(watch(watcher, number=2))
    partition.run(0.1)
    assert [(message.number, message.end) for message in watcher.moved] == [(1, -1), (2, -1)]


def test_watchers_of_deleted_records_are_told() -> None:
    """There is nothing to count from their offset on: they learn the reason when they read."""
    partition = Partition(min_insync_replicas=2)
    watcher = partition.asker_at(partition.leader)
    for _ in range(2):
        partition.append()
    partition.run(0.1)
    partition.replica.member.log.raise_log_start(2)
    partition.replica.watch_log(watch(watcher, lacks=1000, wanted=1000))
    partition.run(0.1)
    assert [message.end for message in watcher.moved] == [2]


def test_a_connection_that_ends_leaves_no_watch_behind() -> None:
    """Its client is cut off, and the log does not move any more."""
    partition = Partition(min_insync_replicas=2)
    node, context = partition.world.sim.nodes[partition.leader], partition.replica.context
    (topic,) = context.metadata.topics.values()
    wanted = FetchTopic(topic=topic.name, partitions=[FetchPartition(partition_max_bytes=1000)])
    fetch = FetchRequest(max_wait_ms=1 << 30, min_bytes=1, topics=[wanted])
    frame = b"".join(ClientConnection("test").send(FETCH, fetch, 12))[4:]
    serving = Serving(node, context, ClusterFacts((1,), (), "host", 1), FetchSessions(random.Random(1)))
    answers: Any = Answers(Taken(), node.scheduler)  # type: ignore[arg-type]
    address = Address("connection", "1", partition.leader)
    connection = node.spawn(KafkaConnection, answers, serving, "peer", apis, address=address)
    connection.tell(Received(deque([memoryview(frame)])))
    partition.run(0.1)
    assert len(partition.replica._reads.waits) == 1
    connection.stop(block=False)
    partition.run(0.1)
    assert not partition.replica._reads.waits


def test_a_marker_that_is_refused_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for the coordinator's word is of the producer's current transaction, and the marker of an older."""
    monkeypatch.setattr(transaction_gate, "ask_to_vouch", lambda *_, **__: None)
    partition = Partition(min_insync_replicas=2)
    partition.ask(AppendMarker(7, 3, commit=True, coordinator_epoch=0, transaction_version=2))
    partition.run(0.1)
    assert partition.errors == [ErrorCode.NONE]
    partition.append_transactional(producer_epoch=3)
    partition.ask(AppendMarker(7, 2, commit=False, coordinator_epoch=0, transaction_version=1))
    partition.run(0.1)
    assert partition.errors[1:] == [ErrorCode.INVALID_PRODUCER_EPOCH], "the batch still waits"
    partition.ask(AppendMarker(7, 3, commit=False, coordinator_epoch=0, transaction_version=1))
    partition.run(0.1)
    assert sorted(partition.errors[2:]) == [ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE], "its own transaction's does"


def test_a_fenced_producer_is_told_so_while_a_batch_of_its_successor_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was refused in a place where its answer was promised for later, and never came."""
    monkeypatch.setattr(transaction_gate, "ask_to_vouch", lambda *_, **__: None)
    partition = Partition(min_insync_replicas=2)
    partition.append_transactional(producer_epoch=3)
    partition.append_transactional(producer_epoch=2)
    partition.run(0.1)
    assert partition.errors == [ErrorCode.INVALID_PRODUCER_EPOCH]


def test_a_reader_is_told_of_the_aborted_transactions_in_what_it_got_and_of_no_later_ones() -> None:
    partition = Partition(min_insync_replicas=2)
    log = partition.replica.member.log
    for producer in (7, 8, 9):
        log.append(check_batches(transactional_batch(producer, 0)), epoch=1, now_ms=0)
        log.append(check_batches(end_txn_marker(ControlType.ABORT, 0, producer, 0, 0)), epoch=1, now_ms=0)
    log.high_watermark = partition.replica.member.node.watermark = log.end_offset
    assert [one.producer_id for one in log.aborted_transactions(2, log.end_offset)] == [8, 9]
    told = partition.replica.read_slice(ReadSlice(2, 1, True, -1, -1))
    assert told.aborted is not None
    assert [one.producer_id for one in told.aborted] == [8]
    read = partition.replica.read_records(ReadRecords(2, 1, 1, 0, read_committed=True))
    assert read is not None
    assert [one.producer_id for one in read.aborted] == [8]


def test_a_leader_that_lost_all_the_others_shows_what_is_committed_and_takes_nothing_in() -> None:
    partition = Partition(min_insync_replicas=2)
    partition.append()
    partition.run(0.2)
    for follower in partition.followers:
        partition.world.kill(follower)
    partition.run(20.0)
    partition.append()
    partition.run(0.2)
    assert partition.errors == [ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS]
    read = partition.replica.read_slice(ReadSlice(0, 1000, False, 1, -1))
    assert (read.error, read.high_watermark, bool(read.slice)) == (ErrorCode.NONE, 1, True)
    for later in (ReadSlice(2, 1000, False, -1, -1), ReadSlice(1, 1000, False, -1, 2)):
        told = partition.replica.read_slice(later)
        assert told.error == ErrorCode.NOT_LEADER_OR_FOLLOWER, "a consumer that has read more does not begin again"
    earliest = partition.replica.find_offset(FindOffset(EARLIEST, False))
    assert earliest is not None
    assert earliest.error == ErrorCode.NONE
    latest = partition.replica.find_offset(FindOffset(LATEST, False))
    assert latest is not None
    assert latest.error == ErrorCode.NOT_LEADER_OR_FOLLOWER, "nobody knows what the others have committed"
    for follower in partition.followers:
        partition.world.start(follower)
    partition.run(5.0)
    leader = partition.world.leader(partition.group)
    assert leader is not None
    partition.leader = leader
    partition.append()
    partition.run(1.0)
    assert partition.errors[2:] == [ErrorCode.NONE]


def test_a_leader_that_has_not_been_answered_shows_nothing_though_its_links_close_later() -> None:
    """As after SIGSTOP: others have had the time to elect somebody."""
    partition = Partition(min_insync_replicas=2)
    for follower in partition.followers:
        partition.world.sim.blocked.update(((follower, partition.leader), (partition.leader, follower)))
    node = partition.replica.member.node
    partition.run(node.config.leader_timeout_s - 0.1)
    node.heard.update(dict.fromkeys(partition.followers, -100.0))
    for follower in partition.followers:
        node.peer_down(follower, partition.world.now)
    read = partition.replica.read_records(ReadRecords(0, 1000, 1, 0))
    assert read is not None
    assert read.error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_coordinators_log_is_not_led_alone() -> None:
    partition = Partition(min_insync_replicas=2)
    assert partition.replica.spec().leads_alone
    topic = partition.world.metadata().topics  # type: ignore[union-attr]
    (topic_id,) = topic
    partition.replica.context.metadata.topics[topic_id] = evolve(topic[topic_id], name=GROUPS_TOPIC)
    assert not partition.replica.spec().leads_alone
