"""A service: reads topics as a member of a group, handles each event once, and sends the events that follow from it.

It commits after it has sent, so a message may come again: after a rebalance, or if a broker dies before the commit.
Then its event id is known, and it is only counted. A message that is no event of the contract becomes a dead letter
with the reason in its headers, or is counted alone; it never stops the service.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from attrs import Factory, define

from tools.examples.clients import Message, Reader, Sender
from tools.examples.envelope import Contract, Envelope, Reason, Refused, read
from tools.examples.stage import Stage
from tools.pipeline.letter_headers import letter_headers

Handle = Callable[[Envelope], Iterable[tuple[str, Envelope]]]
"""What a service does with an event: it returns the events that follow, with their topics."""
_POLL_SECONDS = 0.05
_SEEN_MAX = 100_000


class Seen:
    """The last event ids."""

    def __init__(self, ids_max: int = _SEEN_MAX) -> None:
        self._ids: OrderedDict[str, None] = OrderedDict()
        self._max = ids_max

    def __contains__(self, event_id: str) -> bool:
        return event_id in self._ids

    def add(self, event_id: str) -> None:
        self._ids[event_id] = None
        if len(self._ids) > self._max:
            self._ids.popitem(last=False)


@define
class Counts:
    handled: int = 0
    repeated: int = 0
    refused: Counter[Reason] = Factory(Counter)

    @property
    def refused_text(self) -> str:
        return ", ".join(f"{count} {reason.name}" for reason, count in sorted(self.refused.items())) or "none"


@define
class Service:
    stage: Stage
    contract: Contract
    handle: Handle
    reader: Reader
    sender: Sender
    dead_letters: str | None
    counts: Counts = Factory(Counts)
    seen: Seen = Factory(Seen)

    def step(self) -> None:
        """Handle what one poll brings."""
        messages = self.reader.poll(_POLL_SECONDS)
        if not messages:
            return
        for message in messages:
            self._take(message)
        self.sender.flush()
        self.reader.commit()

    def _take(self, message: Message) -> None:
        event = read(message.value, self.contract)
        if isinstance(event, Refused):
            self._refuse(message, event)
        elif event.event_id in self.seen:
            self.counts.repeated += 1
        else:
            for topic, following in self.handle(event):
                key = following.correlation_id.encode()
                self.sender.send(self.stage.topic(topic), following.encode(), key)
            self.seen.add(event.event_id)
            self.counts.handled += 1

    def _refuse(self, message: Message, refused: Refused) -> None:
        self.counts.refused[refused.reason] += 1
        if self.dead_letters is not None:
            headers = letter_headers(str(refused), message.topic, message.partition, message.offset, message.headers)
            self.sender.send(self.stage.topic(self.dead_letters), message.value, message.key, headers)


@contextmanager
def service(
    stage: Stage, group: str, topics: Iterable[str], contract: Contract, handle: Handle, dead_letters: str | None = None
) -> Iterator[Service]:
    """A service with clients of its own."""
    with stage.sender() as sender, stage.reader(group, *topics) as reader:
        yield Service(stage, contract, handle, reader, sender, dead_letters)
