"""What the simulator found once, of leaders that bring followers their logs, each as its own small case."""

from __future__ import annotations

import errno
import random

import pytest
from attrs import evolve

from log.config import CleanupPolicy, LogConfig
from log.disk.handles import Handles
from log.disk.memory_filesystem import Fault, MemoryFilesystem
from log.partition.partition_log import PartitionLog
from log.raft.config import RaftConfig
from log.raft.follower import Follower
from log.raft.leader import Leader
from log.raft.membership import MembershipHistory
from log.raft.messages import (
    Append,
    Appended,
    Beat,
    BeginFromSnapshot,
    VoteAnswer,
)
from log.raft.node import RaftNode
from log.raft.ready import Vote
from log.replica.member import FULL_PAUSE_SECONDS, Member
from log.segment.epoch_cache import EpochEntry
from protocol.records.batches import Record, build_batch, check_batches, records
from tests.log.raft.groups import DIRECTORY, Group
from tests.log.raft.steps import BOTH, append_many, leader_of
from tests.log.raft.test_paper_claims import elect, group_of, pump, role_of


def values_of(log: PartitionLog) -> list[bytes | None]:
    """Of every record, from the first to the last."""
    batches = check_batches(log.read(log.log_start_offset, 1 << 20).read())
    return [one.value for position in batches.positions for one in records(batches.data, position, limit=1 << 20)]


def test_an_append_that_truncates_is_not_acknowledged_by_what_was_flushed_before_it() -> None:
    group = group_of(config=RaftConfig(flush_before_ack=True))
    follower = group.members[3]
    stale = build_batch([Record(0, 1, None, b"stale", ())])
    follower.log.append(check_batches(stale), epoch=1, now_ms=0)
    follower.log.flush()
    fresh = build_batch([Record(0, 1, None, b"fresh", ())], leader_epoch=2)
    message = Append(2, 1, 0, -1, 0, 0, memoryview(fresh))
    group.act(3, lambda member: member.step(message, group.now))
    group.save_vote(3)
    assert not [said for said in group.channels[3, 1] if isinstance(said, Appended) and said.ok]
    follower.log.flush()
    group.act(3, lambda member: member.flushed(group.now))
    assert [said.end for said in group.channels[3, 1] if isinstance(said, Appended) and said.ok] == [1]


def test_a_follower_appends_and_says_nothing_until_its_truncation_is_on_disk() -> None:
    group = group_of()
    group.syncs_late = True
    follower = group.members[3]
    for _ in range(2):
        stale = build_batch([Record(0, 1, None, b"stale", ())])
        follower.log.append(check_batches(stale), epoch=1, now_ms=0)
    for offset in range(2):
        fresh = build_batch([Record(offset, 1, None, b"fresh", ())], base_offset=offset, leader_epoch=2)
        message = Append(2, 1, offset, 2 if offset else -1, 0, 0, memoryview(fresh))
        group.act(3, lambda member, message=message: member.step(message, group.now))  # type: ignore[misc]
    group.save_vote(3)
    assert follower.log.end_offset == 0
    assert not [said for said in group.channels[3, 1] if isinstance(said, Appended)]
    follower.node.leader_gone(group.now)
    group.now += 5.0
    group.tick(3)
    assert isinstance(follower.node.role, Follower), "it does not stand for election with a log that takes no records"
    group.act(3, lambda member: member.step(message, group.now))
    group.sync(3)
    assert values_of(follower.log) == [b"fresh", b"fresh"]
    assert [said.end for said in group.channels[3, 1] if isinstance(said, Appended) and said.ok][-1] == 2


@pytest.mark.parametrize("how", ["link", "heartbeats"])
def test_an_append_that_waited_for_a_truncation_is_dropped_when_its_leader_is_gone(how: str) -> None:
    """Otherwise the replica would follow a dead leader for good, and refuse its vote to every other candidate."""
    group = group_of()
    group.syncs_late = True
    follower = group.members[3]
    follower.log.append(check_batches(build_batch([Record(0, 1, None, b"stale", ())])), epoch=1, now_ms=0)
    fresh = build_batch([Record(0, 1, None, b"fresh", ())], leader_epoch=2)
    message = Append(2, 1, 0, -1, 0, 0, memoryview(fresh))
    group.act(3, lambda member: member.step(message, group.now))
    group.save_vote(3)
    assert follower.log.is_truncating
    if how == "link":
        group.disconnect(1, 3)
    else:
        group.act(3, lambda member: member.leader_gone(group.now))
    group.sync(3)
    assert follower.node.leader is None
    group.now += 5.0
    group.tick(3)
    assert type(follower.node.role).__name__ == "PreCandidate"


def test_what_a_deposed_leader_left_does_not_live_on_in_a_gap_of_compaction() -> None:
    group = group_of()
    follower = group.members[3]
    for value in (b"committed", b"of a deposed leader"):
        batch = build_batch([Record(0, 1, b"k", value, ())])
        follower.log.append(check_batches(batch), epoch=1, now_ms=0)
    later = build_batch(
        [Record(3, 1, b"k", b"later", ())], base_offset=3, leader_epoch=2
    )  # 1 and 2 were compacted away
    group.act(3, lambda member: member.step(Append(2, 1, 1, 1, 0, 0, memoryview(later)), group.now))
    assert values_of(follower.log) == [b"committed", b"later"]
    assert follower.log.end_offset == 4


def test_what_was_verified_in_a_gap_stays_when_a_late_append_leaves_it_out() -> None:
    group = group_of()
    follower = group.members[3]
    for offset in range(2):
        batch = build_batch([Record(offset, 1, b"k", b"%d" % offset, ())], base_offset=offset, leader_epoch=2)
        message = Append(2, 1, offset, 2 if offset else -1, 0, 0, memoryview(batch))
        group.act(3, lambda member, message=message: member.step(message, group.now))  # type: ignore[misc]
    later = build_batch([Record(3, 1, b"k", b"3", ())], base_offset=3, leader_epoch=2)
    group.act(3, lambda member: member.step(Append(2, 1, 1, 2, 0, 0, memoryview(later)), group.now))
    assert values_of(follower.log) == [b"0", b"1", b"3"]


def test_a_follower_is_told_what_was_ever_committed_though_a_deposed_leader_left_it_more() -> None:
    group = group_of()
    elect(group, 1)
    append_many(group, 1, 2)
    leader, follower = group.members[1], group.members[3]
    stale = build_batch([Record(0, 1, None, b"of a deposed leader", ())])
    follower.log.append(check_batches(stale), epoch=follower.node.term, now_ms=0)
    for broker, beat in leader.node.beats():
        group.act(broker, lambda member, beat=beat: member.step(beat, group.now))  # type: ignore[misc]
    role = follower.node.role
    assert isinstance(role, Follower)
    assert role.certain_watermark == leader.node.watermark == follower.log.end_offset - 1


def test_followers_of_an_idle_partition_stay_in_sync() -> None:
    group = group_of()
    elect(group, 1)
    append_many(group, 1, 2)
    node = group.members[1].node
    group.now += 10 * node.config.lag_s_max
    assert node.in_sync(group.now) == {1, 2, 3}
    append_many(group, 1, 1)
    assert node.in_sync(group.now) == {1, 2, 3}


def test_a_deadline_that_is_exactly_now_is_over() -> None:
    group = group_of()
    elect(group, 1)
    role = leader_of(group, 1)
    group.disconnect(1, 3)
    group.connect(1, 3)
    for sent_at in (0.1, 0.3, 7.5636719, 8.563672):
        role.progress[3].sent_at = sent_at
        deadline = group.members[1].node.next_deadline
        assert deadline is not None
        group.now = deadline
        group.beat(1)
        group.members[1].node.heard.update({2: group.now, 3: group.now})
        group.tick(1)
        later = group.members[1].node.next_deadline
        assert later is None or later > group.now


def test_a_follower_begins_with_the_whole_batch_that_holds_the_leaders_log_start() -> None:
    group = group_of()
    elect(group, 1)
    group.kill(3)
    append_many(group, 1, 12, records=3)
    log = group.members[1].log
    log.raise_log_start(31)
    group.disks[3] = MemoryFilesystem()
    group.start(3)
    group.connect(1, 3)
    pump(group)
    follower = group.members[3].log
    assert (follower.first_offset, follower.end_offset) == (30, log.end_offset) == (30, 36)
    assert follower.read(31, 1 << 20).read() == log.read(31, 1 << 20).read()


def test_a_log_that_begins_inside_of_a_batch_knows_the_epoch_of_what_came_before_that() -> None:
    """A replica that begins with that batch would else vote for any candidate, whatever committed batches it lacks."""
    handles, config = Handles(MemoryFilesystem()), LogConfig()
    log = PartitionLog.open("/data/t-0", config, handles)
    batch = build_batch([Record(at, 1, None, b"value", ()) for at in range(3)])
    for epoch in (1, 2):
        log.append(check_batches(bytearray(batch)), epoch=epoch, now_ms=0)
    log.high_watermark = log.end_offset
    log.raise_log_start(4)
    assert (log.first_offset, log.epochs.epoch_at(log.first_offset - 1)) == (3, 1)
    log.close()
    log = PartitionLog.open("/data/t-0", config, handles)
    assert (log.log_start_offset, log.first_offset, log.epochs.epoch_at(log.first_offset - 1)) == (4, 3, 1)


def test_a_leader_may_hold_older_records_than_its_follower() -> None:
    group = group_of()
    elect(group, 1)
    append_many(group, 1, 5)
    group.kill(1)
    elect(group, 2)
    append_many(group, 2, 15)
    group.beat(2)
    pump(group)
    end = group.members[3].log.end_offset
    group.members[3].log.raise_log_start(end - 5)
    group.kill(3)
    group.start(3)
    group.connect(2, 3)
    group.channels[2, 3].clear()  # the first probe is lost; the next one begins where nothing is known
    progress = leader_of(group, 2).progress[3]
    progress.match = 0
    progress.probe_from(0)
    leader_of(group, 2).replicate(3, group.now)
    group.act(2, lambda member: member.tick(group.now))
    pump(group)
    append_many(group, 2, 1)
    follower = group.members[3]
    assert (follower.log.log_start_offset, follower.log.end_offset) == (end - 5, end + 1)
    assert isinstance(follower.node.role, Follower)
    assert follower.node.role.verified == end + 1


def test_a_follower_whose_epoch_its_leader_no_longer_knows_has_verified_nothing_above_the_next_probe() -> None:
    """Its leader was restarted from a snapshot, say, and knows no epoch below that."""
    group = group_of()
    elect(group, 1)
    append_many(group, 1, 3)
    node, role = group.members[1].node, leader_of(group, 1)
    assert role.progress[3].match == 3
    role.on_answer(Appended(node.term, 3, "dir-3", False, 3, 0, eligible=True), group.now)
    assert (role.progress[3].match, role.progress[3].next) == (0, 0)
    role.check_invariants()


# -- votes -----------------------------------------------------------------------------------------------------------


def test_a_follower_that_has_verified_nothing_yet_acknowledges_nothing_when_its_disk_is_done() -> None:
    """Its leader would take that for the answer to its first question, and send everything from the beginning."""
    group = group_of(config=RaftConfig(flush_before_ack=True))
    elect(group, 1)
    follower = group.members[3]
    follower.log.append(check_batches(build_batch([Record(0, 1, None, b"old", ())])), epoch=1, now_ms=0)
    follower.node.follow(1, None)
    follower.log.flush()
    group.act(3, lambda member: member.flushed(group.now))
    assert not [said for said in group.channels[3, 1] if isinstance(said, Appended)]


def test_a_follower_that_is_told_to_begin_anew_keeps_what_it_has_of_the_leaders_log() -> None:
    """It may have acknowledged that, and its leader's word may have been on its way for long."""
    group = group_of()
    elect(group, 1)
    append_many(group, 1, 5)
    log = group.members[1].log
    log.roll()
    log.raise_log_start(3)
    restart = group.members[1]._snapshot_message()
    append_many(group, 1, 1)
    group.act(3, lambda member: member.step(restart, group.now))
    assert group.members[3].log.end_offset == 6
    assert group.members[3].node.eligible
    pump(group)
    append_many(group, 1, 1)
    assert group.members[3].log.end_offset == 7


@pytest.mark.parametrize("start", [4, 5], ids=["at the beginning of a segment", "in the middle of a segment"])
def test_a_follower_that_begins_at_the_log_start_knows_producers_with_five_later_batches(start: int) -> None:
    """The leader's table keeps five batches; if those are never committed, the follower may lead without them."""
    group = group_of()
    elect(group, 1)
    leader = group.members[1]

    def write(sequence: int) -> None:
        made = build_batch([Record(0, 1, None, b"x", ())], producer_id=7, producer_epoch=2, base_sequence=sequence)
        group.act(1, lambda member: member.append(check_batches(made), group.now))
        pump(group, without=frozenset({3}))

    first = leader.log.end_offset
    for sequence in range(4 - first):
        write(sequence)
    leader.log.roll()
    for sequence in range(4 - first, 10):
        write(sequence)
    leader.log.raise_log_start(start)
    assert min(batch.last_offset for batch in leader.log.producers.get(7).batches) >= start  # type: ignore[union-attr]
    restart = leader._snapshot_message()
    assert restart.log_start == start
    group.act(3, lambda member: member.step(restart, group.now))
    known = group.members[3].log.producers.get(7)
    assert known is not None
    assert (known.epoch, known.batches[-1].last_offset, known.last_sequence) == (2, start - 1, start - 1 - first)


def test_a_follower_that_begins_at_the_log_start_gets_no_producers_that_have_expired() -> None:
    group = group_of()
    elect(group, 1)
    log = group.members[1].log
    made = build_batch([Record(0, 1, None, b"x", ())], producer_id=7, producer_epoch=0, base_sequence=0)
    group.act(1, lambda member: member.append(check_batches(made), group.now))
    append_many(group, 1, 1)
    log.roll()
    log.raise_log_start(log.end_offset)
    assert [one.id for one in log.producers_at(log.end_offset)] == [7]
    for now_ms in (0, 1000):
        log.producers.expire(now_ms, 1000)
    assert not list(log.producers_at(log.end_offset))


def test_a_follower_gets_what_the_leaders_table_knows_if_the_snapshot_is_damaged() -> None:
    group = group_of()
    elect(group, 1)
    log = group.members[1].log
    made = build_batch([Record(0, 1, None, b"x", ())], producer_id=7, producer_epoch=0, base_sequence=0)
    group.act(1, lambda member: member.append(check_batches(made), group.now))
    append_many(group, 1, 1)
    log.roll()
    log.raise_log_start(log.end_offset)
    path = f"{DIRECTORY}/{log.end_offset:020d}.snapshot"
    log.filesystem.open(path).pwrite(b"damaged", 0)
    assert [one.id for one in log.producers_at(log.end_offset)] == [7]


def test_a_follower_that_answers_late_is_asked_where_it_is_before_it_is_told_to_begin_anew() -> None:
    group = group_of()
    elect(group, 1)
    append_many(group, 1, 2)
    for _ in range(3):
        batch = check_batches(build_batch([Record(0, 1, None, b"late", ())]))
        group.act(1, lambda member, batch=batch: member.append(batch, group.now))  # type: ignore[misc]
        pump(group, without=frozenset({3}))
    log = group.members[1].log
    log.roll()
    log.raise_log_start(4)
    group.now += group.members[1].node.config.append_timeout_s + 0.1
    group.act(1, lambda member: member.tick(group.now))
    assert not [said for said in group.channels[1, 3] if isinstance(said, BeginFromSnapshot)]
    pump(group)
    assert group.members[3].log.end_offset == 5


def test_what_a_deposed_leader_sends_is_neither_taken_in_nor_believed() -> None:
    group = group_of()
    elect(group, 1)
    append_many(group, 1, 2)
    group.act(1, lambda member: member.transfer_to(2, group.now))
    pump(group)
    assert role_of(group, 2) == "Leader"
    follower = group.members[3]
    before = (follower.log.end_offset, follower.node.watermark, follower.node.leader)
    stale = build_batch([Record(2, 1, None, b"stale", ())], base_offset=2, leader_epoch=1)
    for message in (Append(1, 1, 2, 1, 3, 0, memoryview(stale)), Beat(1, 1, 3)):
        group.act(3, lambda member, message=message: member.step(message, group.now))  # type: ignore[misc]
        assert (follower.log.end_offset, follower.node.watermark, follower.node.leader) == before


def member_of_both(broker: int, log: PartitionLog, vote: Vote) -> Member:
    node = RaftNode(
        broker, f"dir-{broker}", MembershipHistory([(-1, BOTH)]), vote, log, config=RaftConfig(), rng=random.Random(1),
        now=0.0,
    )  # fmt: skip
    return Member(log, node, lambda: 0)


def lead(member: Member, follower: int) -> None:
    """Let this follower vote for it, and say that it has nothing."""
    term = member.node.term + 1
    member.peer_up(follower, 1.0)
    member.tick(1.0)
    yes = VoteAnswer(term, follower, f"dir-{follower}", granted=True, pre=True, eligible=True)
    member.step(yes, 1.0)
    member.vote_saved(Vote(term, member.node.broker), 1.0)
    member.step(evolve(yes, pre=False), 1.0)
    assert isinstance(member.node.role, Leader)
    member.step(Appended(term, follower, f"dir-{follower}", False, 0, -1, eligible=True), 1.0)
    member.step(Appended(term, follower, f"dir-{follower}", True, 0, -1, eligible=True), 1.0)


COMPACTED = LogConfig(cleanup_policy=CleanupPolicy.COMPACT)


def test_whoever_is_brought_a_compacted_log_knows_the_epochs_of_what_is_not_in_it() -> None:
    """Of epoch 2 the first batches are gone, of epoch 3 all, and of epoch 5 none."""
    log = PartitionLog.open("/data/t-0", COMPACTED, Handles(MemoryFilesystem()))
    epochs = [EpochEntry(1, 0), EpochEntry(2, 3), EpochEntry(3, 10), EpochEntry(4, 12), EpochEntry(5, 15)]
    for base, epoch in ((0, 1), (8, 2), (9, 2), (14, 4), (15, 5)):
        batch = build_batch([Record(base, 1, None, b"x", ())], base_offset=base, leader_epoch=epoch)
        log.append_stamped(check_batches(batch), now_ms=0, hidden=epochs)
    assert list(log.epochs) == epochs
    leader = member_of_both(1, log, Vote(5, None))
    lead(leader, 2)
    files = MemoryFilesystem()
    copy = PartitionLog.open("/data/t-0", COMPACTED, Handles(files))
    follower = member_of_both(2, copy, Vote(6, 1))
    for _ in range(10):
        sent, leader.outbox = leader.outbox, []
        for _, message in sent:
            if isinstance(message, Append):
                follower.step(message, 2.0)
        answers, follower.outbox = follower.outbox, []
        for _, answer in answers:
            leader.step(answer, 2.0)
    assert copy.end_offset == log.end_offset == 17
    assert list(copy.epochs)[:5] == epochs
    copy.release()
    assert list(PartitionLog.open("/data/t-0", COMPACTED, Handles(files)).epochs)[:5] == epochs


def probes(group: Group, *, to: int) -> list[int]:
    """Where its leader, broker 1, has asked a follower whether the logs meet, since this was last asked."""
    said = [one.prev_end for one in group.channels[1, to] if isinstance(one, Append) and not one.batches]
    group.channels[1, to].clear()
    return said


def test_a_refusal_that_comes_twice_is_not_taken_for_the_answer_to_the_next_question() -> None:
    """Else the leader asks for the middle of a batch, and what the follower knows to be committed ends there."""
    group = group_of()
    elect(group, 1)
    append_many(group, 1, 2, records=3)
    group.disconnect(1, 3)
    append_many(group, 1, 1, records=3)
    group.connect(1, 3)
    assert probes(group, to=3) == [9]
    term = group.members[1].node.term
    for asked in ([6], []):
        group.act(1, lambda member: member.step(Appended(term, 3, "dir-3", False, 6, term, True), group.now))
        assert probes(group, to=3) == asked


def test_where_a_shorter_log_of_a_later_epoch_parts_is_soon_found(monkeypatch: pytest.MonkeyPatch) -> None:
    group = group_of()
    for broker, epochs in ((1, [4] * 20), (2, [4] * 20), (3, [4, 4, 4, 5, 5])):
        group.kill(broker)
        log = PartitionLog.open(DIRECTORY, group.log_config, Handles(group.disks[broker]))
        for epoch in epochs:
            log.append(check_batches(build_batch([Record(0, 1, None, b"%d" % epoch, ())])), epoch=epoch, now_ms=0)
        log.close()
        group.votes[broker] = Vote(5)
        group.start(broker)
    group.connect(1, 2)
    group.connect(1, 3)
    asked, deliver = [], group.deliver

    def note_and_deliver(a: int, b: int) -> None:
        message = group.channels[a, b][0]
        if b == 3 and isinstance(message, Append) and not message.batches:
            asked.append(message.prev_end)
        deliver(a, b)

    monkeypatch.setattr(group, "deliver", note_and_deliver)
    elect(group, 1)
    assert asked == [20, 5, 3]
    assert values_of(group.members[3].log)[:20] == [b"4"] * 20


def test_a_follower_does_not_claim_a_batch_that_it_begins_inside_of() -> None:
    group = group_of()
    follower = group.members[3]
    follower.log.restart_at(31, [EpochEntry(1, 0)])
    data = build_batch([Record(at, 1, None, b"x", ()) for at in range(30, 33)], base_offset=30, leader_epoch=1)
    group.act(3, lambda member: member.step(Append(2, 1, 31, 1, 40, 31, memoryview(data)), group.now))
    group.save_vote(3)
    assert [said.end for said in group.channels[3, 1] if isinstance(said, Appended) and said.ok] == [31]
    assert follower.node.watermark <= follower.log.end_offset == 31


@pytest.mark.parametrize("start", [2, 7])
def test_a_follower_whose_empty_log_begins_inside_of_a_batch_is_filled(start: int) -> None:
    """Records were deleted up to the middle of a batch, and a power loss took the batch."""
    group = group_of()
    elect(group, 1)
    append_many(group, 1, 3, records=5)
    leader = group.members[1]
    end, epochs = leader.log.end_offset, list(leader.log.epochs)
    group.kill(3)
    log = PartitionLog.open(DIRECTORY, group.log_config, Handles(group.disks[3]))
    log.restart_at(start, epochs)
    log.close()
    group.start(3)
    group.connect(1, 3)
    for _ in range(5):
        group.now += group.config.append_timeout_s
        group.tick(1)
        pump(group)
    follower = group.members[3]
    assert follower.log.end_offset == end
    assert follower.node.watermark == end
    assert values_of(follower.log)[-5:] == values_of(leader.log)[-5:]
    assert leader_of(group, 1).progress[3].match == end


def test_a_follower_whose_disk_is_full_does_not_have_its_leader_send_the_same_without_end() -> None:
    group = group_of()
    elect(group, 1)
    append_many(group, 1, 1)
    full = Fault("write", errno.ENOSPC, f"{DIRECTORY}/*.log", times=None)
    group.disks[3].faults.append(full)

    def deliver_all() -> int:
        count = 0
        while count < 500 and any(group.channels.values()):
            for a, b in [way for way, said in group.channels.items() if said]:
                group.deliver(a, b)
                count += 1
        return count

    for value in (b"a", b"b", b"c"):
        batch = build_batch([Record(0, 1, None, value, ())])
        group.act(1, lambda member, batch=batch: member.append(check_batches(batch), group.now))  # type: ignore[misc]
    assert deliver_all() < 100
    leader, follower = group.members[1].log, group.members[3].log
    assert follower.end_offset < leader.end_offset
    group.disks[3].faults.remove(full)
    follower.handles.reserve.is_full = False
    group.now += FULL_PAUSE_SECONDS
    append_many(group, 1, 1)
    assert values_of(group.members[3].log) == values_of(leader)
