"""One seed, from its start to its verdict."""

from __future__ import annotations

import gc
import logging
from contextlib import nullcontext
from typing import Any

import actors.controller
from log.memory_filesystem import SimulatedCrash
from tools.simulator.faults import Faults
from tools.simulator.group_faults import GroupFaults
from tools.simulator.mutants import planted
from tools.simulator.report import Outcome, TraceKeeper, Violation, relevant
from tools.simulator.settings import Settings, choose
from tools.simulator.transaction_faults import TransactionFaults
from tools.simulator.world import FailureWatch, World

FORM_SECONDS_MAX = 20.0
HEAL_SECONDS_MAX = 60.0
_STEP_SECONDS = 0.1


def run(settings: Settings, *, show: bool = False) -> Outcome:
    """Run a seed. Nothing is shared between two runs but the code."""
    trace = TraceKeeper(show=show)
    world = World(settings, trace)
    watch = FailureWatch(world)
    logger = logging.getLogger("barnabas")
    level, propagate = logger.level, logger.propagate
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    logger.addHandler(watch)
    snapshot_bytes, actors.controller.SNAPSHOT_LOG_BYTES = (
        actors.controller.SNAPSHOT_LOG_BYTES, settings.snapshot_bytes,
    )  # fmt: skip
    try:
        faults = Faults(world)
        coordinated = world.consumers or world.transactions
        with nullcontext() if coordinated is None else coordinated.small_segments():
            events = _run(world, faults, settings)
    finally:
        actors.controller.SNAPSHOT_LOG_BYTES = snapshot_bytes
        logger.removeHandler(watch)
        logger.setLevel(level)
        logger.propagate = propagate
    if world.sim.lost:
        faults.counts["drop"] = world.sim.lost
    violations = world.history.violations
    violation = violations[0] if violations else None
    operations = world.history.operations
    return Outcome(
        settings.seed, violation, events, world.now, len(operations),
        sum(1 for operation in operations if operation.outcome == "ok"), len(world.invariants.leaders), trace.digest,
        dict(faults.counts), [] if violation is None else relevant(trace.lines, violation.group),
    )  # fmt: skip


def run_seed(seed: int, how: dict[str, Any]) -> Outcome:
    """A seed with settings of its own, in a process of a pool; `mutant` is the bug to plant."""
    settings = dict(how)
    gc.disable()  # a run makes few cycles, and is over soon
    try:
        with planted(settings.pop("mutant", None)):
            return run(choose(seed, **settings))
    finally:
        gc.enable()


def _run(world: World, faults: Faults, settings: Settings) -> int:
    """Disturb, heal, finish, check. Gives the number of events."""
    violations = world.history.violations
    events = 0
    clock = world.sim.clock

    def step() -> None:
        try:
            world.sim.step()
        except SimulatedCrash:
            faults.crashed()

    while not world.form() and not violations:
        step()
        events += 1
        if clock.now() > FORM_SECONDS_MAX:
            world.report(Violation("a cluster forms", "", f"not within {FORM_SECONDS_MAX:.0f} virtual s"))
    _disturb(world, faults)
    steps_max = settings.steps if settings.steps is not None else 1 << 60
    end = clock.now() + settings.seconds
    while clock.now() < end and events < steps_max:
        step()
        events += 1
        if violations or _too_many(world, events):
            return events
    faults.stop()
    world.heal()
    world.finish()
    deadline = clock.now() + HEAL_SECONDS_MAX
    look_at = clock.now()
    while True:
        step()
        events += 1
        if violations or _too_many(world, events):
            return events
        if clock.now() >= look_at:
            look_at = clock.now() + _STEP_SECONDS
            unfinished = world.unfinished()
            if unfinished is None:
                break
            if clock.now() >= deadline:
                group = unfinished.partition(":")[0] if unfinished.startswith(("t-", "u-")) else ""
                text = f"{HEAL_SECONDS_MAX:.0f} virtual s after everything healed: {unfinished}"
                world.report(Violation("everything goes on once it is healed", group, text))
                return events
    world.check()
    return events


def _disturb(world: World, faults: Faults) -> None:
    faults.begin()
    if world.consumers is not None:
        GroupFaults(faults, world.consumers).begin()
    if world.unreplicated is not None:
        world.unreplicated.move_about(faults)
    if world.transactions is not None:
        TransactionFaults(faults, world.transactions).begin()


def _too_many(world: World, events: int) -> bool:
    """Do they run in a circle?"""
    if events < world.settings.events_max:
        return False
    world.report(Violation("work comes to an end", "", f"{events} events within {world.now:.3f} virtual s"))
    return True
