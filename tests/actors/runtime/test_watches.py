"""Which actors hear when an actor or a broker goes away, on one node and over a link."""

from __future__ import annotations

import pykka
import pytest

from actors.runtime import Address, PeerDown, PeerUp, Terminated
from actors.runtime.simulation import Simulation
from actors.runtime.supervision import Watches
from tests.actors.runtime.probes import Events, Fail, Note, Probe, Restarted, World


class TwoNodes:
    """Nodes 1 and 2 with a link that loses nothing, in virtual time."""

    def __init__(self) -> None:
        self.simulation = Simulation(seed=1)
        self.one, self.two = self.simulation.add_node(1), self.simulation.add_node(2)
        self.simulation.connect(1, 2)
        self.watcher, self.told = Address("probe", "watcher", 1), Events()
        self.target = Address("probe", "target", 2)
        self.one.spawn(Probe, self.told, address=self.watcher)
        self.two.spawn(Probe, address=self.target)
        self.settle()

    def settle(self) -> None:
        self.simulation.run(seconds=0.1)


# -- on one node -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("end", "reason"), [("stop", "stopped"), ("failure", "failed: ValueError('x')")])
def test_a_watcher_is_told_once_when_its_target_ends(end: str, reason: str) -> None:
    world = World()
    _, told = world.probe("watcher")
    target, _ = world.probe("target")
    world.node.watch(world.address("watcher"), target.address)
    world.node.watch(world.address("watcher"), target.address)
    world.run()
    assert told.all == []
    if end == "stop":
        target.stop(block=False)
    else:
        target.tell(Fail("x"))
    world.run()
    assert told.all == [Terminated(target.address, reason)]


def test_watching_somebody_who_never_was_or_no_longer_is_is_answered_at_once() -> None:
    world = World()
    _, told = world.probe("watcher")
    target, _ = world.probe("target")
    target.stop(block=False)
    world.run()
    for name in ("target", "never"):
        world.node.watch(world.address("watcher"), world.address(name))
    world.run()
    assert told.all == [
        Terminated(world.address("target"), "not found"),
        Terminated(world.address("never"), "not found"),
    ]


def test_a_watch_is_over_once_it_was_answered() -> None:
    world = World()
    _, told = world.probe("watcher")
    for _ in range(2):
        target, _ = world.probe("target")
        if not told.all:
            world.node.watch(world.address("watcher"), target.address)
        target.stop(block=False)
        world.run()
    assert len(told.all) == 1


def test_who_unwatched_is_not_told_and_others_are() -> None:
    world = World()
    _, told = world.probe("watcher")
    _, also_told = world.probe("other")
    target, _ = world.probe("target")
    for name in ("watcher", "other"):
        world.node.watch(world.address(name), target.address)
    world.node.unwatch(world.address("watcher"), target.address)
    target.stop(block=False)
    world.run()
    assert told.all == []
    assert also_told.of(Terminated) == [Terminated(target.address, "stopped")]


def test_a_watcher_that_dies_first_leaves_nothing_behind_and_its_successor_is_not_told() -> None:
    world = World()
    watcher, _ = world.probe("watcher")
    target, _ = world.probe("target")
    world.node.watch(watcher.address, target.address)
    watcher.stop(block=False)
    world.run()
    assert len(world.node._watches) == 0
    _, told = world.probe("watcher")
    target.stop(block=False)
    world.run()
    assert told.all == []


def test_a_watcher_with_a_full_mailbox_is_told_nevertheless() -> None:
    class Small(Probe):
        mailbox_capacity = 1

    world = World()
    told = Events()
    watcher = world.spawn(Small, told, name="watcher")
    target, _ = world.probe("target")
    world.node.watch(watcher.address, target.address)
    target.stop(block=False)
    watcher.tell(Note("full"))
    world.run()
    assert told.all == ["full", Terminated(target.address, "stopped")]


def test_a_restart_is_an_end_for_the_watcher() -> None:
    world = World()
    _, told = world.probe("watcher")
    target = world.spawn(Restarted, name="target")
    world.node.watch(world.address("watcher"), target.address)
    target.tell(Fail("x"))
    world.pass_time(1.0)
    assert told.all == [Terminated(target.address, "failed: ValueError('x')")]
    assert target.address in world.node.addresses


# -- over a link -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("end", "reason"), [("stop", "stopped"), ("failure", "failed: ValueError('x')")])
def test_a_watcher_on_another_node_is_told_once(end: str, reason: str) -> None:
    nodes = TwoNodes()
    nodes.one.watch(nodes.watcher, nodes.target)
    nodes.settle()
    assert nodes.told.all == []
    target = nodes.two.ref(nodes.target)
    if end == "stop":
        target.stop(block=False)
    else:
        target.tell(Fail("x"))
    nodes.settle()
    assert nodes.told.all == [Terminated(nodes.target, reason)]
    nodes.simulation.cut(1, 2)
    nodes.settle()
    assert len(nodes.told.all) == 1


def test_a_long_reason_in_any_script_crosses_the_link() -> None:
    nodes = TwoNodes()
    nodes.one.watch(nodes.watcher, nodes.target)
    nodes.settle()
    nodes.two.ref(nodes.target).tell(Fail("x" + "漢" * 3000))
    nodes.settle()
    (told,) = nodes.told.of(Terminated)
    assert told.reason.startswith("failed: ValueError('x漢漢漢")
    assert 2 in nodes.one.links


def test_watching_nobody_on_another_node_is_answered() -> None:
    nodes = TwoNodes()
    nobody = Address("probe", "nobody", 2)
    nodes.one.watch(nodes.watcher, nobody)
    nodes.settle()
    assert nodes.told.all == [Terminated(nobody, "not found")]


def test_watching_behind_no_link_is_answered_at_once() -> None:
    nodes = TwoNodes()
    far = Address("probe", "far", 3)
    nodes.one.watch(nodes.watcher, far)
    nodes.settle()
    assert nodes.told.all == [Terminated(far, "no link to broker 3")]


def test_a_lost_link_ends_every_watch_behind_it() -> None:
    nodes = TwoNodes()
    local, _ = Address("probe", "local", 1), nodes.one.spawn(Probe, address=Address("probe", "local", 1))
    nodes.one.watch(nodes.watcher, nodes.target)
    nodes.one.watch(nodes.watcher, local)
    nodes.settle()
    nodes.simulation.cut(2, 1)
    nodes.settle()
    assert nodes.told.all == [Terminated(nodes.target, "link lost: closed by the peer")]
    assert len(nodes.two._watches) == 0


def test_who_unwatched_over_a_link_is_not_told_and_leaves_nothing_behind() -> None:
    nodes = TwoNodes()
    nodes.one.watch(nodes.watcher, nodes.target)
    nodes.settle()
    nodes.one.unwatch(nodes.watcher, nodes.target)
    nodes.settle()
    assert len(nodes.two._watches) == 0
    nodes.two.ref(nodes.target).stop(block=False)
    nodes.settle()
    assert nodes.told.all == []


def test_a_watcher_that_dies_first_is_forgotten_on_the_other_node_too() -> None:
    nodes = TwoNodes()
    nodes.one.watch(nodes.watcher, nodes.target)
    nodes.settle()
    assert len(nodes.two._watches) == 1
    nodes.one.ref(nodes.watcher).stop(block=False)
    nodes.settle()
    assert len(nodes.one._watches) == len(nodes.two._watches) == 0


def test_one_of_two_watchers_that_goes_does_not_end_the_others_watch() -> None:
    nodes = TwoNodes()
    other, told = Address("probe", "other", 1), Events()
    nodes.one.spawn(Probe, told, address=other)
    for watcher in (nodes.watcher, other):
        nodes.one.watch(watcher, nodes.target)
    nodes.settle()
    nodes.one.unwatch(nodes.watcher, nodes.target)
    nodes.settle()
    nodes.two.ref(nodes.target).stop(block=False)
    nodes.settle()
    assert nodes.told.all == []
    assert told.all == [Terminated(nodes.target, "stopped")]


# -- brokers ---------------------------------------------------------------------------------------------------------


def test_who_watches_peers_is_told_of_every_link_that_stands_comes_and_goes() -> None:
    nodes = TwoNodes()
    nodes.one.watch_peers(nodes.watcher)
    nodes.settle()
    incarnation = nodes.two.incarnation
    assert nodes.told.all == [PeerUp(2, incarnation)]
    nodes.simulation.cut(1, 2)
    nodes.settle()
    nodes.simulation.connect(1, 2)
    nodes.settle()
    assert nodes.told.all == [PeerUp(2, incarnation), PeerDown(2, "cut"), PeerUp(2, incarnation)]


def test_a_new_connection_replaces_the_old_one_down_before_up() -> None:
    nodes = TwoNodes()
    nodes.one.watch_peers(nodes.watcher)
    nodes.settle()
    nodes.told.all.clear()
    nodes.simulation.connect(1, 2)
    nodes.settle()
    assert nodes.told.all == [PeerDown(2, "replaced by a new connection"), PeerUp(2, nodes.two.incarnation)]
    asked = nodes.one.ref(nodes.target).ask(Note("over the new one"), block=False)
    nodes.settle()
    assert asked.get() == "over the new one"


def test_asks_to_a_peer_that_is_gone_fail_at_once() -> None:
    nodes = TwoNodes()
    nodes.simulation.cut(1, 2)
    ref = nodes.one.ref(nodes.target)
    assert not ref.is_alive()
    with pytest.raises(pykka.ActorDeadError, match="probe/target@2 not found: no link to broker 2"):
        ref.tell(Note("x"))
    assert isinstance(ref.ask(Note("x"), block=False).exception, pykka.ActorDeadError)


# -- the table -------------------------------------------------------------------------------------------------------


def test_the_table_says_which_watch_was_the_first_and_which_the_last() -> None:
    watches = Watches()
    assert watches.add("a", "t") is True
    assert watches.add("b", "t") is False
    assert watches.add("a", "t") is False
    assert watches.remove("a", "t") is False
    assert watches.remove("a", "t") is False
    assert watches.remove("b", "t") is True
    assert watches.remove("b", "t") is False
    assert len(watches) == 0
    assert watches.targets() == []
