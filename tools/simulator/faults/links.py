"""Faults of links: slow, cut, silent, in one direction only, clogged; and brokers apart from all others."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve

from tools.simulator.cluster.cluster import SimulatedCluster
from tools.simulator.faults.plan import FaultPlan


def slow(faults: FaultPlan, _broker: int) -> bool:
    sim, settings = faults.cluster.sim, faults.cluster.settings
    sim.wire = evolve(settings.wire, delay_s_max=faults.rng.choice((0.1, 0.4)))
    faults.cluster.disturbed()

    def over() -> None:
        sim.wire = settings.wire
        faults.cluster.calm()

    faults.later(faults.down_s(), over)
    return True


def reconnect(faults: FaultPlan, broker: int) -> bool:
    """Everything under way is lost, and a new link is made at once."""
    other = faults.other(broker)
    if other in faults.cluster.sim.nodes:
        faults.cluster.sim.cut(*faults.rng.sample((broker, other), 2))
    return True


def cut(faults: FaultPlan, broker: int) -> bool:
    other = faults.other(broker)
    faults.cluster.sever(broker, other)
    faults.later(faults.down_s(), lambda: faults.cluster.mend(broker, other))
    return True


def silent(faults: FaultPlan, broker: int) -> bool:
    """Both directions lose everything, and neither end notices."""
    other = faults.other(broker)
    return _swallow(faults, (broker, other), (other, broker))


def one_way(faults: FaultPlan, broker: int) -> bool:
    other = faults.other(broker)
    return _swallow(faults, (broker, other) if faults.rng.random() < 0.5 else (other, broker))


def _swallow(faults: FaultPlan, *ways: tuple[int, int]) -> bool:
    cluster = faults.cluster
    cluster.note(f"swallow {ways}")
    cluster.sim.blocked.update(ways)
    faults.later(faults.down_s(), lambda: cluster.mend(*ways[0]))
    return True


def clog(faults: FaultPlan, broker: int) -> bool:
    other = faults.other(broker)
    clog_way(faults, (broker, other) if faults.rng.random() < 0.5 else (other, broker), faults.down_s())
    return True


def clog_way(faults: FaultPlan, way: tuple[int, int], seconds: float) -> None:
    cluster = faults.cluster
    cluster.note(f"clog {way}")
    cluster.sim.clogged.add(way)
    cluster.disturbed()

    def unclog() -> None:
        cluster.mend(*way)
        cluster.calm()

    faults.later(seconds, unclog)


def isolate(faults: FaultPlan, broker: int) -> bool:
    """A broker apart from all the others; clients still reach it."""
    cluster = faults.cluster
    others = [number for number in cluster.brokers if number != broker]
    loudly = faults.rng.random() < 0.6
    for other in others:
        if loudly:
            cluster.sever(broker, other)
        else:
            cluster.sim.blocked.update(((broker, other), (other, broker)))
    cluster.note(f"isolate {broker}")
    faults.later(faults.down_s(), lambda: mend_all(cluster, broker, others))
    return True


def mend_all(cluster: SimulatedCluster, broker: int, others: Iterable[int]) -> None:
    for other in others:
        cluster.mend(broker, other)
