"""A majority of a partition's replicas is lost by chance, and an administrator orders the survivors to go on."""

from __future__ import annotations

import pytest

from tools.simulator.record.report import SeedOutcome
from tools.simulator.run import run_seed
from tools.simulator.settings.faults import DISK_LOSSES
from tools.simulator.settings.seed import choose
from tools.simulator.topics.recoveries import KIND

ALONE = {
    "brokers": 4, "replication_factor": 3, "groups": (), "transactions": False, "writers": 1, "admins": 0,
    "unreplicated": 0, "seconds": 3.0,
}  # fmt: skip


def check(seed: int, *faults: str) -> SeedOutcome:
    outcome = run_seed(seed, {**ALONE, "faults": (KIND, *faults)})
    assert outcome.ok, f"seed {seed}: {outcome.violation}"
    return outcome


def test_the_survivors_go_on_and_what_only_the_others_had_is_counted() -> None:
    outcomes = [check(seed) for seed in range(4)]
    assert all(one.faults[KIND] == 1 for one in outcomes)
    assert {bool(one.faults.get("acknowledged-and-lost")) for one in outcomes} == {True, False}


@pytest.mark.parametrize("seed", [10, 12, 15, 21])
def test_recoveries_beside_other_faults_keep_every_promise(seed: int) -> None:
    assert check(seed, "kill", "transfer", "isolate", "kill-all").faults[KIND] == 1


def test_a_replica_that_no_longer_syncs_first_and_was_given_up_is_filled() -> None:
    """It dropped its log, and went on to acknowledge only what is synced, though nothing asked for a sync."""
    outcome = run_seed(2568, {})
    assert outcome.ok, outcome.violation
    assert outcome.faults[KIND] == 1


def test_answers_of_leaders_that_were_given_up_and_do_not_know_it_do_not_count() -> None:
    outcome = run_seed(5994, {})
    assert outcome.ok, outcome.violation
    assert outcome.faults["answered-by-given-up"]


def test_no_disk_is_lost_and_no_power_goes_everywhere_beside_a_recovery() -> None:
    some = [one for one in map(choose, range(300)) if KIND in one.faults]
    assert 30 < len(some) < 80
    assert not any(one.blackout or set(DISK_LOSSES) & set(one.faults) for one in some)
