"""A log as a list of batches of one record each: what `Member` and `RaftNode` need of a log, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable

from log.segment.epoch_cache import EpochCache, EpochEntry
from protocol.records.batches import RecordBatches, check_batches, stamp


class ModelFiles:
    """Everything that is written atomically is durable at once; the state of a replica holds it."""

    def make_directory(self, _path: str) -> None:
        pass

    def write_atomically(self, _path: str, _data: bytes) -> None:
        pass

    def remove(self, _path: str) -> None:
        pass

    def exists(self, _path: str) -> bool:
        """No mark: the state of a replica says whether it is eligible, and whether it is new to its group."""
        return False


class ModelSlice:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self) -> bytes:
        return self._data


class ModelLog:
    """Batches as they would be in the file; `flushed_offset` of them are on disk."""

    filesystem = ModelFiles()
    directory = "log"
    log_start_offset = 0
    first_offset = 0
    is_truncating = False

    def __init__(self, batches: Iterable[bytes] = (), flushed_offset: int = 0) -> None:
        self.batches = list(batches)
        self.flushed_offset = flushed_offset
        self.high_watermark = 0
        self.epochs = EpochCache()
        for offset, batch in enumerate(self.batches):
            self.epochs.assign(check_batches(bytearray(batch)).headers[0].leader_epoch, offset)

    @property
    def end_offset(self) -> int:
        return len(self.batches)

    def append(self, batches: RecordBatches, *, epoch: int, now_ms: int) -> int:  # noqa: ARG002  as in PartitionLog
        base = self.end_offset
        position = 0
        for header in batches.headers:
            stamp(batches.data, position, self.end_offset, epoch)
            self.epochs.assign(epoch, self.end_offset)
            self.batches.append(bytes(batches.data[position : position + header.size]))
            position += header.size
        return base

    def append_stamped(
        self,
        batches: RecordBatches,
        *,
        now_ms: int,  # noqa: ARG002  as in PartitionLog
        hidden: Iterable[EpochEntry] = (),
    ) -> None:
        assert not list(hidden), "no log is compacted here"
        position = 0
        for header in batches.headers:
            assert header.base_offset == self.end_offset, f"offset {header.base_offset} at {self.end_offset}"
            assert header.leader_epoch >= self.epochs.latest, "epochs never go back"
            self.epochs.assign(header.leader_epoch, self.end_offset)
            self.batches.append(bytes(batches.data[position : position + header.size]))
            position += header.size

    def truncate(self, offset: int) -> None:
        del self.batches[offset:]
        self.epochs.cut_from(offset)
        self.flushed_offset = min(self.flushed_offset, offset)

    def restart_at(self, offset: int) -> None:
        assert offset == 0, "logs start at 0 here"
        self.truncate(0)
        self.high_watermark = 0

    def checkpoint(self) -> None:
        """What a log writes then is read at its start, which is at offset 0 here."""

    def read(self, start: int, _bytes_max: int) -> ModelSlice:
        return ModelSlice(b"".join(self.batches[start:]))
