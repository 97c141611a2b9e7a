"""Terms and votes of every group of one process, in one file: one sync makes any number of them durable.

Records are appended; at open the last one of each group counts. A torn tail is cut: what was not synced was not told.
What is damaged elsewhere is passed over and counted: to believe nothing behind it would be to vote a second time.
When the file has grown to many times what it holds, it is written anew; so it is after a write or a sync that failed,
because nobody knows what is in it then.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from crc32c import crc32c

from log.errors import UnknownFormat
from log.filesystem import File, Filesystem
from log.raft.ready import Vote

_MAGIC = b"BVJ1"
_HEAD = struct.Struct(">IH")  # crc of the rest, length of the rest
_VOTE = struct.Struct(">qi")  # term, voted for (-1: nobody); the group's name follows
_REWRITE_ABOVE_BYTES = 1 << 20
_REWRITE_RATIO = 8
_SIZE_MAX = _VOTE.size + 512
"""Of a record: names of groups are shorter."""


class VoteJournal:
    """`votes` is what is on disk. What is being written counts only after `sync`."""

    def __init__(self, files: Filesystem, path: str) -> None:
        self._files = files
        self._path = path
        self._file: File
        self._end = 0
        self._intact = True
        self._unsynced: dict[str, Vote] = {}
        self.votes: dict[str, Vote] = {}
        self.damaged_bytes = 0
        """So much was found that is no vote: a torn tail, or worse."""
        self._open()

    def get(self, group: str) -> Vote:
        return self.votes.get(group, Vote())

    def write(self, votes: Mapping[str, Vote]) -> None:
        """Append these votes. They are durable after `sync`. If either fails, none of them was written."""
        data = b"".join(_encode(group, vote) for group, vote in votes.items())
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
        self._unsynced = {}

    def forget(self, groups: Iterable[str]) -> None:
        """These groups are gone for good; they leave the file when it is next written anew."""
        for group in groups:
            self.votes.pop(group, None)

    def close(self) -> None:
        self._file.close()

    def _open(self) -> None:
        """Read it and write it anew: after a failed sync of an earlier process it may read well and not be on disk."""
        data = self._files.read(self._path) if self._files.exists(self._path) else _MAGIC
        if data[: len(_MAGIC)] != _MAGIC:
            raise UnknownFormat(f"{self._path} is no vote journal of a version known here: it begins with {data[:4]!r}")
        self.votes, self.damaged_bytes = read_votes(data)
        self._rewrite(self.votes)

    def _rewrite(self, votes: Mapping[str, Vote]) -> None:
        data = _MAGIC + b"".join(_encode(group, vote) for group, vote in votes.items())
        self._intact = False
        self._files.write_atomically(self._path, data)
        self._file, self._end, self._intact = self._files.open(self._path), len(data), True


def read_votes(data: bytes) -> tuple[dict[str, Vote], int]:
    """The last vote of each group in a journal, and how many bytes of it are none."""
    votes, damaged, at = {}, 0, len(_MAGIC)
    while at < len(data):
        body = _record_at(data, at)
        if body is None:
            damaged, at = damaged + 1, at + 1
            continue
        term, voted_for = _VOTE.unpack_from(body)
        votes[body[_VOTE.size :].decode()] = Vote(term, None if voted_for < 0 else voted_for)
        at += _HEAD.size + len(body)
    return votes, damaged


def _record_at(data: bytes, at: int) -> bytes | None:
    """What a whole record that begins here says."""
    if at + _HEAD.size > len(data):
        return None
    crc, size = _HEAD.unpack_from(data, at)
    if not _VOTE.size <= size <= _SIZE_MAX:
        return None
    body = data[at + _HEAD.size : at + _HEAD.size + size]
    return body if len(body) == size and crc32c(body) == crc else None


def _encode(group: str, vote: Vote) -> bytes:
    body = _VOTE.pack(vote.term, -1 if vote.voted_for is None else vote.voted_for) + group.encode()
    return _HEAD.pack(crc32c(body), len(body)) + body
