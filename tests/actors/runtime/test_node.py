from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType

import pykka
import pytest

from actors.runtime import Address, PeerDown, PeerUp, Ref, RemoteRef
from actors.runtime import node as node_module
from actors.runtime.simulation import Simulation
from tests.actors.runtime.probes import Events, Fail, Local, Note, Owe, Probe, World


class Unbuildable(Probe):
    def __init__(self) -> None:
        super().__init__()
        raise OSError("cannot be made")


def test_an_actor_cannot_live_on_another_broker() -> None:
    with pytest.raises(ValueError, match=r"^probe/x@2 cannot live on broker 1$"):
        World().node.spawn(Probe, address=Address("probe", "x", 2))


def test_an_address_belongs_to_one_living_actor() -> None:
    world = World()
    ref, events = world.probe()
    with pytest.raises(ValueError, match=r"^probe@1 is taken by a living actor$"):
        world.spawn(Probe)
    assert world.ask(ref, Note("still the first")).get() == "still the first"
    ref.stop(block=False)
    world.run()
    again, _ = world.probe()
    assert world.ask(again, Note("the second")).get() == "the second"
    assert events.all == ["still the first"]


def test_an_actor_that_cannot_be_made_leaves_nothing_behind() -> None:
    world = World()
    with pytest.raises(OSError, match="cannot be made"):
        world.spawn(Unbuildable)
    assert world.node.addresses == []
    world.probe()


def test_arguments_reach_the_actor() -> None:
    world = World()
    events = Events()
    ref = world.node.spawn(Probe, events=events, address=world.address())
    world.ask(ref, Note("x"))
    assert events.all == ["x"]


def test_a_ref_is_found_by_address_and_only_while_its_actor_lives() -> None:
    world = World()
    ref, _ = world.probe()
    assert world.node.ref(Address.parse("probe@1")) is ref

    ref.stop(block=False)
    world.run()
    with pytest.raises(pykka.ActorDeadError, match="probe@1 not found"):
        world.node.ref(world.address())


def test_a_ref_to_another_broker_needs_no_link_until_it_is_used() -> None:
    world = World()
    ref = world.node.ref(Address("probe", "x", 2))
    assert isinstance(ref, RemoteRef)
    assert not ref.is_alive()
    assert str(ref) == "probe/x@2"
    assert isinstance(world.probe()[0], Ref)


def test_the_addresses_of_a_node_are_listed_in_order() -> None:
    world = World()
    for name in ("b", "a", "c"):
        world.probe(name)
    assert world.node.addresses == [world.address(name) for name in ("a", "b", "c")]


def test_stopping_a_node_stops_the_youngest_actor_first_after_what_it_was_told_before() -> None:
    class Last(Probe):
        def on_stop(self) -> None:
            self.events.append(f"stop {self.address.name}")

    world = World()
    events = Events()
    refs = [world.spawn(Last, events, name=name) for name in "abc"]
    world.node.stop_all()
    world.run()
    assert events.all == ["stop c", "stop b", "stop a"]
    assert world.node.addresses == []
    assert not any(ref.is_alive() for ref in refs)


def test_a_crash_drops_every_actor_without_a_word() -> None:
    class Talkative(Probe):
        def on_stop(self) -> None:
            self.events.append("stop")

        def on_failure(self, *_args: object) -> None:
            self.events.append("failure")

    world = World()
    events = Events()
    ref = world.spawn(Talkative, events)
    owed = world.ask(ref, Owe("owed"))
    ref.tell(Note("waiting"))
    waiting = ref.ask(Note("also waiting"), block=False)
    world.node.crash()
    assert not ref.is_alive()
    world.pass_time(100.0)
    assert events.all == ["owed"]
    assert world.node.addresses == []
    for future in (owed, waiting):
        assert isinstance(future.exception, pykka.ActorDeadError)
    with pytest.raises(pykka.ActorDeadError):
        ref.tell(Note("x"))


def test_a_crash_breaks_the_links_and_leaves_no_timer_behind() -> None:
    simulation = Simulation(seed=1)
    one, two = simulation.add_node(1), simulation.add_node(2)
    simulation.connect(1, 2)
    told, watcher = Events(), Address("probe", "", 2)
    two.spawn(Probe, told, address=watcher)
    one.spawn(Probe, Events(), address=Address("probe", "", 1))
    two.watch(watcher, Address("probe", "", 1))
    simulation.run(seconds=0.1)
    one.crash()
    assert one.links == {}
    simulation.run(seconds=0.1)
    assert two.links == {}
    assert [event.reason for event in told.all] == ["link lost: closed by the peer"]
    assert len(simulation.scheduler.timers) == 0


def test_a_node_may_crash_in_the_middle_of_a_handler() -> None:
    class Suicidal(Probe):
        def local(self) -> None:
            self.node.crash()

    world = World()
    ref = world.spawn(Suicidal)
    other, events = world.probe("other")
    ref.tell(pykka.messages.ProxyCall(("local",), (), {}))
    other.tell(Local())
    world.run()
    assert events.all == []
    assert world.node.addresses == []


def test_a_failure_after_the_crash_restarts_nothing() -> None:
    world = World()
    ref, _ = world.probe()
    ref.tell(Fail("x"))
    world.node.crash()
    world.pass_time(100.0)
    assert world.node.addresses == []


def test_refs_show_what_they_refer_to_and_the_inbox_of_a_remote_one_cannot_be_read() -> None:
    world = World()
    ref, _ = world.probe()
    remote = world.node.ref(Address("probe", "x", 2))
    assert isinstance(remote, RemoteRef)
    assert [repr(ref), repr(remote)] == ["<Ref probe@1>", "<RemoteRef probe/x@2>"]
    assert remote.actor_inbox.empty()
    with pytest.raises(TypeError, match="is read in its own process"):
        remote.actor_inbox.get()


def test_the_memory_of_remote_refs_is_bounded_and_refs_in_use_live_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_module, "_REMOTE_REFS_MAX", 2)
    node = World().node
    first, *others = [node.ref(Address("probe", str(number), 2)) for number in range(4)]
    assert node.ref(Address("probe", "3", 2)) is others[-1]
    again = node.ref(Address("probe", "0", 2))
    assert again is not first
    assert str(again) == str(first)


@pytest.mark.parametrize("count", [100, 1000])
def test_news_of_a_peer_costs_a_few_calls_for_each_of_many_actors(count: int) -> None:
    """A broker has thousands of replicas, and a link that is lost is told to all of them in one turn."""
    simulation, events = Simulation(seed=1), Events()
    for broker in (1, 2):
        simulation.add_node(broker)
    node = simulation.nodes[1]
    for number in range(count):
        address = Address("probe", f"number-{number}", 1)
        node.spawn(Probe, events, address=address)
        node.watch_peers(address)
    calls: list[int] = []

    def counted(work: Callable[[], None]) -> None:
        calls.append(0)

        def note(_frame: FrameType, event: str, _argument: object) -> None:
            calls[-1] += event == "call"

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            work()
        finally:
            sys.setprofile(before)

    link_up, link_down = node.link_up, node.link_down
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(node, "link_up", lambda *arguments: counted(partial(link_up, *arguments)))
        patched.setattr(node, "link_down", lambda *arguments: counted(partial(link_down, *arguments)))
        simulation.connect(1, 2)
        simulation.run(seconds=0.1)
        simulation.cut(1, 2)
        simulation.run(seconds=0.1)
    assert len(events.of(PeerUp)) == len(events.of(PeerDown)) == count
    counted(node.addresses.clear)
    assert max(calls) < 10 * count + 200


def test_addresses_are_told_in_the_same_order_every_time() -> None:
    world, events = World(), Events()
    for name in ("b", "a", "", "c"):
        world.node.spawn(Probe, events, address=Address("probe", name, 1))
    assert [address.name for address in world.node.addresses] == ["", "a", "b", "c"]
