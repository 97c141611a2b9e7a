"""Transactions by seed: clients of both protocols, on real connections, with faults, and a verdict."""

from __future__ import annotations

import pytest

from actors.coordination.transactions import TransactionCoordinator
from log.machines.transaction.machine import TransactionMachine
from tests.simulation.test_seeds import NEWER
from tools.checker.history import OK, Init, OffsetCommit, Poll, TransactionEnded
from tools.simulator.record.report import TraceKeeper
from tools.simulator.run import run_seed
from tools.simulator.settings.groups import KINDS
from tools.simulator.settings.seed import choose
from tools.simulator.settings.transactions import CLASSIC, NEW, TransactionalMember, choose_transactions
from tools.simulator.world import World


def check(seed: int, **how: object) -> None:
    outcome = run_seed(seed, {"groups": (), "transactions": True, "writers": 1, "admins": 0, **how})
    assert outcome.ok, f"seed {seed}: {outcome.violation}"


@pytest.mark.parametrize("seed", range(1, 5))
def test_transactions_keep_every_promise(seed: int) -> None:
    check(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 124))
def test_more_pinned_seeds_keep_every_promise(seed: int) -> None:
    check(seed, writers=None, groups=None, admins=None)


@pytest.mark.parametrize("seed", [2_000_332, 2_000_345])
def test_seeds_that_once_failed_keep_every_promise(seed: int) -> None:
    check(seed, writers=None, groups=None, admins=None, without=NEWER)


def test_what_a_static_member_should_have_given_up_before_it_died_has_an_owner_in_the_end() -> None:
    check(1052, writers=None, groups=None, admins=None, without=NEWER)


def test_copiers_of_one_transactional_id_do_not_fence_each_other_for_ever() -> None:
    check(116, writers=None, groups=KINDS, admins=None, without=NEWER)


@pytest.mark.parametrize("seed", [2, 4])
def test_without_faults_of_the_cluster_clients_alone_break_nothing(seed: int) -> None:
    check(seed, faults=(), seconds=4.0)


def test_a_coordinator_that_catches_up_with_the_metadata_leaves_out_no_marker() -> None:
    """It knew nothing of a topic yet, took it for deleted, and completed a transaction that stayed open there."""
    check(3, faults=("kill", "isolate", "reconnect", "transfer"), brokers=3)


def test_a_copier_hands_over_only_where_it_copies_alone() -> None:
    all_of_them = [choose(seed, transactions=True).transactions for seed in range(100)]
    copiers = [sum(member.group is not None for member in one.members) for one in all_of_them if one is not None]
    hand_over = [one.hand_over > 0 for one in all_of_them if one is not None]
    assert {count for count, does in zip(copiers, hand_over, strict=True) if does} == {1}


def test_about_a_third_of_all_seeds_has_transactions_and_the_rest_of_a_seed_is_as_it_was() -> None:
    some = [one for one in (choose_transactions(seed, wanted=None) for seed in range(300)) if one is not None]
    assert 70 < len(some) < 130
    protocols = {member.protocol for one in some for member in one.members}
    assert protocols == {CLASSIC, NEW}
    assert any(len({member.transactional_id for member in one.members}) < len(one.members) for one in some)
    plain, with_some = choose(5, transactions=False), choose(5, transactions=True)
    assert plain.transactions is None
    for name in ("wire", "raft", "faults", "writers", "seconds", "topic_defaults", "fault_interval_s", "groups"):
        assert getattr(plain, name) == getattr(with_some, name)


def test_clients_do_what_they_are_there_for_and_coordinators_are_those_of_production() -> None:
    seed = next(seed for seed in range(100) if any(one.group for one in _members(seed)))
    world = World(choose(seed, faults=(), groups=(), transactions=True, writers=1), TraceKeeper())
    while not world.form():
        world.sim.step()
    world.sim.run(seconds=3.0)
    assert world.transactions is not None
    history = world.transactions.history
    assert any(isinstance(one, Init) and one.outcome == OK for one in history)
    ended = {one.commit for one in history if isinstance(one, TransactionEnded) and one.outcome == OK}
    assert ended == {True, False}
    assert any(isinstance(one, OffsetCommit) and one.outcome == OK for one in history)
    assert {one.isolation for one in history if isinstance(one, Poll) and one.records} == {
        "read_committed", "read_uncommitted",
    }  # fmt: skip
    leading = [
        actor.loaded.machine
        for node in map(world.sim.nodes.__getitem__, world.brokers)
        for actor in map(node.actor, node.addresses)
        if type(actor) is TransactionCoordinator and actor.loaded is not None
    ]
    assert leading
    assert all(type(machine) is TransactionMachine for machine in leading)
    assert not world.history.violations


def _members(seed: int) -> tuple[TransactionalMember, ...]:
    settings = choose_transactions(seed, wanted=True)
    return () if settings is None else settings.members
