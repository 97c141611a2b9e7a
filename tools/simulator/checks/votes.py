"""What must hold of votes: where they are sent, and where a broker leads by them."""

from __future__ import annotations

import struct
from collections.abc import Callable

from actors.cluster_file.facts import GROUP as METADATA
from actors.runtime.links.codec import decode
from log.disk.memory_filesystem import MemoryFilesystem
from log.raft.membership import Membership, Voter
from log.raft.messages import VoteAnswer, VoteRequest
from log.raft.ready import Vote
from log.replica.vote_journal import read_votes
from tools.simulator.record.report import Violation

_FRAME = struct.Struct(">IBHQHI")
_VOTE_REQUEST, _VOTE_ANSWER = 0x0200, 0x0201
_TELL = 3


class VoteInvariants:
    """Looks at frames as they are sent, and at elections."""

    def __init__(
        self, report: Callable[[Violation], None], directory_of: Callable[[str, int], str], journal: str
    ) -> None:
        self._report = report
        self._directory_of = directory_of
        self._journal = journal
        self.on_vote: Callable[[int], None] | None = None
        self._voters: dict[str, set[Voter]] = {}
        """Per group: all that any replica ever took for voters. With a slow disk an answer is sent long after that."""
        self.told: dict[tuple[str, int, int, str], int] = {}
        """Per group, epoch, broker and directory: the candidate that got the vote."""

    def believed(self, group: str, membership: Membership) -> None:
        """A replica takes these for its group's voters."""
        self._voters.setdefault(group, set()).update(membership.voters)

    def elected(self, group: str, broker: int, term: int, disk: MemoryFilesystem) -> None:
        """It has voted for itself, and must know that after a restart."""
        self._must_be_durable("a vote is on disk before a leader relies on it", group, broker, Vote(term, broker), disk)

    def sent(self, sender: int, to: int, frame: bytes, disk: MemoryFilesystem) -> None:
        """A frame is sent. If it holds a vote, that vote must be on disk."""
        _, kind, message_id, _, address_bytes, body_bytes = _FRAME.unpack_from(frame)
        if kind != _TELL or message_id not in (_VOTE_REQUEST, _VOTE_ANSWER):
            return
        body_at = _FRAME.size + address_bytes
        kind_of, _, name = frame[_FRAME.size : body_at].decode().rpartition("@")[0].partition("/")
        group = METADATA if kind_of == "controller" else name
        message = decode(message_id, memoryview(frame)[body_at : body_at + body_bytes], memoryview(b""))
        if isinstance(message, VoteRequest) and not message.pre:
            self._tells(group, sender, self._directory_of(group, sender), Vote(message.term, sender), disk)
        elif isinstance(message, VoteAnswer) and message.granted:
            if Voter(sender, message.directory) not in self._voters.get(group, ()):
                text = f"broker {sender} with directory {message.directory}"
                self._report(Violation("only voters vote", group, text))
            if not message.pre:
                self._tells(group, sender, message.directory, Vote(message.term, to), disk)

    def _tells(self, group: str, voter: int, directory: str, vote: Vote, disk: MemoryFilesystem) -> None:
        assert vote.voted_for is not None
        if self.on_vote is not None:
            self.on_vote(voter)
        known = self.told.setdefault((group, vote.term, voter, directory), vote.voted_for)
        if known != vote.voted_for:
            text = f"broker {voter} in {vote.term}: for {known} and for {vote.voted_for}"
            self._report(Violation("one vote per epoch", group, text))
        self._must_be_durable("a vote is on disk before it is sent", group, voter, vote, disk)

    def _must_be_durable(self, promise: str, group: str, voter: int, vote: Vote, disk: MemoryFilesystem) -> None:
        durable = _durable_votes(disk, self._journal).get(group, Vote())
        if durable != vote and durable.term <= vote.term:
            self._report(Violation(promise, group, f"broker {voter}: {vote} with {durable} on disk"))


def _durable_votes(disk: MemoryFilesystem, path: str) -> dict[str, Vote]:
    """What a journal would hold after the power went."""
    file = disk.durable_file(path)
    return {} if file is None else read_votes(bytes(file.durable)).votes
