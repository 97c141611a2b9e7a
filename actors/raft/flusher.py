"""`flusher@N`: makes votes and logs durable, many at a time.

All requests that come while a sync is running go into the next one: under load one sync serves many logs, and at rest
a request is served at once. The syncs themselves run in the background, one after the other. Votes go first, and wait
for few logs: an election must not wait for the thousand logs of a broker that was just started.
"""

from __future__ import annotations

import math

from actors.raft.background import Background
from actors.runtime import Actor, Address, handles
from log.disk.filesystem import Filesystem
from log.disk.handles import Handles
from log.raft.ready import Vote
from log.recovery.flush import Flush
from log.replica.vote_journal import VoteJournal
from protocol.late_attrs import frozen

RETRY_SECONDS = 1.0
TELL_SECONDS = 60.0
"""The least time between two log lines that votes cannot be saved."""
LOGS_AT_ONCE = 16
"""The most logs that are synced in one round, which a new vote waits for."""


@frozen(slots=True)
class SaveVote:
    """Make the vote of this Raft group durable, then tell `replica` VoteSaved."""

    raft_group: str
    vote: Vote
    replica: Address


@frozen(slots=True)
class VoteSaved:
    """The vote is durable."""

    vote: Vote


@frozen(slots=True)
class SyncLog:
    """Run this flush, then tell `replica` LogSynced."""

    flush: Flush
    replica: Address


@frozen(slots=True)
class LogSynced:
    """The flush has ended, perhaps with an error."""

    flush: Flush
    error: BaseException | None


@frozen(slots=True)
class ForgetVotes:
    """The Raft group was deleted: forget its votes."""

    raft_group: str


@frozen(slots=True)
class _RoundDone:
    votes: tuple[SaveVote, ...]
    flushes: tuple[tuple[Address, LogSynced], ...]
    error: BaseException | None


@frozen(slots=True)
class _TryAgain:
    pass


class Flusher(Actor):
    """Gathers what must be synced; one round is under way at a time."""

    mailbox_capacity = 1 << 20

    def __init__(self, journal: VoteJournal, handles: Handles, background: Background) -> None:
        super().__init__()
        self._journal = journal
        self._handles = handles
        self._background = background
        self._votes: list[SaveVote] = []
        self._flushes: list[SyncLog] = []
        self._gone: list[str] = []
        self._busy = False
        self._tell_at = -math.inf

    @handles(SaveVote)
    def save_vote(self, message: SaveVote) -> None:
        self._votes.append(message)
        self._begin_round()

    @handles(SyncLog)
    def sync_log(self, message: SyncLog) -> None:
        self._flushes.append(message)
        self._begin_round()

    @handles(ForgetVotes)
    def forget_votes(self, message: ForgetVotes) -> None:
        self._gone.append(message.raft_group)
        self._begin_round()

    @handles(_RoundDone)
    def round_done(self, done: _RoundDone) -> None:
        for replica, synced in done.flushes:
            if synced.error is not None:  # the replica may have been restarted, and must know
                self._handles.note_failed_sync(synced.flush.log, synced.flush.since)
            self.node.tell_local(replica, synced)
        if done.error is not None:  # until the votes are saved, none of them is sent
            now = self.now
            if now >= self._tell_at:
                self._tell_at = now + TELL_SECONDS
                self.log.error("flusher: votes cannot be saved: %s; trying again", done.error)
            self._votes[:0] = done.votes
            self.after(RETRY_SECONDS, _TryAgain())
            return
        for saved in done.votes:
            self.node.tell_local(saved.replica, VoteSaved(saved.vote))
        self.try_again()

    @handles(_TryAgain)
    def try_again(self, _message: _TryAgain | None = None) -> None:
        self._busy = False
        self._begin_round()

    def _begin_round(self) -> None:
        if self._busy:
            return
        gone, self._gone = self._gone, []
        self._journal.forget(gone)
        if not (self._votes or self._flushes):
            return
        self._busy = True
        votes, self._votes = tuple(self._votes), []
        flushes, self._flushes = tuple(self._flushes[:LOGS_AT_ONCE]), self._flushes[LOGS_AT_ONCE:]
        synced: list[tuple[Address, LogSynced]] = []

        def work() -> None:
            try:
                if votes:
                    self._journal.write({save.raft_group: save.vote for save in votes})
                    self._journal.sync()
            finally:
                synced.extend((one.replica, _synced(one.flush, self._handles.filesystem)) for one in flushes)

        def done(error: BaseException | None) -> None:
            self.node.tell_local(self.address, _RoundDone(votes, tuple(synced), error))

        self._background.submit(work, done)


def _synced(flush: Flush, filesystem: Filesystem) -> LogSynced:
    try:
        flush.run(filesystem)
    except OSError as error:
        return LogSynced(flush, error)
    return LogSynced(flush, None)
