"""What is left of votes when their file is torn or damaged."""

from __future__ import annotations

import errno
import re

import pytest

from log.disk.memory_filesystem import Fault, MemoryFilesystem
from log.errors import UnknownFormat
from log.raft.generation import first_term
from log.raft.ready import Vote
from log.replica.vote_journal import TERMS_SKIPPED, VoteJournal, after_doubt

PATH = "/data/votes"
VOTES = {f"t-{number}": Vote(number + 1, number % 3) for number in range(4)}


def written() -> tuple[MemoryFilesystem, list[int]]:
    """A journal with a vote of each group, and where each of them ends."""
    files = MemoryFilesystem()
    files.make_directory("/data")
    journal, ends = VoteJournal(files, PATH), [files.size(PATH)]
    for group, vote in VOTES.items():
        journal.write({group: vote})
        journal.sync()
        ends.append(files.size(PATH))
    assert not VoteJournal(files.copy(), PATH).damage
    return files, ends


@pytest.mark.parametrize("damaged", range(len(VOTES)))
def test_a_damaged_byte_costs_no_vote(damaged: int) -> None:
    """The term that a doubted group goes on above must be the last one: other replicas may have jumped ahead to it."""
    files, ends = written()
    size = (ends[damaged + 1] - ends[damaged]) // 2
    for at in range(ends[damaged], ends[damaged + 1]):
        copy = files.copy()
        byte = copy.read(PATH)[at]
        copy.open(PATH).pwrite(bytes([byte ^ 0x10]), at)
        journal = VoteJournal(copy, PATH)
        assert journal.votes == VOTES
        assert journal.damage == f"{size} bytes of {PATH} are no votes"
        assert not VoteJournal(copy, PATH).damage, "it was rewritten"


@pytest.mark.parametrize("damaged", range(len(VOTES)))
def test_a_vote_of_which_both_copies_are_damaged_takes_no_other_with_it(damaged: int) -> None:
    """All votes behind it were forgotten, and could have been given a second time."""
    files, ends = written()
    files.open(PATH).pwrite(bytes(ends[damaged + 1] - ends[damaged]), ends[damaged])
    journal = VoteJournal(files, PATH)
    assert journal.votes == {group: vote for group, vote in VOTES.items() if group != f"t-{damaged}"}
    assert journal.damage == f"{ends[damaged + 1] - ends[damaged]} bytes of {PATH} are no votes"


def test_a_torn_tail_costs_at_most_the_last_vote() -> None:
    files, ends = written()
    middle = (ends[-2] + ends[-1]) // 2
    for size in range(ends[-2], ends[-1]):
        copy = files.copy()
        copy.open(PATH).truncate(size)
        assert list(VoteJournal(copy, PATH).votes) == list(VOTES)[: 3 if size < middle else 4]


def doubted(journal: VoteJournal) -> list[str]:
    return [group for group in (*VOTES, "unvoted") if journal.is_doubted(group)]


@pytest.mark.parametrize("damage", ["a flipped bit", "a torn tail", "a missing file"])
def test_after_damage_every_group_is_doubted_until_it_votes_again(damage: str) -> None:
    """The lost vote may have been of any of them, and of a later term than the one that is left."""
    files, ends = written()
    match damage:
        case "a flipped bit":
            files.corrupt(PATH, ends[0])
        case "a torn tail":
            files.open(PATH).truncate(ends[-1] - 1)
        case _:
            files.remove(PATH)
    journal = VoteJournal(files, PATH, [*VOTES, "unvoted"])
    assert doubted(journal) == [*VOTES, "unvoted"]
    journal = VoteJournal(files, PATH)
    assert not journal.damage
    assert doubted(journal) == [*VOTES, "unvoted"], "the next process doubts them too"
    journal.write({"t-2": Vote(TERMS_SKIPPED, 1)})
    assert journal.is_doubted("t-2"), "it is not synced yet"
    journal.sync()
    assert doubted(journal) == ["t-0", "t-1", "t-3", "unvoted"]
    journal.forget(["t-0"])
    files.crash()
    assert doubted(VoteJournal(files, PATH)) == ["t-0", "t-1", "t-3", "unvoted"]


def damage(files: MemoryFilesystem, group: str, since: int = 0) -> None:
    """All records of this group that were written since the file had this size."""
    for found in re.finditer(group.encode(), files.read(PATH)):
        if found.start() >= since:
            files.corrupt(PATH, found.start())


def test_a_group_that_was_doubted_before_goes_on_above_what_it_saved_since() -> None:
    files, ends = written()
    files.corrupt(PATH, ends[0])
    journal = VoteJournal(files, PATH, VOTES)
    before, saved = files.size(PATH), after_doubt(journal.get("t-2"), 0).term + 1
    journal.write({"t-2": Vote(saved, 1)})
    journal.sync()
    damage(files, "t-2", since=before)
    journal = VoteJournal(files, PATH, VOTES)
    assert after_doubt(journal.get("t-2"), 0).term > saved


def test_a_group_of_which_no_vote_is_left_goes_on_above_the_terms_that_all_have_skipped() -> None:
    files, ends = written()
    files.corrupt(PATH, ends[0])
    journal = VoteJournal(files, PATH, VOTES)
    for group in VOTES:
        journal.write({group: after_doubt(journal.get(group), 0)})
        journal.sync()
    saved = journal.get("t-3").term
    VoteJournal(files, PATH).close()
    damage(files, "t-3")
    assert after_doubt(VoteJournal(files, PATH, VOTES).get("t-3"), 0).term > saved


def test_a_doubted_vote_stays_one_when_the_journal_is_rewritten_while_it_runs() -> None:
    files, ends = written()
    files.corrupt(PATH, ends[0])
    journal = VoteJournal(files, PATH, VOTES)
    for term in range(2 * (1 << 20) // 30):
        journal.write({"t-2": Vote(term, 1)})
        journal.sync()
    assert files.size(PATH) < 1 << 20
    assert doubted(VoteJournal(files, PATH)) == ["t-0", "t-1", "t-3"]


def test_nothing_is_doubted_in_a_new_data_directory_or_a_whole_journal() -> None:
    files, _ = written()
    assert doubted(VoteJournal(files, PATH, VOTES)) == []
    empty = MemoryFilesystem()
    empty.make_directory("/data")
    assert not VoteJournal(empty, PATH).damage


def test_a_journal_of_the_version_before_is_read() -> None:
    files, _ = written()
    files.open(PATH).pwrite(b"BVJ1", 0)
    assert VoteJournal(files, PATH).votes == VOTES
    assert files.read(PATH)[:4] == b"BVJ2"


def test_a_journal_of_a_later_version_is_refused_and_kept() -> None:
    files, _ = written()
    files.open(PATH).pwrite(b"BVJ9", 0)
    before = files.read(PATH)
    with pytest.raises(UnknownFormat, match="start the version that wrote it"):
        VoteJournal(files, PATH)
    assert files.read(PATH) == before


def test_a_doubted_group_goes_on_above_its_votes_and_its_log() -> None:
    assert after_doubt(Vote(7, 2), 5) == Vote(7 + TERMS_SKIPPED)
    assert after_doubt(Vote(), 9) == Vote(9 + TERMS_SKIPPED)
    assert after_doubt(Vote(), -1) == Vote(TERMS_SKIPPED)


def test_a_broker_that_loses_the_whole_journal_goes_on_above_the_era_in_which_it_voted() -> None:
    """For every group, and though its log has no batch of that era yet."""
    files, _ = written()
    journal = VoteJournal(files, PATH, VOTES)
    told = Vote(TERMS_SKIPPED + 17, 3)
    journal.write({"t-2": told})
    journal.sync()
    for _ in range(3):
        files.remove(PATH)
        journal = VoteJournal(files, PATH, VOTES)
        beginning = after_doubt(journal.get("t-2"), 5)
        assert beginning.term > told.term
        told = Vote(beginning.term + 1, 1)
        journal.write({"t-2": told})
        journal.sync()


def test_eras_are_those_of_terms_within_their_generation() -> None:
    files, _ = written()
    journal = VoteJournal(files, PATH, VOTES)
    journal.write({"t-2": Vote(first_term(3) + 17, 3)})
    journal.sync()
    assert not files.exists(f"{PATH}.era"), "the generation alone begins no era"
    told = Vote(first_term(3) + TERMS_SKIPPED + 17, 3)
    journal.write({"t-2": told})
    journal.sync()
    files.remove(PATH)
    beginning = after_doubt(VoteJournal(files, PATH, VOTES).get("t-2"), 5, 3)
    assert told.term < beginning.term < first_term(4)


def test_the_era_is_on_disk_before_a_vote_in_it_is() -> None:
    files, _ = written()
    journal = VoteJournal(files, PATH, VOTES)
    files.faults.append(Fault("write", errno.EIO, f"{PATH}.era*"))
    with pytest.raises(OSError, match="Input/output error"):
        journal.write({"t-2": Vote(TERMS_SKIPPED, 3)})
    assert VoteJournal(files.copy(), PATH).get("t-2") == VOTES["t-2"]


def test_an_era_that_cannot_be_read_is_written_anew_from_the_votes() -> None:
    files, _ = written()
    journal = VoteJournal(files, PATH, VOTES)
    journal.write({"t-2": Vote(3 * TERMS_SKIPPED, 3)})
    journal.sync()
    files.corrupt(f"{PATH}.era", 9)
    VoteJournal(files, PATH, VOTES).close()
    files.remove(PATH)
    assert VoteJournal(files, PATH, VOTES).get("t-2").term >= 3 * TERMS_SKIPPED
