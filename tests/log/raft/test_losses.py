"""What the simulator found once, of disks that fail and replicas that lost something, each as its own small case."""

from __future__ import annotations

import errno
import random

import pytest

from log.config import LogConfig
from log.disk.handles import Handles
from log.disk.memory_filesystem import Fault, MemoryFilesystem
from log.errors import LogOffline
from log.partition.partition_log import PartitionLog
from log.raft.config import RaftConfig
from log.raft.messages import Appended, TimeoutNow
from log.raft.ready import Vote
from log.recovery import losses
from log.replica.member import MEMBERSHIP_FILE
from log.replica.vote_journal import VoteJournal
from tests.log.raft.groups import DIRECTORY, Group
from tests.log.raft.steps import append, append_many, come_back_empty, leader_of
from tests.log.raft.test_paper_claims import elect, group_of, pump, role_of

JOURNAL = "/data/votes"


def test_a_follower_that_lost_its_log_catches_up_under_the_same_leader() -> None:
    group = group_of()
    elect(group, 1)
    append_many(group, 1, 5)
    come_back_empty(group, 3, to=1)
    pump(group)
    assert group.members[3].log.end_offset == group.members[1].log.end_offset == 5


def test_a_replica_that_lost_data_is_not_told_that_it_recovered_by_what_it_said_before() -> None:
    group = group_of()
    elect(group, 1)
    append_many(group, 1, 5)
    leader, role = group.members[1].node, leader_of(group, 1)
    assert role.progress[3].match == 5
    answer = Appended(leader.term, 3, "dir-3", True, 0, -1, eligible=False)
    role.on_answer(answer, group.now)
    assert role.progress[3].match == 0
    assert not [message for _, message in leader.take_ready().messages if type(message).__name__ == "Recovered"]


def test_a_replica_that_has_everything_again_is_asked_until_its_word_comes_that_it_counts() -> None:
    """That word was lost, or what it answers: in a group where nobody writes it was out of sync for good."""
    group = group_of()
    elect(group, 1)
    append_many(group, 1, 5)
    leader, role = group.members[1].node, leader_of(group, 1)

    def tell(*, eligible: bool) -> None:
        role.on_answer(Appended(leader.term, 3, "dir-3", True, 5, 1, eligible=eligible), group.now)

    def said_to_it() -> list[str]:
        return [type(message).__name__ for broker, message in leader.take_ready().messages if broker == 3]

    tell(eligible=False)
    assert said_to_it() == ["Recovered"]
    asks_at = role.next_deadline()
    assert asks_at is not None
    role.tick(asks_at)
    assert said_to_it() == ["Append"]
    tell(eligible=False)
    assert said_to_it() == ["Recovered"]
    tell(eligible=True)
    assert said_to_it() == []
    assert 3 in role.in_sync(group.now)
    assert role.next_deadline() is None


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


@pytest.mark.parametrize("config", [LogConfig(flush_messages=1), LogConfig(flush_messages=5), LogConfig(flush_ms=300)])
def test_a_sync_that_failed_unnoticed_does_not_make_a_later_one_count(config: LogConfig) -> None:
    """The process was killed before it could note that: where syncs count, it is written again whatever happened."""
    files = MemoryFilesystem()
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


def test_a_sync_that_failed_in_another_thread_is_noted_there() -> None:
    """The process may end before the log hears of it, and the topic's settings may ask for no syncs any more."""
    files = MemoryFilesystem()
    log = log_in(files)
    append(log, b"one")
    files.faults.append(Fault("sync", errno.EIO, "*.log"))
    with pytest.raises(OSError, match="Input/output"):
        log.begin_flush().run(files)
    files.crash(mode="keep_all")
    log_in(files).flush()
    files.crash()
    assert log_in(files).end_offset == 1


def test_a_sync_that_fails_while_a_log_is_written_again_is_noted() -> None:
    files, config = MemoryFilesystem(), LogConfig(flush_messages=5)
    append(PartitionLog.open("/data/t-0", config, Handles(files)), b"one")
    files.crash(mode="keep_all")
    files.faults.append(Fault("sync", errno.EIO, "*.log"))
    with pytest.raises(LogOffline, match="Input/output"):
        PartitionLog.open("/data/t-0", config, Handles(files))
    files.crash(mode="keep_all")
    log_in(files).flush()
    files.crash()
    assert log_in(files).end_offset == 1


@pytest.mark.parametrize("killed", [False, True])
def test_a_sync_that_fails_while_a_torn_tail_is_cut_is_noted(killed: bool) -> None:
    files = MemoryFilesystem()
    handles = Handles(files)
    log = log_in(files)
    append(log, b"one")
    log.flush()
    append(log, b"two")
    log.active.file.pwrite(b"torn", log.active.size)
    files.crash(mode="keep_all")
    files.faults.append(Fault("sync", errno.EIO, "*.log"))
    with pytest.raises(LogOffline, match="Input/output"):
        PartitionLog.open("/data/t-0", LogConfig(), handles)
    if killed:
        files.crash(mode="keep_all")
        handles = Handles(files)
    PartitionLog.open("/data/t-0", LogConfig(), handles).flush()
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
    assert not any(losses.is_marked(files, f"/data/{group}") for group in groups), "that is decided when it is opened"
    for group in groups:
        losses.mark_if_torn(files, f"/data/{group}")
    assert [losses.is_marked(files, f"/data/{group}") for group in groups] == [False, True, False]
    losses.note_boot(files, "/data", "second", groups)
    assert losses.is_marked(files, "/data/killed-0")
    losses.unmark(files, "/data/killed-0")
    assert not losses.is_marked(files, "/data/killed-0")


def promises(log: PartitionLog) -> bool:
    return log.synced_first


def machine_goes_down(files: MemoryFilesystem, boot: str, rng: random.Random | None = None) -> bool:
    """Is the log marked when it is about to be opened under the next boot?"""
    files.crash(rng)
    losses.note_boot(files, "/data", boot, ["t-0"])
    losses.mark_if_torn(files, "/data/t-0")
    return losses.is_marked(files, "/data/t-0")


def test_a_word_of_a_clean_stop_that_cannot_be_read_does_not_outlive_the_recovery() -> None:
    """The log takes records after it, and the next power loss may take some of them that were acknowledged."""
    files = MemoryFilesystem()
    log = log_in(files)
    losses.note_boot(files, "/data", "first", [])
    append(log, b"one")
    log.close()
    torn = files.open("/data/t-0/clean-shutdown")
    torn.truncate(torn.size() // 2)
    torn.sync()
    append(log_in(files), b"two")
    assert machine_goes_down(files, "second")


def test_a_log_that_never_acknowledged_before_it_synced_is_not_marked() -> None:
    files = MemoryFilesystem()
    log = log_in(files)
    losses.note_boot(files, "/data", "first", [])
    log.promise_to_sync_first(promises=True)
    log.flush()
    append(log, b"one")
    assert not machine_goes_down(files, "second")
    assert log_in(files).synced_first


def test_a_log_that_acknowledged_before_it_synced_promises_nothing_until_that_is_synced() -> None:
    files = MemoryFilesystem()
    log = log_in(files)
    losses.note_boot(files, "/data", "first", [])
    append(log, b"one")
    under_way = log.begin_flush()
    append(log, b"acknowledged after that flush began")
    log.promise_to_sync_first(promises=True)
    under_way.run(files)
    log.end_flush(under_way, None, 0)
    assert not promises(log)
    assert log.needs_flush(0)
    log.flush()
    assert promises(log)
    log.flush()
    files.crash()
    assert log_in(files).synced_first


def test_a_promise_that_ends_is_gone_from_disk_before_the_log_says_so() -> None:
    files = MemoryFilesystem()
    log = log_in(files)
    losses.note_boot(files, "/data", "first", [])
    log.promise_to_sync_first(promises=True)
    append(log, b"one")
    log.flush()
    log.promise_to_sync_first(promises=False)
    flush = log.begin_flush()
    assert promises(log)
    flush.run(files)
    log.end_flush(flush, None, 0)
    assert not promises(log)
    assert machine_goes_down(files, "second")


@pytest.mark.parametrize("what", ["a kill", "a failed sync"])
def test_a_promise_that_was_ending_when_its_sync_did_not_happen_is_ended_by_the_next_process(what: str) -> None:
    files = MemoryFilesystem()
    log = log_in(files)
    losses.note_boot(files, "/data", "first", [])
    log.promise_to_sync_first(promises=True)
    append(log, b"one")
    log.flush()
    log.checkpoint()
    log.promise_to_sync_first(promises=False)
    flush = log.begin_flush()
    if what == "a kill":
        files.crash(mode="keep_all")
    else:
        with pytest.raises(LogOffline):
            log.end_flush(flush, OSError(errno.EIO, "disk"), 0)
    log = log_in(files)
    log.promise_to_sync_first(promises=False)
    while log.synced_first:
        assert log.needs_flush(0)
        log.flush()
    append(log, b"acknowledged before it was synced")
    assert machine_goes_down(files, "second")


@pytest.mark.parametrize("seed", range(40))
def test_the_promise_on_disk_is_never_one_that_the_log_does_not_keep(seed: int) -> None:
    """Settings change at any time, flushes end late, the process or the machine goes down anywhere."""
    rng, files = random.Random(seed), MemoryFilesystem()
    log, flush, acknowledged, syncs_first = log_in(files), None, 0, False
    log.flush()  # its first votes are synced, and say that there was a log if this one vanishes
    losses.note_boot(files, "/data", "first", [])
    for step in range(60):
        match rng.choice(("append", "append", "flush", "end", "change", "now", "kill", "power")):
            case "append":
                append(log, b"x")
            case "flush" if flush is None and log.needs_flush(step):
                flush = log.begin_flush()
            case "end" if flush is not None:
                flush.run(files)
                log.end_flush(flush, None, step)
                flush = None
            case "change":
                syncs_first = not syncs_first
                log.promise_to_sync_first(promises=syncs_first)
            case "now" if flush is None:
                log.flush()
            case "kill":
                files.crash(mode="keep_all")
                log, flush = log_in(files), None
                log.promise_to_sync_first(promises=syncs_first)
            case "power":
                if machine_goes_down(files, f"boot {step}", rng):
                    return
                log, flush = log_in(files), None
                assert log.end_offset >= acknowledged
                log.promise_to_sync_first(promises=syncs_first)
        acknowledged = max(acknowledged, log.flushed_offset if syncs_first or log.synced_first else log.end_offset)


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


def a_group_that_holds_much() -> Group:
    """Broker 1 leads, and everybody has everything."""
    group = group_of()
    elect(group, 1)
    append_many(group, 1, 30)
    group.members[1].log.flush()
    return group


def damage_the_leader(group: Group, at: int = 70) -> None:
    """A byte of the first batch changes on its disk."""
    group.disks[1].corrupt(group.members[1].log.segments[0].path, at, 1)


@pytest.mark.parametrize("at", [0, 12, 20, 70], ids=["offset", "epoch", "checksum", "record"])
def test_what_a_leaders_disk_damaged_is_not_handed_on_and_another_leads_who_has_it(at: int) -> None:
    group = a_group_that_holds_much()
    log = group.members[1].log
    good = log.read(0, 1 << 20).read()
    damage_the_leader(group, at)
    come_back_empty(group, 3, to=1)
    pump(group)
    assert group.members[1].damage is not None
    assert role_of(group, 2) == "Leader"
    group.connect(2, 3)
    pump(group)
    assert group.members[3].log.end_offset == log.end_offset
    assert group.members[3].log.read(0, 1 << 20).read() == good


def test_a_damaged_leader_goes_on_if_nobody_else_has_what_it_has() -> None:
    group = a_group_that_holds_much()
    group.kill(2)
    damage_the_leader(group)
    come_back_empty(group, 3, to=1)
    pump(group)
    assert group.members[1].damage is not None
    assert group.members[3].log.end_offset == 0
    assert leader_of(group, 1).successor is None


def test_a_damaged_leader_hands_over_as_soon_as_another_replica_has_what_it_has() -> None:
    """It had read once for the empty follower, when no follower had everything, and did not try again."""
    group = a_group_that_holds_much()
    group.kill(2)
    damage_the_leader(group)
    come_back_empty(group, 3, to=1)
    pump(group)
    group.start(2)
    group.connect(1, 2)
    group.connect(2, 3)
    pump(group)
    assert role_of(group, 1) == "Leader"
    group.now += group.config.append_timeout_s
    group.tick(1)
    pump(group)
    assert role_of(group, 2) == "Leader"
    assert group.members[3].log.end_offset == group.members[2].log.end_offset


def a_damaged_leader_that_shall_go() -> Group:
    """Broker 2 has everything, broker 3 is to stay and has nothing."""
    group = a_group_that_holds_much()
    damage_the_leader(group)
    come_back_empty(group, 3, to=1)
    group.want(3)
    group.tell_wanted(1)
    return group


def test_a_damaged_leader_hands_over_to_who_has_everything_though_another_shall_lead() -> None:
    group = a_damaged_leader_that_shall_go()
    pump(group)
    assert role_of(group, 2) == "Leader"


def test_a_damaged_leader_hands_over_again_if_nobody_took_over() -> None:
    group = a_damaged_leader_that_shall_go()
    pump(group, without=frozenset({2}))
    assert any(isinstance(message, TimeoutNow) for message in group.channels[1, 2])
    group.channels[1, 2].clear()
    group.now += group.config.transfer_timeout_s
    group.tick(1)
    assert [type(message) for message in group.channels[1, 2]] == [TimeoutNow]


def two_voters_and_a_third_that_joins(*, is_committed: bool) -> Group:
    """Broker 1 led and wrote that 3 votes, too; 2 has not heard of it. Then 1 lost its log in a power loss."""
    group = Group(1, 3, voters=2)
    for a, b in ((1, 2), (1, 3), (2, 3)):
        group.connect(a, b)
    elect(group, 1)
    append_many(group, 1, 1)
    group.want(1, 2, 3)
    group.tell_wanted(1)
    while group.members[1].node.membership.brokers != (1, 2, 3):
        group.deliver(1, 3)
        group.save_vote(3)
        group.deliver(3, 1)
    if is_committed:
        pump(group, without=frozenset({2}))
    known = group.disks[1].read(f"{DIRECTORY}/{MEMBERSHIP_FILE}")
    group.kill(1)
    group.disks[1] = MemoryFilesystem()
    group.disks[1].make_directory(DIRECTORY)
    group.disks[1].write_atomically(f"{DIRECTORY}/{MEMBERSHIP_FILE}", known)
    group.start(1, lost=True)
    for other in (2, 3):
        group.connect(1, other)
    return group


def test_what_a_joining_voter_has_committed_is_not_lost_with_the_log_of_the_leader() -> None:
    """The leader and the newcomer were a majority. A voter that has not heard of it must not lead by two of two."""
    group = two_voters_and_a_third_that_joins(is_committed=True)
    group.now += 1.0
    group.tick(2)
    pump(group)
    assert role_of(group, 2) != "Leader"
    group.now += 1.0
    group.tick(3)
    pump(group)
    assert group.leaders[2] == 3


def test_a_membership_that_was_never_committed_does_not_keep_the_others_from_electing() -> None:
    group = two_voters_and_a_third_that_joins(is_committed=False)
    elect(group, 2)
    assert group.settle() in (1, 2, 3)
