"""A seed is a whole history, and the simulated world is made of the real parts."""

from __future__ import annotations

import inspect

import pytest
from attrs import frozen

from actors.runtime import (
    Actor,
    Address,
    Node,
    PeerDown,
    PeerUp,
    Scheduler,
    handles,
    wire,
)
from actors.runtime import node as node_module
from actors.runtime import simulation as simulation_module
from actors.runtime.links import link as link_module
from actors.runtime.links import socket_transport as transport_module
from actors.runtime.links.frames import LinkFrameReader
from actors.runtime.links.link import Link
from actors.runtime.simulation import ProcessClock, SeededScheduler, SimulatedTransport, Simulation, Wire
from tests.actors.runtime.probes import Bulk, Events, Fail, Note, Numbered, Owe, Probe, Restarted

LOSSY = Wire(loss=0.2)


@wire(0x7020)
@frozen
class Ball:
    number: int


class Player(Actor):
    """Throws numbered balls at another player and throws back what it catches."""

    def __init__(self, other: Address, throws: int) -> None:
        super().__init__()
        self.other = other
        self.throws = throws
        self.caught: list[int] = []

    def on_start(self) -> None:
        self.clock = self.every(0.01, Numbered(0))

    @handles(Numbered)
    def throw(self, _message: Numbered) -> None:
        if self.throws:
            self.throws -= 1
            self.send(self.other, Ball(1000 - self.throws))
        else:
            self.clock.cancel()

    @handles(Ball)
    def catch(self, message: Ball) -> None:
        self.caught.append(message.number)


def play(seed: int, wire: Wire = LOSSY, *, seconds: float = 1.0) -> tuple[Simulation, list[Player]]:
    simulation = Simulation(seed, wire=wire)
    addresses = [Address("player", "", broker) for broker in (1, 2)]
    for broker in (1, 2):
        simulation.add_node(broker)
    simulation.connect(1, 2)
    players = []
    for address, other in (addresses, addresses[::-1]):
        ref = simulation.nodes[address.broker].spawn(Player, other, 40, address=address)
        player = ref._actor_weakref()
        assert player is not None
        players.append(player)
    simulation.run(seconds=seconds)
    return simulation, players


def test_the_same_seed_is_the_same_history_line_for_line() -> None:
    (first, _), (second, _) = play(7), play(7)
    assert len(first.events) > 200
    assert first.events == second.events
    assert any(" lose " in event for event in first.events)


def test_other_seeds_are_other_histories() -> None:
    assert len({tuple(play(seed)[0].events) for seed in range(10)}) == 10


@pytest.mark.parametrize("loss", [0.0, 0.1, 0.5, 0.9])
def test_order_holds_and_nothing_comes_twice_whatever_is_lost(loss: float) -> None:
    lost = 0
    for seed in range(15):
        _, players = play(seed, Wire(delay_s_max=0.05, loss=loss))
        for player in players:
            assert player.caught == sorted(set(player.caught))
            lost += 40 - len(player.caught)
    assert (lost > 0) is (loss > 0)


def test_every_frame_takes_the_time_that_the_wire_needs() -> None:
    simulation, players = play(3, Wire(delay_s_min=0.25, delay_s_max=0.25), seconds=0.255)
    assert players[0].caught == []
    simulation.run(seconds=0.01)
    assert players[0].caught == [961]


def test_time_passes_only_as_far_as_asked() -> None:
    simulation, _ = play(1, seconds=0.123)
    assert simulation.clock.now() == 0.123
    simulation.run(seconds=0.0)
    assert simulation.clock.now() == 0.123


def test_a_world_without_anything_to_do_comes_to_its_end() -> None:
    simulation = Simulation(seed=1)
    simulation.add_node(1).spawn(Probe, address=Address("probe", "", 1))
    simulation.run()
    assert simulation.clock.now() == 0.0
    assert not simulation.step()


def test_a_run_may_be_bounded_by_steps() -> None:
    simulation, _ = play(1, seconds=0.0)
    events = len(simulation.events)
    simulation.run(steps=5)
    assert 0 < len(simulation.events) - events <= 20


def test_what_is_sent_from_outside_of_a_step_goes_out_at_once() -> None:
    simulation = Simulation(seed=1)
    events = Events()
    for broker in (1, 2):
        simulation.add_node(broker)
    simulation.connect(1, 2)
    simulation.nodes[2].spawn(Probe, events, address=Address("probe", "", 2))
    simulation.nodes[1].ref(Address("probe", "", 2)).tell(Note("hello"))
    simulation.run(seconds=0.01)
    assert events.all == ["hello"]
    assert simulation.clock.now() == 0.01


def test_a_cut_link_is_noticed_at_both_ends_and_can_be_made_again() -> None:
    simulation = Simulation(seed=1)
    seen: dict[int, Events] = {}
    for broker in (1, 2):
        node = simulation.add_node(broker)
        seen[broker] = Events()
        node.spawn(Probe, seen[broker], address=Address("probe", "", broker))
        node.watch_peers(Address("probe", "", broker))
    simulation.connect(1, 2)
    simulation.run(seconds=0.1)
    asked = simulation.nodes[1].ref(Address("probe", "", 2)).ask(Owe("x"), block=False)
    simulation.run(seconds=0.1)
    simulation.cut(2, 1)
    simulation.run(seconds=0.1)
    assert str(asked.exception) == "the link to broker 2 was lost: closed by the peer"
    simulation.connect(1, 2)
    simulation.run(seconds=0.1)
    for broker in (1, 2):
        kinds = [type(event) for event in seen[broker].all if not isinstance(event, str)]
        assert kinds == [PeerUp, PeerDown, PeerUp]


def test_what_is_under_way_when_a_link_is_cut_never_arrives() -> None:
    for seed in range(20):
        simulation = Simulation(seed)
        events = Events()
        for broker in (1, 2):
            simulation.add_node(broker)
        simulation.connect(1, 2)
        simulation.nodes[2].spawn(Probe, events, address=Address("probe", "", 2))
        simulation.nodes[1].ref(Address("probe", "", 2)).tell(Note("hello"))
        simulation.scheduler.flush()
        simulation.cut(1, 2)
        simulation.run(seconds=1.0)
        assert events.all == []


def test_a_node_may_crash_while_its_actors_have_work() -> None:
    simulation, _ = play(5, seconds=0.1)
    for node in simulation.nodes.values():
        for address in node.addresses:
            node.ref(address).tell(Ball(1))
    simulation.nodes[1].crash()
    simulation.run(seconds=1.0)
    assert simulation.nodes[1].addresses == []
    assert 1 not in simulation.nodes[2].links


def test_failed_actors_come_back_in_simulated_time_too() -> None:
    simulation = Simulation(seed=1)
    events = Events()
    ref = simulation.add_node(1).spawn(Restarted, events, address=Address("probe", "", 1))
    ref.tell(Fail("x"))
    simulation.run()
    assert events.all == ["start", "start"]
    assert simulation.clock.now() == 0.1


def test_a_frame_larger_than_the_readers_buffer_arrives() -> None:
    simulation = Simulation(seed=1)
    for broker in (1, 2):
        simulation.add_node(broker)
    simulation.connect(1, 2)
    events = Events()
    simulation.nodes[2].spawn(Probe, events, address=Address("probe", "", 2))
    data = bytes(range(256)) * 8192
    simulation.nodes[1].ref(Address("probe", "", 2)).tell(Bulk(1, memoryview(data)))  # type: ignore[arg-type]
    simulation.run(seconds=0.1)
    assert [bytes(message.data) == data for message in events.of(Bulk)] == [True]


def test_the_simulated_world_is_made_of_the_real_parts() -> None:
    simulation, players = play(1, seconds=0.0)
    assert all(type(node) is Node for node in simulation.nodes.values())
    assert all(type(link) is Link for node in simulation.nodes.values() for link in node.links.values())
    assert isinstance(players[0], Actor)
    for name, part in [("Node", Node), ("Link", Link), ("LinkFrameReader", LinkFrameReader)]:
        assert getattr(simulation_module, name) is part
        assert getattr(transport_module, name, part) is part
    link = simulation.nodes[1].links[2]
    assert isinstance(link, Link)
    assert type(link._transport) is SimulatedTransport
    assert type(link._transport._reader) is LinkFrameReader


def test_the_simulated_scheduler_replaces_nothing_but_the_choice_of_the_next_step() -> None:
    assert SeededScheduler.__bases__ == (Scheduler,)
    replaced = {name for name, value in vars(SeededScheduler).items() if inspect.isfunction(value)}
    assert replaced & set(vars(Scheduler)) == {"__init__"}


@pytest.mark.parametrize("module", [link_module, node_module])
def test_the_real_parts_do_not_know_that_there_is_a_simulation(module: object) -> None:
    assert "simulation" not in inspect.getsource(module)  # type: ignore[arg-type]


# -- processes and faults --------------------------------------------------------------------------------------------


def processes(seed: int = 1, wire: Wire | None = None) -> tuple[Simulation, dict[int, Events]]:
    simulation = Simulation(seed, wire=wire)
    seen: dict[int, Events] = {}
    for broker in (1, 2):
        node = simulation.add_process(broker)
        seen[broker] = Events()
        node.spawn(Probe, seen[broker], address=Address("probe", "", broker))
        node.watch_peers(Address("probe", "", broker))
    simulation.connect(1, 2)
    simulation.run(seconds=0.1)
    return simulation, seen


def tell(simulation: Simulation, to: int, text: str) -> None:
    simulation.nodes[3 - to].ref(Address("probe", "", to)).tell(Note(text))


def texts(events: Events) -> list[object]:
    return [event for event in events.all if isinstance(event, str)]


def test_a_killed_process_takes_its_timers_and_links_with_it() -> None:
    simulation, seen = processes()
    fired: list[int] = []
    for broker, node in simulation.nodes.items():
        node.scheduler.timers.after(0.5, lambda broker=broker: fired.append(broker))  # type: ignore[misc]
    simulation.kill(1)
    simulation.run(seconds=1.0)
    assert fired == [2]
    assert type(seen[2].all[-1]) is PeerDown
    node = simulation.add_process(1)
    assert node.addresses == []


def test_a_paused_process_does_nothing_and_gets_everything_in_order_when_it_goes_on() -> None:
    simulation, seen = processes()
    simulation.pause(2)
    for number in range(5):
        tell(simulation, 2, str(number))
        simulation.run(seconds=0.1)
    assert texts(seen[2]) == []
    simulation.resume(2)
    simulation.run(seconds=0.1)
    assert texts(seen[2]) == ["0", "1", "2", "3", "4"]


def test_a_process_that_is_paused_for_long_loses_its_links() -> None:
    simulation, seen = processes()
    simulation.pause(2)
    simulation.run(seconds=10.0)
    assert type(seen[1].all[-1]) is PeerDown
    simulation.resume(2)
    simulation.run(seconds=1.0)
    assert type(seen[2].all[-1]) is PeerDown


def test_a_clogged_way_holds_everything_back_until_it_is_released() -> None:
    simulation, seen = processes()
    simulation.clogged.add((1, 2))
    tell(simulation, 2, "held")
    tell(simulation, 1, "free")
    simulation.run(seconds=0.5)
    assert (texts(seen[1]), texts(seen[2])) == (["free"], [])
    simulation.release(1, 2)
    tell(simulation, 2, "later")
    simulation.run(seconds=0.5)
    assert texts(seen[2]) == ["held", "later"]


def test_a_blocked_way_swallows_everything_and_the_silence_is_noticed() -> None:
    simulation, seen = processes()
    simulation.blocked.add((1, 2))
    tell(simulation, 2, "lost")
    simulation.run(seconds=10.0)
    assert texts(seen[2]) == []
    assert type(seen[2].all[-1]) is PeerDown
    assert type(seen[1].all[-1]) is PeerDown  # the other way is free, so it hears of the end


@pytest.mark.parametrize(("last_words", "heard"), [(0.0, []), (1.0, ["goodbye"])])
def test_the_last_words_of_a_dying_process_may_arrive(last_words: float, heard: list[str]) -> None:
    simulation, seen = processes(wire=Wire(last_words=last_words))
    tell(simulation, 2, "goodbye")
    simulation.nodes[1].scheduler.flush()
    simulation.kill(1)
    simulation.run(seconds=1.0)
    assert texts(seen[2]) == heard


def test_every_process_has_a_calendar_of_its_own() -> None:
    simulation, _ = processes()
    one, other = (simulation.nodes[broker].scheduler.clock for broker in (1, 2))
    assert one.wall() == other.wall()
    assert isinstance(one, ProcessClock)
    one.jump_wall(-3600.0)
    assert one.wall() == other.wall() - 3600.0
    assert one.now() == other.now() == simulation.clock.now()
