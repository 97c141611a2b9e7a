"""What two nodes say to each other: one end of a link in virtual time, with the test as the other end."""

from __future__ import annotations

import gc
import logging
import queue
from typing import Any

import pykka
import pytest

from actors.runtime import LAUNCHER_ID, Address, LinkLost, MailboxFull, PeerDown, PeerUp, RemoteFailure, handles
from actors.runtime.errors import FrameError
from actors.runtime.links import frames
from actors.runtime.links import link as link_module
from actors.runtime.links.codec import Buffer, encode
from actors.runtime.links.frames import Frame, FrameKind, LinkFrameReader, header
from actors.runtime.links.link import PING_SECONDS, SILENCE_SECONDS, Link
from tests.actors.runtime.probes import Bulk, Events, Fail, Local, Note, Numbered, Owe, Probe, World, actor_of


class Tape:
    """A transport that only writes down what it is given."""

    def __init__(self) -> None:
        self.queued_bytes = 0
        self.written: list[tuple[bytes, Buffer]] = []
        self.flushes = 0
        self.closed = False

    def write(self, head: bytes, payload: Buffer) -> None:
        self.written.append((head, payload))

    def flush(self) -> None:
        self.flushes += 1

    def close(self) -> None:
        self.closed = True

    def frames(self) -> list[Frame]:
        """What was written since the last look."""
        written, self.written = self.written, []
        return parse(b"".join(head + bytes(payload) for head, payload in written))


def parse(data: bytes) -> list[Frame]:
    reader = LinkFrameReader()
    reader.space[: len(data)] = data
    return list(reader.received(len(data)))


class End:
    """Node 1 with a link to a node 2 that the test plays."""

    def __init__(self, broker: int = 1, peer: int = 2) -> None:
        self.world = World(broker)
        self.node = self.world.node
        self.tape = Tape()
        self.ref, self.events = self.world.probe()
        self.node.watch_peers(self.world.address())
        self.link = Link(self.node, peer, 77, self.tape)
        self.world.scheduler.turn(self.link.up)
        self.far = Address("probe", "far", peer)

    def receive(self, kind: FrameKind, message: Any = None, *, ask_id: int = 0, address: bytes = b"probe@1") -> None:
        message_id, body, payload = encode(message) if message is not None else (0, b"", b"")
        self.receive_raw(kind, message_id, ask_id, address, body, bytes(payload))

    def receive_raw(
        self,
        kind: FrameKind,
        message_id: int = 0,
        ask_id: int = 0,
        address: bytes = b"",
        body: bytes = b"",
        data: bytes = b"",
    ) -> None:
        frames = parse(header(kind, message_id, ask_id, address, body, len(data)) + data)
        self.world.scheduler.turn(lambda: self.link.receive_all(frames))

    def answers(self) -> list[Frame]:
        return [frame for frame in self.tape.frames() if frame.kind in (FrameKind.ANSWER, FrameKind.FAILURE)]


# -- tells and asks --------------------------------------------------------------------------------------------------


def test_a_tell_is_one_frame_and_what_a_turn_wrote_is_flushed_once() -> None:
    end = End()
    flushes = end.tape.flushes

    def tell_thrice() -> None:
        for number in range(3):
            end.node.ref(end.far).tell(Numbered(number))

    end.world.scheduler.turn(tell_thrice)
    frames = end.tape.frames()
    assert [(frame.kind, frame.address, frame.ask_id) for frame in frames] == [(FrameKind.TELL, b"probe/far@2", 0)] * 3
    assert end.tape.flushes == flushes + 1


def test_bulk_bytes_reach_the_transport_as_the_very_same_buffer() -> None:
    end = End()
    data = bytearray(b"x" * 100_000)
    end.node.ref(end.far).tell(Bulk(1, data))  # type: ignore[arg-type]
    assert end.tape.written[-1][1] is data


def test_a_tell_from_the_peer_is_handled_in_the_turn_that_brought_it() -> None:
    end = End()
    end.receive(FrameKind.TELL, Note("hello"))
    assert end.events.all[-1] == "hello"


def test_an_ask_of_the_peer_is_answered_under_its_number() -> None:
    end = End()
    end.receive(FrameKind.ASK, Note("hello"), ask_id=41)
    end.receive(FrameKind.ASK, Bulk(1, b"data"), ask_id=42)  # type: ignore[arg-type]
    first, second = end.answers()
    assert (first.kind, first.ask_id, bytes(first.body)) == (FrameKind.ANSWER, 41, b"hello")
    assert (second.kind, second.ask_id, bytes(second.payload)) == (FrameKind.ANSWER, 42, b"data")


@pytest.mark.parametrize(
    ("message", "address", "body"),
    [
        (Fail("no"), b"probe@1", b"ValueError\nno"),
        (Note("x"), b"probe/nobody@1", b"ActorDeadError\nprobe/nobody@1 not found"),
        (Note("x"), b"probe/odd@1", b"ValueError\n\\udcff is no text"),
        (Note("x"), b"\xff\xfe", "ActorDeadError\n\ufffd\ufffd not found".encode()),
    ],
    ids=["failure", "nobody", "surrogate", "address of no text"],
)
def test_a_failed_ask_of_the_peer_is_answered_with_the_failure(message: Any, address: bytes, body: bytes) -> None:
    class Odd(Probe):
        @handles(Note)
        def note(self, _message: Note) -> str:
            raise ValueError("\udcff is no text")

    end = End()
    end.world.spawn(Odd, name="odd")
    end.receive(FrameKind.ASK, message, ask_id=5, address=address)
    (frame,) = end.answers()
    assert (frame.kind, frame.ask_id, bytes(frame.body)) == (FrameKind.FAILURE, 5, body)
    assert end.link.lost_because is None
    assert end.ref.is_alive()


def test_an_answer_that_cannot_travel_is_a_failure_for_the_asker_and_the_actor_lives() -> None:
    class Homebound(Probe):
        @handles(Note)
        def note(self, _message: Note) -> Any:
            return Local()

    end = End()
    ref = end.world.spawn(Homebound, name="home")
    end.receive(FrameKind.ASK, Note("x"), ask_id=5, address=b"probe/home@1")
    (frame,) = end.answers()
    assert frame.kind is FrameKind.FAILURE
    assert bytes(frame.body).startswith(b"CodecError\nLocal is not registered")
    assert ref.is_alive()


def test_an_answer_that_is_too_large_is_a_failure_for_the_asker_and_the_actor_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(frames, "FRAME_BYTES_MAX", 1000)
    end = End()

    class Large(Probe):
        @handles(Note)
        def note(self, _message: Note) -> Any:
            return b"x" * 2000

    ref = end.world.spawn(Large, name="large")
    end.receive(FrameKind.ASK, Note("x"), ask_id=5, address=b"probe/large@1")
    (frame,) = end.answers()
    assert frame.kind is FrameKind.FAILURE
    assert b"over the limit" in bytes(frame.body)
    assert ref.is_alive()


def test_a_second_answer_to_an_ask_of_the_peer_raises_and_is_not_sent() -> None:
    end = End()
    end.receive(FrameKind.ASK, Owe("x"), ask_id=5)
    reply = actor_of(end.ref).owed[0]
    reply.set("first")
    with pytest.raises(queue.Full):
        reply.set("second")
    with pytest.raises(queue.Full):
        reply.fail(ValueError("third"))
    assert len(end.answers()) == 1


@pytest.mark.parametrize("answer", ["value", "failure"])
def test_an_answer_that_was_given_holds_no_link(answer: str) -> None:
    """An actor keeps a few answers after they were given: lost links would stay with them, for as long as it lives."""
    end = End()
    end.receive(FrameKind.ASK, Owe("x"), ask_id=5)
    reply = actor_of(end.ref).owed[0]
    assert end.link in gc.get_referents(reply)
    if answer == "value":
        reply.set("done")
    else:
        reply.fail(ValueError("no"))
    assert end.link not in gc.get_referents(reply)
    assert len(end.answers()) == 1


def test_an_answer_comes_to_its_asker_and_to_nobody_else() -> None:
    end = End()
    asked = [end.node.ref(end.far).ask(Note(str(number)), block=False) for number in range(3)]
    ids = [frame.ask_id for frame in end.tape.frames() if frame.kind is FrameKind.ASK]
    assert len(set(ids)) == 3
    for number in (2, 0, 1):
        end.receive(FrameKind.ANSWER, f"answer {number}", ask_id=ids[number], address=b"")
    assert [future.get() for future in asked] == ["answer 0", "answer 1", "answer 2"]


@pytest.mark.parametrize(
    ("body", "error", "text"),
    [
        (b"ActorDeadError\nprobe/far@2 not found", pykka.ActorDeadError, "^probe/far@2 not found$"),
        (b"MailboxFull\nfull", MailboxFull, "^full$"),
        (b"Timeout\nlate", pykka.Timeout, "^late$"),
        (b"KeyError\n'x'", RemoteFailure, "^broker 2: KeyError: 'x'$"),
        (b"ValueError\na\nb", RemoteFailure, "^broker 2: ValueError: a\nb$"),
        (b"ValueError\nx" + "漢".encode()[:2], RemoteFailure, "^broker 2: ValueError: x\ufffd$"),
        (b"", RemoteFailure, "^broker 2: : $"),
    ],
)
def test_a_failure_of_the_peer_becomes_an_error_of_the_asker(body: bytes, error: type[Exception], text: str) -> None:
    end = End()
    asked = end.node.ref(end.far).ask(Note("x"), block=False)
    end.receive_raw(FrameKind.FAILURE, ask_id=1, body=body)
    with pytest.raises(error, match=text):
        asked.get()
    assert end.link.lost_because is None


def test_an_answer_after_the_askers_deadline_is_dropped() -> None:
    end = End()
    asked = end.node.ref(end.far).ask(Note("x"), block=False, timeout=1.0)
    end.world.pass_time(1.0)
    end.receive(FrameKind.ANSWER, "late", ask_id=1, address=b"")
    with pytest.raises(pykka.Timeout):
        asked.get()
    end.receive(FrameKind.ANSWER, "even twice", ask_id=1, address=b"")
    assert end.link.lost_because is None


def test_asks_whose_deadline_has_passed_are_forgotten() -> None:
    end = End()
    for _ in range(1000):
        end.node.ref(end.far).ask(Note("x"), block=False, timeout=0.1)
    end.world.pass_time(2 * PING_SECONDS)
    assert len(end.link._asks) == 0


# -- bounds ----------------------------------------------------------------------------------------------------------


def test_a_peer_that_does_not_read_fills_the_outbox_and_further_messages_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link_module, "OUTBOX_BYTES_MAX", 1000)
    end = End()
    end.tape.queued_bytes = 1001
    ref = end.node.ref(end.far)
    with pytest.raises(MailboxFull, match="1001 bytes wait for broker 2; try again later"):
        ref.tell(Note("x"))
    assert isinstance(ref.ask(Note("x"), block=False).exception, MailboxFull)
    assert [frame.kind for frame in end.tape.frames()] == []
    end.receive(FrameKind.ASK, Note("answers still go out"), ask_id=1)
    assert len(end.answers()) == 1
    end.tape.queued_bytes = 1000
    ref.tell(Note("x"))
    assert [frame.kind for frame in end.tape.frames()] == [FrameKind.TELL]


def test_too_many_asks_without_answers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "ASKS_MAX", 3)
    end = End()
    ref = end.node.ref(end.far)
    asked = [ref.ask(Note("x"), block=False) for _ in range(4)]
    assert [future.done for future in asked] == [False, False, False, True]
    assert isinstance(asked[3].exception, MailboxFull)
    end.receive(FrameKind.ANSWER, "x", ask_id=1, address=b"")
    assert not ref.ask(Note("x"), block=False).done


def test_a_message_that_is_too_large_for_a_frame_is_refused_and_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(frames, "FRAME_BYTES_MAX", 1000)
    end = End()
    ref = end.node.ref(end.far)
    with pytest.raises(FrameError, match="over the limit of 1000"):
        ref.tell(Note("x" * 1000))
    with pytest.raises(FrameError, match="over the limit of 1000"):
        ref.ask(Note("x" * 1000), block=False)
    assert len(end.link._asks) == 0
    assert end.tape.frames() == []


def test_a_full_mailbox_is_given_time_to_work_before_the_peers_tell_is_refused() -> None:
    class Small(Probe):
        mailbox_capacity = 2

    end = End()
    events = Events()
    end.world.spawn(Small, events, name="small")
    frames = [frame for number in range(50) for frame in parse(_tell(number, b"probe/small@1"))]
    end.world.scheduler.turn(lambda: end.link.receive_all(frames))
    assert [message.number for message in events.of(Numbered)] == list(range(50))


def _tell(number: int, address: bytes) -> bytes:
    message_id, body, _ = encode(Numbered(number))
    return header(FrameKind.TELL, message_id, 0, address, body, 0)


def test_tells_to_nobody_are_counted_and_logged_ever_more_rarely(caplog: pytest.LogCaptureFixture) -> None:
    end = End()
    caplog.set_level(logging.DEBUG, "barnabas")
    caplog.clear()
    for _ in range(9):
        end.receive(FrameKind.TELL, Note("x"), address=b"probe/nobody@1")
    assert end.link.undelivered == 9
    assert [record.getMessage() for record in caplog.records] == [
        f"link: a tell from broker 2 was not delivered ({count} so far): probe/nobody@1 not found"
        for count in (1, 2, 4, 8)
    ]


# -- the end of a link -------------------------------------------------------------------------------------------------


def test_a_lost_link_ends_asks_with_link_lost_and_tells_its_watchers_once() -> None:
    end = End()
    asked = end.node.ref(end.far).ask(Note("x"), block=False, timeout=100.0)
    for reason in ("first", "second"):
        end.link.lose(reason)
    end.world.run()
    with pytest.raises(LinkLost, match="the link to broker 2 was lost: first"):
        asked.get()
    assert end.events.all == [PeerUp(2, 77), PeerDown(2, "first")]
    assert end.tape.closed
    assert end.node.links == {}
    assert len(end.world.scheduler.timers) == 0


def test_an_answer_that_is_ready_after_the_link_was_lost_goes_nowhere() -> None:
    end = End()
    end.receive(FrameKind.ASK, Owe("x"), ask_id=5)
    end.link.lose("gone")
    end.tape.frames()
    actor_of(end.ref).owed[0].set("late")
    assert end.tape.frames() == []
    assert end.ref.is_alive()


def test_nothing_of_a_lost_link_is_taken_in_any_more() -> None:
    end = End()
    frames = parse(_tell(1, b"probe@1") + header(FrameKind.HELLO, 0, 0, b"", b"", 0) + _tell(2, b"probe@1"))
    end.world.scheduler.turn(lambda: end.link.receive_all(frames))
    end.world.scheduler.turn(lambda: end.link.receive_all(parse(_tell(3, b"probe@1"))))
    assert end.events.of(Numbered) == [Numbered(1)]
    assert end.link.lost_because == "protocol error: a HELLO frame has no place on a standing link"


@pytest.mark.parametrize(
    "frame",
    [
        (FrameKind.TELL, 0x70FE, 0, b"probe@1", b""),
        (FrameKind.TELL, 0x7004, 0, b"probe@1", b"short"),
        (FrameKind.ASK, 0x70FE, 1, b"probe@1", b""),
        (FrameKind.ANSWER, 0x7000, 99, b"", b""),
        (FrameKind.ANSWER, 0x7000, 0, b"", b""),
        (FrameKind.FAILURE, 0, 99, b"", b"x"),
        (FrameKind.WATCH, 0, 0, b"\xff\xff", b""),
        (FrameKind.WATCH, 0, 0, b"no address", b""),
        (FrameKind.UNWATCH, 0, 0, b"", b""),
        (FrameKind.TERMINATED, 0, 0, b"\xff", b"x"),
        (FrameKind.REFUSED, 0, 0, b"", b""),
    ],
)
def test_nonsense_ends_the_link_and_hurts_nobody(frame: Any) -> None:
    end = End()
    end.receive_raw(*frame)
    assert end.link.lost_because is not None
    assert end.link.lost_because.startswith("protocol error: ")
    assert end.tape.closed
    assert end.world.ask(end.ref, Note("fine")).get() == "fine"


def test_an_answer_that_cannot_be_decoded_ends_the_link_and_the_ask_with_it() -> None:
    end = End()
    asked = end.node.ref(end.far).ask(Note("x"), block=False)
    end.receive_raw(FrameKind.ANSWER, 0x7004, 1, body=b"short")
    with pytest.raises(LinkLost):
        asked.get()


# -- silence ---------------------------------------------------------------------------------------------------------


def test_a_side_that_has_nothing_to_say_pings_and_one_that_spoke_does_not() -> None:
    end = End()
    end.tape.frames()
    end.world.pass_time(PING_SECONDS)
    assert [frame.kind for frame in end.tape.frames()] == [FrameKind.PING]
    end.node.ref(end.far).tell(Note("x"))
    end.world.pass_time(PING_SECONDS)
    assert [frame.kind for frame in end.tape.frames()] == [FrameKind.TELL]
    end.world.pass_time(PING_SECONDS)
    assert [frame.kind for frame in end.tape.frames()] == [FrameKind.PING]


def test_a_peer_that_falls_silent_is_given_up() -> None:
    end = End()
    asked = end.node.ref(end.far).ask(Note("x"), block=False)
    end.world.pass_time(SILENCE_SECONDS)
    assert 2 in end.node.links
    end.world.pass_time(PING_SECONDS)
    assert end.link.lost_because == "silent for 3.5 s"
    assert isinstance(asked.exception, LinkLost)
    assert end.events.all[-1] == PeerDown(2, "silent for 3.5 s")


def test_a_peer_that_is_heard_is_kept_whatever_it_says() -> None:
    end = End()
    for _ in range(10):
        end.world.pass_time(SILENCE_SECONDS * 0.9)
        end.receive_raw(FrameKind.PING)
    assert end.link.lost_because is None


def test_a_side_that_was_asleep_does_not_declare_its_peer_dead() -> None:
    end = End()
    end.world.pass_time(PING_SECONDS)
    end.world.clock.advance_to(end.world.clock.now() + 3600.0)
    end.world.run()
    assert 2 in end.node.links
    end.world.pass_time(SILENCE_SECONDS)
    assert 2 in end.node.links
    end.world.pass_time(PING_SECONDS)
    assert end.link.lost_because == "silent for 3.5 s"


def test_while_nobody_reads_a_peers_silence_means_nothing() -> None:
    end = End()
    end.link.reading = False
    end.world.pass_time(10 * SILENCE_SECONDS)
    assert end.link.lost_because is None
    end.link.reading = True
    end.world.pass_time(SILENCE_SECONDS + 2 * PING_SECONDS)
    assert end.link.lost_because is not None


@pytest.mark.parametrize(("broker", "peer"), [(LAUNCHER_ID, 1), (1, LAUNCHER_ID)])
def test_between_the_launcher_and_a_broker_silence_does_not_count(broker: int, peer: int) -> None:
    end = End(broker, peer)
    end.world.pass_time(100 * SILENCE_SECONDS)
    assert end.link.lost_because is None


def test_a_link_shows_whom_it_joins_and_why_it_was_lost() -> None:
    end = End()
    assert repr(end.link) == "<Link 1→2>"
    end.link.lose("the test is over")
    assert repr(end.link) == "<Link 1→2 lost: the test is over>"


def test_a_link_that_was_replaced_takes_nothing_down_with_it() -> None:
    end = End()
    newer = Link(end.node, 2, 78, Tape())
    newer.up()
    assert end.node.links[2] is newer
    end.node.link_down(end.link, "it was lost long ago")
    assert end.node.links[2] is newer
