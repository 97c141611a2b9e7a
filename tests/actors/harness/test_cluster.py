"""A cluster inside a test: what it promises, with all brokers in one process and with a process each."""

from __future__ import annotations

import concurrent.futures
import logging
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pykka
import pytest
import trio

from actors.broker import broker as broker_module
from actors.broker.broker import ExtraActor
from actors.broker.directory_lock import DirectoryInUse
from actors.broker.identity import DirectoryIdentity
from actors.cluster_file.config import TopicConfig
from actors.harness import Cluster, HarnessError
from actors.harness import cluster as harness
from actors.harness.cluster import START_SECONDS
from actors.messages.process import HealLinks
from actors.process.errors import FormationError
from actors.runtime import LAUNCHER_ID, Actor, Address, CodecError, RemoteFailure
from log.raft.node import RaftNode
from tests.actors.conftest import PLACEMENTS, ClusterFactory, living_children
from tests.actors.probes import (
    PROBES,
    AskFor,
    CountLives,
    Fail,
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

ROOT = Path(__file__).parents[3]
TOLD_SECONDS_MAX = 0.9 * START_SECONDS
SELDOM_WITH_PROCESSES = pytest.mark.parametrize(
    "cluster_factory", ["one process", pytest.param("a process each", marks=pytest.mark.long)], indirect=True
)
"""For those that start brokers again and again, which is the slower the more processes there are."""


class Deaf(Actor):
    """An actor whose broker cannot start, because the actor cannot be made."""

    def __init__(self) -> None:
        raise RuntimeError("deaf")


def events_of(cluster: Cluster, broker: int) -> list[PeerEvent]:
    """What the broker's watcher heard of other brokers."""
    events = cluster.ask(f"peerwatcher@{broker}", ReadPeerEvents()).events
    return [event for event in events if event.broker != LAUNCHER_ID]


def ports_of(cluster: Cluster) -> list[int]:
    return [int(address.rpartition(":")[2]) for address in cluster.bootstrap.split(",")]


def identity_of(data_dir: Path, broker: int) -> DirectoryIdentity:
    return DirectoryIdentity.of(data_dir / str(broker), broker)


@pytest.fixture(scope="module", params=["one process", pytest.param("a process each", marks=pytest.mark.slow)])
def one_for_many(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(3, processes=PLACEMENTS[request.param], actors=PROBES) as cluster:
        yield cluster


@pytest.fixture
def shared(one_for_many: Cluster) -> Iterator[Cluster]:
    """For those who mind nothing that others have done to it before; dead brokers and cut links are there again."""
    yield one_for_many
    for broker in one_for_many.brokers:
        if broker not in one_for_many.alive:
            one_for_many.restart(broker)
    one_for_many.heal()


# -- life ------------------------------------------------------------------------------------------------------


def test_bootstrap_names_a_port_per_broker_that_takes_connections(shared: Cluster) -> None:
    assert len(ports_of(shared)) == 3
    for port in ports_of(shared):
        socket.create_connection(("127.0.0.1", port)).close()


def test_brokers_have_the_processes_they_were_asked_for(shared: Cluster) -> None:
    own = os.getpid()
    assert shared.alive == shared.brokers == (1, 2, 3)
    if shared.processes:
        assert len({own, *shared.pids.values()}) == 4
    else:
        assert set(shared.pids.values()) == {own}


def test_three_brokers_that_share_a_process_start_with_a_second_of_its_time(leaves_nothing: None) -> None:
    """Of the processor's time: the machine may be busy with other tests."""
    best_s = float("inf")
    for _ in range(3):
        began = time.process_time()
        with Cluster():
            best_s = min(best_s, time.process_time() - began)
    assert best_s < 1.0


def test_one_broker_alone_is_a_cluster(cluster_factory: ClusterFactory) -> None:
    with cluster_factory(brokers=1) as cluster:
        assert cluster.ask("echo@1", say(1)).number == 1
        cluster.kill(1)
        assert cluster.alive == ()
        assert cluster.bootstrap == ""
        cluster.restart(1)
        assert cluster.ask("echo@1", say(2)).number == 2


@SELDOM_WITH_PROCESSES
def test_a_stopped_cluster_starts_again(cluster_factory: ClusterFactory) -> None:
    cluster = cluster_factory(brokers=2)
    for number in range(2):
        with cluster:
            assert cluster.ask("echo@2", say(number)).number == number
            cluster.cut(1, 2)


def test_preferred_leaders_lead_once_a_cluster_has_started(
    tmp_path: Path, leaves_nothing: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leaders that moved afterwards would take coordinators with them, away from clients that have just found them."""
    monkeypatch.setattr(broker_module, "BALANCE_SECONDS_MAX", START_SECONDS)
    monkeypatch.setattr(RaftNode, "rank", lambda self, broker: len(self.wanted) - 1 - self.wanted.index(broker))
    for topics in ([TopicConfig("orders", 6, 3)], []):  # the topics of the file, and then all that there are
        with Cluster(data_dir=tmp_path, topics=topics) as cluster:
            partitions = cluster.admin.topic("orders")["partitions"]
            assert [one["leader"] for one in partitions] == [one["replicas"][0] for one in partitions]


@SELDOM_WITH_PROCESSES
def test_stop_is_safe_to_repeat(cluster: Cluster) -> None:
    cluster.stop()
    cluster.stop()


@SELDOM_WITH_PROCESSES
def test_two_clusters_live_beside_each_other(cluster_factory: ClusterFactory) -> None:
    """They are started at the same time, from two threads, as parallel tests would."""
    clusters = [cluster_factory(brokers=2) for _ in range(2)]
    threads = [threading.Thread(target=cluster.start) for cluster in clusters]
    main_module = sys.modules["__main__"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sys.modules["__main__"] is main_module
    assert len({port for cluster in clusters for port in ports_of(cluster)}) == 4
    for cluster in clusters:
        assert cluster.ask("relay@1", AskFor(Address("echo", "", 2), 7)) == 7


@SELDOM_WITH_PROCESSES
def test_nothing_is_left_when_the_test_fails(cluster_factory: ClusterFactory, own_tmp: Path) -> None:
    children = living_children()

    def fail() -> None:
        with cluster_factory() as cluster:
            cluster.cut(1, 2)
            cluster.kill(3)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert living_children() <= children
    assert list(own_tmp.iterdir()) == []


@SELDOM_WITH_PROCESSES
def test_a_given_data_directory_is_kept(cluster_factory: ClusterFactory, tmp_path: Path) -> None:
    with cluster_factory(data_dir=tmp_path):
        identities = [identity_of(tmp_path, broker) for broker in (1, 2, 3)]
    assert {path.name for path in tmp_path.iterdir()} == {"1", "2", "3", "formation"}
    with cluster_factory(data_dir=tmp_path) as cluster:
        assert [identity_of(tmp_path, broker) for broker in (1, 2, 3)] == identities
        assert ports_of(cluster) == [identity.port for identity in identities]
    kept = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert kept >= {"boot", "meta.properties", "votes"}


def test_a_data_directory_in_use_is_refused_with_the_owners_pid(
    cluster_factory: ClusterFactory, tmp_path: Path
) -> None:
    with cluster_factory(brokers=1, data_dir=tmp_path) as first:
        with pytest.raises(DirectoryInUse, match=f"pid {os.getpid()}"):
            cluster_factory(brokers=1, data_dir=tmp_path).start()
        assert first.ask("echo@1", say(1)).number == 1


def test_a_data_directory_that_cannot_be_made_is_refused_with_the_reason(
    cluster_factory: ClusterFactory, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FormationError, match=r"file/data cannot be used \(Not a directory\); choose another data_dir"):
        cluster_factory(brokers=1, data_dir=tmp_path / "file" / "data").start()


# -- actors ----------------------------------------------------------------------------------------------------


def test_the_test_asks_and_tells_any_actor(shared: Cluster) -> None:
    for broker in shared.brokers:
        answer = shared.ask(f"echo@{broker}", say(broker, "grüße", b"x" * 100_000))
        assert (answer.number, answer.text, bytes(answer.bulk)) == (broker, "grüße", b"x" * 100_000)
        shared.tell(Address("streamer", "", broker), SendOnce(1, 10))
    assert shared.ask("streamer@1", ReadSent(1)).accepted == 1


def test_actors_ask_actors_on_every_other_broker(shared: Cluster) -> None:
    for asker in shared.brokers:
        for answerer in shared.brokers:
            assert shared.ask(f"relay@{asker}", AskFor(Address("echo", "", answerer), 42)) == 42


def test_streams_between_all_brokers_arrive_whole_and_in_order(cluster: Cluster) -> None:
    pairs = [(a, b) for a in cluster.brokers for b in cluster.brokers if a != b]
    for a, b in pairs:
        cluster.tell(f"streamer@{a}", StartStream(b, 50, 0.001, 200))
    wait_until(
        lambda: all(cluster.ask(f"streamer@{a}", ReadSent(b)).accepted >= 1000 for a, b in pairs),
        lambda: "the streams do not get on",
    )
    for broker in cluster.brokers:
        cluster.ask(f"streamer@{broker}", StopStreams())
    for a, b in pairs:
        sent = cluster.ask(f"streamer@{a}", ReadSent(b)).accepted

        def arrived(a: int = a, b: int = b, sent: int = sent) -> bool:
            heard = {heard.sender: heard for heard in cluster.ask(f"recorder@{b}", ReadRecord()).heard}
            return bool(heard[a].count == sent)

        wait_until(arrived, lambda a=a, b=b: f"{a} → {b} is not whole")  # type: ignore[misc]
        for heard in cluster.ask(f"recorder@{b}", ReadRecord()).heard:
            assert (heard.first, heard.gaps, heard.disorder) == (0, 0, "")


def test_an_ask_of_nobody_fails_at_once(shared: Cluster) -> None:
    with pytest.raises(pykka.ActorDeadError, match="nobody@2 not found"):
        shared.ask("nobody@2", say(1), timeout=60)


def test_what_cannot_travel_fails_alone(shared: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(CodecError, match="not registered with @wire"):
        shared.ask("echo@1", object())
    shared.tell("echo@1", object())
    assert shared.ask("echo@1", say(1)).number == 1
    assert "was not delivered" in caplog.text


def test_a_failing_handler_is_the_askers_to_know_and_its_own_broker_to_restart(
    shared: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    before = {broker: events_of(shared, broker) for broker in shared.brokers}
    with pytest.raises(RemoteFailure, match=r"ValueError: on an ask"):
        shared.ask("failing@2", Fail("on an ask"))
    assert shared.ask("failing@2", CountLives()) == 1
    shared.tell("failing@2", Fail("on a tell"))

    def restarted() -> bool:
        try:
            return bool(shared.ask("failing@2", CountLives()) == 2)
        except pykka.ActorDeadError:
            return False

    wait_until(restarted, lambda: "it was not restarted")
    for broker in shared.brokers:
        assert shared.ask(f"echo@{broker}", say(1)).number == 1
        assert shared.ask(f"failing@{broker}", CountLives()) == (2 if broker == 2 else 1)
        assert events_of(shared, broker) == before[broker]


# -- kill and restart --------------------------------------------------------------------------------------------


def test_peers_of_a_killed_broker_are_told_within_milliseconds(shared: Cluster) -> None:
    """Milliseconds; a second is allowed, because the machine may be busy with other tests."""
    fastest_s = dict.fromkeys((1, 3), float("inf"))
    for _ in range(5):
        before = {broker: len(events_of(shared, broker)) for broker in (1, 3)}
        killed_at = time.monotonic()
        shared.kill(2)
        for broker in (1, 3):
            down, *more = events_of(shared, broker)[before[broker] :]
            assert (down.up, down.broker, more) == (False, 2, [])
            fastest_s[broker] = min(fastest_s[broker], down.at - killed_at)
        shared.restart(2)
        if max(fastest_s.values()) < 1:
            return
    raise AssertionError(f"{fastest_s}")


def test_a_killed_broker_is_gone_and_the_others_work_on(shared: Cluster) -> None:
    port = ports_of(shared)[1]
    shared.kill(2)
    assert shared.alive == (1, 3)
    assert port not in ports_of(shared)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    with pytest.raises(pykka.ActorDeadError):
        shared.ask("echo@2", say(1))
    with pytest.raises((pykka.ActorDeadError, RemoteFailure)):
        shared.ask("relay@1", AskFor(Address("echo", "", 2), 1))
    assert shared.ask("relay@1", AskFor(Address("echo", "", 3), 1)) == 1


def test_killing_the_dead_does_nothing(shared: Cluster) -> None:
    shared.kill(2)
    shared.kill(2)
    assert shared.alive == (1, 3)


def test_restart_waits_until_the_broker_is_there(shared: Cluster) -> None:
    for broker in shared.brokers:
        shared.kill(broker)
        shared.restart(broker)
        assert shared.alive == shared.brokers
        assert shared.ask(f"relay@{broker}", AskFor(Address("echo", "", broker % 3 + 1), 5)) == 5


@SELDOM_WITH_PROCESSES
def test_a_restarted_broker_keeps_its_port_and_its_directory(cluster_factory: ClusterFactory, tmp_path: Path) -> None:
    with cluster_factory(data_dir=tmp_path) as cluster:
        bootstrap, identity = cluster.bootstrap, identity_of(tmp_path, 2)
        incarnation = cluster.ask("peerwatcher@2", ReadPeerEvents()).incarnation
        cluster.kill(2)
        cluster.restart(2)
        assert cluster.bootstrap == bootstrap
        assert identity_of(tmp_path, 2) == identity
        assert cluster.ask("peerwatcher@2", ReadPeerEvents()).incarnation != incarnation


def test_a_new_life_has_a_new_incarnation_that_peers_are_told(shared: Cluster) -> None:
    first = shared.ask("peerwatcher@2", ReadPeerEvents()).incarnation
    shared.kill(2)
    shared.restart(2)
    second = shared.ask("peerwatcher@2", ReadPeerEvents()).incarnation
    for broker in (1, 3):
        seen = [(event.up, event.incarnation) for event in events_of(shared, broker) if event.broker == 2]
        assert seen[-3:] == [(True, first), (False, 0), (True, second)]


def test_every_broker_may_be_dead_at_once(shared: Cluster) -> None:
    for broker in shared.brokers:
        shared.kill(broker)
    assert shared.alive == ()
    for broker in shared.brokers:
        shared.restart(broker)
    assert shared.ask("relay@3", AskFor(Address("echo", "", 1), 5)) == 5


def test_a_clients_connection_to_another_broker_outlives_a_kill(shared: Cluster) -> None:
    with socket.create_connection(("127.0.0.1", ports_of(shared)[0])) as client, client.makefile("rwb") as lines:
        for linked in (b'"linked":[2,3]', b'"linked":[3]', b'"linked":[2,3]'):
            lines.write(b'{"op":"status"}\n')
            lines.flush()
            assert linked in lines.readline()
            if shared.alive == (1, 2, 3):
                shared.kill(2)
            else:
                shared.restart(2)


# -- cut and heal ------------------------------------------------------------------------------------------------


def test_a_cut_separates_two_brokers_and_nobody_else(shared: Cluster) -> None:
    before = {broker: len(events_of(shared, broker)) for broker in shared.brokers}
    shared.cut(1, 2)
    for a, b in ((1, 2), (2, 1)):
        assert [event.broker for event in events_of(shared, a)[before[a] :] if not event.up] == [b]
        with pytest.raises((pykka.ActorDeadError, RemoteFailure)):
            shared.ask(f"relay@{a}", AskFor(Address("echo", "", b), 1))
        assert shared.ask(f"relay@{a}", AskFor(Address("echo", "", 3), 1)) == 1
    assert len(events_of(shared, 3)) == before[3]
    shared.heal()
    for a, b in ((1, 2), (2, 1)):
        assert shared.ask(f"relay@{a}", AskFor(Address("echo", "", b), 1)) == 1


def test_a_cut_holds_when_its_brokers_are_restarted(shared: Cluster) -> None:
    shared.cut(1, 2)
    for killed in ((2,), (1,), (1, 2)):
        for broker in killed:
            shared.kill(broker)
        for broker in killed:
            shared.restart(broker)
        with pytest.raises((pykka.ActorDeadError, RemoteFailure)):
            shared.ask("relay@1", AskFor(Address("echo", "", 2), 1))
    assert not any(event.broker == 1 for event in events_of(shared, 2))
    shared.heal()
    assert shared.ask("relay@1", AskFor(Address("echo", "", 2), 1)) == 1


def test_a_dead_broker_may_be_cut_off_and_healed(shared: Cluster) -> None:
    shared.kill(1)
    shared.cut(1, 3)
    shared.restart(1)
    with pytest.raises((pykka.ActorDeadError, RemoteFailure)):
        shared.ask("relay@3", AskFor(Address("echo", "", 1), 1))
    shared.kill(1)
    shared.heal()
    shared.restart(1)
    assert shared.ask("relay@3", AskFor(Address("echo", "", 1), 1)) == 1


def test_everybody_may_be_cut_off_from_everybody(shared: Cluster) -> None:
    for a, b in ((1, 2), (1, 3), (2, 3)):
        shared.cut(a, b)
    for broker in shared.brokers:
        assert shared.ask(f"echo@{broker}", say(1)).number == 1
    shared.heal()
    assert shared.ask("relay@3", AskFor(Address("echo", "", 1), 1)) == 1


# -- trio, scripts -------------------------------------------------------------------------------------------------


async def test_a_cluster_is_used_from_trio(cluster_factory: ClusterFactory) -> None:
    async with cluster_factory(brokers=2) as cluster:
        with trio.fail_after(10):
            stream = await trio.open_tcp_stream("127.0.0.1", ports_of(cluster)[0])
            async with stream:
                await stream.send_all(b'{"op":"status"}\n')
                assert b'"linked":[2]' in await stream.receive_some(1000)
                cluster.kill(2)
                await stream.send_all(b'{"op":"status"}\n')
                assert b'"linked":[]' in await stream.receive_some(1000)
            await trio.to_thread.run_sync(cluster.restart, 2)
            assert cluster.ask("echo@2", say(1)).number == 1


async def test_nothing_is_left_when_a_trio_test_is_cancelled(cluster_factory: ClusterFactory, own_tmp: Path) -> None:
    with trio.move_on_after(30) as scope:
        async with cluster_factory(brokers=2):
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert os.listdir(own_tmp) == []


@pytest.mark.parametrize("processes", [False, True])
def test_a_plain_script_needs_no_guard(tmp_path: Path, leaves_nothing: None, processes: bool) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(f"""
        from {harness.__name__} import Cluster
        print("once")
        with Cluster(brokers=2, processes={processes}) as cluster:
            cluster.kill(1)
            cluster.restart(1)
            print(len(cluster.bootstrap.split(",")))
        """)
    )
    done = subprocess.run(
        [sys.executable, script], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "once\n2\n", "")


# -- what goes wrong -------------------------------------------------------------------------------------------------


@SELDOM_WITH_PROCESSES
def test_a_broker_that_cannot_start_is_told_at_once(
    cluster_factory: ClusterFactory, own_tmp: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.CRITICAL)
    cluster = cluster_factory(actors=[ExtraActor(f"{__name__}:Deaf", "deaf")])
    children, began = living_children(), time.monotonic()
    with pytest.raises(HarnessError, match=r"did not start: broker \d ended"):
        cluster.start()
    assert time.monotonic() - began < TOLD_SECONDS_MAX
    assert living_children() <= children
    assert list(own_tmp.iterdir()) == []


@SELDOM_WITH_PROCESSES
def test_a_broker_that_cannot_start_again_is_told_at_once(
    cluster_factory: ClusterFactory, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.CRITICAL)
    with cluster_factory(data_dir=tmp_path) as cluster:
        cluster.kill(2)
        meta = tmp_path / "2" / "meta.properties"
        meta.write_text(meta.read_text().replace("node.id=2", "node.id=9"))
        with pytest.raises(HarnessError, match="did not restart broker 2: broker 2 ended"):
            cluster.restart(2)
        meta.write_text(meta.read_text().replace("node.id=9", "node.id=2"))
        cluster.restart(2)
        assert cluster.ask("echo@2", say(1)).number == 1


def test_an_interrupted_start_leaves_nothing(
    cluster_factory: ClusterFactory, own_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Ctrl-C or a test's timeout would, at a moment when the brokers cannot be ready yet."""
    cluster, children = cluster_factory(), living_children()
    monkeypatch.setattr(cluster, "_all_linked", lambda *_: False)
    main_thread = threading.main_thread().ident
    assert main_thread is not None
    begun = threading.Timer(0.2, signal.pthread_kill, (main_thread, signal.SIGINT))
    begun.start()
    with pytest.raises(KeyboardInterrupt):
        cluster.start()
    begun.join()
    assert living_children() <= children
    assert list(own_tmp.iterdir()) == []


def test_a_start_that_is_interrupted_before_its_thread_runs_makes_no_cluster(
    leaves_nothing: None, own_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(concurrent.futures.Future[None]):
        def result(self, timeout: float | None = None) -> None:
            raise KeyboardInterrupt

    class Late(threading.Thread):
        """Runs when it is waited for."""

        def start(self) -> None: ...

        def join(self, timeout: float | None = None) -> None:
            super().start()
            super().join(timeout)

    monkeypatch.setattr(concurrent.futures, "Future", Interrupted)
    monkeypatch.setattr(threading, "Thread", Late)
    cluster = Cluster(1)
    with pytest.raises(KeyboardInterrupt):
        cluster.start()
    assert list(own_tmp.iterdir()) == []
    cluster.stop()


def test_the_end_of_a_cluster_tells_what_made_its_thread_fail(leaves_nothing: None, own_tmp: Path) -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    cluster = Cluster(1)
    cluster.start()
    assert cluster._soon(cluster._nursery.start_soon, fail)
    with pytest.raises(ExceptionGroup) as caught:
        cluster.stop()
    assert caught.group_contains(ZeroDivisionError)
    assert list(own_tmp.iterdir()) == []
    cluster.stop()


@pytest.mark.parametrize(
    ("misuse", "complaint"),
    [
        (lambda cluster: cluster.kill(4), "there is no broker 4; this cluster has 1, 2, 3"),
        (lambda cluster: cluster.restart(0), "there is no broker 0"),
        (lambda cluster: cluster.restart(1), "broker 1 is alive; kill it first"),
        (lambda cluster: cluster.cut(1, 1), "broker 1 has no link to itself"),
        (lambda cluster: cluster.cut(1, 9), "there is no broker 9"),
        (lambda cluster: cluster.start(), "runs already"),
        (lambda cluster: cluster.pause(7), "there is no broker 7"),
    ],
    ids=["kill 4", "restart 0", "restart the living", "cut itself", "cut 9", "start twice", "pause 7"],
)
def test_misuse_of_a_running_cluster(leaves_nothing: None, misuse: Any, complaint: str) -> None:
    with Cluster() as cluster:
        with pytest.raises(HarnessError, match=complaint):
            misuse(cluster)
        assert cluster.alive == (1, 2, 3)


@pytest.mark.parametrize(
    "misuse",
    [
        lambda cluster: cluster.kill(1),
        lambda cluster: cluster.restart(1),
        lambda cluster: cluster.cut(1, 2),
        lambda cluster: cluster.heal(),
        lambda cluster: cluster.bootstrap,
        lambda cluster: cluster.pids,
        lambda cluster: cluster.alive,
        lambda cluster: cluster.ask("echo@1", say(1)),
        lambda cluster: cluster.tell("echo@1", say(1)),
    ],
    ids=["kill", "restart", "cut", "heal", "bootstrap", "pids", "alive", "ask", "tell"],
)
def test_a_cluster_that_does_not_run_says_so(leaves_nothing: None, misuse: Any) -> None:
    cluster = Cluster(2)
    with pytest.raises(HarnessError, match="does not run"):
        misuse(cluster)
    with cluster:
        pass
    with pytest.raises(HarnessError, match="does not run"):
        misuse(cluster)


def test_a_cluster_of_nobody_is_refused() -> None:
    with pytest.raises(HarnessError, match="at least one broker, not 0"):
        Cluster(0)


@SELDOM_WITH_PROCESSES
def test_the_dead_cannot_be_paused(cluster_factory: ClusterFactory) -> None:
    with cluster_factory() as cluster:
        cluster.kill(1)
        with pytest.raises(HarnessError, match="broker 1 is dead"):
            cluster.pause(1)


def test_another_loop_awaits_the_answer_of_an_actor_of_the_cluster(shared: Cluster) -> None:
    async def main() -> object:
        return await shared.ref("broker@1").ask(HealLinks(), block=False, timeout=5)

    assert trio.run(main) is None


@SELDOM_WITH_PROCESSES
def test_an_ask_to_a_cluster_that_has_ended_fails_and_does_not_wait(cluster_factory: ClusterFactory) -> None:
    cluster = cluster_factory(brokers=1)
    with cluster:
        ref = cluster.ref("broker@1")
    with pytest.raises(pykka.ActorDeadError):
        ref.ask(HealLinks())


def test_a_cluster_that_takes_too_long_to_start_says_so_and_leaves_nothing(
    leaves_nothing: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness, "START_SECONDS", 0.0)
    with pytest.raises(HarnessError, match="the cluster did not start within 0 s"):
        Cluster(1).start()
