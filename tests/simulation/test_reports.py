"""What a run says, and what the history checker knows by name."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import NoReturn

import psutil
import pytest

from tests.actors.waiting import wait_until
from tools import simulator as package
from tools.simulator import run as simulator
from tools.simulator.__main__ import main
from tools.simulator.record.history import ALL, IDEMPOTENT, ONE, History, WriteOperation
from tools.simulator.record.report import SeedOutcome, Violation
from tools.simulator.tally import Tally, TallyFile, UnusableTally

GROUP = "t-0"


def written(history: History, *values: bytes, at: int, kind: str = ALL, begun: float = 0.0) -> WriteOperation:
    operation = history.begin("w", kind, GROUP, values, begun)
    operation.base_offset = at
    history.end(operation, "ok", begun + 1)
    return operation


def promises(history: History, contents: dict[int, bytes], *, read: bool = True) -> list[str]:
    if read:
        for offset, value in contents.items():
            history.saw(GROUP, offset, value, "r")
    history.check({GROUP: contents})
    return [violation.promise for violation in history.violations]


def test_a_history_in_which_all_is_well() -> None:
    history = History()
    written(history, b"a", b"b", at=0)
    written(history, b"c", at=2, begun=5)
    assert promises(history, {0: b"a", 1: b"b", 2: b"c"}) == []


def test_an_acknowledged_record_that_is_not_there_is_a_lost_write() -> None:
    history = History()
    written(history, b"a", at=0)
    written(history, b"b", at=1, begun=5)
    assert promises(history, {0: b"b"}) == ["lost write", "lost write"]


def test_with_acks_1_a_record_may_be_lost() -> None:
    history = History()
    written(history, b"a", at=0, kind=ONE)
    assert promises(history, {}) == []


def test_an_acknowledged_record_that_nobody_reads_is_unseen() -> None:
    history = History()
    written(history, b"a", at=0)
    assert promises(history, {0: b"a"}, read=False) == ["unseen"]


def test_one_send_at_two_offsets_is_a_duplicate() -> None:
    history = History()
    written(history, b"a", at=0, kind=IDEMPOTENT)
    assert promises(history, {0: b"a", 1: b"a"}) == ["duplicate"]


def test_two_records_at_one_offset_are_inconsistent() -> None:
    history = History()
    written(history, b"a", at=0)
    history.saw(GROUP, 0, b"x", "r1")
    assert "inconsistent offsets" in promises(history, {0: b"a"})


def test_a_record_that_was_read_and_never_committed() -> None:
    history = History()
    history.begin("w", ALL, GROUP, (b"a",), 0.0)
    history.saw(GROUP, 0, b"a", "r")
    assert promises(history, {}) == ["read of uncommitted"]


def test_a_refused_record_must_not_be_there() -> None:
    history = History()
    history.end(history.begin("w", ALL, GROUP, (b"a",), 0.0), "failed", 1.0)
    assert promises(history, {0: b"a"}) == ["refused write is there"]


def test_what_was_begun_later_lies_behind() -> None:
    history = History()
    written(history, b"a", at=1)
    written(history, b"b", at=0, begun=5)
    assert promises(history, {0: b"b", 1: b"a"}) == ["non-monotonic send"]


@pytest.mark.parametrize("error", [StopIteration(), KeyError("t-0")])
def test_an_error_of_the_simulator_fails_its_seed_and_no_other(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """StopIteration would end the loop over a pool's outcomes: a soak would stop as if all of its seeds were done."""

    def fail(*_: object, **__: object) -> NoReturn:
        raise error

    monkeypatch.setattr(simulator, "run", fail)
    outcomes = list(map(partial(simulator.try_seed, how={}), range(3)))
    assert [outcome.seed for outcome in outcomes] == [0, 1, 2]
    for outcome in outcomes:
        assert outcome.violation is not None
        assert type(error).__name__ in outcome.violation.text


def test_a_failed_seed_is_told_with_everything_needed_to_run_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "0", "--mutant", "commit-without-majority"]) == 1
    told = capsys.readouterr().out
    assert "seed 0 broke a promise: what the watermark covers is held by a majority (" in told
    again = f"again: python -m {package.__name__} --seed 0"
    for part in ("commit ", "events", "faults: ", "settings: ", "trace:", again):
        assert part in told


def test_a_good_seed_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "2", "--faults", "kill,cut", "--seconds", "1"]) == 0
    assert capsys.readouterr().out.startswith("seed 2: ok, ")


def test_json_has_a_line_for_a_seed_and_text_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "2", "--faults", "kill,cut", "--seconds", "1", "--json"]) == 0
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert (told["seed"], told["ok"], told["promise"]) == (2, True, None)
    assert told["events"] > 0
    assert err.startswith("seed 2: ok, ")


def test_a_row_of_seeds_is_counted_with_the_faults_that_befell_most_seldom_first() -> None:
    tally = Tally(commit="abc")
    tally.add(SeedOutcome(1, None, 100, 1.0, 0, 0, 1, "", {"kill": 2, "cut": 1}))
    tally.add(SeedOutcome(2, Violation("lost write", GROUP, ""), 50, 1.0, 0, 0, 1, "", {"kill": 1}))
    assert str(tally).startswith("commit abc: 2 seeds, 150 events, ")
    assert str(tally).endswith(" 1 failed [2]")
    assert tally.hits().startswith("faults: ")
    assert tally.hits().endswith(" cut 1, kill 3")
    assert "usurp 0" in tally.hits()


def outcome_of(seed: int, violation: Violation | None = None) -> SeedOutcome:
    return SeedOutcome(seed, violation, 100, 1.0, 1, 1, 1, "", {"kill": 1})


def test_a_tally_file_is_continued_with_the_seeds_that_are_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "made" / "tally.json"
    quick = ["--faults", "none", "--seconds", "0.1"]
    assert main(["--seeds", "3-4", "--tally", str(path), *quick]) == 0
    kept = json.loads(path.read_text())
    assert (kept["first"], kept["done"], kept["failed"]) == (3, [[3, 4]], [])
    capsys.readouterr()
    assert main(["--seeds", "3-5", "--tally", str(path), *quick]) == 0
    told = capsys.readouterr().out
    assert told.startswith("1 of the seeds 3-5 are to do\n")
    assert ": 3 seeds, " in told
    assert main(["--fresh", "3", "--tally", str(path), *quick]) == 0  # the file says which they are
    assert " are to do" not in capsys.readouterr().out


def test_a_tally_file_keeps_failures_and_hits(tmp_path: Path) -> None:
    path = tmp_path / "tally.json"
    begun = TallyFile.open(path, 7, {"brokers": 3})
    for seed in (7, 9, 8):
        begun.add(outcome_of(seed, Violation("lost write", GROUP, "") if seed == 9 else None))
    found = TallyFile.open(path, 1000, {"brokers": 3})
    assert (found.first, found.done, found.tally.failed) == (7, {7, 8, 9}, [9])
    assert (found.tally.seeds, found.tally.events, found.tally.faults) == (3, 300, {"kill": 3})


def test_a_tally_of_other_code_or_of_other_options_is_not_continued(tmp_path: Path) -> None:
    path = tmp_path / "tally.json"
    TallyFile(path, 0, {}, Tally(commit="abc"), code="other").add(outcome_of(0))
    with pytest.raises(UnusableTally, match="counts seeds of commit abc, and the code is another now"):
        TallyFile.open(path, 0, {})
    with pytest.raises(SystemExit, match="check that commit out to go on, or use another file"):
        main(["--seeds", "0-1", "--tally", str(path)])
    TallyFile(path, 0, {"brokers": 3}).add(outcome_of(0))
    with pytest.raises(UnusableTally, match=r"run with \{'brokers': 3\}, not with \{'brokers': 4\}"):
        TallyFile.open(path, 0, {"brokers": 4})


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"version": 2}'])
def test_a_file_that_is_no_tally_is_refused_and_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(text)
    with pytest.raises(UnusableTally, match=r"notes\.txt is .*use another file"):
        TallyFile.open(path, 0, {})
    assert path.read_text() == text


def test_a_fault_that_is_not_known_is_refused() -> None:
    with pytest.raises(SystemExit, match="no such fault: flood"):
        main(["--faults", "flood"])


def test_the_planted_bugs_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list-mutants"]) == 0
    assert "vote-forgotten" in capsys.readouterr().out


def test_a_range_of_seeds_that_is_ended_leaves_no_process_behind() -> None:
    command = [sys.executable, "-m", package.__name__, "--seeds", "1-100000"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as running:
        process = psutil.Process(running.pid)
        wait_until(lambda: len(process.children()) > (os.cpu_count() or 1), lambda: "no process was started")
        children = process.children(recursive=True)
        running.terminate()
        assert running.wait(60.0) == 128 + signal.SIGTERM
    assert psutil.wait_procs(children, timeout=60.0)[1] == []
