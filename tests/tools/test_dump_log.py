"""`python -m tools.cli dump-log`, as a user types it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from log.config import LogConfig
from log.filesystem import DiskFilesystem
from log.handles import Handles
from log.partition_log import PartitionLog
from protocol.compression import Codec
from protocol.records import ControlType, Record, build_batch, check_batches, end_txn_marker
from tools.cli.__main__ import main

FIRST_SEGMENT = "0" * 20


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log with several segments, codecs, a producer, and an aborted transaction."""
    log = PartitionLog.open(
        str(tmp_path / "orders-0"), LogConfig(segment_bytes=2000, index_interval_bytes=100), Handles(DiskFilesystem())
    )
    for number in range(40):
        codec = list(Codec)[number % 5]
        records = [Record(at, 1000 + number, b"key-%d" % number, b"value" * 10, (("h", b"x"),)) for at in range(3)]
        batch = build_batch(
            records, codec=codec, producer_id=7, producer_epoch=0, base_sequence=3 * number, transactional=True
        )
        log.append(check_batches(batch), epoch=number // 20, now_ms=0)
    log.append(check_batches(end_txn_marker(ControlType.ABORT, 1, 7, 0, 2000)), epoch=2, now_ms=0)
    log.high_watermark = log.end_offset
    log.close()
    return tmp_path / "orders-0"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.cli", "dump-log", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL)


def test_a_whole_directory_is_printed_and_found_sound(directory: Path) -> None:
    done = run(directory)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert sum(line.startswith("baseOffset:") for line in lines) == 41
    assert any("compresscodec: zstd" in line and "isvalid: true" in line for line in lines)
    assert any(line.startswith("producerId: 7 firstOffset: 0") for line in lines)
    assert any(line == "epoch: 1 startOffset: 60" for line in lines)
    assert lines[-1].endswith("41 batches, 121 records, 0 problems")


def test_one_batch_is_printed_as_kafkas_own_tool_prints_it(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump-log", str(directory / f"{FIRST_SEGMENT}.log"), "--records"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith(
        "baseOffset: 0 lastOffset: 2 count: 3 baseSequence: 0 lastSequence: 2 producerId: 7 producerEpoch: 0 "
        "partitionLeaderEpoch: 0 isTransactional: true isControl: false position: 0 CreateTime: 1000 size: "
    )
    assert lines[2] == f"| offset: 0 timestamp: 1000 key: key-0 value: {'value' * 10} headers: [h=x]"


def test_verify_prints_no_batches_and_looks_at_everything(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump-log", str(directory), "--verify"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.endswith("0 problems")


@pytest.mark.parametrize(
    ("name", "at", "complaint"),
    [
        (f"{FIRST_SEGMENT}.log", 100, "wrong CRC"),
        (f"{FIRST_SEGMENT}.log", 16, "magic"),
        (f"{FIRST_SEGMENT}.log", 7, "offset"),
        (f"{FIRST_SEGMENT}.index", 7, "byte"),
        (f"{FIRST_SEGMENT}.timeindex", 7, "timestamp"),
        ("leader-epoch-checkpoint", 0, "epoch"),
    ],
)
def test_damage_is_found_and_named(
    directory: Path, capsys: pytest.CaptureFixture[str], name: str, at: int, complaint: str
) -> None:
    path = directory / name
    data = bytearray(path.read_bytes())
    data[at] ^= 0x40
    path.write_bytes(data)
    assert main(["dump-log", str(directory), "--verify"]) == 1
    problems = capsys.readouterr().err
    assert str(path) in problems
    assert complaint in problems


def test_a_torn_tail_and_a_damaged_snapshot_are_found(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    last = max(directory.glob("*.log"))
    last.write_bytes(last.read_bytes()[:-1])
    snapshot = max(directory.glob("*.snapshot"))
    snapshot.write_bytes(snapshot.read_bytes()[:-1])
    assert main(["dump-log", str(directory), "--verify"]) == 1
    problems = capsys.readouterr().err.splitlines()
    assert any("cut off" in problem for problem in problems)
    assert any(str(snapshot) in problem for problem in problems)


def test_an_index_as_apache_kafka_preallocates_it_is_read(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = directory / f"{FIRST_SEGMENT}.index"
    path.write_bytes(path.read_bytes() + bytes(8 * 100))
    assert main(["dump-log", str(path)]) == 0
    assert "offset: 0 position: 0" not in capsys.readouterr().out.splitlines()[2:]


def test_what_is_not_there_or_is_no_log_is_one_clear_line(tmp_path: Path) -> None:
    missing = run(tmp_path / "nowhere")
    assert missing.returncode == 2
    assert len(missing.stderr.splitlines()) == 1
    assert "nowhere" in missing.stderr
    empty = run(tmp_path)
    assert empty.returncode == 2
    assert "no file of a log" in empty.stderr
    (tmp_path / "notes.txt").write_text("hello")
    other = run(tmp_path / "notes.txt")
    assert other.returncode == 1
    assert "not a file of a log" in other.stderr


def test_a_reader_that_has_seen_enough_is_no_error(directory: Path) -> None:
    command = f"{sys.executable} -m tools.cli dump-log {directory} --records | head -n 1"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 1
