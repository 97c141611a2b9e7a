"""Links over real sockets: two nodes in one loop, or one node and a raw socket that misbehaves."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from actors.runtime import Address, LinkLost, MailboxFull, Payload, PeerDown, PeerUp, RemoteFailure, handles
from actors.runtime import scheduler as scheduler_module
from actors.runtime.errors import FrameError, HandshakeRefused
from actors.runtime.links import link as link_module
from actors.runtime.links import socket_transport as transport_module
from actors.runtime.links.frames import LINK_VERSION, FrameKind, LinkFrameReader, header
from actors.runtime.links.link import Link
from actors.runtime.links.socket_transport import Hello, SocketTransport, run_link
from tests.actors.runtime.probes import (
    CLUSTER,
    PATIENCE_SECONDS,
    Bulk,
    Events,
    Fail,
    Local,
    Note,
    Numbered,
    Owe,
    Pair,
    Probe,
    linked_pair,
    make_node,
    probe_on,
    running,
    welcome_all,
)

MEGABYTE = 1 << 20
PATTERN = bytes(range(256)) * (MEGABYTE // 256)


# -- two nodes -------------------------------------------------------------------------------------------------------


async def test_asks_go_both_ways() -> None:
    async with linked_pair() as pair:
        assert await pair.one.ref(pair.at_other).ask(Note("there"), block=False) == "there"
        assert await pair.other.ref(pair.at_one).ask(Note("and back"), block=False) == "and back"


async def test_an_actor_is_stopped_from_another_process_and_the_second_stop_finds_nobody() -> None:
    async with linked_pair() as pair:
        ref = pair.one.ref(pair.at_other)
        assert await ref.stop(block=False) is True
        assert await ref.stop(block=False) is False
        with pytest.raises(TypeError, match="another process"):
            ref.proxy()


async def test_tells_come_in_order_both_ways() -> None:
    async with linked_pair() as pair:
        for number in range(2000):
            pair.one.ref(pair.at_other).tell(Numbered(number))
            pair.other.ref(pair.at_one).tell(Numbered(-number))
        await pair.seen_by_other.wait_for(Numbered, 2000)
        await pair.seen_by_one.wait_for(Numbered, 2000)
        assert [m.number for m in pair.seen_by_other.of(Numbered)] == list(range(2000))
        assert [m.number for m in pair.seen_by_one.of(Numbered)] == [-number for number in range(2000)]


async def test_large_and_small_payloads_come_intact_and_in_order() -> None:
    sizes = [0, 1, 4096, 4097, 16 << 10, 100_000, MEGABYTE, 5 * MEGABYTE, 3]
    async with linked_pair() as pair:
        data = (PATTERN * 5)[: max(sizes)]
        for number, size in enumerate(sizes):
            pair.one.ref(pair.at_other).tell(Bulk(number, Payload(memoryview(data)[:size])))
        await pair.seen_by_other.wait_for(Bulk, len(sizes))
        came = pair.seen_by_other.of(Bulk)
        assert [message.number for message in came] == list(range(len(sizes)))
        assert all(bytes(message.data) == data[:size] for message, size in zip(came, sizes, strict=True))


async def test_a_megabyte_goes_there_and_back() -> None:
    async with linked_pair() as pair:
        answers = [
            await pair.one.ref(pair.at_other).ask(Bulk(number, Payload(memoryview(PATTERN))), block=False)
            for number in range(5)
        ]
        assert [answer.number for answer in answers] == list(range(5))
        assert all(answer.data == PATTERN for answer in answers)


async def test_failures_cross_the_border_and_both_sides_live_on() -> None:
    async with linked_pair() as pair:
        ref = pair.one.ref(pair.at_other)
        with pytest.raises(RemoteFailure, match="broker 2: ValueError: no"):
            await ref.ask(Fail("no"), block=False)
        with pytest.raises(RemoteFailure, match="broker 2: ValueError: xü漢"):
            await ref.ask(Fail("xü" + "漢" * 5000), block=False)
        assert await ref.ask(Note("fine"), block=False) == "fine"


async def test_a_peer_that_goes_away_is_noticed_at_once_and_asks_end_with_link_lost() -> None:
    pair = Pair()
    async with running(pair.scheduler) as nursery:
        _, other_side = await pair.connect(nursery)
        asked = pair.one.ref(pair.at_other).ask(Owe("x"), block=False)
        await pair.seen_by_other.wait_until(lambda: "x" in pair.seen_by_other.all)
        other_side.cancel()
        with trio.fail_after(PATIENCE_SECONDS), pytest.raises(LinkLost):
            await asked
        assert (await pair.seen_by_one.wait_for(PeerDown)).broker == 2
        assert pair.one.links == {}


async def test_a_new_connection_fails_the_asks_of_the_old_one_and_delivers_nothing_twice() -> None:
    pair = Pair()
    async with running(pair.scheduler) as nursery:
        await pair.connect(nursery)
        ref = pair.one.ref(pair.at_other)
        old = ref.ask(Owe("old"), block=False)
        for number in range(100):
            ref.tell(Numbered(number))
        await pair.seen_by_other.wait_for(Numbered, 100)
        await pair.connect(nursery)
        with pytest.raises(LinkLost, match=r"replaced by a new connection|closed by the peer"):
            await old
        for number in range(100, 200):
            ref.tell(Numbered(number))
        assert await ref.ask(Note("new"), block=False) == "new"
        assert [m.number for m in pair.seen_by_other.of(Numbered)] == list(range(200))
        for seen in (pair.seen_by_one, pair.seen_by_other):
            assert [type(event) for event in seen.all if type(event) in (PeerUp, PeerDown)] == [
                PeerUp,
                PeerDown,
                PeerUp,
            ]


async def test_a_lost_link_drops_what_was_not_yet_sent_and_the_loop_goes_on() -> None:
    pair = Pair()
    async with running(pair.scheduler) as nursery:
        await pair.connect(nursery)
        await trio.testing.wait_all_tasks_blocked()
        for number in range(20):
            pair.one.ref(pair.at_other).tell(Bulk(number, Payload(memoryview(PATTERN))))
        pair.scheduler.turn()  # the socket takes a part; the writer task is woken for the rest …
        pair.one.links[2].lose("cut")  # … and finds the socket closed
        await pair.seen_by_other.wait_for(PeerDown)
        await trio.testing.wait_all_tasks_blocked()
        await pair.connect(nursery)
        assert await pair.one.ref(pair.at_other).ask(Note("again"), block=False) == "again"


class Restless(Probe):
    """Has always something left to do."""

    @handles(Local)
    def record(self, message: Local) -> None:
        self.send(self.address, message)


async def test_a_link_may_be_lost_while_its_reader_waits_for_busy_actors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler_module, "TURN_SECONDS", 0.0)
    pair = Pair()
    async with running(pair.scheduler) as nursery:
        await pair.connect(nursery)
        pair.other.spawn(Restless, address=Address("restless", "", 2)).tell(Local())
        link = pair.other.links[1]
        assert isinstance(link, Link)
        with trio.fail_after(PATIENCE_SECONDS):
            while link.reading:
                pair.one.ref(pair.at_other).tell(Numbered(1))
                await trio.lowlevel.checkpoint()
            link.lose("cut")
            for _ in range(2 * transport_module._READER_PATIENCE_TURNS):
                await trio.lowlevel.checkpoint()  # until it looks again
        nursery.cancel_scope.cancel()


async def test_links_leave_no_descriptor_behind() -> None:
    descriptors = []
    for _ in range(2):  # what links are read with is opened with the first one, and stays
        async with linked_pair() as pair:
            await pair.one.ref(pair.at_other).ask(Note("x"), block=False)
        descriptors.append(set(os.listdir("/proc/self/fd")))
    assert descriptors[1] <= descriptors[0]


# -- a node and a raw socket -------------------------------------------------------------------------------------------


class Raw:
    """The other end of a node's link, played by the test."""

    def __init__(self, sock: trio.socket.SocketType, events: Events) -> None:
        self.sock = sock
        self.events = events
        self.result: str | BaseException | None = None
        self.ended = trio.Event()
        self._reader = LinkFrameReader()

    async def send(self, data: bytes) -> None:
        with trio.fail_after(PATIENCE_SECONDS):
            while data:
                data = data[await self.sock.send(data) :]

    async def shake_hands(self, broker: int = 9) -> None:
        await self.send(Hello(CLUSTER, broker, 1).encode() + header(FrameKind.WELCOME, 0, 0, b"", b"", 0))
        await self.events.wait_for(PeerUp)

    async def read_until(self, kind: FrameKind) -> bytes:
        """Read on to a frame of this kind; its body."""
        with trio.fail_after(PATIENCE_SECONDS):
            while True:
                count = await self.sock.recv_into(self._reader.space)
                assert count, f"the connection ended before {kind!r}"
                for frame in self._reader.received(count):
                    if frame.kind is kind:
                        return bytes(frame.body)

    async def read_to_end(self) -> None:
        with trio.fail_after(PATIENCE_SECONDS):
            while await self.sock.recv(MEGABYTE):
                pass

    async def outcome(self) -> str | BaseException | None:
        """How the node's side of the link ended."""
        with trio.fail_after(PATIENCE_SECONDS):
            await self.ended.wait()
        return self.result


@asynccontextmanager
async def raw_peer(welcome: Callable[[Hello], None] = welcome_all) -> AsyncIterator[tuple[Pair, Raw]]:
    """Two nodes with a link, and a raw socket into the first: what it does must not touch the second."""
    pair = Pair()
    events = pair.seen_by_one
    ours, theirs = socket.socketpair()
    async with running(pair.scheduler) as nursery:
        raw = Raw(trio.socket.from_stdlib_socket(theirs), events)

        async def run_side() -> None:
            with ours:
                try:
                    raw.result = await run_link(pair.one, ours, Hello(CLUSTER, 1, 1001), welcome)
                except (FrameError, HandshakeRefused) as error:
                    raw.result = error
                finally:
                    raw.ended.set()

        nursery.start_soon(run_side)
        with raw.sock:
            yield pair, raw


async def test_a_link_that_breaks_in_the_middle_of_a_frame_is_reported_and_asks_end() -> None:
    async with raw_peer() as (pair, raw):
        await raw.shake_hands()
        asked = pair.one.ref(Address("probe", "", 9)).ask(Note("x"), block=False)
        await raw.read_until(FrameKind.ASK)
        await raw.send(header(FrameKind.TELL, 0x7000, 0, b"probe@1", b"a whole frame", 100)[:-5])
        raw.sock.close()
        assert await raw.outcome() == "closed in the middle of a frame"
        with pytest.raises(LinkLost, match="closed in the middle of a frame"):
            await asked
        assert await pair.seen_by_one.wait_for(PeerDown) == PeerDown(9, "closed in the middle of a frame")


@pytest.mark.parametrize(
    "garbage",
    [b"\xff" * 100, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", bytes(64), struct.pack(">I", 20) + bytes(20)],
    ids=["ff", "http", "zeros", "kind 0"],
)
async def test_garbage_closes_that_link_only(garbage: bytes) -> None:
    async with raw_peer() as (pair, raw):
        await raw.shake_hands()
        async with trio.open_nursery() as nursery:
            await pair.connect(nursery)
            await raw.send(garbage)
            assert str(await raw.outcome()).startswith("protocol error: ")
            await raw.read_to_end()
            assert list(pair.one.links) == [2]
            assert await pair.one.ref(pair.at_other).ask(Note("fine"), block=False) == "fine"
            nursery.cancel_scope.cancel()


async def test_frames_that_come_with_the_handshake_are_not_lost() -> None:
    async with raw_peer() as (pair, raw):
        tell = header(FrameKind.TELL, 0x7000, 0, b"probe@1", struct.pack(">I", 5) + b"early", 0)
        welcome = header(FrameKind.WELCOME, 0, 0, b"", b"", 0)
        await raw.send(Hello(CLUSTER, 9, 1).encode() + welcome + tell)
        await pair.seen_by_one.wait_until(lambda: "early" in pair.seen_by_one.all)


async def test_a_handshake_may_come_byte_by_byte() -> None:
    async with raw_peer() as (pair, raw):
        for byte in Hello(CLUSTER, 9, 1).encode() + header(FrameKind.WELCOME, 0, 0, b"", b"", 0):
            await raw.send(bytes([byte]))
            await trio.testing.wait_all_tasks_blocked()
        assert await pair.seen_by_one.wait_for(PeerUp) == PeerUp(9, 1)


async def test_a_peer_that_stops_reading_fills_the_outbox_and_is_served_again_when_it_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link_module, "OUTBOX_BYTES_MAX", 4 * MEGABYTE)
    async with raw_peer() as (pair, raw):
        await raw.shake_hands()
        ref = pair.one.ref(Address("probe", "", 9))
        sent = 0
        link = pair.one.links[9]
        assert isinstance(link, Link)
        while link._transport.queued_bytes <= 4 * MEGABYTE:
            ref.tell(Bulk(sent, Payload(memoryview(PATTERN))))
            sent += 1
            await trio.testing.wait_all_tasks_blocked()
        assert 4 < sent < 20
        with pytest.raises(MailboxFull, match="bytes wait for broker 9; try again later"):
            ref.tell(Bulk(sent, Payload(memoryview(PATTERN))))
        with pytest.raises(MailboxFull):
            await ref.ask(Note("x"), block=False)
        reader, whole = LinkFrameReader(), True
        numbers: list[int] = []
        with trio.fail_after(PATIENCE_SECONDS):
            while len(numbers) < sent:
                count = await raw.sock.recv_into(reader.space)
                for frame in reader.received(count):
                    if frame.kind is FrameKind.TELL:
                        numbers.append(struct.unpack(">q", frame.body)[0])
                        whole = whole and frame.payload == PATTERN
        assert numbers == list(range(sent))
        assert whole
        ref.tell(Note("room again"))
        await trio.testing.wait_all_tasks_blocked()
        assert link._transport.queued_bytes == 0


# -- handshakes ------------------------------------------------------------------------------------------------------


async def shake(hello: Hello, other: Hello, welcome: Callable[[Hello], None]) -> tuple[list[object], list[Events]]:
    """Let two nodes try; how it ended on both sides, and what their watchers were told."""
    outcomes: list[object] = [None, None]
    nodes = [make_node(1), make_node(2)]
    seen = [probe_on(node)[1] for node in nodes]

    async def run_side(side: int, sock: socket.socket, hello: Hello) -> None:
        with sock:
            try:
                outcomes[side] = await run_link(nodes[side], sock, hello, welcome if side == 0 else welcome_all)
            except (FrameError, HandshakeRefused) as error:
                outcomes[side] = error

    with trio.fail_after(PATIENCE_SECONDS):
        async with trio.open_nursery() as nursery:
            for side, (sock, said) in enumerate(zip(socket.socketpair(), (hello, other), strict=True)):
                nursery.start_soon(run_side, side, sock, said)
    for node in nodes:
        node.scheduler.turn()
    return outcomes, seen


async def test_a_peer_that_is_not_welcome_is_told_why_and_neither_side_ever_sees_a_link() -> None:
    def refuse(hello: Hello) -> None:
        raise HandshakeRefused(f"broker {hello.broker} is of cluster {hello.cluster!r}, not 'tests'")

    outcomes, seen = await shake(Hello(CLUSTER, 1, 1), Hello("other", 2, 2), refuse)
    for outcome in outcomes:
        assert isinstance(outcome, HandshakeRefused)
        assert str(outcome) == "broker 2 is of cluster 'other', not 'tests'"
    assert [events.all for events in seen] == [[], []]


async def test_another_link_version_is_refused_with_a_clear_message() -> None:
    for version in (LINK_VERSION + 1, 0):
        async with raw_peer() as (pair, raw):
            hello = bytearray(Hello(CLUSTER, 9, 1).encode())
            at = hello.index(b"BRNB") + 4
            hello[at : at + 2] = struct.pack(">H", version)
            await raw.send(bytes(hello))
            outcome = await raw.outcome()
            assert isinstance(outcome, HandshakeRefused)
            assert str(outcome) == f"broker 9 speaks link version {version}, we speak {LINK_VERSION}"
            assert pair.seen_by_one.all == []


@pytest.mark.parametrize(
    "first",
    [b"\xff" * 64, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", header(FrameKind.PING, 0, 0, b"", b"", 0),
     header(FrameKind.HELLO, 0, 0, b"", b"short", 0), header(FrameKind.HELLO, 0, 0, b"", b"XXXX" + bytes(14), 0),
     header(FrameKind.WELCOME, 0, 0, b"", b"", 0)],
    ids=["ff", "http", "ping", "short", "magic", "welcome"],
)  # fmt: skip
async def test_a_stranger_is_sent_away(first: bytes) -> None:
    async with raw_peer() as (pair, raw):
        await raw.send(first)
        assert isinstance(await raw.outcome(), FrameError)
        assert pair.one.links == {}


async def test_a_cluster_name_that_is_no_text_is_an_unknown_name() -> None:
    def refuse(hello: Hello) -> None:
        raise HandshakeRefused(f"cluster {hello.cluster!r}")

    async with raw_peer(refuse) as (_, raw):
        body = struct.pack(">4sHiQ", b"BRNB", LINK_VERSION, 9, 1) + b"\xff\xfe"
        await raw.send(header(FrameKind.HELLO, 0, 0, b"", body, 0))
        assert isinstance(await raw.outcome(), HandshakeRefused)


async def test_a_peer_that_goes_in_the_middle_of_the_handshake_is_an_error() -> None:
    async with raw_peer() as (_, raw):
        await raw.read_until(FrameKind.HELLO)
        await raw.send(Hello(CLUSTER, 9, 1).encode()[:10])
        raw.sock.close()
        outcome = await raw.outcome()
        assert isinstance(outcome, FrameError)
        assert str(outcome) == "the connection ended in the middle of the handshake"


async def test_a_peer_that_says_nothing_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_module, "HANDSHAKE_SECONDS", 0.01)
    async with raw_peer() as (_, raw):
        outcome = await raw.outcome()
        assert isinstance(outcome, FrameError)
        assert str(outcome) == "no handshake within 0.01 s"


def test_a_hello_survives_its_frame() -> None:
    hello = Hello("clüster", -1, 2**64 - 1)
    reader = LinkFrameReader()
    data = hello.encode()
    reader.space[: len(data)] = data
    (frame,) = reader.received(len(data))
    assert Hello.decode(frame) == hello


# -- the transport alone -----------------------------------------------------------------------------------------------


async def test_large_payloads_are_queued_as_views_of_the_very_same_buffer() -> None:
    one, other = socket.socketpair()
    with one, other:
        transport = SocketTransport(one)
        data = bytearray(PATTERN)
        transport.write(b"head", data)
        assert any(isinstance(part, memoryview) and part.obj is data for part in transport._queue)
        transport.close()


async def test_a_closed_transport_takes_nothing_and_holds_nothing() -> None:
    one, other = socket.socketpair()
    with one, other:
        transport = SocketTransport(one)
        transport.write(b"head", PATTERN)
        transport.close()
        transport.close()
        transport.write(b"head", PATTERN)
        transport.flush()
        assert transport.queued_bytes == 0
        assert one.fileno() == -1
