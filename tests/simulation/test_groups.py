"""Consumer groups by seed: members of both protocols, on real connections, with faults, and a verdict."""

from __future__ import annotations

import pytest

from actors.coordination.groups import GroupCoordinator
from actors.runtime import Address
from actors.serving.answers import Answers
from actors.serving.context import Serving
from actors.serving.frame_cutter import FrameCutter
from actors.serving.kafka.connection import KafkaConnection
from log.machines.group.machine import GroupMachine
from tools.simulator.clients.streams import SimulatedPort, port_address
from tools.simulator.record.report import TraceKeeper
from tools.simulator.run import run_seed
from tools.simulator.settings.groups import CONSUMER, COOPERATIVE, EAGER, KINDS, choose_groups
from tools.simulator.settings.seed import choose
from tools.simulator.world import World


def check(seed: int, *kinds: str, **how: object) -> None:
    outcome = run_seed(seed, {"groups": kinds, "transactions": False, "writers": 1, **how})
    assert outcome.ok, f"seed {seed}, groups {kinds}: {outcome.violation}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(1, 5))
def test_groups_keep_every_promise(seed: int, kind: str) -> None:
    check(seed, kind)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 124))
def test_more_pinned_seeds_keep_every_promise(seed: int) -> None:
    check(seed, EAGER, COOPERATIVE, CONSUMER)


def test_a_group_that_empties_and_changes_its_protocol_in_one_batch_counts_anew() -> None:
    outcome = run_seed(7_000_384, {})
    assert outcome.ok, outcome.violation


@pytest.mark.parametrize("kind", KINDS)
def test_without_faults_of_the_cluster_members_alone_break_nothing(kind: str) -> None:
    check(7, kind, faults=(), seconds=4.0)


def test_about_half_of_all_seeds_have_groups_and_the_rest_of_a_seed_is_as_it_was() -> None:
    with_groups = [seed for seed in range(200) if choose_groups(seed, None) is not None]
    assert 70 < len(with_groups) < 130
    plain, grouped = choose(5, groups=()), choose(5, groups=(EAGER,))
    assert plain.groups is None
    for name in ("wire", "raft", "faults", "writers", "seconds", "topic_defaults", "fault_interval_s"):
        assert getattr(plain, name) == getattr(grouped, name)


def test_connections_and_coordinators_are_those_of_production() -> None:
    settings = choose(1, faults=(), groups=(EAGER, CONSUMER))
    world = World(settings, TraceKeeper())
    while not world.form():
        world.sim.step()
    world.sim.run(seconds=2.0)
    coordinators = 0
    connections = 0
    for broker in world.brokers:
        node = world.sim.nodes[broker]
        port = node.actor(port_address(broker))
        assert isinstance(port, SimulatedPort)
        assert type(port._serving) is Serving
        for stream in port._streams.values():
            assert type(stream.answers) is Answers
            assert type(stream.cutter) is FrameCutter
        for address in node.addresses:
            if address.kind == "connection":
                assert type(node.actor(address)) is KafkaConnection
                connections += 1
        coordinator = node.actor(Address("group_coordinator", "0", broker))
        if coordinator is not None:
            assert type(coordinator) is GroupCoordinator
            coordinators += coordinator.loaded is not None and type(coordinator.loaded.machine) is GroupMachine
    assert connections
    assert coordinators == 1
    assert not world.history.violations
