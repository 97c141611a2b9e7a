"""Print the batches of a segment, or the entries of an index, and find damage. Exit code 1 if there is any.

PATH is a partition's directory, or one of its files: .log, .index, .timeindex, .txnindex, .snapshot or
leader-epoch-checkpoint; Barnabas's own or Apache Kafka's.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from struct import Struct
from typing import TypeVar

import orjson
from attrs import Factory, define
from crc32c import crc32c

from log.errors import LogError
from log.segment.epoch_cache import EpochCache
from log.segment.indexes import OFFSET_ENTRY, TIME_ENTRY
from log.segment.producer_state import ProducerStates
from log.segment.transaction_index import decode_transactions
from protocol.errors import ProtocolError
from protocol.records.batches import HEADER, BatchHeader, control_type, read_header, records
from tools.cli import output

T = TypeVar("T")
CRC_FROM = 21
DECOMPRESSED_BYTES_MAX = 256 << 20
PROGRESS_ABOVE_BYTES = 64 << 20
_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


class NoLog(Exception):
    """The path names no file of a log."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    output.add_example(parser, "%(prog)s data/1/orders-0 --verify")
    parser.add_argument("path", metavar="PATH", type=Path, help="a partition's directory or one of its files")
    parser.add_argument("--records", action="store_true", help="print the records of each batch too")
    parser.add_argument("--json", action="store_true", help="print JSON, a line for each entry, and then a summary")
    parser.add_argument(
        "--verify", action="store_true", help="print no batches: decode everything, compare indexes with the log"
    )


def run(options: argparse.Namespace) -> int:
    """Dump PATH; returns the exit code."""
    dump = Dump(
        show=not options.verify, show_records=options.records, decode=options.records or options.verify,
        as_json=options.json,
    )  # fmt: skip
    try:
        paths = _files_of(options.path)
        for path in paths:
            dump.file(path)
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = f"{error.filename or options.path}: {error.strerror}; give a log directory or a file of one"
        return output.failed(options, NoLog(reason), code=2)
    if not paths:
        reason = f"{options.path}: no file of a log is here; give a partition's directory or a .log file"
        return output.failed(options, NoLog(reason), code=2)
    for problem in dump.problems:
        print(problem, file=sys.stderr)
    counts = {"files": dump.files, "batches": dump.batches, "records": dump.record_count}
    text = f"{', '.join(f'{count} {name}' for name, count in counts.items())}, {len(dump.problems)} problems"
    output.tell(options, {"entry": "summary", **counts, "problems": dump.problems}, text)
    return 1 if dump.problems else 0


def _files_of(path: Path) -> list[Path]:
    if not path.is_dir():
        os.stat(path)
        return [path]
    return sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES or file.name == "leader-epoch-checkpoint")


@define
class Dump:
    """Prints one file after the other and collects their problems."""

    show: bool
    show_records: bool
    decode: bool
    as_json: bool = False
    files: int = 0
    batches: int = 0
    record_count: int = 0
    problems: list[str] = Factory(list)

    def file(self, path: Path) -> None:
        self.files += 1
        if self.show and not self.as_json:
            print(f"Dumping {path}")
        match path.suffix:
            case ".log":
                self._segment(path)
            case ".index":
                self._offset_index(path)
            case ".timeindex":
                self._time_index(path)
            case ".txnindex":
                self._transaction_index(path)
            case ".snapshot":
                self._snapshot(path)
            case _ if path.name == "leader-epoch-checkpoint":
                self._epochs(path)
            case _:
                self._problem(path, f"not a file of a log; known are {', '.join(_SUFFIXES)}, leader-epoch-checkpoint")

    # -- the log ---------------------------------------------------------------------------------------------

    def _segment(self, path: Path) -> None:
        next_offset = _base_offset(path)
        epoch = -1
        for position, header, batch in self._batches(path):
            self.batches += 1
            self.record_count += header.record_count
            valid = crc32c(batch[CRC_FROM:]) == header.crc
            where = f"byte {position}, offset {header.base_offset}"
            if not valid:
                self._problem(path, f"{where}: wrong CRC")
            if header.base_offset < next_offset:
                self._problem(path, f"{where}: the offset goes back; {next_offset} or more was expected")
            if header.leader_epoch < epoch:
                self._problem(path, f"{where}: leader epoch {header.leader_epoch} after {epoch}")
            next_offset, epoch = max(next_offset, header.next_offset), max(epoch, header.leader_epoch)
            self._entry(path, "batch", _batch_fields(header, position, valid=valid))
            if self.decode and valid:
                self._records(path, where, header, batch)

    def _batches(self, path: Path) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Every whole batch of the file, up to the first damage."""
        from rich.console import Console  # noqa: PLC0415  other commands should start fast
        from rich.progress import Progress  # noqa: PLC0415

        size = path.stat().st_size
        console = Console(stderr=True)
        hidden = size < PROGRESS_ABOVE_BYTES or not console.is_terminal
        with path.open("rb") as file, Progress(console=console, transient=True, disable=hidden) as progress:
            task = progress.add_task(path.name, total=size)
            position = 0
            while position < size:
                head = file.read(HEADER.size)
                try:
                    header = read_header(head)
                except ProtocolError as error:
                    self._problem(path, f"byte {position}: {error}")
                    return
                if position + header.size > size:
                    self._problem(path, f"byte {position}, offset {header.base_offset}: the last batch is cut off")
                    return
                yield position, header, memoryview(head + file.read(header.size - HEADER.size))
                position += header.size
                progress.update(task, completed=position)

    def _records(self, path: Path, where: str, header: BatchHeader, batch: memoryview) -> None:
        try:
            for record in records(batch, limit=DECOMPRESSED_BYTES_MAX):
                if not self.show_records:
                    continue
                text = output.plain_data if self.as_json else _text
                fields = {
                    "offset": record.offset, "timestamp": record.timestamp, "key": text(record.key),
                    "value": text(record.value), "headers": [[name, text(value)] for name, value in record.headers],
                }  # fmt: skip
                control = {"control": control_type(record).name} if header.is_control else {}
                self._entry(path, "record", {**fields, **control}, mark="| ")
        except ProtocolError as error:
            self._problem(path, f"{where}: {error}")

    # -- the files beside it ---------------------------------------------------------------------------------

    def _offset_index(self, path: Path) -> None:
        base_offset, batches = _base_offset(path), self._batches_beside(path)
        last_offset = last_position = -1
        for relative, position in self._entries(path, OFFSET_ENTRY):
            offset = base_offset + relative
            self._entry(path, "offset index", {"offset": offset, "position": position})
            if relative <= last_offset or position <= last_position:
                self._problem(path, f"offset {offset}: entries go back")
            elif batches is not None and batches.get(position) is None:
                self._problem(path, f"offset {offset}: no batch begins at byte {position}")
            elif batches is not None and batches[position].last_offset != offset:
                found = batches[position]
                self._problem(path, f"offset {offset}: byte {position} has {found.base_offset} to {found.last_offset}")
            last_offset, last_position = relative, position

    def _time_index(self, path: Path) -> None:
        base_offset, batches = _base_offset(path), self._batches_beside(path)
        timestamps = None if batches is None else {batch.last_offset: batch.max_timestamp for batch in batches.values()}
        last_timestamp = last_offset = -1
        for timestamp, relative in self._entries(path, TIME_ENTRY):
            offset = base_offset + relative
            self._entry(path, "time index", {"timestamp": timestamp, "offset": offset})
            if timestamp <= last_timestamp or relative <= last_offset:
                self._problem(path, f"offset {offset}: entries go back")
            elif timestamps is not None and timestamps.get(offset, -1) != timestamp:
                self._problem(path, f"offset {offset}: no batch ends there with timestamp {timestamp}")
            last_timestamp, last_offset = timestamp, relative

    def _transaction_index(self, path: Path) -> None:
        for entry in self._decoded(path, decode_transactions):
            fields = {
                "producerId": entry.producer_id, "firstOffset": entry.first_offset, "lastOffset": entry.last_offset,
                "lastStableOffset": entry.last_stable_offset,
            }  # fmt: skip
            self._entry(path, "transaction", fields)

    def _snapshot(self, path: Path) -> None:
        for producer in self._decoded(path, ProducerStates.decode, " (Apache Kafka's own snapshots have another form)"):
            fields = {
                "producerId": producer.id, "producerEpoch": producer.epoch, "lastSequence": producer.last_sequence,
                "batches": len(producer.batches), "coordinatorEpoch": producer.coordinator_epoch,
                "transactionStart": producer.transaction_start,
            }  # fmt: skip
            self._entry(path, "producer", fields)

    def _epochs(self, path: Path) -> None:
        for entry in self._decoded(path, EpochCache.decode):
            self._entry(path, "epoch", {"epoch": entry.epoch, "startOffset": entry.start_offset})

    def _decoded(self, path: Path, decode: Callable[[bytes, str], Iterable[T]], hint: str = "") -> Iterator[T]:
        """The entries of a small file; damage is a problem."""
        try:
            yield from decode(path.read_bytes(), str(path))
        except LogError as error:
            self.problems.append(f"{error}{hint}")

    def _entry(self, path: Path, entry: str, fields: Mapping[str, object], mark: str = "") -> None:
        """Print an entry of a file, as Kafka's own dump does or as JSON."""
        if not self.show:
            return
        if self.as_json:
            print(orjson.dumps({"file": str(path), "entry": entry, **fields}).decode())
        else:
            print(mark + " ".join(f"{name}: {_shown(value)}" for name, value in fields.items()))

    def _entries(self, path: Path, form: Struct) -> Iterator[tuple[int, int]]:
        """The entries of an index file, without the zeros that Apache Kafka keeps behind those of an active one."""
        data = path.read_bytes()
        if len(data) % form.size:
            self._problem(path, f"{len(data)} bytes are no whole number of {form.size}-byte entries")
        for at in range(0, len(data) - form.size + 1, form.size):
            values = form.unpack_from(data, at)
            if at and not any(values):
                return
            yield values[0], values[1]

    def _batches_beside(self, path: Path) -> dict[int, BatchHeader] | None:
        """The batches of the segment that an index belongs to, by position; None if its log is not there."""
        log = path.with_suffix(".log")
        if not log.exists():
            return None
        known = len(self.problems)
        batches = {position: header for position, header, _ in self._batches(log)}
        del self.problems[known:]  # reported when the log itself is dumped
        return batches

    def _problem(self, path: Path, text: str) -> None:
        self.problems.append(f"{path}: {text}")


def _base_offset(path: Path) -> int:
    return int(path.stem) if path.stem.isdigit() else 0


def _batch_fields(header: BatchHeader, position: int, *, valid: bool) -> dict[str, object]:
    return {
        "baseOffset": header.base_offset, "lastOffset": header.last_offset, "count": header.record_count,
        "baseSequence": header.base_sequence, "lastSequence": header.last_sequence, "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch, "partitionLeaderEpoch": header.leader_epoch,
        "isTransactional": header.is_transactional, "isControl": header.is_control, "position": position,
        "LogAppendTime" if header.is_log_append_time else "CreateTime": header.max_timestamp, "size": header.size,
        "magic": header.magic, "compresscodec": header.codec.name.lower(), "crc": header.crc, "isvalid": valid,
    }  # fmt: skip


def _shown(value: object) -> str:
    if isinstance(value, list):
        return f"[{' '.join(f'{name}={text}' for name, text in value)}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _text(data: bytes | None) -> str:
    if data is None:
        return "null"
    text = data.decode("utf-8", errors="backslashreplace")
    return text if text.isprintable() else repr(data)[1:]
