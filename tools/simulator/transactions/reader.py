"""Readers of what transactions write, with one isolation level or the other, as clients do it.

A read_committed fetch returns aborted records, too, with the list of aborted transactions: the reader filters them.
At the end of a run each reader reads everything once more from the beginning.
"""

from __future__ import annotations

import random
from typing import Any

from protocol.apis import FETCH
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.records.batches import ControlType, RecordBatches, read_control, records
from tools.checker.history import READ_COMMITTED, READ_UNCOMMITTED, Poll
from tools.simulator.transactions.client import AskBroker, Rest, Script, ScriptedClient, TransactionServices

_RECORDS_BYTES_MAX = 1 << 20
_FETCH_BYTES = (1, 300, 1 << 20)
_FETCH_WAIT_MS = 200


class TransactionReader(ScriptedClient):
    """See the module's docstring."""

    def __init__(self, services: TransactionServices, rng: random.Random, isolation: str) -> None:
        super().__init__(services, rng)
        self.isolation = isolation
        self.positions = dict.fromkeys(range(services.settings.partitions), 0)
        self.is_last = False
        """Does it read for the last time?"""
        self._readings = 1

    def on_start(self) -> None:
        super().on_start()
        self.later(self.rng.uniform(0, 0.2), lambda: self.follow(self._live()))

    def _live(self) -> Script:
        while True:
            if self.finishing and not self.is_last:
                self.is_last = True
                self._readings += 1
                self.positions = dict.fromkeys(self.positions, 0)
            for number in self.positions:
                yield from self._poll(number)
            yield Rest(self.rng.uniform(0.01, 0.1))

    def _poll(self, number: int) -> Script:
        topic, position, begin = self.services.topic, self.positions[number], self.now
        (leader,) = yield from self.leaders(topic, [number])
        bytes_max = 1 << 20 if self.finishing else self.rng.choice(_FETCH_BYTES)
        partition = FetchPartition(partition=number, fetch_offset=position, partition_max_bytes=bytes_max)
        request = FetchRequest(
            max_wait_ms=_FETCH_WAIT_MS, min_bytes=1, max_bytes=1 << 22, isolation_level=self._level,
            topics=[FetchTopic(topic=topic, partitions=[partition])],
        )  # fmt: skip
        response = yield AskBroker(leader, "fetches", FETCH, request, 11)
        answer = None if response is None or not response.responses else response.responses[0].partitions[0]
        if answer is None or answer.error_code != ErrorCode.NONE:
            self.forget_leader(topic, number)
            return
        if position != self.positions[number] or not answer.records:
            return
        batches = self.batches(leader, answer.records)
        if batches is None:
            self.forget_leader(topic, number)
            return
        read, after = self._take(number, position, answer, batches)
        self.positions[number] = after
        self.services.history.append(
            Poll(
                self.address.name, str(self._readings), f"{topic}-{number}", tuple(read), begin, self.now, position,
                after, self.isolation,
            )
        )  # fmt: skip

    @property
    def _level(self) -> int:
        return int(self.isolation == READ_COMMITTED)

    def _take(
        self, number: int, position: int, answer: Any, batches: RecordBatches
    ) -> tuple[list[tuple[int, str]], int]:
        """The records that count, and where the next ones begin."""
        aborted = sorted(answer.aborted_transactions or (), key=lambda one: one.first_offset)
        shut: set[int] = set()
        """Producers whose transactional batches are aborted, here."""
        read: list[tuple[int, str]] = []
        for place, header in zip(batches.positions, batches.headers, strict=True):
            after = header.next_offset
            if self.isolation == READ_COMMITTED and after > answer.last_stable_offset:
                text = f"{self.address} was given {number}, {header.base_offset}, above {answer.last_stable_offset}"
                self.view.violate("the last stable offset bounds what is committed", text)
            while aborted and aborted[0].first_offset < after:
                shut.add(aborted.pop(0).producer_id)
            made = records(batches.data, place, limit=_RECORDS_BYTES_MAX)
            if header.is_control:
                if header.producer_id >= 0 and made and read_control(made[0])[0] is ControlType.ABORT:
                    shut.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in shut and self.isolation == READ_COMMITTED):
                read += [(one.offset, bytes(one.value or b"").decode()) for one in made if one.offset >= position]
            position = max(position, after)
        return read, position


ISOLATIONS = (READ_COMMITTED, READ_UNCOMMITTED)
