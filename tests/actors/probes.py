"""Actors that the tests place into brokers, and what they are told. Message ids 0x7100 to 0x71ff are theirs.

Every time here is `time.monotonic()`, which all processes of one machine share.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any, ClassVar

import pykka
from attrs import Factory, define, frozen

from actors.broker.broker import ExtraActor
from actors.runtime import Actor, Address, Future, MailboxFull, Payload, PeerDown, PeerUp, handles, wire


@wire(0x7100)
@frozen(slots=True)
class Say:
    """Asked of an Echo, comes back as it is."""

    number: int
    text: str
    bulk: Payload


@wire(0x7101)
@frozen(slots=True)
class Numbered:
    """One message of a stream. Numbers count what the sender's link accepted, from 0."""

    sender: int
    incarnation: int
    number: int
    filler: Payload


@wire(0x7102)
@frozen(slots=True)
class Heard:
    """What a Recorder heard of one life of one sender."""

    sender: int
    incarnation: int
    count: int
    first: int
    last: int
    gaps: int
    disorder: str  # the first number that was not above the one before it; empty if there was none


@wire(0x7103)
@frozen(slots=True)
class Record:
    """What a Recorder heard in its life, sender by sender."""

    broker: int
    incarnation: int
    heard: tuple[Heard, ...]


@wire(0x7104)
@frozen(slots=True)
class ReadRecord:
    """Asks a Recorder for its Record."""


@wire(0x7105)
@frozen(slots=True)
class PeerEvent:
    """PeerUp or PeerDown as a PeerWatcher heard of it."""

    up: bool
    broker: int
    incarnation: int  # 0 for PeerDown
    reason: str  # empty for PeerUp
    at: float


@wire(0x7106)
@frozen(slots=True)
class PeerEvents:
    """Everything a PeerWatcher was told, in order."""

    incarnation: int
    events: tuple[PeerEvent, ...]


@wire(0x7107)
@frozen(slots=True)
class ReadPeerEvents:
    """Asks a PeerWatcher for its PeerEvents."""


@wire(0x7108)
@frozen(slots=True)
class StartStream:
    """Tells a Streamer to send `burst` messages with `filler` bytes each to the Recorder of `to`, every `every_s`.

    Now and then it sends a large one instead.
    """

    to: int
    burst: int
    every_s: float
    filler: int


@wire(0x7109)
@frozen(slots=True)
class StopStreams:
    """Tells a Streamer to send nothing more."""


@wire(0x710A)
@frozen(slots=True)
class SendOnce:
    """Tells a Streamer to send one message with `filler` bytes to the Recorder of `to`."""

    to: int
    filler: int


@wire(0x710B)
@frozen(slots=True)
class Sent:
    """How a stream of a Streamer goes."""

    to: int
    accepted: int
    refused_full: int
    refused_dead: int


@wire(0x710C)
@frozen(slots=True)
class ReadSent:
    """Asks a Streamer how its stream to the Recorder of `to` goes."""

    to: int


@wire(0x710D)
@frozen(slots=True)
class Fail:
    """A Failing raises ValueError(text) for it."""

    text: str


@wire(0x710E)
@frozen(slots=True)
class CountLives:
    """Asks a Failing for how many of it there were on its broker, with itself."""


@wire(0x710F)
@frozen(slots=True)
class AskFor:
    """Asks a Relay to ask an Echo elsewhere and to answer with its answer."""

    echo: Address
    number: int


@frozen(slots=True)
class NextBurst:
    to: int


class Echo(Actor):
    @handles(Say)
    def say(self, message: Say) -> Say:
        return message


class Relay(Actor):
    """Asks on, across brokers, and answers when the answer is there."""

    @handles(AskFor)
    def ask_for(self, message: AskFor) -> None:
        answer = self.defer()
        say = Say(message.number, "relayed", Payload(memoryview(b"")))

        def answered(done: Future[Any]) -> None:
            if done.exception is not None:
                answer.fail(done.exception)
            else:
                answer.set(done.get().number)

        self.ask(message.echo, say, answered)


class Failing(Actor):
    """Fails when told to."""

    _lives: ClassVar[Counter[int]] = Counter()

    def on_start(self) -> None:
        self._lives[self.node.incarnation] += 1

    @handles(Fail)
    def fail(self, message: Fail) -> None:
        raise ValueError(message.text)

    @handles(CountLives)
    def count_lives(self, _message: CountLives) -> int:
        return self._lives[self.node.incarnation]


@define(slots=True)
class _Hearing:
    count: int = 0
    first: int = -1
    last: int = -1
    gaps: int = 0
    disorder: str = ""

    def hear(self, number: int) -> None:
        if self.count == 0:
            self.first = number
        elif number <= self.last:
            self.disorder = self.disorder or f"{number} after {self.last}"
        elif number > self.last + 1:
            self.gaps += 1
        self.count += 1
        self.last = max(number, self.last)


class Recorder(Actor):
    """Follows the numbers of every life of every sender, in constant memory per life."""

    def __init__(self) -> None:
        super().__init__()
        self._heard: dict[tuple[int, int], _Hearing] = {}

    @handles(Numbered)
    def numbered(self, message: Numbered) -> None:
        key = (message.sender, message.incarnation)
        hearing = self._heard.get(key)
        if hearing is None:
            hearing = self._heard[key] = _Hearing()
        hearing.hear(message.number)

    @handles(ReadRecord)
    def read_record(self, _message: ReadRecord) -> Record:
        heard = tuple(
            Heard(sender, incarnation, h.count, h.first, h.last, h.gaps, h.disorder)
            for (sender, incarnation), h in self._heard.items()
        )
        return Record(self.node.broker, self.node.incarnation, heard)


class PeerWatcher(Actor):
    """Notes when it is told that a peer came or went."""

    def __init__(self) -> None:
        super().__init__()
        self._events: list[PeerEvent] = []

    def on_start(self) -> None:
        self.node.watch_peers(self.address)

    @handles(PeerUp)
    def peer_up(self, message: PeerUp) -> None:
        self._events.append(PeerEvent(True, message.broker, message.incarnation, "", time.monotonic()))

    @handles(PeerDown)
    def peer_down(self, message: PeerDown) -> None:
        self._events.append(PeerEvent(False, message.broker, 0, message.reason, time.monotonic()))

    @handles(ReadPeerEvents)
    def read_peer_events(self, _message: ReadPeerEvents) -> PeerEvents:
        return PeerEvents(self.node.incarnation, tuple(self._events))


@define(slots=True)
class _Stream:
    order: StartStream | None = None
    accepted: int = 0
    refused: dict[type[Exception], int] = Factory(dict)


BULK_EVERY = 1000
BULK_BYTES = 600_000  # more than a socket takes at once


class Streamer(Actor):
    """Sends numbered messages to Recorders; goes on, at the same number, when a message is refused."""

    def __init__(self) -> None:
        super().__init__()
        self._streams: dict[int, _Stream] = {}

    @handles(StartStream)
    def start_stream(self, message: StartStream) -> None:
        stream = self._streams.setdefault(message.to, _Stream())
        stream.order = message
        self.after(0, NextBurst(message.to))

    @handles(StopStreams)
    def stop_streams(self, _message: StopStreams) -> None:
        for stream in self._streams.values():
            stream.order = None

    @handles(NextBurst)
    def next_burst(self, message: NextBurst) -> None:
        stream = self._streams[message.to]
        order = stream.order
        if order is None:
            return
        for _ in range(order.burst):
            bulky = stream.accepted % BULK_EVERY == BULK_EVERY - 1
            if not self._send(order.to, BULK_BYTES if bulky else order.filler, stream):
                break
        self.after(order.every_s, message)

    @handles(SendOnce)
    def send_once(self, message: SendOnce) -> bool:
        return self._send(message.to, message.filler, self._streams.setdefault(message.to, _Stream()))

    @handles(ReadSent)
    def read_sent(self, message: ReadSent) -> Sent:
        stream = self._streams.get(message.to, _Stream())
        refused = stream.refused
        return Sent(message.to, stream.accepted, refused.get(MailboxFull, 0), refused.get(pykka.ActorDeadError, 0))

    def _send(self, to: int, filler: int, stream: _Stream) -> bool:
        numbered = Numbered(
            self.node.broker, self.node.incarnation, stream.accepted, Payload(memoryview(bytes(filler)))
        )
        try:
            self.node.ref(Address("recorder", "", to)).tell(numbered)
        except (MailboxFull, pykka.ActorDeadError) as error:
            stream.refused[type(error)] = stream.refused.get(type(error), 0) + 1
            return False
        stream.accepted += 1
        return True


PROBES = (
    ExtraActor("tests.actors.probes:Echo", "echo"),
    ExtraActor("tests.actors.probes:Relay", "relay"),
    ExtraActor("tests.actors.probes:Failing", "failing"),
    ExtraActor("tests.actors.probes:Recorder", "recorder"),
    ExtraActor("tests.actors.probes:PeerWatcher", "peerwatcher"),
    ExtraActor("tests.actors.probes:Streamer", "streamer"),
)


def say(number: int, text: str = "", bulk: bytes = b"") -> Say:
    return Say(number, text, Payload(memoryview(bulk)))
