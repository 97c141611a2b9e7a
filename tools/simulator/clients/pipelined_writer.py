"""A writer that has several batches of a partition under way, as librdkafka and the Java client have.

It sends no more once it hears that one has failed (which it does late, now and then), waits until all are answered, and
sends what is not acknowledged again, in its order and under its old sequences. A round ends with its connection: a
client that notices the end of one has read all answers that came before it, so it never sends the rest of a round to
a broker that was restarted and has forgotten what it refused. Such a client is never told that a batch is out of order,
unless one before it was lost on the way: a batch behind one that was refused for now is refused for now, too
(log/partition/refusals.py).

It draws from a generator of its own: a seed without such a writer is the run that it was before there was one.
"""

from __future__ import annotations

import random
from functools import partial
from itertools import pairwise
from typing import Any

from attrs import define, frozen

from actors.messages.replica import AppendResult
from actors.runtime import Future, PeerDown, PeerUp, handles
from log.segment.producer_state import BATCHES_KEPT
from protocol.error_codes import ErrorCode
from tools.simulator.clients.client import ClientServices, Writer
from tools.simulator.record.history import IDEMPOTENT, WriteOperation

PRODUCER_ID = 100
_FOR_NOW = frozenset(
    (
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )
)
_PAUSE_SECONDS_MAX, _LATE_SECONDS_MAX = 0.03, 0.3
_LATE_SHARE = 0.5
_STAY_SHARE = 0.7
"""Of those that are told that replicas are missing: another broker would not lead."""


@define(slots=True, eq=False)
class _Batch:
    operation: WriteOperation
    sequence: int
    result: AppendResult | None = None
    """The answer of this round; None if the outcome is unknown."""
    is_sent: bool = False
    was_lost: bool = False
    """Was it once not answered? Then it need not have arrived where it was sent."""

    @property
    def is_acknowledged(self) -> bool:
        return self.result is not None and self.result.error == ErrorCode.NONE

    @property
    def is_known(self) -> bool:
        """Does the answer say what became of it?"""
        told = self.result is not None and self.result.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return told or self.is_acknowledged or self.was_refused

    @property
    def was_refused(self) -> bool:
        """Not written, or not held by enough replicas: the broker has noted that."""
        return self.result is not None and self.result.error in _FOR_NOW


@frozen(slots=True)
class _Launch:
    """Send the next batch of this round."""

    round: int
    at: int


@frozen(slots=True)
class _Round:
    """Send all that is left once more."""


class PipelinedWriter(Writer):
    """See the module's docstring."""

    role = "pipelinedwriter"

    def __init__(self, services: ClientServices, rng: random.Random) -> None:
        super().__init__(services, rng, IDEMPOTENT, PRODUCER_ID)
        self._batches: list[_Batch] = []
        self._left: list[_Batch] = []
        """Of these, what is not acknowledged."""
        self._rounds = 0
        self._under_way = 0
        self._all_sent = True
        self._hears_late = False
        self._broker = -1
        """The broker that this round is sent to."""

    def on_start(self) -> None:
        super().on_start()
        self.node.watch_peers(self.address)

    @handles(PeerUp)
    def peer_up(self, _message: PeerUp) -> None:
        pass

    @handles(PeerDown)
    def peer_down(self, message: PeerDown) -> None:
        """The connection is closed, and every answer that came over it has been read."""
        if message.broker == self._broker and not self._all_sent:
            self._all_sent = True
            if not self._under_way:
                self._end_of_round()

    def begin(self, group: str) -> None:
        self._batches = []
        for _ in range(self.rng.randint(2, BATCHES_KEPT)):
            operation = self.operation(group)
            self._batches.append(_Batch(operation, self._sequences[group]))
            self._sequences[group] += len(operation.values)
        self._left = list(self._batches)
        self.round(_Round())

    @handles(_Round)
    def round(self, _message: _Round) -> None:
        self._rounds += 1
        self._all_sent = False
        self._hears_late = self.rng.random() < _LATE_SHARE
        self._broker = self.leader(self._left[0].operation.group)
        for batch in self._left:
            batch.result, batch.is_sent = None, False
        self.launch(_Launch(self._rounds, 0))

    @handles(_Launch)
    def launch(self, message: _Launch) -> None:
        if message.round != self._rounds or self._all_sent:
            return
        batch = self._left[message.at]
        batch.is_sent = True
        batch.operation.attempts += 1
        batch.operation.broker = self._broker
        self._under_way += 1
        self._send(batch.operation, batch.sequence, partial(self._told, batch))
        if message.at + 1 == len(self._left):
            self._all_sent = True
        else:
            seconds_max = _LATE_SECONDS_MAX if self._hears_late else _PAUSE_SECONDS_MAX
            pause_s = self.rng.choice((0.0, 0.001, self.rng.uniform(0, seconds_max)))
            self.after(pause_s, _Launch(self._rounds, message.at + 1))

    def _told(self, batch: _Batch, future: Future[Any]) -> None:
        operation = batch.operation
        self._under_way -= 1
        if future.exception is not None:
            self.complain(operation.group, future.exception, operation.broker)
        else:
            batch.result = future.get()
            operation.epoch = batch.result.leader_epoch
        batch.was_lost = batch.was_lost or not batch.is_known
        if batch.is_acknowledged:
            assert batch.result is not None
            operation.base_offset = batch.result.base_offset
            self._check_held(operation)
            self.history.end(operation, "ok", self.now)
        elif not self._hears_late or batch.result is None:
            self._all_sent = True  # a connection that is gone is gone at once
        if self._all_sent and not self._under_way:
            self._end_of_round()

    def _end_of_round(self) -> None:
        sent = [batch for batch in self._left if batch.is_sent]
        for at, batch in enumerate(sent):
            self._check_refusal(batch, sent[:at])
        self._left = [batch for batch in self._left if not batch.is_acknowledged]
        for batch in [batch for batch in self._left if self._is_given_up(batch)]:
            self.history.end(batch.operation, "unknown", self.now)
            self._left.remove(batch)
        if self._left:
            self._look_around(self._left[0])
            self.after(self.rng.uniform(0.005, 0.1), _Round())
            return
        self._check_places()
        self._think()

    def _look_around(self, first: _Batch) -> None:
        too_few = first.result is not None and first.result.error == ErrorCode.NOT_ENOUGH_REPLICAS
        if not too_few or self.rng.random() > _STAY_SHARE:
            self.look_elsewhere(first.operation.group)

    def _is_given_up(self, batch: _Batch) -> bool:
        """Was it lost on its way to a leader that did not know us, and that may have taken what came behind it?

        There is no place for it any more. Other clients would give it a new sequence. While a batch before it is still
        to be sent again, this one is only out of order because of that one.
        """
        at = self._batches.index(batch)
        is_next = all(one.is_acknowledged or self._is_given_up(one) for one in self._batches[:at])
        out_of_order = batch.result is not None and batch.result.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        taken = any(one.is_acknowledged or one.was_lost for one in self._batches[at + 1 :])
        return out_of_order and batch.was_lost and is_next and taken

    def _check_refusal(self, batch: _Batch, before: list[_Batch]) -> None:
        """Nothing is out of order behind what was acknowledged or refused."""
        group, result = batch.operation.group, batch.result
        if result is None or not all(one.is_acknowledged or one.was_refused for one in before):
            return
        if self._is_given_up(batch):
            return
        is_first = all(one.is_acknowledged for one in before)  # else it is refused because of one before it
        if self._is_wrong(group, result) or (is_first and self._needs_nobody(batch.operation, result)):
            self.history.violate(
                "a good append was refused", group, f"{batch.operation.values[0]!r}: {result.message}",
                batch.operation.values[0],
            )  # fmt: skip

    def _check_places(self) -> None:
        written = [batch for batch in self._batches if batch.operation.outcome == "ok"]
        for first, second in pairwise(written):
            if second.operation.base_offset < first.operation.end:
                self.history.violate(
                    "non-monotonic send", first.operation.group,
                    f"{second.operation.base_offset} is behind {first.operation.base_offset} in its producer's order",
                    first.operation.values[0], second.operation.values[0],
                )  # fmt: skip
