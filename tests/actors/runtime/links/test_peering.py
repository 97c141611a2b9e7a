"""Which process dials which, over AF_UNIX paths."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import trio

from actors.runtime import LAUNCHER_ID, Node, PeerDown, PeerUp, Scheduler, SystemClock
from actors.runtime.links.frames import FrameKind, header
from actors.runtime.links.peering import Peering
from actors.runtime.links.socket_transport import Hello
from tests.actors.runtime.probes import CLUSTER, PATIENCE_SECONDS, Events, Note, make_node, probe_on, running


@pytest.fixture
def directory() -> Iterator[Path]:
    """A short path: pytest's own may be too long for a socket."""
    with TemporaryDirectory(prefix="bp", dir="/tmp") as path:
        yield Path(path)


class Member:
    """A node with its peering."""

    def __init__(
        self,
        broker: int,
        scheduler: Scheduler,
        directory: Path,
        *,
        peers: tuple[int, ...] = (1, 2, 3),
        cluster: str = CLUSTER,
    ) -> None:
        self.node: Node = make_node(broker, scheduler)
        self.address, self.events = probe_on(self.node)
        self.peering = Peering(self.node, cluster, directory, peers)
        self.life = trio.CancelScope()
        self.ended = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        with self.life:
            await self.peering.run(task_status=task_status)
        self.node.crash()
        self.ended.set()

    async def die(self) -> None:
        self.life.cancel()
        await self.ended.wait()


@asynccontextmanager
async def members(directory: Path, *brokers: int) -> AsyncIterator[tuple[trio.Nursery, list[Member]]]:
    scheduler = Scheduler(SystemClock())
    async with running(scheduler) as nursery:
        made = [Member(broker, scheduler, directory) for broker in brokers]
        for member in made:
            await nursery.start(member.run)
        yield nursery, made


async def up(member: Member, peer: int, count: int = 1) -> None:
    def ups() -> int:
        return sum(event.broker == peer for event in member.events.of(PeerUp))

    await member.events.wait_until(lambda: ups() >= count)


async def test_every_pair_of_nodes_gets_one_link(directory: Path) -> None:
    async with members(directory, 1, 2, 3) as (_, made):
        for member in made:
            for other in made:
                if other is not member:
                    await up(member, other.node.broker)
                    asked = member.node.ref(other.address).ask(Note("x"), block=False)
                    assert await asked == "x"
        assert [sorted(member.node.links) for member in made] == [[2, 3], [1, 3], [1, 2]]
        assert all(member.events.of(PeerDown) == [] for member in made)


async def test_a_node_that_is_born_late_is_found(directory: Path) -> None:
    async with members(directory, 2) as (nursery, (two,)):
        one = Member(1, two.node.scheduler, directory)
        await nursery.start(one.run)
        await up(two, 1)
        await up(one, 2)


@pytest.mark.parametrize("broker", [1, 2], ids=["the one that is dialled", "the one that dials"])
async def test_a_node_that_goes_away_and_comes_back_is_linked_again(directory: Path, broker: int) -> None:
    async with members(directory, 1, 2) as (nursery, made):
        mortal, other = made if broker == 1 else reversed(made)
        await up(other, broker)
        await mortal.die()
        assert await other.events.wait_for(PeerDown) == PeerDown(broker, "closed by the peer")
        assert not (directory / f"{broker}.sock").exists()
        reborn = Member(broker, other.node.scheduler, directory)
        await nursery.start(reborn.run)
        await up(other, broker, 2)
        await up(reborn, other.node.broker)
        assert await other.node.ref(reborn.address).ask(Note("back"), block=False) == "back"


@pytest.mark.parametrize("by", [1, 2], ids=["by the one that is dialled", "by the one that dials"])
async def test_a_link_that_is_cut_stays_cut_until_it_is_healed(directory: Path, by: int) -> None:
    async with members(directory, 1, 2, 3) as (_, made):
        cutter, other, third = made[by - 1], made[2 - by], made[2]
        await up(cutter, other.node.broker)
        await up(other, by)
        await up(third, by)
        cutter.peering.cut(other.node.broker)
        assert await cutter.events.wait_for(PeerDown) == PeerDown(other.node.broker, "cut")
        await other.events.wait_for(PeerDown)
        with trio.move_on_after(0.1):  # many times the pause between two attempts to dial
            await up(other, by, 2)
        assert by not in other.node.links
        assert [type(event) for event in other.events.all if getattr(event, "broker", 0) == by] == [PeerUp, PeerDown]
        assert await third.node.ref(cutter.address).ask(Note("the third is not touched"), block=False)
        cutter.peering.heal()
        await up(cutter, other.node.broker, 2)
        await up(other, by, 2)
        assert await other.node.ref(cutter.address).ask(Note("healed"), block=False) == "healed"


async def test_a_socket_file_of_an_earlier_life_is_no_obstacle(directory: Path) -> None:
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(os.fspath(directory / "1.sock"))
    async with members(directory, 1, 2) as (_, (one, two)):
        await up(one, 2)
        await up(two, 1)


async def test_the_socket_file_goes_with_its_node_and_no_descriptor_is_left(directory: Path) -> None:
    descriptors = []
    for _ in range(2):  # what links are read with is opened with the first one, and stays
        async with members(directory, 1, 2) as (_, (one, two)):
            await up(one, 2)
            await up(two, 1)
            assert sorted(os.listdir(directory)) == ["1.sock", "2.sock"]
        assert os.listdir(directory) == []
        descriptors.append(set(os.listdir("/proc/self/fd")))
    assert descriptors[1] <= descriptors[0]


# -- who is not welcome ------------------------------------------------------------------------------------------------


async def dialled(directory: Path, first: bytes) -> bytes:
    """What node 1 says to somebody who dials and says this."""
    with trio.socket.socket(socket.AF_UNIX) as sock:
        await sock.connect(os.fspath(directory / "1.sock"))
        await sock.send(first)
        said = b""
        with trio.fail_after(PATIENCE_SECONDS):
            while data := await sock.recv(65_536):
                said += data
        return said


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        (Hello("elsewhere", 2, 1), "broker 2 is of cluster 'elsewhere', not 'tests'"),
        (Hello(CLUSTER, 7, 1), "broker 7 is not in this cluster's file"),
    ],
)
async def test_a_stranger_is_refused_with_the_reason_on_both_sides(
    directory: Path, hello: Hello, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with members(directory, 1) as (_, (one,)):
        said = await dialled(directory, hello.encode())
        assert header(FrameKind.REFUSED, 0, 0, b"", reason.encode(), 0) in said
        assert one.events.all == []
    assert f"link: no handshake: {reason}" in [record.getMessage() for record in caplog.records]


async def test_a_node_of_another_cluster_reads_why_it_is_refused(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with members(directory, 1) as (nursery, (one,)):
        other = Member(2, one.node.scheduler, directory, cluster="elsewhere")
        seen = Events()
        other.node.log.warning = lambda text, *args: seen.append(text % args)  # type: ignore[method-assign]
        await nursery.start(other.run)
        await seen.wait_for(str)
        assert "of cluster" in seen.all[0]
        assert one.events.all == other.events.all == []
    assert caplog.text


async def test_the_one_that_dials_checks_who_answers(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with members(directory, 1) as (nursery, (one,)):
        (directory / "0.sock").symlink_to(directory / "1.sock")
        lost = Member(2, one.node.scheduler, directory, peers=(0,))
        seen = Events()
        lost.node.log.warning = lambda text, *args: seen.append(text % args)  # type: ignore[method-assign]
        await nursery.start(lost.run)
        await seen.wait_for(str)
        assert seen.all[0] == "link: no handshake: broker 0 was expected, broker 1 answered"
        assert lost.events.all == one.events.all == []
        await lost.die()
        (directory / "0.sock").unlink()
    assert caplog.text


@pytest.mark.parametrize(
    "first", [b"\xff" * 64, b"", b"GET / HTTP/1.1\r\n\r\n" * 4, Hello("\u6f22", 2, 1).encode()[:-1]]
)
async def test_nonsense_at_the_door_hurts_nobody(directory: Path, first: bytes) -> None:
    async with members(directory, 1, 2) as (_, (one, two)):
        await up(one, 2)
        await up(two, 1)
        with trio.socket.socket(socket.AF_UNIX) as sock:
            await sock.connect(os.fspath(directory / "1.sock"))
            if first:
                await sock.send(first)
        assert await two.node.ref(one.address).ask(Note("fine"), block=False) == "fine"
        body = Hello(CLUSTER, 2, 1).encode()[21:-5] + b"\xff\xfe"
        await dialled(directory, header(FrameKind.HELLO, 0, 0, b"", body, 0))
        assert await two.node.ref(one.address).ask(Note("fine"), block=False) == "fine"
        assert one.events.of(PeerDown) == []


# -- paths -----------------------------------------------------------------------------------------------------------


def test_a_path_that_is_too_long_is_a_clear_error() -> None:
    directory = Path("/tmp") / ("x" * 100)
    with pytest.raises(ValueError, match=r"1\.sock is too long for a socket: 103 bytes are allowed"):
        Peering(make_node(1), CLUSTER, directory, [1, 2])


@pytest.mark.parametrize("peer", [LAUNCHER_ID, 1_000_000_000])
def test_so_it_is_if_only_a_peers_path_is_too_long(peer: int) -> None:
    directory = Path("/" + "x" * (103 - len("/1.sock") - 1))
    Peering(make_node(1), CLUSTER, directory, [1, 2])
    with pytest.raises(ValueError, match="is too long for a socket"):
        Peering(make_node(1), CLUSTER, directory, [1, peer])


def test_everybody_agrees_on_the_paths(directory: Path) -> None:
    one, launcher = (Peering(make_node(broker), CLUSTER, directory, [1]) for broker in (1, LAUNCHER_ID))
    for broker, name in [(1, "1.sock"), (LAUNCHER_ID, "launcher.sock")]:
        assert one.path_of(broker) == launcher.path_of(broker) == directory / name
