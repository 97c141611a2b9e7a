"""One seed, from its start to its verdict."""

from __future__ import annotations

import gc
import logging
import traceback
from collections.abc import Callable
from typing import Any

from actors.control import internal_topics, metadata_snapshots
from log.disk.memory_filesystem import SimulatedCrash
from tools.simulator.cluster.failures import FailureWatch
from tools.simulator.endings.blackout import Blackout
from tools.simulator.endings.broken_minority import BrokenMinority
from tools.simulator.faults.plan import FaultPlan
from tools.simulator.faults.schedule import Schedule
from tools.simulator.groups.faults import GroupFaults
from tools.simulator.mutants.catalog import planted
from tools.simulator.record.report import SeedOutcome, TraceKeeper, Violation, relevant
from tools.simulator.settings.replacing import Patch, replaced
from tools.simulator.settings.seed import Settings, choose
from tools.simulator.transactions.faults import TransactionFaults
from tools.simulator.world import World

FORM_SECONDS_MAX = 20.0
HEAL_SECONDS_MAX = 60.0
MINORITY_SECONDS_MAX = 5.0
"""How long a run waits for a moment at which every group can do without some brokers."""
_GOES_ON = "everything goes on once it is healed"
_STEP_SECONDS = 0.1
_READS, _READING_FACTOR = " is at ", 5
"""What is said of a reader that has not read everything, and how much more time it may have."""


def run(settings: Settings, *, show: bool = False) -> SeedOutcome:
    """Run a seed. Nothing is shared between two runs but the code."""
    trace = TraceKeeper(show=show)
    world = World(settings, trace)
    watch = FailureWatch(world)
    logger = logging.getLogger("barnabas")
    level, propagate = logger.level, logger.propagate
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    logger.addHandler(watch)
    try:
        faults = FaultPlan(world)
        with replaced(_small_sizes(world)):
            events = _run(world, faults, settings)
    finally:
        logger.removeHandler(watch)
        logger.setLevel(level)
        logger.propagate = propagate
    for part in (world.damaged_votes, world.passing, world.recoveries, world.evictions):
        if part is not None:
            faults.counts.update(part.counts)
    if world.sim.lost:
        faults.counts["drop"] = world.sim.lost
    violations = world.history.violations
    violation = violations[0] if violations else None
    operations = world.history.operations
    return SeedOutcome(
        settings.seed, violation, events, world.now, len(operations),
        sum(1 for operation in operations if operation.outcome == "ok"), len(world.invariants.leaders), trace.digest,
        dict(faults.counts), [] if violation is None else relevant(trace.lines, violation.group),
    )  # fmt: skip


def _small_sizes(world: World) -> list[Patch]:
    """Sizes of production that a run could not reach."""
    patches: list[Patch] = [
        (metadata_snapshots, "SNAPSHOT_LOG_BYTES", world.settings.snapshot_bytes),
        *([] if world.evictions is None else world.evictions.bound()),
    ]
    coordinated = world.consumers or world.transactions
    if coordinated is not None:
        small = ("segment.bytes", str(coordinated.settings.segment_bytes))
        configs = tuple(small if one[0] == small[0] else one for one in internal_topics.CONFIGS)
        patches.append((internal_topics, "CONFIGS", configs))
    return patches


def run_seed(seed: int, how: dict[str, Any]) -> SeedOutcome:
    """A seed with settings of its own, in a process of a pool; `mutant` is the bug to plant."""
    settings = dict(how)
    gc.disable()  # a run makes few cycles, and is over soon
    try:
        with planted(settings.pop("mutant", None)):
            return run(choose(seed, **settings))
    except StopIteration as error:  # it would end the loop over the outcomes of a pool, as if all seeds were done
        raise RuntimeError(f"seed {seed} raised StopIteration") from error
    finally:
        gc.enable()


def try_seed(seed: int, how: dict[str, Any]) -> SeedOutcome:
    """The same for many seeds: an error fails this seed alone, and the others go on."""
    try:
        return run_seed(seed, how)
    except Exception as error:  # noqa: BLE001 - told as the outcome of the seed
        violation = Violation("a run raises no error", "", "".join(traceback.format_exception(error)))
        return SeedOutcome(seed, violation, 0, 0.0, 0, 0, 0, "")


def _run(world: World, faults: FaultPlan, settings: Settings) -> int:
    """Disturb, heal, finish, check. Gives the number of events."""
    schedule = Schedule(faults)
    steps = _Steps(world, schedule)
    steps.until(lambda: None if world.form() else "not formed", FORM_SECONDS_MAX, "a cluster forms", "after the start")
    _disturb(world, faults, schedule)
    steps.disturbed(settings)
    faults.stop()
    if settings.blackout and not world.history.violations:
        _black_out(world, faults, steps)
        return steps.events
    world.heal()
    if settings.minority and not world.history.violations:
        _break_minority(world, faults, steps)
    world.finish()
    if steps.until(world.unfinished, HEAL_SECONDS_MAX, _GOES_ON, "after everything healed"):
        world.check()
    return steps.events


def _black_out(world: World, faults: FaultPlan, steps: _Steps) -> None:
    """See endings/blackout.py."""
    blackout = Blackout(world)
    blackout.begin()
    faults.counts["blackout"] += 1
    world.heal()
    after = "after every machine has its power again"
    if not steps.until(blackout.leaderless, HEAL_SECONDS_MAX, "a leader comes back after a blackout", after):
        return
    blackout.start_clients()
    if steps.more(1.0):
        world.finish()
        if steps.until(world.unfinished, HEAL_SECONDS_MAX, _GOES_ON, after):
            world.check()
            blackout.check(faults.counts)


def _break_minority(world: World, faults: FaultPlan, steps: _Steps) -> None:
    """See endings/broken_minority.py."""
    minority = BrokenMinority(world)
    world.finish_administrators()
    if not steps.until(world.unadministered, HEAL_SECONDS_MAX, _GOES_ON, "after everything healed"):
        return
    end = world.now + MINORITY_SECONDS_MAX
    while not minority.begin():
        if world.now >= end or not steps.more(_STEP_SECONDS):
            return
    faults.counts["broken-minority"] += 1
    world.finish()
    if steps.until(minority.unfinished, HEAL_SECONDS_MAX, "a majority goes on without the others", f"while {minority}"):
        world.heal()


class _Steps:
    """Does one event after the other, and counts them."""

    def __init__(self, world: World, schedule: Schedule) -> None:
        self._world = world
        self._schedule = schedule
        self.events = 0

    def step(self) -> bool:
        """One event. False if a promise is broken."""
        try:
            self._world.sim.step()
        except SimulatedCrash:
            self._schedule.crashed()
        self.events += 1
        return not self._world.history.violations and not _too_many(self._world, self.events)

    def disturbed(self, settings: Settings) -> None:
        """As long as the run is to be disturbed."""
        steps_max = settings.steps if settings.steps is not None else 1 << 60
        end = self._world.now + settings.seconds
        while self._world.now < end and self.events < steps_max and self.step():
            pass

    def more(self, seconds: float) -> bool:
        """For so long. False if a promise is broken."""
        end = self._world.now + seconds
        while self._world.now < end:
            if not self.step():
                return False
        return True

    def until(self, unfinished: Callable[[], str | None], seconds: float, promise: str, when: str) -> bool:
        """Until nothing is unfinished. False if a promise is broken: that it comes to an end within so many seconds.

        A reader that comes nearer to its end has more time: it may have thousands of tiny segments to read.
        """
        world = self._world
        if world.history.violations:
            return False
        end_max = world.now + _READING_FACTOR * seconds
        end, last = world.now + seconds, ""
        while (left := unfinished()) is not None:
            if _READS in left and left != last:
                end, last = min(world.now + seconds, end_max), left
            if world.now >= end:
                group = left.partition(":")[0] if left.startswith(("t-", "u-")) else ""
                world.report(Violation(promise, group, f"{seconds:.0f} virtual s {when}: {left}"))
                return False
            if not self.more(_STEP_SECONDS):
                return False
        return True


def _disturb(world: World, faults: FaultPlan, schedule: Schedule) -> None:
    schedule.begin()
    if world.consumers is not None:
        GroupFaults(faults, world.consumers).begin()
    if world.unreplicated is not None:
        world.unreplicated.move_about(faults)
    if world.recoveries is not None:
        world.recoveries.begin(faults)
    if world.evictions is not None:
        world.evictions.begin(faults)
    if world.transactions is not None:
        TransactionFaults(faults, world.transactions).begin()


def _too_many(world: World, events: int) -> bool:
    """Do they run in a circle?"""
    if events < world.settings.events_max:
        return False
    world.report(Violation("work comes to an end", "", f"{events} events within {world.now:.3f} virtual s"))
    return True
