"""Brokers are killed, cut off and stopped under load: what arrives is in order and at most once, every lost link is
told, and nothing leaks."""

from __future__ import annotations

import gc
import itertools
import os
import re

import psutil
import pytest

from actors.harness import Cluster
from actors.runtime import LAUNCHER_ID, Node
from actors.runtime.links.link import OUTBOX_BYTES_MAX, SILENCE_SECONDS, Link
from tests.actors.conftest import living_children
from tests.actors.probes import (
    PROBES,
    Heard,
    PeerEvent,
    ReadPeerEvents,
    ReadRecord,
    ReadSent,
    SendOnce,
    StartStream,
    StopStreams,
    say,
)
from tests.actors.waiting import wait_until

GROWTH_BYTES_MAX = 8 << 20  # of a process with one broker, over 30 deaths of its peers under load


@pytest.fixture
def processes(leaves_nothing: None) -> Cluster:
    """Three brokers with a process each, for what has no counterpart inside one process."""
    return Cluster(processes=True, actors=PROBES)


def stream_everywhere(cluster: Cluster, *senders: int) -> None:
    """From each sender to each other broker: small messages, and now and then one larger than a socket's buffer."""
    for sender in senders:
        for receiver in cluster.brokers:
            if receiver != sender:
                cluster.tell(f"streamer@{sender}", StartStream(receiver, 30, 0.005, 100))


def heard_by(cluster: Cluster, broker: int) -> list[Heard]:
    """What the broker's recorder heard, checked: strictly rising numbers from every life of every sender."""
    record = cluster.ask(f"recorder@{broker}", ReadRecord(), timeout=20)
    for heard in record.heard:
        assert heard.disorder == "", f"broker {broker} heard {heard}"
        assert heard.count <= heard.last - heard.first + 1
    return list(record.heard)


def everybody_hears_everybody(cluster: Cluster, *, messages: int) -> None:
    """Wait until so many messages have come from the present life of each broker to each other one."""
    lives = {(broker, incarnation_of(cluster, broker)) for broker in cluster.brokers}

    def all_heard(broker: int) -> bool:
        heard = {(h.sender, h.incarnation) for h in heard_by(cluster, broker) if h.count >= messages}
        return heard >= {life for life in lives if life[0] != broker}

    for broker in cluster.brokers:
        wait_until(lambda: all_heard(broker), lambda: f"broker {broker} heard only {heard_by(cluster, broker)}")  # noqa: B023


def events_of(cluster: Cluster, broker: int) -> list[PeerEvent]:
    return list(cluster.ask(f"peerwatcher@{broker}", ReadPeerEvents(), timeout=20).events)


def incarnation_of(cluster: Cluster, broker: int) -> int:
    return int(cluster.ask(f"peerwatcher@{broker}", ReadPeerEvents(), timeout=20).incarnation)


def quiet_sizes(cluster: Cluster) -> dict[str, tuple[int, int]]:
    """Open file descriptors and resident bytes, of this process and of broker 1's, while no stream flows."""
    everybody_hears_everybody(cluster, messages=100)
    for broker in cluster.brokers:
        cluster.ask(f"streamer@{broker}", StopStreams(), timeout=20)
    for broker in cluster.brokers:
        sent = {
            (sender, incarnation_of(cluster, sender)): cluster.ask(f"streamer@{sender}", ReadSent(broker)).accepted
            for sender in cluster.brokers
            if sender != broker
        }
        wait_until(
            lambda: sent.items() <= {(h.sender, h.incarnation): h.last + 1 for h in heard_by(cluster, broker)}.items(),  # noqa: B023
            lambda: f"broker {broker} heard {heard_by(cluster, broker)}, sent were {sent}",  # noqa: B023
        )
    gc.collect()
    processes = {"this process": psutil.Process(), "broker 1": psutil.Process(cluster.pids[1])}
    found = {who: (process.num_fds(), process.memory_info().rss) for who, process in processes.items()}
    stream_everywhere(cluster, *cluster.brokers)
    return found


def kill_and_check(cluster: Cluster, victim: int) -> None:
    """One death and rebirth, under load: checks what arrived until then, and that each survivor hears of it once."""
    everybody_hears_everybody(cluster, messages=100)
    survivors = [broker for broker in cluster.brokers if broker != victim]
    for broker in cluster.brokers:
        for heard in heard_by(cluster, broker):
            assert heard.gaps == 0, f"no link between two lives was lost, and yet broker {broker} heard {heard}"
    old_life = incarnation_of(cluster, victim)
    known = {broker: len(events_of(cluster, broker)) for broker in survivors}
    cluster.kill(victim)
    cluster.restart(victim)
    new_life = incarnation_of(cluster, victim)
    assert new_life != old_life
    stream_everywhere(cluster, victim)
    for broker in survivors:
        events = events_of(cluster, broker)
        assert [event.broker for event in events[known[broker] :]] == [victim, victim]
        down, up = events[known[broker] :]
        assert (down.up, up.up, up.incarnation) == (False, True, new_life)
        assert "silent" not in down.reason, "it was told at once"


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_deaths_under_load(cluster: Cluster) -> None:
    children, things = len(living_children()), nodes_and_links()
    stream_everywhere(cluster, *cluster.brokers)
    for victim in (2, 3, 1, 2):
        kill_and_check(cluster, victim)
    everybody_hears_everybody(cluster, messages=100)
    assert (len(living_children()), nodes_and_links()) == (children, things)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_forty_deaths_under_load_leak_nothing(cluster: Cluster) -> None:
    """Broker 1 outlives them all, so that what leaks in it or in us adds up."""
    things = nodes_and_links()
    stream_everywhere(cluster, *cluster.brokers)
    for number, victim in enumerate(itertools.islice(itertools.cycle((2, 3)), 40)):
        if number == 10:
            before = quiet_sizes(cluster)
        kill_and_check(cluster, victim)
    for who, (fds, resident) in quiet_sizes(cluster).items():
        assert fds <= before[who][0], who
        assert resident - before[who][1] < GROWTH_BYTES_MAX * (1 if cluster.processes else 3), who
    assert nodes_and_links() == things


def nodes_and_links() -> tuple[list[int], int]:
    """Those of other clusters too, which live as long as pytest does: nothing may be added to them."""
    gc.collect()
    nodes = [thing.broker for thing in gc.get_objects() if isinstance(thing, Node)]
    return sorted(nodes), sum(1 for thing in gc.get_objects() if isinstance(thing, Link))


def test_a_link_that_breaks_and_mends_loses_at_most_one_stretch_each_time(cluster: Cluster) -> None:
    """Both ends live on, so one life hears another across many links: the numbers still only rise."""
    cuts = 10
    stream_everywhere(cluster, *cluster.brokers)
    for number in range(cuts):
        a, b = ((1, 2), (2, 3), (1, 3))[number % 3]
        cluster.cut(a, b)
        cluster.heal()
    for broker in cluster.brokers:
        downs = [event.broker for event in events_of(cluster, broker) if not event.up]
        ups = [event.broker for event in events_of(cluster, broker) if event.up and event.broker != LAUNCHER_ID]
        assert sorted(ups) == sorted([*downs, *(peer for peer in cluster.brokers if peer != broker)])
        for heard in heard_by(cluster, broker):
            assert heard.gaps <= downs.count(heard.sender)
    assert sum(not event.up for broker in cluster.brokers for event in events_of(cluster, broker)) == 2 * cuts


def test_a_broker_that_dies_in_the_middle_of_a_message_is_told_and_the_message_dropped(processes: Cluster) -> None:
    """The receiver is stopped until the sender has filled the socket and died: what it finds then ends in mid-frame."""
    with processes as cluster:
        cluster.ask("streamer@1", SendOnce(2, 10))
        cluster.pause(2)
        assert cluster.ask("streamer@1", SendOnce(2, 10)) is True
        assert cluster.ask("streamer@1", SendOnce(2, 8 << 20)) is True
        os.kill(cluster.pids[1], 9)
        wait_until(lambda: 1 not in cluster.alive, lambda: "broker 1 lives")
        cluster.resume(2)
        wait_until(lambda: not events_of(cluster, 2)[-1].up, lambda: "broker 2 is not told")
        down = events_of(cluster, 2)[-1]
        assert (down.broker, down.reason) == (1, "closed in the middle of a frame")
        (heard,) = heard_by(cluster, 2)
        assert (heard.count, heard.last) == (2, 1)


def test_a_receiver_that_stands_still_makes_its_sender_refuse_and_nothing_is_lost(processes: Cluster) -> None:
    with processes as cluster:
        cluster.pause(2)
        accepted = 0
        while cluster.ask("streamer@1", SendOnce(2, 16 << 20)):
            accepted += 1
            assert accepted * (16 << 20) < 2 * OUTBOX_BYTES_MAX, "nothing bounds what waits for a broker"
        assert cluster.ask("streamer@1", ReadSent(2)).refused_full == 1
        assert cluster.ask("echo@1", say(1)).number == 1
        cluster.resume(2)
        wait_until(
            lambda: [heard.count for heard in heard_by(cluster, 2)] == [accepted],
            lambda: f"{heard_by(cluster, 2)} of {accepted}",
        )
        assert cluster.ask("streamer@1", SendOnce(2, 10))
        wait_until(lambda: heard_by(cluster, 2)[0].last == accepted, lambda: f"{heard_by(cluster, 2)}")
        assert heard_by(cluster, 2)[0].gaps == 0


@pytest.mark.slow
def test_a_stopped_broker_is_noticed_by_its_silence_and_linked_again_when_it_goes_on(processes: Cluster) -> None:
    with processes as cluster:
        stream_everywhere(cluster, *cluster.brokers)
        known = len(events_of(cluster, 1))
        cluster.pause(2)
        for broker in (1, 3):
            wait_until(
                lambda broker=broker: not events_of(cluster, broker)[-1].up,  # type: ignore[misc]
                lambda: "the silence is not noticed",
            )
            down = events_of(cluster, broker)[-1]
            assert down.broker == 2
            (silent_s,) = re.findall(r"silent for ([\d.]+) s", down.reason)
            assert float(silent_s) >= SILENCE_SECONDS
        cluster.resume(2)
        for broker in (1, 3):
            wait_until(
                lambda broker=broker: events_of(cluster, broker)[-1].up,  # type: ignore[misc]
                lambda: "the link does not come back",
            )
        assert [event.broker for event in events_of(cluster, 1)[known:]].count(3) == 0
        for broker in cluster.brokers:
            cluster.ask(f"streamer@{broker}", StopStreams())
            for heard in heard_by(cluster, broker):
                assert heard.gaps <= sum(not event.up for event in events_of(cluster, broker))
