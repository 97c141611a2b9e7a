"""Terms and votes of all replicas of one process, in one file: one sync makes any number of them durable.

A record names a partition (or the metadata log), a term and a vote. Records are appended, each twice; at open the last
record of each partition counts. The file is rewritten at open, when it has grown to many times its content, and after a
write or a sync that failed, because its content is unknown then.

Bytes that are no record may have been the last vote for any partition: a torn tail looks like a damaged record. So all
replicas of this broker are doubted then, durably. A doubted replica votes in no term in which it may have voted before:
it begins at a term that no earlier vote can have reached (`after_doubt`). That term is computed from the last vote that
is known, which is why each record has a copy: other replicas may have jumped ahead before, and this replica's log need
not show it yet. A missing file counts as damage if there are logs.

If the whole file is lost, no copy helps. So a second, tiny file notes the highest era in which any replica of this
broker has voted, before it votes there. An era is as many terms as a doubted replica skips: a broker begins one when
it, or another broker, has lost votes, and at no other time. A doubted replica continues after the noted era.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from crc32c import crc32c

from log.disk.filesystem import File, Filesystem
from log.errors import UnknownFormat
from log.raft import generation as generations
from log.raft.ready import Vote
from protocol.late_attrs import frozen

_MAGIC = b"BVJ2"
_KNOWN_MAGICS = (b"BVJ1", _MAGIC)  # version 1 has no doubted votes
_HEAD = struct.Struct(">IH")  # crc of the rest, length of the rest
_VOTE = struct.Struct(">qi")  # term, voted for (-1: no broker, -2: doubted); the partition's name follows
_NOBODY, _DOUBTED = -1, -2
_REWRITE_ABOVE_BYTES = 1 << 20
_REWRITE_RATIO = 8
_COPIES = 2
_SIZE_MAX = _VOTE.size + 512
"""Of a record: names of partitions are shorter."""
TERMS_SKIPPED = 1 << 20
"""A lost vote is fewer terms than this above the last known one: each term costs a majority a sync."""
ERA_SUFFIX = ".era"
_ERA = struct.Struct(">4sII")  # magic, crc of the era, era
_ERA_MAGIC = b"BVE1"


@frozen(slots=True)
class JournalContent:
    """The content of a journal file."""

    votes: dict[str, Vote]
    doubted: frozenset[str]
    damaged_bytes: int


class VoteJournal:
    """`votes` is what is on disk. What is being written counts only after `sync`."""

    def __init__(self, files: Filesystem, path: str, partitions: Iterable[str] = ()) -> None:
        """`partitions` have a log on this disk."""
        self._files = files
        self._path = path
        self._file: File
        self._end = 0
        self._intact = True
        self._unsynced: dict[str, Vote] = {}
        self.votes: dict[str, Vote] = {}
        self._doubted: set[str] = set()
        self._era = 0
        """The highest era in which a replica may have voted; it is on disk."""
        self.damage = ""
        """What was wrong with the file; empty if nothing was. Otherwise votes may be missing."""
        self._open(partitions)

    def get(self, partition: str) -> Vote:
        return self.votes.get(partition, Vote())

    def is_doubted(self, partition: str) -> bool:
        """May this replica have voted in a later term than `get` says?"""
        return partition in self._doubted

    def write(self, votes: Mapping[str, Vote]) -> None:
        """Append these votes. They are durable after `sync`. If either fails, none of them was written."""
        self._note_era(votes)
        data = _COPIES * b"".join(_encode(partition, vote) for partition, vote in votes.items())
        full = self._end + len(data) > max(_REWRITE_ABOVE_BYTES, _REWRITE_RATIO * 64 * len(self.votes))
        self._unsynced = dict(votes)
        if full or not self._intact:
            self._rewrite({**self.votes, **votes})
            return
        self._intact = False
        self._file.pwrite(data, self._end)
        self._intact = True
        self._end += len(data)

    def sync(self) -> None:
        self._intact = False
        self._file.sync()
        self._intact = True
        self.votes.update(self._unsynced)
        self._doubted -= self._unsynced.keys()
        self._unsynced = {}

    def forget(self, partitions: Iterable[str]) -> None:
        """These partitions are deleted; they leave the file when it is rewritten."""
        for partition in partitions:
            self.votes.pop(partition, None)
            self._doubted.discard(partition)

    def close(self) -> None:
        self._file.close()

    def _open(self, partitions: Iterable[str]) -> None:
        """Read the file and rewrite it: after a failed sync of an earlier process its content may not be on disk."""
        is_missing = not self._files.exists(self._path)
        data = _MAGIC if is_missing else self._files.read(self._path)
        if data[: len(_MAGIC)] not in _KNOWN_MAGICS:
            raise UnknownFormat(
                f"{self._path} is no vote journal of a version known here: it begins with {data[:4]!r}; start the"
                " version that wrote it, or move the file away if it is damaged"
            )
        content = read_votes(data)
        self.votes, self._doubted = content.votes, set(content.doubted)
        self._era = _read_era(self._files, self._path + ERA_SUFFIX)
        on_disk = set(partitions)
        if content.damaged_bytes:
            self.damage = f"{content.damaged_bytes} bytes of {self._path} are no votes"
        elif is_missing and on_disk:
            self.damage = f"{self._path} is missing"
        if self.damage:
            self._doubt({*self.votes, *on_disk})
        self._note_era(self.votes)
        self._rewrite(self.votes)

    def _doubt(self, partitions: set[str]) -> None:
        """The lost vote may have been saved after an earlier doubt: then all replicas have skipped terms already."""
        for partition in self._doubted:
            self.votes[partition] = Vote(generations.later(self.votes[partition].term, TERMS_SKIPPED))
        highest = max((generations.number_of(vote.term) for vote in self.votes.values()), default=0)
        for partition in partitions - self.votes.keys():
            self.votes[partition] = Vote(highest)
        first = self._era * TERMS_SKIPPED
        for partition, vote in self.votes.items():
            if generations.number_of(vote.term) < first:
                beginning = generations.first_term(generations.generation_of(vote.term))
                self.votes[partition] = Vote(generations.later(beginning, first))
        self._doubted |= partitions

    def _note_era(self, votes: Mapping[str, Vote]) -> None:
        """Called before any of these is written: it may be of a later era than every vote before."""
        era = max((generations.number_of(vote.term) for vote in votes.values()), default=0) // TERMS_SKIPPED
        if era > self._era:
            self._files.write_atomically(self._path + ERA_SUFFIX, _ERA.pack(_ERA_MAGIC, _era_crc(era), era))
            self._era = era

    def _rewrite(self, votes: Mapping[str, Vote]) -> None:
        doubted = self._doubted - self._unsynced.keys()
        records = [_encode(partition, vote, doubted=partition in doubted) for partition, vote in votes.items()]
        data = _MAGIC + _COPIES * b"".join(records)
        self._intact = False
        self._files.write_atomically(self._path, data)
        self._file, self._end, self._intact = self._files.open(self._path), len(data), True


def read_votes(data: bytes) -> JournalContent:
    """The last vote for each partition in a journal."""
    votes: dict[str, Vote] = {}
    doubted: set[str] = set()
    damaged, at = 0, len(_MAGIC)
    while at < len(data):
        body = _record_at(data, at)
        if body is None:
            damaged, at = damaged + 1, at + 1
            continue
        term, voted_for = _VOTE.unpack_from(body)
        partition = body[_VOTE.size :].decode()
        votes[partition] = Vote(term, None if voted_for < 0 else voted_for)
        (doubted.add if voted_for == _DOUBTED else doubted.discard)(partition)
        at += _HEAD.size + len(body)
    return JournalContent(votes, frozenset(doubted), damaged)


def _read_era(files: Filesystem, path: str) -> int:
    """The noted era; 0 if the file is missing or cannot be read: then the votes themselves are there."""
    data = files.read(path) if files.exists(path) else b""
    if len(data) != _ERA.size:
        return 0
    magic, crc, era = _ERA.unpack(data)
    return era if (magic, crc) == (_ERA_MAGIC, _era_crc(era)) else 0


def _era_crc(era: int) -> int:
    return crc32c(era.to_bytes(4, "big"))


def after_doubt(vote: Vote, latest_epoch: int, generation: int = 0) -> Vote:
    """Where a doubted replica continues: `vote` is the last known one, `latest_epoch` the latest epoch of its log."""
    known = max(generations.number_of(vote.term), generations.number_of(max(latest_epoch, 0)))
    return Vote(generations.later(generations.first_term(generation) + known, TERMS_SKIPPED))


def _record_at(data: bytes, at: int) -> bytes | None:
    """The body of the record that begins here; None if there is no intact record."""
    if at + _HEAD.size > len(data):
        return None
    crc, size = _HEAD.unpack_from(data, at)
    if not _VOTE.size <= size <= _SIZE_MAX:
        return None
    body = data[at + _HEAD.size : at + _HEAD.size + size]
    return body if len(body) == size and crc32c(body) == crc else None


def _encode(partition: str, vote: Vote, *, doubted: bool = False) -> bytes:
    nobody = _DOUBTED if doubted else _NOBODY
    body = _VOTE.pack(vote.term, nobody if vote.voted_for is None or doubted else vote.voted_for) + partition.encode()
    return _HEAD.pack(crc32c(body), len(body)) + body
