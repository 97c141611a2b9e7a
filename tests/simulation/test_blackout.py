"""Every machine loses its power at once, and not everything was synced: a leader comes back, and replicas agree."""

from __future__ import annotations

import pytest

from log.memory_filesystem import CrashMode, MemoryFilesystem
from tools.simulator import run
from tools.simulator.blackout import Blackout
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
