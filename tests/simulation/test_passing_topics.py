"""Topics that come and go under transactions: those end all the same, and nothing of one topic is in the next."""

from __future__ import annotations

import pytest

from tools.checker.history import OK, TransactionEnded
from tools.simulator.record.report import SeedOutcome, TraceKeeper
from tools.simulator.run import run_seed
from tools.simulator.settings.seed import choose
from tools.simulator.transactions.passing_topics import KIND
from tools.simulator.world import World

ALONE = {"groups": (), "transactions": True, "writers": 1, "admins": 0, "seconds": 2.0}


def check(seed: int, **how: object) -> SeedOutcome:
    outcome = run_seed(seed, {**ALONE, **how})
    assert outcome.ok, f"seed {seed}: {outcome.violation}"
    return outcome


def test_transactions_end_and_topics_of_one_name_are_kept_apart() -> None:
    outcome = check(0, faults=(KIND, "kill", "transfer"))
    assert outcome.faults[KIND] > 1


@pytest.mark.slow
def test_a_transaction_ends_whose_topic_is_gone() -> None:
    """Its coordinator waited for an answer that no controller wrote."""
    check(36, groups=None, writers=None, admins=None, seconds=None)


def test_clients_write_to_such_topics_commit_offsets_of_them_and_end_their_transactions() -> None:
    world = World(choose(0, faults=(KIND,), **ALONE), TraceKeeper())  # type: ignore[arg-type]
    while not world.form():
        world.sim.step()
    world.sim.run(seconds=4.0)
    assert world.transactions is not None
    assert world.passing is not None
    assert any(one.offset >= 0 for one in world.passing.written)
    assert any(not one.is_unsure for one in world.passing.offsets)
    assert set(world.passing.ended.values()) == {True, False}
    assert any(isinstance(one, TransactionEnded) and one.outcome == OK for one in world.transactions.history)
    assert not world.history.violations
