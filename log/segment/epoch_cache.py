"""Which leader epoch wrote which offsets: `leader-epoch-checkpoint`, in Kafka's text form.

It is primary, not derived: retention and compaction remove the batches it describes. Its last entry is the epoch of the
log's last record, also of a log that is empty now, and nothing but appended batches ever sets it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise

from log.errors import DamagedFile, OutOfOrderAppend, UnknownFormat
from protocol.late_attrs import frozen

_VERSION = 0


@frozen(slots=True)
class EpochEntry:
    """From this offset on, this epoch."""

    epoch: int
    start_offset: int


class EpochCache:
    """Epochs and their start offsets, both strictly growing."""

    __slots__ = ("_epochs", "_starts", "changed")

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.changed = False
        """Is there something that the file does not have yet?"""
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)
        self.changed = False

    def __len__(self) -> int:
        return len(self._epochs)

    def __iter__(self) -> Iterator[EpochEntry]:
        return map(EpochEntry, self._epochs, self._starts)

    @property
    def latest(self) -> int:
        """The epoch of the last record ever appended, -1 before the first."""
        return self._epochs[-1] if self._epochs else -1

    def assign(self, epoch: int, offset: int) -> None:
        """A batch of this epoch is appended at this offset."""
        if self._epochs and epoch <= self._epochs[-1]:
            if epoch == self._epochs[-1]:
                return
            raise OutOfOrderAppend(f"epoch {epoch} after epoch {self._epochs[-1]} at offset {offset}")
        while self._starts and self._starts[-1] >= offset:  # an epoch that wrote nothing leaves no trace
            self._starts.pop()
            self._epochs.pop()
        self._epochs.append(epoch)
        self._starts.append(offset)
        self.changed = True

    def epoch_at(self, offset: int) -> int:
        """The epoch that wrote this offset, -1 if it lies before everything known."""
        at = bisect_right(self._starts, offset) - 1
        return self._epochs[at] if at >= 0 else -1

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """The largest known epoch at or below `epoch`, and where it ends (exclusive). (-1, -1) without such an epoch.

        What a follower needs to find where its log and the leader's part: Kafka's OffsetForLeaderEpoch.
        """
        at = bisect_right(self._epochs, epoch) - 1
        if at < 0:
            return -1, -1
        end = self._starts[at + 1] if at + 1 < len(self._starts) else log_end
        return self._epochs[at], end

    def between(self, start: int, end: int) -> EpochCache:
        """The epochs that begin at `start` or later, and before `end`."""
        return EpochCache(entry for entry in self if start <= entry.start_offset < end)

    def cut_from(self, offset: int) -> None:
        """Forget what was written at `offset` and above."""
        while self._starts and self._starts[-1] >= offset:
            self._starts.pop()
            self._epochs.pop()
            self.changed = True

    def cut_before(self, offset: int) -> None:
        """Forget epochs that ended before `offset`, but not the one of the last record before it.

        A leader whose log begins at `offset` sends that one as the epoch of what came before, and a log that is cut
        back to its start votes with it.
        """
        at = bisect_right(self._starts, offset - 1) - 1
        if at > 0:
            del self._epochs[:at], self._starts[:at]
            self.changed = True

    def encode(self) -> bytes:
        lines = [str(_VERSION), str(len(self))]
        lines += [f"{epoch} {start}" for epoch, start in zip(self._epochs, self._starts, strict=True)]
        return ("\n".join(lines) + "\n").encode()

    @classmethod
    def decode(cls, data: bytes, path: str) -> EpochCache:
        try:
            version, count, *lines = data.decode().splitlines()
            if int(version) != _VERSION:
                raise UnknownFormat(f"{path} has version {version}; {_VERSION} is known here")
            entries = [EpochEntry(*map(int, line.split())) for line in lines]
            if len(entries) != int(count):
                raise ValueError(f"{count} entries promised, {len(entries)} there")
            for entry, following in pairwise((EpochEntry(-1, -1), *entries)):
                if following.epoch <= entry.epoch or following.start_offset <= entry.start_offset:
                    raise ValueError(f"epoch {following.epoch} from offset {following.start_offset} on goes back")
            return cls(entries)
        except (ValueError, TypeError) as error:
            raise DamagedFile(f"{path} is no epoch cache: {error}") from error
