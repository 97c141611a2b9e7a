"""Faults at leaders: leadership is transferred, or a leader is isolated and its successor fails, too."""

from __future__ import annotations

from actors.messages.replica import TransferLeadership
from tools.simulator.cluster.cluster import SimulatedCluster
from tools.simulator.faults.links import clog_way, isolate
from tools.simulator.faults.plan import FaultPlan
from tools.simulator.faults.processes import kill
from tools.simulator.settings.layout import address_of


def usurp(faults: FaultPlan, _broker: int) -> bool:
    """A leader with a minority, apart from the others and not from clients; when it is back, its successor goes.

    Only the others notice: they elect a leader at once, while the old one goes on as long as it counts on its quorum.
    """
    cluster = faults.cluster
    group = faults.rng.choice(cluster.all_groups)
    leader = cluster.leader(group)
    if leader is None or len(cluster.brokers) == 1:
        return False
    others = [number for number in cluster.brokers if number != leader]
    companions = faults.rng.sample(others, (len(others) - 1) // 2)
    pairs = [(one, other) for one in (leader, *companions) for other in others if other not in companions]
    cluster.note(f"usurp {group}: {pairs}")
    for one, other in pairs:
        cluster.sim.blocked.update(((one, other), (other, one)))
        _cut_at(cluster, other, one)

    def mend() -> None:
        for one, other in pairs:
            cluster.mend(one, other)
            _cut_at(cluster, one, other)

    def depose() -> None:
        successor = cluster.leader(group)
        if successor is not None and successor not in (leader, *companions):
            faults.rng.choice((kill, isolate))(faults, successor)

    apart_s = faults.rng.uniform(0.05, 1.4)
    if faults.on_usurped is not None:
        faults.on_usurped(group, leader, apart_s)
    faults.later(apart_s, mend)
    faults.later(apart_s + faults.rng.choice((0.0, 0.05, 0.3)), depose)
    return True


def transfer(faults: FaultPlan, _broker: int) -> bool:
    cluster = faults.cluster
    group = faults.rng.choice(cluster.all_groups)
    leader = cluster.leader(group)
    if leader is None or len(cluster.brokers) == 1:
        return False
    to = faults.rng.choice([number for number in cluster.brokers if number != leader])
    cluster.note(f"transfer {group} from {leader} to {to}")
    cluster.sim.nodes[leader].tell_local(address_of(group, leader), TransferLeadership(to))
    if (
        "clog" in cluster.settings.faults and faults.rng.random() < 0.5
    ):  # the order to take over arrives late, perhaps too late
        clog_way(faults, (leader, to), faults.rng.uniform(0.5, 1.5))
    return True


def _cut_at(cluster: SimulatedCluster, broker: int, other: int) -> None:
    if broker in cluster.sim.nodes:
        cluster.sim.cut(broker, other)
