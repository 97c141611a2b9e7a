"""Every machine loses its power at once, and not everything was synced: a leader comes back, and replicas agree."""

from __future__ import annotations

import pytest

from actors.cluster_file.facts import GROUP as METADATA
from log.config import LogConfig
from log.disk.memory_filesystem import CrashMode, MemoryFilesystem
from log.partition.partition_log import PartitionLog
from log.segment.producer_state import ProducerStates
from protocol.records.batches import check_batches
from tests.log.log_model import batch, open_log, put
from tools.simulator import run
from tools.simulator.checks.invariants import Invariants, Seen
from tools.simulator.endings.blackout import Blackout
from tools.simulator.record.report import Violation
from tools.simulator.run import run_seed


@pytest.mark.parametrize("seed", [3_028, 3_030, 3_040, 3_046, 3_048, 3_062, 3_069, 3_072, 3_102, 3_115])
def test_leaders_come_back_and_replicas_agree(seed: int) -> None:
    outcome = run_seed(seed, {"seconds": 1.0, "blackout": True, "replication_factor": 3})
    assert outcome.ok, outcome.violation
    assert outcome.faults["blackout"] == 1


def test_what_was_acknowledged_and_is_lost_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here nothing is ever synced, and no disk keeps what was not."""
    crash = MemoryFilesystem.crash

    def lose_all(disk: MemoryFilesystem, *_: object, mode: CrashMode = "lose_all") -> None:
        crash(disk, mode=mode)

    monkeypatch.setattr(MemoryFilesystem, "crash", lose_all)
    how = {"faults": (), "brokers": 3, "seconds": 1.0, "groups": (), "transactions": False, "blackout": True}
    outcomes = [run_seed(seed, how) for seed in range(12)]
    assert all(outcome.ok for outcome in outcomes), [outcome.violation for outcome in outcomes]
    assert any(outcome.faults.get("acknowledged-and-lost") for outcome in outcomes)


def test_a_disk_that_is_lost_in_a_blackout_is_found_to_need_an_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = Blackout.begin

    def begin_without_a_disk(self: Blackout) -> None:
        begin(self)
        self._world.wipe(1)

    monkeypatch.setattr(Blackout, "begin", begin_without_a_disk)
    monkeypatch.setattr(run, "HEAL_SECONDS_MAX", 5.0)
    how = {"faults": (), "brokers": 3, "seconds": 1.0, "groups": (), "transactions": False, "blackout": True}
    outcome = run_seed(10, how)
    assert outcome.violation is not None
    assert outcome.violation.promise == "a leader comes back after a blackout"


GROUP = "t-0.topic"
PRODUCER = 7


def _replica(batches: int, *, start: int = 0) -> PartitionLog:
    """A log of so many batches, each of one record of one producer, that has deleted those below `start`."""
    log = open_log(MemoryFilesystem(), LogConfig(segment_bytes=200))
    for sequence in range(batches):
        put(log, batch(producer=(PRODUCER, 0, sequence)))
    log.high_watermark = log.end_offset
    log.raise_log_start(start)
    return log


def _forget(log: PartitionLog, offset: int) -> None:
    """Take the batch at this offset out of the producers' table."""
    producer = log.producers.get(PRODUCER)
    assert producer is not None
    producer.batches.remove(next(one for one in producer.batches if one.last_offset == offset))


def _differences(*replicas: PartitionLog) -> list[Violation]:
    """What is found where replicas are looked at in turn after a blackout."""
    found: list[Violation] = []
    damaged = dict.fromkeys(range(1, len(replicas) + 1), False).__getitem__
    invariants = Invariants(found.append, lambda _: None, lambda: 0.0, damaged, flushes=False, journal="votes")
    invariants.forget(keep=METADATA)
    for broker, log in enumerate(replicas, start=1):
        seen = object.__new__(Seen)
        seen.watermark, seen.checked = log.end_offset, log.log_start_offset
        invariants._compare(GROUP, broker, seen, log)
        invariants._compare_producers(GROUP, broker, seen.watermark, log)
    assert {one.promise for one in found} <= {"every replica knows the same producers"}
    return found


def test_replicas_agree_whose_logs_leave_a_gap_between_them() -> None:
    """One ends at 3 and another begins at 5: no look finds the batches between, and only one table has them."""
    assert not _differences(_replica(3), _replica(7, start=5))
    assert not _differences(_replica(3), _replica(7, start=5), _replica(7))
    assert not _differences(_replica(3), _replica(20, start=18), _replica(8, start=7))


def test_replicas_agree_in_the_last_batches_however_many_records_those_have() -> None:
    logs = [_replica(3), _replica(3)]
    for log in logs:
        put(log, batch(95, producer=(PRODUCER, 0, 3)))
        log.high_watermark = log.end_offset
    assert not _differences(*logs)


@pytest.mark.parametrize("offset", [2, 5, 6])
def test_a_batch_that_a_table_lacks_is_found_on_either_side_of_a_gap(offset: int) -> None:
    log = _replica(7, start=5)
    _forget(log, offset)
    assert len(_differences(_replica(3), log)) == 1


def test_a_batch_that_a_table_lacks_is_found_once_the_gap_was_looked_at() -> None:
    log = _replica(7, start=5)
    _forget(log, 4)
    assert len(_differences(_replica(7), log)) == 1


def test_a_batch_that_nobody_wrote_is_found_in_a_table_beside_a_gap() -> None:
    log = _replica(7, start=5)
    log.producers = ProducerStates(log.producers)
    log.producers.update(check_batches(batch(2, producer=(PRODUCER, 0, 7))).headers[0], 5)
    assert len(_differences(_replica(3), log)) == 1
