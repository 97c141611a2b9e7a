"""Faults of processes and machines: clean stops, kills, losses of power, emptied disks, pauses."""

from __future__ import annotations

from actors.broker.stop import Shutdown
from actors.cluster_file.facts import GROUP as METADATA
from actors.partition.hosting import groups_on_disk
from log.recovery.checkpoint import CLEAN
from tools.simulator.faults.links import mend_all
from tools.simulator.faults.losses import whole
from tools.simulator.faults.plan import FaultPlan
from tools.simulator.settings.layout import DATA


def stop(faults: FaultPlan, broker: int) -> bool:
    """End cleanly: hand over, then close the logs."""
    cluster, node = faults.cluster, faults.cluster.sim.nodes[broker]
    life = cluster.brokers[broker].lives
    cluster.note(f"stop {broker}")
    cluster.brokers[broker].is_stopping = True
    stopping = Shutdown(node)
    stopping.hand_over()

    def is_alive() -> bool:
        return cluster.brokers[broker].alive and cluster.brokers[broker].lives == life

    def close() -> None:
        if is_alive():
            stopping.stop_actors()

    def end() -> None:
        if is_alive():
            disk = cluster.brokers[broker].disk
            closed = not stopping.left and all(
                disk.exists(f"{DATA}/{group}/{CLEAN}") for group in (*groups_on_disk(disk, DATA), METADATA)
            )
            cluster.kill(broker, power=closed and faults.rng.random() < 0.5)  # it may be switched off then
            faults.later(faults.down_s(), lambda: faults.restart(broker))

    stopping_s = faults.rng.choice((0.0, 0.02, 0.2))
    faults.later(stopping_s, close)
    faults.later(stopping_s + faults.rng.choice((0.002, 0.05)), end)
    return True


def kill(faults: FaultPlan, broker: int) -> bool:
    faults.cluster.kill(broker)
    faults.later(faults.down_s(), lambda: faults.restart(broker))
    return True


def lose_votes(faults: FaultPlan, broker: int) -> bool:
    """It dies, and comes back without its vote journal, which counts it (cluster/damaged_votes.py)."""
    faults.cluster.damaged_votes.doomed.add(broker)
    kill(faults, broker)
    return False


def kill_all(faults: FaultPlan, _broker: int) -> bool:
    for broker in faults.cluster.living:
        kill(faults, broker)
    return True


def power(faults: FaultPlan, broker: int) -> bool:
    """Lose what was not synced. One broker at a time, and only while the others have everything they should."""
    cluster = faults.cluster
    if not cluster.settings.flushes and not whole(faults.cluster, broker):
        return False
    leader = cluster.leader(faults.rng.choice(cluster.all_groups))
    if leader is None or leader == broker or faults.rng.random() < 0.5:
        _lose_power(faults, broker)
        return True
    # The worst case: the others lag behind, it comes back, and the leader goes.
    others = [number for number in cluster.brokers if number not in (broker, leader)]
    for other in others:
        cluster.sever(leader, other)
    lagging_s, away_s = faults.rng.uniform(0.2, 0.8), faults.rng.uniform(0.01, 0.5)
    faults.later(lagging_s, lambda: _lose_power(faults, broker, away_s))
    faults.later(lagging_s + away_s, lambda: _kill_if_alive(faults, leader))
    faults.later(lagging_s + away_s, lambda: mend_all(cluster, leader, others))
    return True


def _lose_power(faults: FaultPlan, broker: int, away_s: float | None = None) -> None:
    cluster = faults.cluster
    if cluster.brokers[broker].alive and (cluster.settings.flushes or whole(faults.cluster, broker)):
        cluster.kill(broker, power=True)
        faults.later(away_s or faults.down_s(), lambda: faults.restart(broker))


def _kill_if_alive(faults: FaultPlan, broker: int) -> None:
    if faults.cluster.brokers[broker].alive:
        kill(faults, broker)


def power_all(faults: FaultPlan, _broker: int) -> bool:
    """All machines lose power. Only where acknowledged records are synced does that lose nothing."""
    if not faults.cluster.settings.flushes:
        return False
    for broker in faults.cluster.living:
        _lose_power(faults, broker)
    return True


def empty(faults: FaultPlan, broker: int) -> bool:
    """Come back with another, empty disk."""
    cluster = faults.cluster
    if not whole(faults.cluster, broker):
        return False
    cluster.kill(broker)
    cluster.wipe(broker)
    faults.later(faults.down_s(), lambda: faults.restart(broker))
    return True


def pause(faults: FaultPlan, broker: int) -> bool:
    cluster = faults.cluster
    if broker in cluster.sim.paused:
        return False
    cluster.sim.pause(broker)
    cluster.disturbed()
    life = cluster.brokers[broker].lives

    def resume() -> None:
        if broker in cluster.sim.paused and cluster.brokers[broker].lives == life:
            cluster.sim.resume(broker)
        cluster.calm()

    faults.later(faults.down_s(), resume)
    return True
