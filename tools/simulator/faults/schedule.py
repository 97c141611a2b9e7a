"""What goes wrong, when, and how it heals again. Each kind is a function that does it to some broker, once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable

from attrs import evolve

from actors.cluster_file.facts import GROUP as METADATA
from actors.messages.replica import HandOver, TransferLeadership
from actors.partition.hosting import groups_on_disk
from log.recovery.checkpoint import CLEAN, Offsets
from tools.simulator.cluster.world import CLIENT_NODES, DATA, World, address_of
from tools.simulator.faults import disks as disk_faults
from tools.simulator.faults.directed import DirectedFaults
from tools.simulator.faults.lasting import LastingFaults
from tools.simulator.settings import DIRECTED_FAULTS, LASTING_FAULTS

_NOT_PICKED = (
    "drop",
    "sniper",
    "forged-marker",
    "passing-topics",
    "recovery",
    "evictions",
    *DIRECTED_FAULTS,
    *LASTING_FAULTS,
)


class Faults:
    """Picks faults and does them, until `stop`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = random.Random(f"faults {world.settings.seed}")
        self.counts: Counter[str] = Counter()
        self.checkpoints: dict[tuple[int, str, str], Offsets] = {}
        self.directed = DirectedFaults(self)
        self.stopped = False
        self._kinds = [kind for kind in world.settings.faults if kind not in _NOT_PICKED]

    def begin(self) -> None:
        if "sniper" in self.world.settings.faults:
            self.world.invariants.on_elected = self._elected
            self.world.invariants.votes.on_vote = self._voted
        if self._kinds:
            self._plan()
        self.directed.begin()
        LastingFaults(self).begin()

    def stop(self) -> None:
        self.stopped = True

    def restart(self, broker: int) -> None:
        if not self.world.brokers[broker].alive:
            self.world.start(broker)

    def crashed(self) -> None:
        """Some process died in the middle of an operation on its disk."""
        broker = next(broker for broker in self.world.brokers.values() if broker.disk.down)
        self.world.invariants.crashed(broker.id)
        lossy = self.rng.random() < 0.5 and (self.world.settings.flushes or whole(self, broker.id))
        self.world.kill(broker.id, power=lossy)
        self.later(self.down_s(), lambda: self.restart(broker.id))

    def later(self, seconds: float, work: Callable[[], object]) -> None:
        """Do this after a while, unless everything was healed before."""

        def unless_stopped() -> None:
            if not self.stopped:
                work()

        self.world.sim.scheduler.timers.after(seconds, unless_stopped)

    def victim(self) -> int | None:
        """A living broker, often one that leads."""
        world = self.world
        if self.rng.random() < 0.5:
            leader = world.leader(self.rng.choice(world.all_groups))
            if leader is not None:
                return leader
        return self.rng.choice(world.living) if world.living else None

    def _plan(self) -> None:
        self.later(self.rng.expovariate(1 / self.world.settings.fault_interval_s), self._strike)

    def _strike(self) -> None:
        kind = self.rng.choice(self._kinds)
        broker = self.victim()
        if broker is not None and KINDS[kind](self, broker):
            self.counts[kind] += 1
            self.world.turns.begin(broker, self.world.brokers[broker].disk)  # what a fault did is no actor's turn
        self._plan()

    def _elected(self, _group: str, broker: int) -> None:
        """Just elected: a good moment to get into its way."""
        if self.rng.random() < 0.3:
            kind = self.rng.choice(("kill", "isolate", "pause", "reconnect", "cut"))
            self.later(self.rng.choice((0.0, 0.002, 0.01, 0.05)), lambda: self._snipe(kind, broker))

    def _voted(self, broker: int) -> None:
        """Has just told its vote: what if it forgot?"""
        if self.rng.random() < 0.15:
            self.later(0.0, lambda: self._bounce(broker))

    def _bounce(self, broker: int) -> None:
        if self.world.brokers[broker].alive:
            self.counts["sniper"] += 1
            self.world.kill(broker)
            self.later(0.0005, lambda: self.restart(broker))

    def _snipe(self, kind: str, broker: int) -> None:
        if self.world.brokers[broker].alive and KINDS[kind](self, broker):
            self.counts["sniper"] += 1

    def down_s(self) -> float:
        """For how long something stays broken: mostly short, sometimes beyond every timeout."""
        return self.rng.choice((0.002, 0.05, 0.3, 1.0, 2.0, 4.0, 7.0)) * self.rng.uniform(0.5, 1.5)

    def other(self, broker: int) -> int:
        """Another broker, or now and then a client."""
        others = [number for number in self.world.brokers if number != broker]
        return self.rng.choice([*others, *others, *others, *CLIENT_NODES])


# -- processes -------------------------------------------------------------------------------------------------------


def stop(faults: Faults, broker: int) -> bool:
    """End cleanly: hand over, then close the logs."""
    world, node = faults.world, faults.world.sim.nodes[broker]
    life = world.brokers[broker].lives
    world.note(f"stop {broker}")
    world.brokers[broker].is_stopping = True
    for group in world.all_groups:
        if address_of(group, broker) in node._alive:
            node.tell_local(address_of(group, broker), HandOver())

    def is_alive() -> bool:
        return world.brokers[broker].alive and world.brokers[broker].lives == life

    def close() -> None:
        if is_alive():
            node.stop_all()

    def end() -> None:
        if is_alive():
            disk = world.brokers[broker].disk
            closed = not node._alive and all(
                disk.exists(f"{DATA}/{group}/{CLEAN}") for group in (*groups_on_disk(disk, DATA), METADATA)
            )
            world.kill(broker, power=closed and faults.rng.random() < 0.5)  # it may be switched off then
            faults.later(faults.down_s(), lambda: faults.restart(broker))

    stopping_s = faults.rng.choice((0.0, 0.02, 0.2))
    faults.later(stopping_s, close)
    faults.later(stopping_s + faults.rng.choice((0.002, 0.05)), end)
    return True


def kill(faults: Faults, broker: int) -> bool:
    faults.world.kill(broker)
    faults.later(faults.down_s(), lambda: faults.restart(broker))
    return True


def lose_votes(faults: Faults, broker: int) -> bool:
    """It dies, and comes back without its vote journal, which counts it (vote_faults.py)."""
    faults.world.vote_faults.doomed.add(broker)
    kill(faults, broker)
    return False


def kill_all(faults: Faults, _broker: int) -> bool:
    for broker in faults.world.living:
        kill(faults, broker)
    return True


def power(faults: Faults, broker: int) -> bool:
    """Lose what was not synced. One broker at a time, and only while the others have everything they should."""
    world = faults.world
    if not world.settings.flushes and not whole(faults, broker):
        return False
    leader = world.leader(faults.rng.choice(world.all_groups))
    if leader is None or leader == broker or faults.rng.random() < 0.5:
        _lose_power(faults, broker)
        return True
    # The worst case: the others lag behind, it comes back, and the leader goes.
    others = [number for number in world.brokers if number not in (broker, leader)]
    for other in others:
        world.sever(leader, other)
    lagging_s, away_s = faults.rng.uniform(0.2, 0.8), faults.rng.uniform(0.01, 0.5)
    faults.later(lagging_s, lambda: _lose_power(faults, broker, away_s))
    faults.later(lagging_s + away_s, lambda: _kill_if_alive(faults, leader))
    faults.later(lagging_s + away_s, lambda: _mend_all(world, leader, others))
    return True


def _lose_power(faults: Faults, broker: int, away_s: float | None = None) -> None:
    world = faults.world
    if world.brokers[broker].alive and (world.settings.flushes or whole(faults, broker)):
        world.kill(broker, power=True)
        faults.later(away_s or faults.down_s(), lambda: faults.restart(broker))


def _kill_if_alive(faults: Faults, broker: int) -> None:
    if faults.world.brokers[broker].alive:
        kill(faults, broker)


def power_all(faults: Faults, _broker: int) -> bool:
    """The machine room goes dark. Only with everything synced that was acknowledged does that lose nothing."""
    if not faults.world.settings.flushes:
        return False
    for broker in faults.world.living:
        _lose_power(faults, broker)
    return True


def empty(faults: Faults, broker: int) -> bool:
    """Come back with another, empty disk."""
    world = faults.world
    if not whole(faults, broker):
        return False
    world.kill(broker)
    world.wipe(broker)
    faults.later(faults.down_s(), lambda: faults.restart(broker))
    return True


def whole(faults: Faults, broker: int) -> bool:
    """Would a majority still have everything if this broker lost what it has?"""
    world = faults.world
    if any(other.damaged or not other.alive for other in world.brokers.values() if other.id != broker):
        return False
    metadata = world.metadata()
    if metadata is None or metadata.applied < world.invariants.cluster.furthest:
        return False  # nobody remembers yet which partitions there are
    return all(_is_whole_without(world, group, broker) for group in world.every_group())


def _is_whole_without(world: World, group: str, broker: int) -> bool:
    leader = world.leader(group)
    replica = None if leader is None else world.replica(group, leader)
    if replica is None or (leader == broker and len(replica._member.node.membership.voters) == 1):
        return False
    node = replica._member.node
    if node.history.latest_offset >= node.watermark:
        return False
    if broker in node.membership.brokers and len(node.membership.voters) == 2:  # neither can do without the other
        return False
    for voter in node.membership.voters:
        other = world.replica(group, voter.broker)
        if voter.broker == broker:
            continue
        if other is None or not other._member.node.eligible or other._services.directory_id != voter.directory:
            return False
        if not other._member.node.is_voter:
            return False
    return True


def pause(faults: Faults, broker: int) -> bool:
    world = faults.world
    if broker in world.sim.paused:
        return False
    world.sim.pause(broker)
    world.disturbed()
    life = world.brokers[broker].lives

    def resume() -> None:
        if broker in world.sim.paused and world.brokers[broker].lives == life:
            world.sim.resume(broker)
        world.calm()

    faults.later(faults.down_s(), resume)
    return True


# -- links -----------------------------------------------------------------------------------------------------------


def slow(faults: Faults, _broker: int) -> bool:
    sim, settings = faults.world.sim, faults.world.settings
    sim.wire = evolve(settings.wire, delay_s_max=faults.rng.choice((0.1, 0.4)))
    faults.world.disturbed()

    def over() -> None:
        sim.wire = settings.wire
        faults.world.calm()

    faults.later(faults.down_s(), over)
    return True


def reconnect(faults: Faults, broker: int) -> bool:
    """Everything under way is lost, and a new link comes at once."""
    other = faults.other(broker)
    if other in faults.world.sim.nodes:
        faults.world.sim.cut(*faults.rng.sample((broker, other), 2))
    return True


def cut(faults: Faults, broker: int) -> bool:
    other = faults.other(broker)
    faults.world.sever(broker, other)
    faults.later(faults.down_s(), lambda: faults.world.mend(broker, other))
    return True


def silent(faults: Faults, broker: int) -> bool:
    """Both ways swallow everything, and nobody is told."""
    other = faults.other(broker)
    return _swallow(faults, (broker, other), (other, broker))


def one_way(faults: Faults, broker: int) -> bool:
    other = faults.other(broker)
    return _swallow(faults, (broker, other) if faults.rng.random() < 0.5 else (other, broker))


def _swallow(faults: Faults, *ways: tuple[int, int]) -> bool:
    world = faults.world
    world.note(f"swallow {ways}")
    world.sim.blocked.update(ways)
    faults.later(faults.down_s(), lambda: world.mend(*ways[0]))
    return True


def clog(faults: Faults, broker: int) -> bool:
    other = faults.other(broker)
    clog_way(faults, (broker, other) if faults.rng.random() < 0.5 else (other, broker), faults.down_s())
    return True


def clog_way(faults: Faults, way: tuple[int, int], seconds: float) -> None:
    world = faults.world
    world.note(f"clog {way}")
    world.sim.clogged.add(way)
    world.disturbed()

    def unclog() -> None:
        world.mend(*way)
        world.calm()

    faults.later(seconds, unclog)


def isolate(faults: Faults, broker: int) -> bool:
    """A broker apart from all the others; clients still reach it."""
    world = faults.world
    others = [number for number in world.brokers if number != broker]
    loudly = faults.rng.random() < 0.6
    for other in others:
        if loudly:
            world.sever(broker, other)
        else:
            world.sim.blocked.update(((broker, other), (other, broker)))
    world.note(f"isolate {broker}")
    faults.later(faults.down_s(), lambda: _mend_all(world, broker, others))
    return True


def usurp(faults: Faults, _broker: int) -> bool:
    """A leader with a minority, apart from the others and not from clients; when it is back, its successor goes.

    Only the others notice: they elect somebody at once, while it goes on as long as it believes in its quorum.
    """
    world = faults.world
    group = faults.rng.choice(world.all_groups)
    leader = world.leader(group)
    if leader is None or len(world.brokers) == 1:
        return False
    others = [number for number in world.brokers if number != leader]
    companions = faults.rng.sample(others, (len(others) - 1) // 2)
    pairs = [(one, other) for one in (leader, *companions) for other in others if other not in companions]
    world.note(f"usurp {group}: {pairs}")
    for one, other in pairs:
        world.sim.blocked.update(((one, other), (other, one)))
        _cut_at(world, other, one)

    def mend() -> None:
        for one, other in pairs:
            world.mend(one, other)
            _cut_at(world, one, other)

    def depose() -> None:
        successor = world.leader(group)
        if successor is not None and successor not in (leader, *companions):
            faults.rng.choice((kill, isolate))(faults, successor)

    apart_s = faults.rng.uniform(0.05, 1.4)
    faults.directed.usurped(group, leader, apart_s)
    faults.later(apart_s, mend)
    faults.later(apart_s + faults.rng.choice((0.0, 0.05, 0.3)), depose)
    return True


# -- what is no fault, but happens -------------------------------------------------------------------------------------


def transfer(faults: Faults, _broker: int) -> bool:
    world = faults.world
    group = faults.rng.choice(world.all_groups)
    leader = world.leader(group)
    if leader is None or len(world.brokers) == 1:
        return False
    to = faults.rng.choice([number for number in world.brokers if number != leader])
    world.note(f"transfer {group} from {leader} to {to}")
    world.sim.nodes[leader].tell_local(address_of(group, leader), TransferLeadership(to))
    if "clog" in world.settings.faults and faults.rng.random() < 0.5:  # the word comes late, perhaps too late
        clog_way(faults, (leader, to), faults.rng.uniform(0.5, 1.5))
    return True


KINDS: dict[str, Callable[[Faults, int], bool]] = {
    "crash": disk_faults.crash,
    "write-error": disk_faults.write_error,
    "no-space": disk_faults.no_space,
    "sync-error": disk_faults.sync_error,
    "missing-index": disk_faults.missing_index,
    "stale-checkpoint": disk_faults.stale_checkpoint,
    "clock": disk_faults.clock,
    "retention": disk_faults.retention,
    "slow": slow,
    "reconnect": reconnect,
    "cut": cut,
    "silent": silent,
    "one-way": one_way,
    "clog": clog,
    "isolate": isolate,
    "stop": stop,
    "kill": kill,
    "kill-all": kill_all,
    "lost-votes": lose_votes,
    "power": power,
    "power-all": power_all,
    "empty": empty,
    "pause": pause,
    "transfer": transfer,
    "usurp": usurp,
}


def _cut_at(world: World, broker: int, other: int) -> None:
    if broker in world.sim.nodes:
        world.sim.cut(broker, other)


def _mend_all(world: World, broker: int, others: Iterable[int]) -> None:
    for other in others:
        world.mend(broker, other)
