"""`python -m tools.cli dump-log`: what it prints, what damage it finds, and how it ends."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from crc32c import crc32c

from log.config import LogConfig
from log.disk.filesystem import DiskFilesystem
from log.partition.partition_log import PartitionLog
from protocol.records.batches import ControlType, Record, build_batch
from protocol.records.compression import Codec
from tests.log.log_model import batch, marker, offset_for_time, open_log, put, stamped
from tools import cli
from tools.cli.root import main

ROOT = Path(__file__).parents[4]
CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log with everything in it, cleanly closed."""
    path = tmp_path / "topic-0"
    log = open_log(DiskFilesystem(), CONFIG, str(path))
    for number in range(6):
        put(log, batch(2, at_ms=1000 + number, producer=(7, 0, 2 * number), transactional=True), epoch=number // 3)
    put(log, marker(ControlType.ABORT, 7))
    records = [Record(0, 2000, None, "grüße".encode(), (("trace", b"1"),)), Record(1, 2001, b"\xff", None)]
    put(log, build_batch(records, codec=Codec.GZIP))
    log.close()
    return path


def segment(directory: Path, suffix: str) -> Path:
    """The first file of a kind that has something in it."""
    return next(path for path in sorted(directory.glob(f"*{suffix}")) if path.stat().st_size)


def dump(*arguments: object) -> int:
    return main(["dump-log", *map(str, arguments)])


def test_a_segment_is_printed_batch_by_batch(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = directory / f"{0:020d}.log"
    assert dump(path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"Dumping {path}"
    assert lines[1].split(" crc: ")[0] == (
        "baseOffset: 0 lastOffset: 1 count: 2 baseSequence: 0 lastSequence: 1 producerId: 7 producerEpoch: 0 "
        "partitionLeaderEpoch: 0 isTransactional: true isControl: false position: 0 CreateTime: 1000 size: 93 magic: 2 "
        "compresscodec: none"
    )
    assert lines[1].endswith("isvalid: true")
    assert lines[-1] == f"1 files, {len(lines) - 2} batches, {2 * (len(lines) - 2)} records, 0 problems"


def test_records_are_printed_as_text_where_they_are_text(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dump(directory, "--records") == 0
    out = capsys.readouterr().out
    assert "| offset: 0 timestamp: 1000 key: key0 value: value headers: []\n" in out
    assert "| offset: 13 timestamp: 2000 key: null value: grüße headers: [trace=1]\n" in out
    assert "| offset: 14 timestamp: 2001 key: \\xff value: null headers: []\n" in out
    assert "control: ABORT" in out


def test_all_files_of_a_log_are_printed(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dump(directory) == 0
    out = capsys.readouterr().out
    for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot"):
        assert f"Dumping {segment(directory, suffix)}\n" in out
    assert "epoch: 1 startOffset: 6\n" in out
    assert "producerId: 7 firstOffset: 0 lastOffset: 12 lastStableOffset: 13\n" in out
    assert (
        "producerId: 7 producerEpoch: 0 lastSequence: 11 batches: 5 coordinatorEpoch: 1 transactionStart: None\n" in out
    )
    assert "offset: 5 position: 186\n" in out
    assert "timestamp: 1002 offset: 5\n" in out


def test_verifying_a_good_log_prints_one_line(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dump(directory, "--verify") == 0
    captured = capsys.readouterr()
    files = len(
        [
            path
            for path in directory.iterdir()
            if path.suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
        ]
    )
    assert captured.out == f"{files + 1} files, 8 batches, 15 records, 0 problems\n"
    assert captured.err == ""


def _flip(at: int) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        data[at] ^= 1

    return change


DAMAGE: list[tuple[str, str, Callable[[bytearray], object], str]] = [
    (".log", "a flipped bit", _flip(70), "wrong CRC"),
    (".log", "a wrong magic", _flip(16), "magic"),
    (".log", "a torn tail", lambda data: data.__delitem__(slice(-1, None)), "the last batch is cut off"),
    (".log", "garbage behind", lambda data: data.extend(b"junk"), "4 bytes"),
    (".log", "an absurd length", lambda data: struct.pack_into(">i", data, 8, 2**31 - 1), "cut off"),
    (".log", "an offset that goes back", lambda data: struct.pack_into(">q", data, 93, 0), "the offset goes back"),
    (".log", "an epoch that goes back", lambda data: struct.pack_into(">i", data, 12, 9), "leader epoch 0 after 9"),
    (".index", "half an entry", lambda data: data.extend(b"half"), "no whole number of 8-byte entries"),
    (".index", "a wrong position", _flip(7), "no batch begins at byte"),
    (".index", "a wrong offset", _flip(3), "byte 186 has 4 to 5"),
    (".timeindex", "half an entry", lambda data: data.extend(b"half"), "no whole number of 12-byte entries"),
    (".timeindex", "a wrong time", _flip(7), "no batch ends there with timestamp"),
    (".timeindex", "doubled entries", lambda data: data.extend(bytes(data)), "entries go back"),
    (".txnindex", "half an entry", lambda data: data.extend(b"half"), "no whole number of 34-byte entries"),
    (".txnindex", "a later version", _flip(1), "version 1"),
    (".snapshot", "a flipped bit", _flip(12), "wrong checksum"),
    (".snapshot", "too short", lambda data: data.__delitem__(slice(4, None)), "too short"),
    ("leader-epoch-checkpoint", "garbage", lambda data: data.extend(b"x"), "is no epoch cache"),
]  # fmt: skip


@pytest.mark.parametrize("option", ["--verify", "--records"])
@pytest.mark.parametrize(
    ("suffix", "name", "change", "problem"), DAMAGE, ids=[f"{kind} {name}" for kind, name, _, _ in DAMAGE]
)
def test_damage_is_found_in_every_kind_of_file(
    directory: Path,
    capsys: pytest.CaptureFixture[str],
    suffix: str,
    name: str,
    change: Callable[[bytearray], object],
    problem: str,
    option: str,
) -> None:
    path = directory / suffix if suffix.startswith("leader") else segment(directory, suffix)
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)
    assert dump(path, option) == 1
    captured = capsys.readouterr()
    assert problem in captured.err
    assert str(path) in captured.err
    assert not captured.out.endswith(" 0 problems\n")
    assert dump(directory, option) == 1


def test_records_that_cannot_be_decoded_are_a_problem(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = directory / f"{50:020d}.log"
    data = bytearray(build_batch([Record(50, 1, b"k", b"v" * 50)], base_offset=50, codec=Codec.GZIP))
    data[61:] = b"\0" * (len(data) - 61)
    struct.pack_into(">I", data, 17, crc32c(data[21:]))
    path.write_bytes(data)
    assert dump(path, "--verify") == 1
    assert f"{path}: byte 0, offset 50: " in capsys.readouterr().err


def test_json_has_a_line_for_each_entry_and_a_summary(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dump(directory, "--records", "--json") == 0
    *entries, summary = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    kinds = {"batch", "record", "offset index", "time index", "transaction", "producer", "epoch"}
    assert {entry["entry"] for entry in entries} == kinds
    batches = [entry for entry in entries if entry["entry"] == "batch"]
    records = [entry for entry in entries if entry["entry"] == "record"]
    assert (batches[0]["baseOffset"], batches[0]["isTransactional"], batches[0]["CreateTime"]) == (0, True, 1000)
    last = records[-1]
    assert (last["key"], last["value"], records[-2]["value"]) == ({"base64": "/w=="}, None, "grüße")
    assert records[-2]["headers"] == [["trace", "1"]]
    assert [entry["control"] for entry in records if "control" in entry] == ["ABORT"]
    assert {**summary, "files": 0} == {
        "entry": "summary", "files": 0, "batches": len(batches), "records": len(records), "problems": [],
    }  # fmt: skip
    assert summary["files"] >= len({entry["file"] for entry in entries})


@pytest.mark.parametrize("name", ["nowhere", "nowhere/0.log"])
def test_a_path_that_does_not_exist_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert dump(tmp_path / name) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"{tmp_path / name}: No such file or directory; give a log directory or a file of one\n"


def test_a_directory_without_a_log_is_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dump(tmp_path) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_file_that_is_none_of_a_log_is_a_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    assert dump(path) == 1
    assert "not a file of a log" in capsys.readouterr().err


def test_a_segment_as_apache_kafka_preallocates_it_is_read(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for suffix, entry in ((".index", 8), (".timeindex", 12)):
        for path in directory.glob(f"*{suffix}"):
            path.write_bytes(path.read_bytes() + bytes(entry * 1000))
    for path in directory.glob("*.snapshot"):
        path.unlink()
    assert dump(directory, "--verify") == 0
    assert capsys.readouterr().err == ""
    log = PartitionLog.open(str(directory), CONFIG, open_log(DiskFilesystem(), CONFIG, str(directory)).handles)
    assert log.read(5, 1).size
    assert offset_for_time(log, 1003) is not None


def test_zeros_alone_are_an_empty_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for suffix, entry in ((".index", 8), (".timeindex", 12)):
        path = tmp_path / f"{0:020d}{suffix}"
        path.write_bytes(bytes(entry * 10))
        assert dump(path) == 0


@pytest.mark.parametrize("batches", [5, 5000])
def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path, batches: int) -> None:
    """As with `| head -1`: quietly, whether the output fits into a buffer or not."""
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(b"".join(bytes(stamped(batch(), offset, 0)) for offset in range(batches)))
    command = [sys.executable, "-m", cli.__name__, "dump-log", str(path)]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=buffered, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
        code = process.wait(timeout=30)
    assert (code, errors) == (0, b"")
