"""A simulated broker stops in the order in which a process does."""

from __future__ import annotations

from tools.simulator.faults import processes
from tools.simulator.faults.plan import FaultPlan
from tools.simulator.record.report import TraceKeeper
from tools.simulator.settings.groups import EAGER
from tools.simulator.settings.seed import choose
from tools.simulator.world import World


def test_a_broker_that_stops_asks_every_replica_and_the_controller_to_hand_over() -> None:
    trace = TraceKeeper()
    world = World(choose(1, faults=(), brokers=3, groups=(EAGER,), transactions=False), trace)
    while not world.form():
        world.sim.run(seconds=0.1)
    node = world.sim.nodes[2]
    while not any(address.name.startswith("__consumer_offsets-") for address in node.addresses):
        world.sim.run(seconds=0.1)
    members = {str(address) for address in node.addresses if address.kind in ("replica", "controller")}
    assert processes.stop(FaultPlan(world), 2)
    world.sim.run(seconds=1.0)
    asked = {line.split()[-2] for line in trace.lines if line.endswith(" HandOver")}
    assert asked == members
    assert not world.history.violations
