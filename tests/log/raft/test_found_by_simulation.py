"""What the simulator found once, each as its own small case."""

from __future__ import annotations

import errno
import random

import pytest
from attrs import evolve

from log import losses
from log.config import CleanupPolicy, LogConfig
from log.epoch_cache import EpochEntry
from log.errors import LogOffline
from log.handles import Handles
from log.memory_filesystem import Fault, MemoryFilesystem, SimulatedCrash
from log.partition_log import PartitionLog
from log.raft import leading
from log.raft.member import MEMBERSHIP_FILE, Member
from log.raft.membership import Membership, MembershipHistory, Voter
from log.raft.messages import (
    Append,
    Appended,
    Beat,
    BeatAnswer,
    Recovered,
    Restart,
    VoteAnswer,
    VoteRequest,
)
from log.raft.node import RaftConfig, RaftNode
from log.raft.ready import Vote
from log.raft.roles import Follower, Leader
from log.raft.vote_journal import VoteJournal
from protocol.records import Record, build_batch, check_batches, records
from tests.log.raft.groups import DIRECTORY, Group
from tests.log.raft.test_paper_claims import elect, group_of, pump, role_of

JOURNAL = "/data/votes"


def leader_of(group: Group, broker: int) -> Leader:
    role = group.members[broker].node.role
    assert isinstance(role, Leader)
    return role


def append_many(group: Group, broker: int, count: int, *, records: int = 1) -> None:
    for number in range(count):
        batch = build_batch([Record(at, 1, None, b"%d-%d" % (number, at), ()) for at in range(records)])
        group.act(broker, lambda member, batch=batch: member.append(check_batches(batch), group.now))  # type: ignore[misc]
        pump(group)


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
    assert leading.in_sync(node, leader_of(group, 1), group.now) == {1, 2, 3}
    append_many(group, 1, 1)
    assert leading.in_sync(node, leader_of(group, 1), group.now) == {1, 2, 3}


def test_a_follower_that_lost_its_log_catches_up_under_the_same_leader() -> None:
    group = group_of()
    elect(group, 1)
    append_many(group, 1, 5)
    group.kill(3)
    group.disks[3] = MemoryFilesystem()
    group.start(3)
    group.connect(1, 3)
    pump(group)
    assert group.members[3].log.end_offset == group.members[1].log.end_offset == 5


def test_a_replica_that_lost_data_is_not_told_that_it_recovered_by_what_it_said_before() -> None:
    group = group_of()
    elect(group, 1)
    append_many(group, 1, 5)
    leader, role = group.members[1].node, leader_of(group, 1)
    assert role.progress[3].match == 5
    answer = Appended(leader.term, 3, "dir-3", True, 0, -1, eligible=False)
    leading.on_answer(leader, role, answer, group.now)
    assert role.progress[3].match == 0
    assert not [message for _, message in leader.take_ready().messages if type(message).__name__ == "Recovered"]


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
    """Who begins with that batch would else vote for anybody, however little of what is committed that one has."""
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
    group.act(2, lambda member: leading.replicate(member.node, leader_of(group, 2), 3, group.now))
    group.act(2, lambda member: member.tick(group.now))
    pump(group)
    append_many(group, 2, 1)
    follower = group.members[3]
    assert (follower.log.log_start_offset, follower.log.end_offset) == (end - 5, end + 1)
    assert isinstance(follower.node.role, Follower)
    assert follower.node.role.verified == end + 1


# -- votes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_vote_that_could_not_be_saved_does_not_hide_later_ones(operation: str) -> None:
    files = MemoryFilesystem()
    files.make_directory("/data")
    journal = VoteJournal(files, JOURNAL)
    journal.write({"t-0": Vote(1, 1)})
    journal.sync()
    files.faults.append(Fault(operation, errno.EIO, JOURNAL))  # type: ignore[arg-type]
    with pytest.raises(OSError, match="Input/output"):
        save(journal, Vote(2, 2))
    assert journal.get("t-0") == Vote(1, 1)
    save(journal, Vote(3, 3))
    files.crash()
    assert VoteJournal(files, JOURNAL).get("t-0") == Vote(3, 3)


def test_a_process_does_not_trust_what_an_earlier_one_could_not_sync() -> None:
    files = MemoryFilesystem()
    files.make_directory("/data")
    journal = VoteJournal(files, JOURNAL)
    files.faults.append(Fault("sync", errno.EIO, JOURNAL))
    with pytest.raises(OSError, match="Input/output"):
        save(journal, Vote(1, 1))
    files.crash(mode="keep_all")
    save(VoteJournal(files, JOURNAL), Vote(2, 2))
    files.crash()
    assert VoteJournal(files, JOURNAL).get("t-0") == Vote(2, 2)


def save(journal: VoteJournal, vote: Vote) -> None:
    journal.write({"t-0": vote})
    journal.sync()


# -- logs ------------------------------------------------------------------------------------------------------------


def log_in(files: MemoryFilesystem) -> PartitionLog:
    return PartitionLog.open("/data/t-0", LogConfig(), Handles(files))


def append(log: PartitionLog, value: bytes) -> None:
    log.append(check_batches(build_batch([Record(0, 1, None, value, ())])), epoch=1, now_ms=0)


def test_what_a_failed_sync_left_in_memory_is_on_disk_before_the_log_says_so() -> None:
    files = MemoryFilesystem()
    log = log_in(files)
    append(log, b"one")
    files.faults.append(Fault("sync", errno.EIO, "*.log"))
    with pytest.raises(LogOffline):
        log.flush()
    again = log_in(files)
    append(again, b"two")
    again.flush()
    files.crash()
    assert log_in(files).end_offset == 2


def test_a_sync_that_failed_unnoticed_does_not_make_a_later_one_count() -> None:
    """The process was killed before it could note that: where syncs count, it is written again whatever happened."""
    files = MemoryFilesystem()
    config = LogConfig(flush_messages=1)
    log = PartitionLog.open("/data/t-0", config, Handles(files))
    append(log, b"one")
    files.faults.append(Fault("sync", errno.EIO, "*.log"))
    with pytest.raises(OSError, match="Input/output"):
        log.begin_flush().run(files)
    files.crash(mode="keep_all")
    again = PartitionLog.open("/data/t-0", config, Handles(files))
    append(again, b"two")
    again.flush()
    files.crash()
    assert log_in(files).end_offset == 2


def test_a_flush_here_and_now_covers_one_that_is_under_way() -> None:
    files = MemoryFilesystem()
    log = log_in(files)
    append(log, b"one")
    under_way = log.begin_flush()
    append(log, b"two")
    log.flush()
    log.end_flush(under_way, None, 0)
    assert log.flushed_offset == 2
    files.crash()
    assert log_in(files).end_offset == 2


# -- losses ----------------------------------------------------------------------------------------------------------


def test_another_boot_marks_every_log_that_was_not_stopped_cleanly_until_it_has_recovered() -> None:
    files = MemoryFilesystem()
    for group in ("clean-0", "killed-0"):
        log = PartitionLog.open(f"/data/{group}", LogConfig(), Handles(files))
        append(log, b"x")
        if group == "clean-0":
            log.close()
    groups = ["clean-0", "killed-0", "new-0"]
    losses.note_boot(files, "/data", "first", groups)
    assert not any(losses.is_marked(files, f"/data/{group}") for group in groups)
    losses.note_boot(files, "/data", "second", groups)
    assert not any(losses.is_marked(files, f"/data/{group}") for group in groups), (
        "it may acknowledge only what is synced"
    )
    for group in groups:
        losses.mark_if_torn(files, f"/data/{group}")
    assert [losses.is_marked(files, f"/data/{group}") for group in groups] == [False, True, False]
    losses.note_boot(files, "/data", "second", groups)
    assert losses.is_marked(files, "/data/killed-0")
    losses.unmark(files, "/data/killed-0")
    assert not losses.is_marked(files, "/data/killed-0")


def test_a_follower_that_has_verified_nothing_yet_acknowledges_nothing_when_its_disk_is_done() -> None:
    """Its leader would take that for the answer to its first question, and send everything from the beginning."""
    group = group_of(config=RaftConfig(flush_before_ack=True))
    elect(group, 1)
    follower = group.members[3]
    follower.log.append(check_batches(build_batch([Record(0, 1, None, b"old", ())])), epoch=1, now_ms=0)
    group.act(3, lambda member: member.node._become(Follower(1, None)))
    group.channels[3, 1].clear()
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
    restart = group.members[1]._restart_message()
    append_many(group, 1, 1)
    group.act(3, lambda member: member.step(restart, group.now))
    assert group.members[3].log.end_offset == 6
    assert group.members[3].node.eligible
    pump(group)
    append_many(group, 1, 1)
    assert group.members[3].log.end_offset == 7


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
    assert not [said for said in group.channels[1, 3] if isinstance(said, Restart)]
    pump(group)
    assert group.members[3].log.end_offset == 5


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_membership_in_the_log_is_known_after_a_crash_at_any_point(share: float) -> None:
    """If the log had it and the history did not, this replica could be elected by those who voted before."""
    wanted, crashes = (1, 2, 3, 4), 0
    while True:
        group = Group(1, size=4, voters=3)
        for a, b in ((1, 2), (1, 3), (1, 4), (2, 3)):
            group.connect(a, b)
        elect(group, 1)
        append_many(group, 1, 1)
        group.want(*wanted)
        disk = group.disks[2]
        disk.crash_at, disk.crash_share = disk.operations + crashes, share
        crashed = False
        try:
            group.tell_wanted(1)
            pump(group)
        except SimulatedCrash:
            crashed = True
        group.members.pop(2)
        disk.crash_at = None
        disk.crash(mode="keep_all")
        group.links = {link for link in group.links if 2 not in link}
        group.start(2)
        member = group.members[2]
        voters = [1, 2, 3]
        for record in group.contents(member, member.log.end_offset).values():
            if record is not None and record.startswith(b'{"version"'):
                voters = sorted(Membership.decode(record).brokers)
        assert sorted(member.node.membership.brokers) == voters, f"after {crashes} operations"
        if not crashed:
            assert voters == list(wanted)
            return
        crashes += 1


def test_a_follower_that_counts_again_says_so_and_what_it_holds_is_committed() -> None:
    group = group_of(config=RaftConfig(flush_before_ack=True))
    for broker in (2, 3):
        group.members[broker].node.eligible = False
    elect(group, 1)
    group.propose(1)
    for _ in range(3):
        pump(group)
        for broker in group.brokers:
            group.sync(broker)
    pump(group)
    assert all(group.members[broker].node.eligible for broker in group.brokers)
    assert group.members[1].node.watermark == group.members[1].log.end_offset


@pytest.mark.parametrize("at", [0, 12, 20, 70], ids=["offset", "epoch", "checksum", "record"])
def test_what_a_leaders_disk_damaged_is_not_handed_on_and_another_leads_who_has_it(at: int) -> None:
    group = group_of()
    elect(group, 1)
    append_many(group, 1, 30)
    log = group.members[1].log
    log.flush()
    good = log.read(0, 1 << 20).read()
    group.disks[1].corrupt(log.segments[0].path, at, 1)
    group.kill(3)
    group.disks[3] = MemoryFilesystem()
    group.start(3)
    group.connect(1, 3)
    pump(group)
    assert group.members[1].damage is not None
    assert role_of(group, 2) == "Leader"
    group.connect(2, 3)
    pump(group)
    assert group.members[3].log.end_offset == log.end_offset
    assert group.members[3].log.read(0, 1 << 20).read() == good


def test_a_damaged_leader_goes_on_if_nobody_else_has_what_it_has() -> None:
    group = group_of()
    elect(group, 1)
    append_many(group, 1, 30)
    log = group.members[1].log
    log.flush()
    group.kill(2)
    group.disks[1].corrupt(log.segments[0].path, 70, 1)
    group.kill(3)
    group.disks[3] = MemoryFilesystem()
    group.start(3)
    group.connect(1, 3)
    pump(group)
    assert group.members[1].damage is not None
    assert group.members[3].log.end_offset == 0
    assert leader_of(group, 1).successor is None


def want(group: Group, broker: int, *wanted: int, move: int) -> None:
    group.act(broker, lambda member: member.want(wanted, (), group.now, move=move))
    pump(group)


def voters_at(group: Group, broker: int) -> tuple[list[int], int]:
    membership = group.members[broker].node.membership
    return sorted(membership.brokers), membership.move


def test_a_leader_that_has_heard_less_of_moves_does_not_undo_the_last_one() -> None:
    """Its process has only just begun, and has not replayed the metadata."""
    group = Group(1, 4, voters=3)
    for a in group.brokers:
        for b in group.brokers:
            group.connect(a, b)
    elect(group, 1)
    append_many(group, 1, 3)
    want(group, 1, 1, 2, 4, move=2)
    append_many(group, 1, 1)
    assert voters_at(group, 1) == ([1, 2, 4], 2)
    group.kill(1)
    want(group, 2, 1, 2, 3, move=1)
    elect(group, 2)
    append_many(group, 2, 3)
    assert voters_at(group, 2) == ([1, 2, 4], 2)
    want(group, 2, 2, 4, 3, move=3)
    append_many(group, 2, 2)
    assert voters_at(group, 2) == ([2, 3, 4], 3)


def test_a_move_for_which_nobody_comes_or_goes_is_in_the_log_too() -> None:
    group = group_of()
    elect(group, 1)
    append_many(group, 1, 1)
    want(group, 1, 3, 2, 1, move=1)
    assert voters_at(group, 1) == voters_at(group, 2) == ([1, 2, 3], 1)
    end = group.members[1].log.end_offset
    want(group, 1, 3, 2, 1, move=1)
    assert group.members[1].log.end_offset == end
    assert group.members[1].node.watermark == end


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


ALONE, BOTH = (Membership(tuple(Voter(broker, f"dir-{broker}") for broker in brokers)) for brokers in ((1,), (1, 2)))


def one_that_lost_a_membership(*, end: int, known_at: int) -> Member:
    """Broker 1 was alone, and was joined by broker 2; its disk lost the log from `end` on, which had said so."""
    log = PartitionLog.open("/data/t-0", LogConfig(), Handles(MemoryFilesystem()))
    for offset in range(end):
        log.append(check_batches(build_batch([Record(0, 1, None, b"%d" % offset, ())])), epoch=1, now_ms=0)
    history = MembershipHistory([(-1, ALONE), (known_at, BOTH)])
    node = RaftNode(
        1, "dir-1", history, Vote(1, 1), log, config=RaftConfig(), rng=random.Random(1), now=0.0, eligible=False
    )
    return Member(log, node, lambda: 0)


def test_a_replica_that_lost_a_membership_does_not_lead_as_if_it_had_never_been() -> None:
    member = one_that_lost_a_membership(end=3, known_at=4)
    for now in range(1, 20):
        member.tick(float(now))
    assert member.node.membership == BOTH
    assert not isinstance(member.node.role, Leader)


def test_what_a_leader_brings_takes_the_place_of_memberships_that_were_lost() -> None:
    member = one_that_lost_a_membership(end=3, known_at=4)
    batch = build_batch([Record(3, 1, None, b"of the leader", ())], base_offset=3, leader_epoch=1)
    member.step(Append(1, 2, 3, 1, 0, 0, memoryview(batch)), 1.0)
    assert member.node.membership == BOTH  # which comes with offset 4, or does not
    batch = build_batch([Record(4, 1, None, b"of the leader", ())], base_offset=4, leader_epoch=1)
    member.step(Append(1, 2, 4, 1, 0, 0, memoryview(batch)), 2.0)
    assert member.node.membership == ALONE


def test_whoever_all_have_elected_after_a_loss_writes_down_again_who_they_are() -> None:
    member = one_that_lost_a_membership(end=3, known_at=4)
    member.tick(1.0)
    answer = VoteAnswer(2, 2, "dir-2", granted=True, pre=True, eligible=False)
    member.step(answer, 1.1)
    member.vote_saved(Vote(2, 1), 1.2)
    member.step(evolve(answer, pre=False), 1.3)
    assert isinstance(member.node.role, Leader)
    assert member.node.membership == BOTH
    assert member.node.history.latest_offset == 3
    assert member.node.watermark < 4  # not before the other one has it


def test_a_membership_that_never_was_in_the_log_is_forgotten_once_a_leader_has_brought_everything() -> None:
    member = one_that_lost_a_membership(end=3, known_at=4)
    member.step(Recovered(1, 2), 1.0)
    assert member.node.membership == ALONE


def one_that_came_back_with_nothing() -> Member:
    """Broker 1 was alone once, left, and is being filled again: its log says so far that it votes alone."""
    log = PartitionLog.open("/data/t-0", LogConfig(), Handles(MemoryFilesystem()))
    history = MembershipHistory([(-1, Membership(())), (2, ALONE)])
    for offset in range(4):
        log.append(check_batches(build_batch([Record(0, 1, None, b"%d" % offset, ())])), epoch=1, now_ms=0)
    node = RaftNode(
        1, "dir-1", history, Vote(3, None), log, config=RaftConfig(), rng=random.Random(1), now=0.0, eligible=False,
        is_new=True,
    )  # fmt: skip
    return Member(log, node, lambda: 0)


def test_a_replica_that_came_back_with_nothing_does_not_believe_who_voted_long_ago() -> None:
    member = one_that_came_back_with_nothing()
    for now in range(1, 20):
        member.tick(float(now))
    assert not isinstance(member.node.role, Leader)
    member.step(VoteRequest(9, 2, "dir-1", 4, 1, pre=False, forced=True), 20.0)
    assert member.unsaved_vote is not None
    member.vote_saved(member.unsaved_vote, 20.0)
    (answer,) = [message for _, message in member.outbox if isinstance(message, VoteAnswer)]
    assert not answer.granted
    member.step(Recovered(9, 2), 21.0)
    assert member.node.is_voter


def test_whether_a_replica_came_back_with_nothing_is_known_after_a_restart() -> None:
    files = MemoryFilesystem()
    for directory, new in (("/lost", False), ("/new", True)):
        files.make_directory(directory)
        losses.mark(files, directory, new=new)
        losses.mark(files, directory)  # as its log is found to lack something, too
        assert losses.is_marked(files, directory)
        assert losses.is_new(files, directory) == new
        losses.unmark(files, directory)
        assert not losses.is_new(files, directory)


def test_a_sole_voter_finishes_a_move_that_nobody_comes_or_goes_for() -> None:
    """Nobody's answer makes it look again once its first batch of the term is committed."""
    group = group_of(1)
    elect(group, 1)
    group.act(1, lambda member: member.want((1,), (), group.now, move=2))
    assert group.members[1].node.membership.move == 2


def test_who_does_not_take_over_is_passed_over_for_others() -> None:
    group = group_of(3)
    elect(group, 1)
    group.propose(1)
    pump(group)
    group.act(2, lambda member: member.retire(group.now))  # about to stop: it stands for no election
    group.act(1, lambda member: member.want((2, 3), (), group.now))
    pump(group)
    assert role_of(group, 1) == "Leader"
    group.now += RaftConfig().transfer_timeout_s
    group.beat(1)
    group.tick(1)
    pump(group)
    assert role_of(group, 3) == "Leader"


def test_a_broker_that_is_heard_makes_no_quorum_without_its_replica() -> None:
    """New links to brokers on which nobody answers for the group: another may have been elected there meanwhile."""
    group = group_of(3)
    elect(group, 1)
    node = group.members[1].node
    assert leading.has_quorum(node, group.now), "those who voted for it have answered"
    for broker in (2, 3):
        node.peer_down(broker, group.now)
        node.peer_up(broker, group.now)
    assert not leading.has_quorum(node, group.now)
    node.tick(group.now)
    assert isinstance(node.role, Leader), "they have some time to answer"
    node.step(BeatAnswer(node.term, 2, "dir-2", 0, eligible=True), group.now)
    assert leading.has_quorum(node, group.now)
    node.peer_down(2, group.now)
    node.peer_up(2, group.now)
    asked_at = at = group.now
    while role_of(group, 1) == "Leader":
        at = node.next_deadline or 0.0
        node.heard.update({2: at, 3: at})
        node.tick(at)
    assert at == pytest.approx(asked_at + node.config.leader_timeout_s, abs=0.01)


def is_alone(group: Group) -> bool:
    role = group.members[1].node.role
    return isinstance(role, Leader) and role.alone


def test_a_leader_that_lost_all_the_others_is_alone_until_one_of_them_answers() -> None:
    group = group_of(3, config=RaftConfig(leads_alone=True))
    elect(group, 1)
    node = group.members[1].node
    for broker in (2, 3):
        node.peer_down(broker, group.now)
    assert is_alone(group)
    node.peer_up(2, group.now)
    assert is_alone(group), "its broker is there, and nobody has answered"
    node.step(BeatAnswer(node.term, 2, "dir-2", 0, eligible=True), group.now)
    assert not is_alone(group)
    assert leading.has_quorum(node, group.now)


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


def test_who_votes_is_on_disk_though_nothing_else_of_a_young_log_is() -> None:
    """Else a replica that was the first one alone, and has lost its power, takes itself for the only one still."""
    group = Group(1, 3, voters=1)
    for a, b in ((1, 2), (1, 3), (2, 3)):
        group.connect(a, b)
    elect(group, 1)
    group.want(1, 2, 3)
    for broker in group.brokers:
        group.tell_wanted(broker)
    pump(group)
    assert group.members[1].node.membership.brokers == (1, 2, 3)
    group.disks[1].crash()
    history = MembershipHistory.decode(group.disks[1].read(f"{DIRECTORY}/{MEMBERSHIP_FILE}"))
    assert history.latest.brokers == (1, 2, 3)


def test_a_follower_does_not_claim_a_batch_that_it_begins_inside_of() -> None:
    group = group_of()
    follower = group.members[3]
    follower.log.restart_at(31, [EpochEntry(1, 0)])
    data = build_batch([Record(at, 1, None, b"x", ()) for at in range(30, 33)], base_offset=30, leader_epoch=1)
    group.act(3, lambda member: member.step(Append(2, 1, 31, 1, 40, 31, memoryview(data)), group.now))
    group.save_vote(3)
    assert [said.end for said in group.channels[3, 1] if isinstance(said, Appended) and said.ok] == [31]
    assert follower.node.watermark <= follower.log.end_offset == 31
