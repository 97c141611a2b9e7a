"""Consume, transform, produce: each record of one topic becomes one of another, exactly once.

The offsets that were read are committed in the transaction that writes the copies. There may be two copiers with one
transactional id: the later one fences the other, and goes on at the offsets of the other's last committed transaction.
Or there is one, which after the end of a transaction hands over to another with a transactional id of its own, as
members of a group do: that one does not wait for the transaction before, so it must get no offsets of the group while
they are undecided.
"""

from __future__ import annotations

import random

from attrs import evolve

from protocol.apis import ADD_OFFSETS_TO_TXN, FETCH, OFFSET_FETCH, TXN_OFFSET_COMMIT
from protocol.error_codes import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.records.batches import records
from tools.checker.history import UNKNOWN, OffsetCommit, OffsetRead
from tools.simulator.settings.transactions import TransactionalMember
from tools.simulator.transactions.client import (
    AGAIN,
    GROUP,
    TRANSACTION,
    AskBroker,
    Rest,
    Script,
    TransactionServices,
    outcome_of,
)
from tools.simulator.transactions.transactor import NEVER, TransactionSteps

_RECORDS_BYTES_MAX = 1 << 20
_RECORDS_MAX = (1, 3, 10)
_RECORDS_MAX_IN_THE_END = 100
_ABORT_SHARE = 0.1
_OTHER = "2"
_YIELD_S_MIN, _YIELD_S_MAX = 0.6, 10.0


class TransactionalCopier(TransactionSteps):
    """See the module's docstring."""

    def __init__(self, services: TransactionServices, rng: random.Random, member: TransactionalMember) -> None:
        super().__init__(services, rng, member)
        assert member.group is not None
        self._group = member.group
        self._positions: dict[int, int] = {}
        self._yield_s = _YIELD_S_MIN

    def live(self) -> Script:
        while True:
            yield from self.initialise()
            yield from self._find_positions()
            clean = True
            while clean:
                copied = 0
                for source in range(self.services.source_partitions):
                    read, after = yield from self._gather(source)
                    if clean and after > self._positions[source]:
                        clean = yield from self._copy(source, read, after)
                        copied += 1
                        if clean and self._hands_over():
                            yield from self._take_over()
                if self.finishing and clean and not copied:
                    self.finished = True
                    return
                yield Rest(self.rng.expovariate(1 / self.services.settings.think_s))
            yield self._rest_after_failure()

    def _rest_after_failure(self) -> Rest:
        """In the end it leaves more and more time to another with its id: else they fence each other for ever."""
        if not self.finishing:
            return Rest(self.rng.choice((0.0, 0.3, 0.6)))
        self._yield_s = min(2 * self._yield_s, _YIELD_S_MAX)
        return Rest(self.rng.uniform(0, self._yield_s))

    # -- handing over ----------------------------------------------------------------------------------------------

    def _hands_over(self) -> bool:
        share = self.services.settings.hand_over
        return share > 0 and self.rng.random() < share

    def _take_over(self) -> Script:
        """As another: with another id, and with nothing known but what the group has committed."""
        mine = self.member.transactional_id
        other = mine.removesuffix(_OTHER) if mine.endswith(_OTHER) else mine + _OTHER
        self.view.note(f"{self.address} hands over to {other}")
        self.member = evolve(self.member, transactional_id=other)
        self._coordinators.pop(TRANSACTION, None)
        yield from self._find_positions()
        yield from self.initialise()

    # -- reading ---------------------------------------------------------------------------------------------------

    def _find_positions(self) -> Script:
        numbers = list(range(self.services.source_partitions))
        topics = [OffsetFetchRequestTopics(name=self.services.source, partition_indexes=numbers)]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=self._group, topics=topics)], require_stable=True
        )
        while True:
            begin = self.now
            response = yield from self.at_coordinator(GROUP, self._group, OFFSET_FETCH, request, 8)
            if response is not None and not self.has_moved(GROUP, response.groups[0].error_code):
                told = response.groups[0].topics[0].partitions if response.groups[0].topics else []
                if told and all(one.error_code == ErrorCode.NONE for one in told):
                    break
            yield self.rest()
        for one in told:
            place = f"{self.services.source}-{one.partition_index}"
            self.record(OffsetRead(self._group, place, one.committed_offset, begin, self.now))
            self._positions[one.partition_index] = max(one.committed_offset, 0)

    def _gather(self, source: int) -> Script:
        """Some records of a partition, and where they end; in the end it is as many as there are, for time is short."""
        read, after = yield from self._poll(source, self._positions[source])
        while self.finishing and read and len(read) < _RECORDS_MAX_IN_THE_END:
            more, further = yield from self._poll(source, after)
            if further == after:
                break
            read, after = read + more, further
        return read, after

    def _poll(self, source: int, at: int) -> Script:
        """What one fetch gives from there on."""
        topic = self.services.source
        (leader,) = yield from self.leaders(topic, [source])
        partition = FetchPartition(partition=source, fetch_offset=at, partition_max_bytes=1 << 16)
        request = FetchRequest(
            max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, isolation_level=1,
            topics=[FetchTopic(topic=topic, partitions=[partition])],
        )  # fmt: skip
        response = yield AskBroker(leader, "fetches", FETCH, request, 11)
        answer = None if response is None or not response.responses else response.responses[0].partitions[0]
        if answer is None or answer.error_code != ErrorCode.NONE:
            self.forget_leader(topic, source)
            if answer is not None and answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self._skip(source, at, answer.log_start_offset)
            return [], at
        read: list[int] = []
        limit = _RECORDS_MAX_IN_THE_END if self.finishing else self.rng.choice(_RECORDS_MAX)
        batches = self.batches(leader, answer.records)
        if batches is None:
            self.forget_leader(topic, source)
            return [], at
        for place, header in zip(batches.positions, batches.headers, strict=True):
            made = () if header.is_control else records(batches.data, place, limit=_RECORDS_BYTES_MAX)
            read += [one.offset for one in made if one.offset >= at]
            if len(read) >= limit:
                return read[:limit], read[limit - 1] + 1
            at = header.next_offset
        return read, at

    def _skip(self, source: int, at: int, to: int) -> None:
        """What lies between was deleted. If it has something before that to copy, it comes back to this later."""
        if at == self._positions[source]:
            self._positions[source] = max(at, to)
            self.services.skipped.update((source, one) for one in range(at, to))

    # -- writing ---------------------------------------------------------------------------------------------------

    def _copy(self, source: int, read: list[int], after: int) -> Script:
        """One transaction: what was read, and how far that was. May the next go on from there?"""
        if not read:
            self._positions[source] = after
            return True
        settings = self.services.settings
        name = self.begin()
        partitions = sorted({offset % settings.partitions for offset in read})
        clean = True
        if not self.member.is_new:
            clean = yield from self.add(partitions)
        if clean:
            copies = {
                at: tuple(self._value(source, one, name) for one in read if one % settings.partitions == at)
                for at in partitions
            }
            batches = [self.batch(name, at, values) for at, values in copies.items()]
            clean = yield from self.produce(batches, attempts_max=100 if self.finishing else self.rng.choice((3, 10)))
        if self.rng.random() < settings.vanish:
            self.vanish()
        if clean and not self.member.is_new:
            clean = yield from self._add_offsets()
        if clean:
            clean = yield from self._commit_offsets(name, source, after)
        if self.rng.random() < settings.vanish:
            self.vanish()
        commit = clean and (self.finishing or self.rng.random() >= _ABORT_SHARE)
        ended = yield from self.end(name, commit=commit)
        if ended and commit:
            self._positions[source] = after
        return ended and (clean or self.member.is_new)

    def _value(self, source: int, offset: int, name: str) -> str:
        return f"{self._group}|{source}|{offset}|{name}"

    def _add_offsets(self) -> Script:
        request = AddOffsetsToTxnRequest(**self.who, group_id=self._group)
        while True:
            response = yield from self.at_coordinator(
                TRANSACTION, self.member.transactional_id, ADD_OFFSETS_TO_TXN, request, 3
            )
            error = None if response is None else ErrorCode(response.error_code)
            if error == ErrorCode.NONE:
                return True
            if error is not None and not self.has_moved(TRANSACTION, error) and error not in AGAIN:
                return False
            yield self.rest()

    def _commit_offsets(self, name: str, source: int, offset: int) -> Script:
        partition = TxnOffsetCommitRequestPartition(partition_index=source, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            **self.who, group_id=self._group,
            topics=[TxnOffsetCommitRequestTopic(name=self.services.source, partitions=[partition])],
        )  # fmt: skip
        version, unsure = (5 if self.member.is_new else 3), False
        place = self.record(
            OffsetCommit(
                self._group, f"{self.services.source}-{source}", offset, UNKNOWN, self.now, NEVER, transaction=name
            )
        )
        for _ in range(100 if self.finishing else self.rng.choice((3, 10))):
            response = yield from self.at_coordinator(GROUP, self._group, TXN_OFFSET_COMMIT, request, version)
            error = None if response is None else ErrorCode(response.topics[0].partitions[0].error_code)
            if error is not None and not self.has_moved(GROUP, error) and error not in AGAIN:
                if not unsure or error == ErrorCode.NONE:
                    self.amend(place, outcome_of(error))
                return error == ErrorCode.NONE
            unsure = True
            yield self.rest()
        return False
