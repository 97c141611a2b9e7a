"""What is left of votes when their file is torn or damaged."""

from __future__ import annotations

import pytest

from log.memory_filesystem import MemoryFilesystem
from log.raft.ready import Vote
from log.raft.vote_journal import VoteJournal

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
    assert VoteJournal(files.copy(), PATH).damaged_bytes == 0
    return files, ends


@pytest.mark.parametrize("damaged", range(len(VOTES)))
def test_a_damaged_vote_takes_no_other_with_it(damaged: int) -> None:
    """All votes behind it were forgotten, and could have been given a second time."""
    files, ends = written()
    for at in range(ends[damaged], ends[damaged + 1]):
        copy = files.copy()
        byte = copy.read(PATH)[at]
        copy.open(PATH).pwrite(bytes([byte ^ 0x10]), at)
        journal = VoteJournal(copy, PATH)
        assert journal.votes == {group: vote for group, vote in VOTES.items() if group != f"t-{damaged}"}
        assert journal.damaged_bytes == ends[damaged + 1] - ends[damaged]
        assert VoteJournal(copy, PATH).damaged_bytes == 0, "it was written anew"


def test_a_torn_tail_costs_the_last_vote_alone() -> None:
    files, ends = written()
    for size in range(ends[-2], ends[-1]):
        copy = files.copy()
        copy.open(PATH).truncate(size)
        assert list(VoteJournal(copy, PATH).votes) == ["t-0", "t-1", "t-2"]
