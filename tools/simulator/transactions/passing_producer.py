"""Producers whose transactions write to topics that come and go, beside one that stays.

They commit offsets of such topics in their transactions, too. A transaction ends even if its topics were deleted; one
of whose requests a topic that is gone was the reason to fail is aborted.
"""

from __future__ import annotations

import random
from collections import defaultdict

from attrs import frozen

from log.machines.metadata.topic_ids import id_text
from protocol.apis import ADD_OFFSETS_TO_TXN, ADD_PARTITIONS_TO_TXN, METADATA, TXN_OFFSET_COMMIT
from protocol.error_codes import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tools.simulator.settings.transactions import TransactionalMember
from tools.simulator.transactions.client import AGAIN, TRANSACTION, AskBroker, Rest, Script, TransactionServices
from tools.simulator.transactions.client import GROUP as GROUP_COORDINATOR
from tools.simulator.transactions.passing_topics import (
    GROUP,
    PARTITIONS,
    CommittedOffset,
    PassingBatch,
    PassingTopics,
)
from tools.simulator.transactions.transactor import TOPIC_IDS_FROM, SentBatch, TransactionSteps, told

_ATTEMPTS = (1, 3, 10)
_COMMIT_SHARE = 0.75
_OFFSETS_SHARE = 0.6
_HOLD_SHARE, _HOLD_S = 0.3, (0.02, 0.1, 0.3)


@frozen(slots=True)
class _Found:
    """A partition of a topic that was there when a broker was asked."""

    topic: str
    number: int
    topic_id: bytes
    leader: int


class PassingProducer(TransactionSteps):
    """See the module's docstring."""

    def __init__(
        self, services: TransactionServices, rng: random.Random, member: TransactionalMember, passing: PassingTopics
    ) -> None:
        super().__init__(services, rng, member)
        self._passing = passing
        self._next_sequences: dict[tuple[str, int], int] = defaultdict(int)
        """By name, as clients count: the next topic of a name takes whatever sequence comes first."""

    def _begin_epoch(self) -> None:
        super()._begin_epoch()
        self._next_sequences.clear()

    def live(self) -> Script:
        yield from self.initialise()
        while not self.finishing:
            clean = yield from self._transact()
            yield Rest(self.rng.expovariate(1 / self.services.settings.think_s))
            if not clean and not self.finishing:
                yield from self.initialise()
        self.finished = True

    def _transact(self) -> Script:
        """One transaction. May the next go on from there?"""
        name, staying = self.begin(), self.rng.randrange(self.services.settings.partitions)
        found = yield from self._find()
        found = sorted(self.rng.sample(found, min(len(found), self.rng.choice((1, 2)))), key=_place)
        clean = True
        if not self.member.is_new:
            clean = yield from self._add_all(staying, found)
        for _ in range(self.rng.choice((1, 2, 2))):
            if clean:
                values = (f"{name}|{staying}|{self._sequences[staying]}",)
                batch = self.batch(name, staying, values)
                clean = yield from self.produce([batch], attempts_max=self.rng.choice(_ATTEMPTS))
            for one in found:
                if clean:
                    clean = yield from self._write(name, one)
            if self.rng.random() < self.services.settings.vanish:
                self.vanish()
            if self.rng.random() < _HOLD_SHARE:
                yield Rest(self.rng.choice(_HOLD_S))
        if clean and found and self.rng.random() < _OFFSETS_SHARE:
            clean = yield from self._commit_offset(self.rng.choice(found))
        commit = clean and self.rng.random() < _COMMIT_SHARE
        ended = yield from self.end(name, commit=commit)
        if ended:
            self._passing.ended[name] = commit
        return ended and (clean or self.member.is_new)

    def _find(self) -> Script:
        """The partitions of these topics that some broker knows."""
        topics = [MetadataRequestTopic(name=name) for name in sorted(PARTITIONS)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        response = yield AskBroker(self.anybody(), "anybody", METADATA, request, 12)
        return [
            _Found(topic.name, one.partition_index, bytes(topic.topic_id), one.leader_id)
            for topic in (() if response is None else response.topics)
            for one in topic.partitions
            if one.leader_id >= 0
        ]

    def _add_all(self, staying: int, found: list[_Found]) -> Script:
        """Tell the coordinator that these are in it. Are they? A topic that is gone is asked for a few times only."""
        topics = [AddPartitionsToTxnTopic(name=self.services.topic, partitions=[staying])]
        topics += [AddPartitionsToTxnTopic(name=one.topic, partitions=[one.number]) for one in found]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.member.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=topics,
        )
        for _ in range(self.rng.choice(_ATTEMPTS)):
            response = yield from self.at_coordinator(
                TRANSACTION, self.member.transactional_id, ADD_PARTITIONS_TO_TXN, request, 3
            )
            results = () if response is None else response.results_by_topic_v3_and_below
            errors = {ErrorCode(one.partition_error_code) for topic in results for one in topic.results_by_partition}
            if errors == {ErrorCode.NONE}:
                return True
            if any(not self.has_moved(TRANSACTION, one) and one not in AGAIN for one in errors):
                return False
            yield self.rest()
        return False

    def _write(self, name: str, one: _Found) -> Script:
        """One batch. Was it acknowledged?"""
        place, leader = (one.topic, one.number), one.leader
        sequence = self._next_sequences[place]
        values = tuple(f"{name}|{one.topic}|{one.number}|{sequence + at}" for at in range(self.rng.choice((1, 2))))
        self._next_sequences[place] += len(values)
        batch = SentBatch(one.number, sequence, values, (), topic=one.topic, topic_id=one.topic_id)
        written = PassingBatch(name, one.topic, one.number, self.producer_id, values)
        self._passing.written.append(written)
        for _ in range(self.rng.choice(_ATTEMPTS)):
            if self._produce_version >= TOPIC_IDS_FROM:
                written.topic_ids.add(id_text(batch.topic_id))
            written.attempts += 1
            response = yield self.asking(batch, leader)
            error, offset = told(response)
            if error == ErrorCode.NONE:
                written.offset = offset
                return True
            if error is not None and error not in AGAIN:
                return False
            yield self.rest()
            found = yield from self._find()
            again = next((other for other in found if _place(other) == place), None)
            if again is not None:
                leader, batch.topic_id = again.leader, again.topic_id
        return False

    def _commit_offset(self, one: _Found) -> Script:
        """In the transaction: an offset that no other client commits. Is it there?"""
        kept = CommittedOffset(one.topic, one.number, len(self._passing.offsets) + 1)
        self._passing.offsets.append(kept)
        partition = TxnOffsetCommitRequestPartition(partition_index=one.number, committed_offset=kept.offset)
        topic = TxnOffsetCommitRequestTopic(name=one.topic, partitions=[partition])
        request = TxnOffsetCommitRequest(**self.who, group_id=GROUP, topics=[topic])
        if not self.member.is_new:
            adding = AddOffsetsToTxnRequest(**self.who, group_id=GROUP)
            response = yield from self.at_coordinator(
                TRANSACTION, self.member.transactional_id, ADD_OFFSETS_TO_TXN, adding, 3
            )
            if response is None or response.error_code != ErrorCode.NONE:
                return False
        for _ in range(self.rng.choice(_ATTEMPTS)):
            version = 5 if self.member.is_new else 3
            response = yield from self.at_coordinator(GROUP_COORDINATOR, GROUP, TXN_OFFSET_COMMIT, request, version)
            error = None if response is None else ErrorCode(response.topics[0].partitions[0].error_code)
            kept.answered_at, kept.is_unsure = self.now, kept.is_unsure or error != ErrorCode.NONE
            if error is not None and not self.has_moved(GROUP_COORDINATOR, error) and error not in AGAIN:
                return error == ErrorCode.NONE
            yield self.rest()
        return False


def _place(found: _Found) -> tuple[str, int]:
    return found.topic, found.number
