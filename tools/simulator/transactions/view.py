"""What the committed records say of transactions: of __transaction_state, and of every partition that they write to.

It reads them as they are committed, keeps the expected state, and compares replicas and answers with it. Records below
the high watermark are the same on all replicas, so the last stable offset and the aborted transactions of any replica
follow from them, without asking that replica.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable

from attrs import Factory, define, frozen

from actors.messages.coordinator import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from actors.messages.replica import AppendMarker
from actors.partition.replica import Replica
from actors.runtime import Actor
from log.partition.partition_log import PartitionLog
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.transaction_records import TransactionLogKey, TransactionLogValue
from protocol.records.batches import BatchHeader, ControlType, Record, parse_batches, read_control, records
from protocol.schema.codec import decode_versioned
from tools.simulator.record.report import Violation
from tools.simulator.settings.layout import PASSING

TOPIC = "x"
"""That transactions write to."""
READ_BYTES = 1 << 20
RECORD_BYTES_MAX = 1 << 20
EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(6)
_IDLE = (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)
_FOLLOWS = {
    EMPTY: _IDLE, ONGOING: (*_IDLE, ONGOING), PREPARE_COMMIT: (ONGOING,), PREPARE_ABORT: (ONGOING,),
    COMPLETE_COMMIT: (PREPARE_COMMIT,), COMPLETE_ABORT: (*_IDLE, PREPARE_ABORT),
}  # fmt: skip
_TOPICS = (TOPIC, GROUPS_TOPIC, TRANSACTIONS_TOPIC)
Place = tuple[str, int]
Identity = tuple[int, int]
"""Producer id and epoch."""


@define(slots=True)
class IdState:
    """A transactional id, as the committed records have it."""

    state: int = EMPTY
    identity: Identity = (-1, -1)
    partitions: frozenset[Place] = frozenset()
    ever: set[Identity] = Factory(set)


@frozen(slots=True)
class PreparedEnd:
    """How the last transaction of an identity ends. The identity is that of its markers."""

    commit: bool
    version: int
    partitions: frozenset[Place]


@define(slots=True)
class PartitionTransactions:
    """What transactions have written to one partition."""

    open: dict[int, tuple[int, int]] = Factory(dict)
    """By producer id: where its transaction begins, and its epoch."""
    epochs: dict[int, int] = Factory(dict)
    coordinators: dict[int, int] = Factory(dict)
    """By producer id: the epoch of the coordinator whose marker came last."""
    markers: set[tuple[int, int, int]] = Factory(set)
    """Producer id, its epoch and the coordinator's: of every marker."""
    aborted: list[tuple[int, int, int]] = Factory(list)
    """Producer id, first offset, offset of the marker."""
    ends: list[int] = Factory(list)
    oldest: list[int | None] = Factory(list)
    """By the ends of batches: where the oldest transaction began that was open then."""

    def stable_below(self, watermark: int) -> int:
        at = bisect_right(self.ends, watermark) - 1
        oldest = self.oldest[at] if at >= 0 else None
        return watermark if oldest is None else oldest


class TransactionView:
    """All of them."""

    def __init__(self, report: Callable[[Violation], None], note: Callable[[str], None]) -> None:
        self._report = report
        self.note = note
        self.ids: dict[str, IdState] = defaultdict(IdState)
        self.partitions: dict[Place, PartitionTransactions] = defaultdict(PartitionTransactions)
        self._ongoing: set[tuple[Identity, Place]] = set()
        """What is, or ever was, in a transaction."""
        self._unended: set[tuple[int, Place]] = set()
        """By producer id: what is in a transaction that has not ended there."""
        self._ending: set[int] = set()
        """Producer ids whose transactions are prepared."""
        self._prepared: dict[Identity, PreparedEnd] = {}
        self._given: dict[Identity, str] = {}
        self._applied: dict[str, int] = {}
        self.incarnations: dict[Place, str] = {}
        """Of topics that come and go: the group that has this place, or had it last."""
        self._former: set[str] = set()
        """Groups whose places others have had since."""
        self.group_at: Callable[[Place], str | None] = lambda _place: None
        """Which group the newest metadata has at a place."""
        self._looked: dict[tuple[str, int], tuple[PartitionLog, int]] = {}
        """By replica: the log and the last stable offset that were looked at."""
        self.on_commit: Callable[[str], None] | None = None
        self.on_marker: Callable[[Place, AppendMarker], None] | None = None
        self.on_state: Callable[[str, int], None] | None = None
        """A transactional id is in another state."""

    def violate(self, promise: str, text: str) -> None:
        self._report(Violation(promise, "", text))

    # -- what is committed -----------------------------------------------------------------------------------------

    def look(self, actor: Actor) -> None:
        """This actor has handled a message."""
        if type(actor) is not Replica or not actor.is_open:
            return
        topic_id, number = actor.partition_id
        topic = actor.context.metadata.topics.get(topic_id)
        if topic is None or not (topic.name in _TOPICS or topic.name.startswith(PASSING)):
            return
        place = (topic.name, number)
        if topic.name not in _TOPICS and not self._is_there(place, actor.raft_group):
            return
        end = actor.member.node.watermark
        if end > self._applied.get(actor.raft_group, 0):
            self._read_on(actor.raft_group, place, actor.member.log, end)
        if topic.name == TOPIC or topic.name not in _TOPICS:
            self._compare(place, actor.raft_group, actor.address.broker, actor.member.log)

    def _is_there(self, place: Place, group: str) -> bool:
        """Is this group of the newest topic of its name? What a broker still does in an older one is not looked at."""
        known = self.incarnations.get(place)
        if known == group:
            return True
        if group in self._former or self.group_at(place) != group:
            return False
        if known is not None:
            self._former.add(known)
        self.incarnations[place] = group
        self.partitions[place] = PartitionTransactions()
        return True

    def _read_on(self, group: str, place: Place, log: PartitionLog, end: int) -> None:
        offset = self._applied.get(group, 0)
        while offset < end:
            batches = parse_batches(log.read(offset, READ_BYTES, up_to=end).read())
            for position, header in zip(batches.positions, batches.headers, strict=True):
                if header.base_offset >= offset:
                    self._apply(place, header, records(batches.data, position, limit=RECORD_BYTES_MAX))
                offset = header.next_offset
            if not batches.headers:
                return  # this log begins later: another replica has what is missing
            self._applied[group] = offset
        if self.on_commit is not None:
            self.on_commit(group)

    def _apply(self, place: Place, header: BatchHeader, made: list[Record]) -> None:
        if place[0] == TRANSACTIONS_TOPIC:
            for one in () if header.is_control else made:
                key = decode_versioned(TransactionLogKey, one.key or b"")
                if one.value is not None:
                    self._apply_state(key.transactional_id, decode_versioned(TransactionLogValue, one.value))
            return
        partition = self.partitions[place]
        if header.producer_id >= 0 and header.is_control:
            kind, coordinator_epoch = read_control(made[0])
            self._apply_marker(place, partition, header, kind is ControlType.COMMIT, coordinator_epoch)
        elif header.is_transactional:
            self._apply_batch(place, partition, header)
        partition.ends.append(header.next_offset)
        partition.oldest.append(min((first for first, _ in partition.open.values()), default=None))

    def _apply_state(self, name: str, value: TransactionLogValue) -> None:
        known, state = self.ids[name], value.transaction_status
        identity = (value.producer_id, value.producer_epoch)
        where = f"{name}: {state} of {identity} after {known.state} of {known.identity}"
        if known.identity != (-1, -1) and known.state not in _FOLLOWS[state]:
            self.violate("a transaction takes one step after the other", where)
        if identity[0] == known.identity[0] and identity[1] < known.identity[1]:
            self.violate("a producer's epoch never goes back", where)
        if state in (COMPLETE_COMMIT, COMPLETE_ABORT) and known.state in (PREPARE_COMMIT, PREPARE_ABORT):
            for place in sorted(known.partitions):  # where it wrote nothing, there is nothing to mark
                if place in self.incarnations:
                    continue  # it may have been deleted by now
                begun = self.partitions[place].open.get(known.identity[0])
                if begun is not None:
                    text = f"{where}; {place} is open since {begun}"
                    self.violate("a transaction is complete when all its markers are there", text)
        former, held = known.identity[0], known.partitions
        known.state, known.identity = state, identity
        known.ever.add(identity)
        known.partitions = frozenset(
            (one.topic, number) for one in value.transaction_partitions or () for number in one.partition_ids
        )
        if state == ONGOING:
            self._ongoing.update((identity, place) for place in known.partitions)
            self._unended.update((identity[0], place) for place in known.partitions)
        elif state in (PREPARE_COMMIT, PREPARE_ABORT):
            version = value.client_transaction_version
            self._prepared[identity] = PreparedEnd(state == PREPARE_COMMIT, version, known.partitions)
            self._ending.add(identity[0])
        else:
            self._ending.discard(former)
            self._unended -= {(former, place) for place in held}
        if self.on_state is not None:
            self.on_state(name, state)

    def _apply_batch(self, place: Place, partition: PartitionTransactions, header: BatchHeader) -> None:
        identity = (header.producer_id, header.producer_epoch)
        self._check_epoch(place, partition, header)
        if (identity, place) not in self._ongoing:
            self.violate("a transaction is known to its coordinator", f"{identity} in {place} at {header.base_offset}")
        elif (
            header.producer_id not in partition.open
            and (header.producer_id, place) not in self._unended
            and place not in self.incarnations
        ):
            text = f"{identity} in {place} at {header.base_offset}: no coordinator will end that"
            self.violate("what has ended does not begin again", text)
        partition.open.setdefault(header.producer_id, (header.base_offset, header.producer_epoch))

    def _apply_marker(
        self,
        place: Place,
        partition: PartitionTransactions,
        header: BatchHeader,
        commit: bool,  # noqa: FBT001
        coordinator_epoch: int,
    ) -> None:
        identity = (header.producer_id, header.producer_epoch)
        where = f"{'commit' if commit else 'abort'} of {identity} in {place} at {header.base_offset}"
        self._check_epoch(place, partition, header)
        prepared = self._prepared.get(identity)
        if prepared is None or prepared.commit is not commit or place not in prepared.partitions:
            self.violate("a marker is of a transaction that was prepared so", f"{where}: {prepared}")
        begun = partition.open.pop(header.producer_id, None)
        if begun is not None and prepared is not None and prepared.version >= 2 and begun[1] >= identity[1]:
            self.violate("a marker ends what was before its epoch", f"{where}: {begun} was open")
        partition.coordinators[header.producer_id] = coordinator_epoch
        partition.markers.add((*identity, coordinator_epoch))
        if header.producer_id in self._ending:  # else it comes once more, and ends nothing of the next transaction
            self._unended.discard((header.producer_id, place))
        if self.on_marker is not None and prepared is not None:
            self.on_marker(place, AppendMarker(*identity, commit, coordinator_epoch, prepared.version))
        if begun is not None and not commit:
            partition.aborted.append((header.producer_id, begun[0], header.base_offset))

    def _check_epoch(self, place: Place, partition: PartitionTransactions, header: BatchHeader) -> None:
        known = partition.epochs.get(header.producer_id, -1)
        if header.producer_epoch < known:
            text = f"{header.producer_id} in {place} at {header.base_offset}: {header.producer_epoch} after {known}"
            self.violate("a producer's epoch never goes back", text)
        partition.epochs[header.producer_id] = header.producer_epoch

    def prepared(self, name: str) -> PreparedEnd:
        """How the transaction of this id, which is prepared, ends."""
        return self._prepared[self.ids[name].identity]

    # -- replicas --------------------------------------------------------------------------------------------------

    def _compare(self, place: Place, group: str, broker: int, log: PartitionLog) -> None:
        """Does this replica know where readers have to stop, and what they have to leave out?"""
        stable, watermark = log.last_stable_offset, log.high_watermark
        if log.log_start_offset or not log.online or self._looked.get((group, broker)) == (log, stable):
            return
        if watermark > self._applied.get(group, 0):
            return
        self._looked[group, broker] = (log, stable)
        partition = self.partitions[place]
        expected = partition.stable_below(watermark)
        if stable != expected:
            text = f"{place} on broker {broker}: {stable}, not {expected}, with {watermark} committed"
            self.violate("the last stable offset is before the first open transaction", text)
        found = {
            (one.producer_id, one.first_offset, one.last_offset)
            for one in log.aborted_transactions(0, watermark)
            if one.last_offset < watermark
        }
        wanted = {one for one in partition.aborted if one[2] < watermark}
        if found != wanted:
            text = f"{place} on broker {broker}: {sorted(found - wanted)} too much, {sorted(wanted - found)} missing"
            self.violate("aborted transactions are known", text)

    # -- what clients are told -----------------------------------------------------------------------------------

    def initialised(self, name: str, producer_id: int, epoch: int, producer: str) -> None:
        """A producer was given this epoch."""
        identity = (producer_id, epoch)
        if identity not in self.ids[name].ever:
            self.violate("an answer tells what is committed", f"{producer} got {identity}, which is not written")
        other = self._given.setdefault(identity, producer)
        if other != producer:
            self.violate("an epoch is given once", f"{identity} to {other} and to {producer}")

    def added(self, name: str, producer_id: int, epoch: int, places: set[Place]) -> None:
        for place in places:
            if ((producer_id, epoch), place) not in self._ongoing:
                text = f"{name}: {place} in the transaction of {(producer_id, epoch)}"
                self.violate("an answer tells what is committed", text)

    def ended(self, request: EndTxnRequest, *, is_new: bool) -> None:
        """The client was told that its transaction has ended so."""
        identity = (request.producer_id, request.producer_epoch + is_new)
        prepared = self._prepared.get(identity)
        is_nothing = is_new and not request.committed and identity in self.ids[request.transactional_id].ever
        if not is_nothing and (prepared is None or prepared.commit is not request.committed):
            text = f"{request.transactional_id}: {request.committed} of {identity} was told; {prepared} is written"
            self.violate("an answer tells what is committed", text)
