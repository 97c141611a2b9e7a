"""Whole clusters by seed: real actors, log and Raft on a virtual clock, with faults, clients and a verdict."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import actors.broker.start as production
from actors.control.controller import Controller
from actors.messages.replica import replica_address
from actors.partition.hosting import Partitions
from actors.partition.replica import Replica
from actors.raft.flusher import Flusher
from actors.raft.heartbeats import Heartbeats
from actors.runtime import Address
from log.disk.memory_filesystem import MemoryFilesystem
from log.disk.reserve import ReservedFilesystem
from log.partition.partition_log import PartitionLog
from log.raft.node import RaftNode
from log.replica.member import Member
from log.replica.vote_journal import VoteJournal
from tools import simulator as package
from tools.simulator.checks import turns
from tools.simulator.cluster import cluster as simulated
from tools.simulator.record.report import SeedOutcome, TraceKeeper
from tools.simulator.run import run_seed
from tools.simulator.settings.faults import FAULTS, OWN_SHARES
from tools.simulator.settings.seed import choose
from tools.simulator.world import World

NEWER = ("passing-topics", "recovery", "evictions")
"""Faults that there were not when the seeds below broke a promise."""

_TRACED = f"""
from {run_seed.__module__} import run
from {choose.__module__} import choose
run(choose({{}}, writers=1, seconds=1.5), show=True)
"""


def check(seed: int, **how: object) -> SeedOutcome:
    outcome = run_seed(seed, how)
    assert outcome.ok, f"python -m {package.__name__} --seed {seed}: {outcome.violation}"
    assert outcome.acknowledged, f"python -m {package.__name__} --seed {seed}: nothing was acknowledged"
    return outcome


@pytest.mark.parametrize("seed", range(1, 17))
def test_a_pinned_seed_keeps_every_promise(seed: int) -> None:
    check(seed)


FRESH_PARTS, FRESH_SEEDS, FRESH_SECONDS = 8, 10, 1.5
"""Half a second of a core each, most of it for what is done and checked after everything has healed."""


@pytest.mark.long
@pytest.mark.parametrize("part", range(FRESH_PARTS))
def test_fresh_seeds_keep_every_promise(part: int) -> None:
    """Other seeds in every run, and short ones; `make soak` runs whole ones without end."""
    first = int.from_bytes(os.urandom(5)) * FRESH_PARTS + part
    for seed in range(first, first + FRESH_SEEDS * FRESH_PARTS, FRESH_PARTS):
        outcome = run_seed(seed, {"seconds": FRESH_SECONDS})
        command = f"python -m {package.__name__} --seed {seed} --seconds {FRESH_SECONDS}"
        assert outcome.ok, f"{command}: {outcome.violation}"


@pytest.mark.long
@pytest.mark.parametrize("seed", [*range(100, 124), *range(300_000, 300_012)])
def test_more_pinned_seeds_keep_every_promise(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed",
    [
        500_334,
        500_459,
        502_814,
        1_001_053,
        1_030_031,
        1_040_703,
        1_041_193,
        1_050_194,
        2_000_235,
        2_100_674,
        3_000_056,
        5_000_103,
        6_001_216,
        7_001_436,
        7_002_253,
        8_000_369,
        8_000_372,
        8_000_420,
        8_000_646,
        9_000_119,
        1_328_539_829,
    ],
)
def test_a_seed_that_once_broke_a_promise_keeps_it(seed: int) -> None:
    check(seed, unreplicated=0, without=NEWER)  # as it was then


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed",
    [
        40_000_662,
        40_000_792,
        40_001_112,
        40_001_390,
        40_001_896,
        50_005_647,
        50_006_808,
        60_002_302,
        60_002_326,
        60_002_672,
    ],
)
def test_a_seed_with_every_fault_that_once_broke_a_promise_keeps_it(seed: int) -> None:
    assert run_seed(seed, {}).ok


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2_200_026, 2_300_057])
def test_a_seed_with_unreplicated_partitions_that_once_broke_a_promise_keeps_it(seed: int) -> None:
    check(seed, without=NEWER)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "seconds"),
    [
        (9_000_150, None),
        (9_000_388, None),
        (9_000_721, None),
        (9_001_613, None),
        (9_000_553, None),
        (9_001_280, None),
        (7_037_722_582_043, 1.5),
        (500_818, None),
        (504_458, None),
    ],
)
def test_a_seed_whose_pipelined_writer_once_found_a_broken_promise_keeps_it(seed: int, seconds: float | None) -> None:
    check(seed, seconds=seconds, without=NEWER)


@pytest.mark.slow
def test_a_seed_whose_replicas_were_looked_at_with_a_gap_after_a_blackout_keeps_every_promise() -> None:
    check(504_131)


STRUCK_WITHIN = 48
"""Seeds within which each kind of fault strikes a cluster. Which seed does so first changes with the brokers."""


@pytest.mark.parametrize("fault", FAULTS)
def test_every_kind_of_fault_alone_breaks_nothing(fault: str) -> None:
    outcomes = (check(seed, faults=(fault,), seconds=2.0) for seed in range(STRUCK_WITHIN))
    assert any(outcome.faults.get(fault) for outcome in outcomes), f"{fault} never struck"


def test_five_brokers_keep_every_promise_too() -> None:
    check(5, brokers=5, seconds=4.0)


def test_without_faults_everything_is_acknowledged_but_what_a_client_gave_up_on() -> None:
    outcome = run_seed(3, {"faults": (), "seconds": 3.0, "admins": 0})
    assert outcome.ok
    assert outcome.acknowledged >= 0.95 * outcome.operations
    assert not outcome.faults


@pytest.mark.parametrize(
    "arguments",
    [
        ["-m", package.__name__, "--seed", "3", "--seconds", "1.5", "--trace"],
        ["-c", _TRACED.format('3, groups=("eager", "cooperative", "consumer")')],
        ["-c", _TRACED.format("4, groups=(), transactions=True")],
    ],
    ids=["plain", "groups", "transactions"],
)
def test_the_same_seed_gives_the_same_trace_in_every_process(arguments: list[str]) -> None:
    traces = {
        subprocess.run(
            [sys.executable, *arguments],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(traces) == 1
    assert traces.pop().count("\n") > 1000


def test_the_simulator_runs_what_production_runs() -> None:
    assert simulated.start_actors is production.start_actors  # type: ignore[attr-defined]
    world = World(choose(1, faults=(), groups=(), transactions=False), TraceKeeper())
    world.sim.run(seconds=0.5)
    assert world.form()
    for broker in world.brokers:
        node = world.sim.nodes[broker]
        assert type(node.actor(Address("flusher", "", broker))) is Flusher
        assert type(node.actor(Address("heartbeats", "", broker))) is Heartbeats
        assert type(node.actor(Address("partitions", "", broker))) is Partitions
        assert type(node.actor(Address("controller", "", broker))) is Controller
        for group in world.groups:
            if broker not in world.keepers(group):
                continue
            replica = node.actor(replica_address(group, broker))
            assert type(replica) is Replica
            assert type(replica.member) is Member
            assert type(replica.member.node) is RaftNode
            assert type(replica.member.log) is PartitionLog
            assert type(replica.context.journal) is VoteJournal
            files = replica.context.handles.filesystem
            assert type(files) is ReservedFilesystem
            assert type(files.files) is MemoryFilesystem


@pytest.mark.parametrize("seed", [2_008, 2_018, 2_057, 2_059, 2_071])
def test_clusters_with_other_numbers_of_replicas_keep_every_promise(seed: int) -> None:
    assert choose(seed).replication_factor != 3
    check(seed, seconds=1.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [80_013, 81_153, 81_181, 81_197])
def test_a_seed_of_the_larger_simulator_that_once_broke_a_promise_keeps_it(seed: int) -> None:
    check(seed, without=NEWER)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [101_162, 103_023, 104_215])
def test_a_seed_of_the_soak_that_once_broke_a_promise_keeps_it(seed: int) -> None:
    check(seed, without=tuple(OWN_SHARES))  # as it was then


@pytest.mark.long
@pytest.mark.parametrize(
    "seed",
    [
        100_456,
        101_496,
        102_246,
        102_523,
        103_236,
        103_374,
        103_664,
        103_716,
        103_762,
        103_929,
        104_325,
        104_347,
        104_561,
    ],
)
def test_another_seed_of_the_soak_that_once_broke_a_promise_keeps_it(seed: int) -> None:
    check(seed, without=tuple(OWN_SHARES))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [20_000_770, 20_001_108, 30_002_360])
def test_a_seed_of_the_second_soak_that_once_broke_a_promise_keeps_it(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("bound", ["OPERATIONS_MAX", "FRAMES_MAX"])
def test_a_turn_that_does_more_than_it_may_is_found(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, bound, 2)
    outcome = run_seed(1, {"faults": (), "seconds": 1.0})
    assert outcome.violation is not None
    assert outcome.violation.promise == "the work of one turn is bounded"
