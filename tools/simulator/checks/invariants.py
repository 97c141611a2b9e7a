"""What must hold of replicas after every event; only the replica that has just run can have changed."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any

from attrs import define, frozen

from actors.cluster_file.facts import GROUP as METADATA
from actors.control.controller import Controller
from actors.messages.coordinator import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from actors.partition.replica import Replica
from actors.raft.raft_actor import RaftActor
from actors.runtime import Actor
from log.disk.filesystem import Filesystem
from log.disk.memory_filesystem import MemoryFilesystem
from log.disk.reserve import ReservedFilesystem
from log.partition.partition_log import PartitionLog
from log.raft.membership import Membership, Voter
from log.raft.messages import Beat
from log.recovery.checkpoint import Offsets
from log.replica.member import Member
from log.segment.producer_state import BATCHES_KEPT
from log.segment.segment import segment_at
from protocol.errors import ProtocolError
from protocol.records.batches import BatchHeader, check_batches, parse_batches, read_header, records
from tools.simulator.checks.cluster import ClusterInvariants
from tools.simulator.checks.producer_model import Evicting, ProducerModel, Table
from tools.simulator.checks.votes import VoteInvariants
from tools.simulator.record.report import Violation

_RECORDS_BYTES_MAX = 1 << 20
_PAST_LOGS = 4
_GENERATION = "#"
"""Between a group's name and its generation, where that is not the first."""


@frozen(slots=True)
class CommittedBatch:
    """What was committed at an offset, for ever."""

    next_offset: int
    crc: int
    epoch: int


@define(slots=True)
class Seen:
    """A replica as it was when it was last looked at."""

    actor: RaftActor
    log: PartitionLog
    directory: str
    term: int
    watermark: int
    generation: int
    leads: bool
    checked: int
    flushed: int
    membership: Membership
    membership_at: int
    saved: Offsets | None
    eligible: bool
    lost_at: int
    """How many commits there had been when it last began not to count."""


class Invariants:
    """Looks at replicas as they run."""

    def __init__(
        self, report: Callable[[Violation], None], note: Callable[[str], None], now: Callable[[], float],
        damaged: Callable[[int], bool], *, flushes: bool, journal: str,
    ) -> None:  # fmt: skip
        self._report = report
        self.votes = VoteInvariants(report, self._directory_of, journal)
        self.cluster = ClusterInvariants(report, lambda: self.committed_end.get(METADATA, 0), self.voters)
        self._note = note
        self._now = now
        self._damaged = damaged
        self._flushes = flushes
        self.seen: dict[tuple[str, int], Seen] = {}
        self.committed: dict[str, dict[int, CommittedBatch]] = {}
        self._found: dict[str, set[int]] = {}
        """Per partition: the offsets of the committed batches that a look at some replica found."""
        self.values: dict[str, dict[int, bytes]] = {}
        """Every record that was ever committed."""
        self._sequences: dict[str, dict[tuple[int, int], list[tuple[int, int, int]]]] = {}
        """Per partition, producer and epoch: (first sequence, last sequence, last offset) of every committed batch."""
        self.committed_end: dict[str, int] = {}
        self.leaders: dict[tuple[str, int], int] = {}
        self.elected_at: dict[str, list[tuple[int, float]]] = {}
        self.on_elected: Callable[[str, int], None] | None = None
        self.on_cut: Callable[[str, int], None] | None = None
        self.evictions: Evicting | None = None
        self.models: dict[str, ProducerModel] = {}
        """Where producers are forgotten: which ones a partition has to know."""
        self._generations: dict[str, int] = {}
        """Of partitions that were recovered: the newest one that any replica is in."""
        self._memberships: dict[str, dict[int, Membership]] = {}
        """Per group: the memberships that were committed, by their offsets."""
        self._committed_by: dict[str, list[tuple[int, int]]] = {}
        """Per partition: ends that were committed, and the epoch of the leader that committed them."""
        self._alone_at: dict[tuple[str, int], float] = {}
        """When a leader last did something that had lost all the others."""
        self._sole: dict[str, tuple[int, float]] = {}
        """Per partition that has one voter: which broker that is, and since when it is known to be."""
        self._past: dict[tuple[str, Voter], list[PartitionLog]] = {}
        self._expected: dict[tuple[str, int, str], tuple[int, int]] = {}
        self._synced: dict[tuple[str, int, str], tuple[int, int]] = {}
        self._acknowledged: dict[tuple[str, int, str], tuple[int, int]] = {}
        """What a replica held that acknowledges before it syncs, when its power went."""
        self._terms: dict[tuple[str, int, str], int] = {}
        self._kept: str | None = None
        """After a blackout: the only group of which what was committed is still held by a majority."""

    # -- replicas ----------------------------------------------------------------------------------------------

    def look(self, actor: Actor) -> None:
        """This actor has handled a message."""
        self.cluster.look(actor)
        if not (type(actor) is Replica or type(actor) is Controller) or not actor.is_open:
            return
        member = actor.member
        node, log = member.node, member.log
        broker = actor.address.broker
        group = self._in_generation(actor.raft_group, broker, node.generation)
        seen = self.seen.get((group, broker))
        if actor.actor_inbox.closed:
            if seen is not None and seen.actor is actor:
                self._note_last_commit(group, broker, seen)
            return
        if seen is None or seen.actor is not actor:
            if seen is not None:
                self._past.setdefault((group, Voter(broker, seen.directory)), []).append(seen.log)
            seen = self._begin(group, broker, actor)
        self._check_own(group, broker, member)
        leads = node.leads
        if leads or seen.leads:
            self._compare_leading(group, broker, seen, member)
        if node.term < seen.term:
            self._violate("an epoch never goes down", group, f"broker {broker}: {node.term} after {seen.term}")
        if node.watermark < seen.watermark:
            text = f"broker {broker}: {node.watermark} after {seen.watermark}"
            self._violate("a high watermark never goes down", group, text)
        self._note_term(group, broker, member)
        cut = log.generation != seen.generation
        led, seen.term, seen.leads, seen.generation = seen.leads, node.term, leads, log.generation
        if node.watermark > seen.watermark:
            if led and leads and log.epochs.epoch_at(node.watermark - 1) != node.term:
                text = f"broker {broker} in {node.term}: {node.watermark}, of {log.epochs.epoch_at(node.watermark - 1)}"
                self._violate("a leader counts batches of its own epoch alone", group, text)
            seen.watermark = node.watermark
            self._advanced(group, broker, seen, log)
        if cut and self.on_cut is not None:
            self.on_cut(actor.raft_group, broker)
        self._compare_disk(group, broker, seen, log)
        self._compare_recovery_point(group, broker, seen, log)
        self._compare_membership(group, broker, seen)
        self._compare_eligible(group, broker, seen)

    def _check_own(self, group: str, broker: int, member: Member) -> None:
        try:
            member.check_invariants()
        except AssertionError as error:
            text = f"broker {broker} in {member.node.term}: {error}"
            self._violate("a replica keeps its own invariants", group, text)

    def newest(self, group: str) -> str:
        """The name here of a group's newest generation. Each is a group of its own: the loss before it is accepted."""
        generation = self._generations.get(group, 0)
        return f"{group}{_GENERATION}{generation}" if generation else group

    def _in_generation(self, group: str, broker: int, generation: int) -> str:
        """This replica is in a generation, perhaps in a later one than before. Gives the name of that."""
        if not generation or group == METADATA:
            return group
        name = f"{group}{_GENERATION}{generation}"
        if (name, broker) not in self.seen:
            self._generations[group] = max(generation, self._generations.get(group, 0))
            for before in (group, *(f"{group}{_GENERATION}{number}" for number in range(1, generation))):
                self.seen.pop((before, broker), None)
        return name

    def _is_fresh(self, group: str) -> bool:
        """May some of what was committed before be gone, and not looked at any more?"""
        return self._kept not in (None, group) or _GENERATION in group

    def values_of(self, group: str) -> dict[int, bytes]:
        """Every record that was ever committed in the newest generation of a group, with those that survived before."""
        return self.values.get(self.newest(group), {})

    def _note_term(self, group: str, broker: int, member: Member) -> None:
        """Note the saved term, which must be there after a restart, and leaders that lost all other voters."""
        node = member.node
        if member.unsaved_vote is None:
            self._terms[group, broker, node.directory] = node.term
        if node.role.alone:
            self._alone_at[group, broker] = self._now()
        if node.leads:
            if node.membership.brokers != (broker,):
                self._sole.pop(group, None)
            elif self._sole.get(group, (-1, 0.0))[0] != broker:
                self._sole[group] = broker, self._now()

    def _compare_leading(self, group: str, broker: int, seen: Seen, member: Member) -> None:
        """It leads, or did. A single voter keeps its leadership, and needs no other broker.

        Only a candidate that was removed since brings a newer term: then the single voter is elected in the next one.
        """
        node, log = member.node, member.log
        leads = node.leads
        if leads and (not seen.leads or node.term != seen.term):
            self._elected(group, broker, node.term, log)
            if self._is_fresh(group) and node.watermark > self.committed_end.get(group, 0):
                self.committed_end[group] = node.watermark  # it was committed once, and may be held by fewer now
        elif leads and log.generation != seen.generation:
            self._violate("a leader never truncates", group, f"broker {broker} did, in epoch {node.term}")
        elif leads and node.is_superseded:
            text = f"broker {broker} leads in epoch {node.term} and has heard of generation {node.latest_generation}"
            self._violate("a leader that hears of a later generation leads no more", group, text)
        elif leads or node.term != seen.term or node.retiring or node.is_superseded:
            return
        elif node.membership.brokers == (broker,):
            self._violate("a single voter goes on leading", group, f"broker {broker}, in epoch {node.term}")

    def _begin(self, group: str, broker: int, actor: RaftActor) -> Seen:
        node, log = actor.member.node, actor.member.log
        known = self._terms.get((group, broker, node.directory), 0)
        if node.term < known:
            text = f"broker {broker} came back with {node.term} after {known}"
            self._violate("an epoch never goes down", group, text)
        told = self.votes.told.get((_raw(group), node.term, broker, node.directory))
        if told is not None and node.vote.voted_for != told:
            text = f"broker {broker} told in {node.term} that it votes for {told}, and came back with {node.vote}"
            self._violate("a vote that was told is remembered", group, text)
        expected, found = self._expected.pop((group, broker, node.directory), None), (log.end_offset, log.epochs.latest)
        # It left, so its log is gone, and came back; or its disk is damaged, and the replica knows that.
        starts_empty = not node.membership.voters or (self._damaged(broker) and not node.eligible)
        if expected is not None and expected != found and not starts_empty:
            text = f"broker {broker} ended at (offset, epoch) {expected} and came back with {found}"
            self._violate("a kill loses nothing", group, text)
        synced = self._synced.pop((group, broker, node.directory), None)
        if synced is not None and not _has(log, *synced) and not starts_empty:
            text = f"broker {broker} had (offset, epoch) {synced} on disk and came back with {found}"
            self._violate("what is synced survives", group, text)
        acknowledged = self._acknowledged.pop((group, broker, node.directory), None)
        if acknowledged is not None and node.eligible and not _has(log, *acknowledged) and not starts_empty:
            text = f"broker {broker} had (offset, epoch) {acknowledged}, came back with {found} and counts"
            self._violate("a replica that lost acknowledged records is ineligible", group, text)
        seen = Seen(actor, log, node.directory, node.term, 0, log.generation, False, log.log_start_offset, 0,
                    node.membership, node.history.latest_offset, log.saved_offsets, node.eligible,
                    len(self._committed_by.get(group, ())))  # fmt: skip
        self.seen[group, broker] = seen
        self._note(
            f"opened replica/{group}@{broker} {log.log_start_offset}..{log.end_offset} watermark {node.watermark} "
            f"epoch {node.term} log epoch {log.epochs.latest} eligible {node.eligible} cut {log.cut}"
        )
        self._look_for_overlooked(group, broker, seen)
        if node.watermark > 0:
            seen.watermark = node.watermark
            if not self._is_fresh(group):
                self._advanced(group, broker, seen, log)
        return seen

    def _look_for_overlooked(self, group: str, broker: int, seen: Seen) -> None:
        """A replica that comes back knows the last membership that its log holds."""
        known = {} if self._is_fresh(group) else self._memberships.get(group, {})
        held = [at for at in known if self._holds(seen.log, group, at + 1, seen.log.end_offset)]
        if held and seen.membership_at < max(held):
            text = f"broker {broker} came back with {seen.membership} of {seen.membership_at}; {max(held)} brought "
            self._violate("a membership in the log is never overlooked", group, f"{text}{known[max(held)]}")

    def _elected(self, group: str, broker: int, term: int, log: PartitionLog) -> None:
        self._note(f"elected replica/{group}@{broker} in {term}, {log.end_offset} of epoch {log.epochs.latest}")
        known = self.leaders.setdefault((group, term), broker)
        if known != broker:
            self._violate("at most one leader per epoch", group, f"brokers {known} and {broker} in {term}")
        self.votes.elected(_raw(group), broker, term, _memory_of(log.filesystem))
        self.elected_at.setdefault(group, []).append((term, self._now()))
        # What a later leader committed, this one need not have: it may have been elected long ago and not known it.
        end = max((end for end, by in self._committed_by.get(group, ()) if by < term), default=0)
        if not self._holds(log, group, end, log.end_offset):
            text = f"broker {broker} in {term} has {log.end_offset} of epoch {log.epochs.latest}; {end} is committed"
            self._violate("a leader holds everything committed", group, text)
        if self.on_elected is not None:
            self.on_elected(_raw(group), broker)

    def _advanced(self, group: str, broker: int, seen: Seen, log: PartitionLog) -> None:
        """A watermark has moved: the records below it are the same on all replicas, and a majority holds them."""
        watermark = seen.watermark
        if watermark > log.end_offset:
            text = f"broker {broker} has {log.end_offset}, its watermark is {watermark}"
            self._violate("a watermark covers what is there", group, text)
            return
        self._compare(group, broker, seen, log)
        self._compare_producers(group, broker, watermark, log)
        epoch, known = log.epochs.epoch_at(watermark - 1), self.leaders_epoch(group, watermark)
        if known is not None and epoch != known:
            text = f"broker {broker} takes {watermark} for epoch {epoch}; it is of {known}"
            self._violate("every replica knows the same epochs", group, text)
        self._commit(group, broker, seen)

    def crashed(self, broker: int) -> None:
        """This broker died in the middle of a turn."""
        for (group, at), seen in self.seen.items():
            if at == broker and _lives(seen.actor):
                self._note_last_commit(group, broker, seen)

    def _note_last_commit(self, group: str, broker: int, seen: Seen) -> None:
        """It died in the middle of its turn. What it committed in that turn is committed, and may be announced."""
        watermark = seen.actor.member.node.watermark
        if seen.watermark < watermark <= seen.log.end_offset:
            seen.watermark = watermark
            self._commit(group, broker, seen)

    def _commit(self, group: str, broker: int, seen: Seen) -> None:
        watermark = seen.watermark
        if watermark <= self.committed_end.get(group, 0):
            return
        self.committed_end[group] = watermark
        self._committed_by.setdefault(group, []).append((watermark, seen.term))
        memberships = (seen.membership, seen.actor.member.node.membership)  # it may have changed right after
        holders = {voter for one in memberships for voter in one.voters if self._is_holder(group, voter, watermark)}
        if all(len(holders.intersection(one.voters)) < one.majority for one in memberships):
            text = f"{watermark}, by broker {broker} in {seen.term}: held by {sorted(holders)} only"
            self._violate("what the watermark covers is held by a majority", group, text)

    def _compare(self, group: str, broker: int, seen: Seen, log: PartitionLog) -> None:
        committed, found = self.committed.setdefault(group, {}), self._found.setdefault(group, set())
        offset = max(seen.checked, log.log_start_offset)
        while offset < seen.watermark:
            data = log.read(offset, 1 << 20, up_to=seen.watermark).read()
            if not data and _is_compacted(group) and log.end_offset > seen.watermark:
                break  # compacted by a leader that knew a higher watermark before it was restarted
            if not data:
                text = f"broker {broker} has nothing at {offset} below {seen.watermark}"
                self._violate("a watermark covers what is there", group, text)
                return
            try:  # a damaged disk may show a batch that was whole once; no other disk may
                batches = parse_batches(data) if self._damaged(broker) else check_batches(data)
            except ProtocolError as error:
                self._violate("what is committed is whole", group, f"broker {broker} from {offset} on: {error}")
                return
            for position, header in zip(batches.positions, batches.headers, strict=True):
                batch = CommittedBatch(header.next_offset, header.crc, header.leader_epoch)
                known = committed.get(header.base_offset)
                if known is None:
                    committed[header.base_offset] = batch
                    found.update(range(header.base_offset, header.next_offset))
                    if self._is_modelled(group):
                        self._note_producer(group, header)
                    self._note_values(group, batches.data, position, header)
                elif _is_compacted(group):
                    self._compare_values(group, broker, batches.data, position, header)
                elif known != batch:
                    text = f"offset {header.base_offset} at broker {broker} is {batch}; {known} was committed"
                    self._violate("what is committed is the same everywhere", group, text)
                offset = header.next_offset
        seen.checked = offset

    def _compare_values(self, group: str, broker: int, data: memoryview, position: int, header: BatchHeader) -> None:
        """Of a compacted topic, which has fewer records in the end: those that are left are as they were."""
        values = self.values.setdefault(group, {})
        for record in () if header.is_control else records(data, position, limit=_RECORDS_BYTES_MAX):
            if self._is_fresh(group):  # the first that was looked at since may have compacted it away
                values.setdefault(record.offset, record.value or b"")
            if values.get(record.offset) != (record.value or b""):
                text = f"offset {record.offset} at broker {broker} holds another record than was committed"
                self._violate("what is committed is the same everywhere", group, text)

    def _note_values(self, group: str, data: memoryview, position: int, header: BatchHeader) -> None:
        values = self.values.setdefault(group, {})
        if header.is_control:
            return
        for record in records(data, position, limit=_RECORDS_BYTES_MAX):
            values[record.offset] = record.value or b""
        if header.base_sequence >= 0:
            identity = (header.producer_id, header.producer_epoch)
            written = self._sequences.setdefault(group, {}).setdefault(identity, [])
            insort(written, (header.base_sequence, header.last_sequence, header.last_offset), key=itemgetter(2))

    def _compare_producers(self, group: str, broker: int, watermark: int, log: PartitionLog) -> None:
        """Each replica knows the last batches of each producer, those above its watermark included.

        After a blackout, a table may hold batches that no look has found yet: this log has deleted them, and the other
        logs that were looked at end before them. Nothing is known of those; of all others, the last ones must be there.
        """
        found = self._found.get(group, set()) if self._is_fresh(group) else None
        table = self._compare_table(group, broker, watermark, log) if self._is_modelled(group) else None
        for (producer_id, epoch), written in self._sequences.get(group, {}).items():
            producer = log.producers.get(producer_id)
            if self._is_forgotten(group, producer_id, table):
                continue
            if producer is not None and producer.epoch > epoch:
                continue  # what was written in an earlier epoch does not count any more
            at = bisect_left(written, watermark, key=itemgetter(2))
            batches = () if producer is None or producer.epoch != epoch else producer.batches
            known = [(one.first_sequence, one.last_sequence, one.last_offset) for one in batches]
            committed = [one for one in known if one[2] < watermark and (found is None or one[2] in found)]
            room = BATCHES_KEPT - (len(known) - len(committed))
            expected = written[max(at - room, 0) : at]
            if table is not None:
                expected = [one for one in expected if one[2] >= table[producer_id].since]
            if committed != expected:
                text = f"broker {broker}, producer {producer_id} below {watermark}: {committed}, not {expected}"
                self._violate("every replica knows the same producers", group, text)

    def _is_modelled(self, group: str) -> bool:
        return (
            self.evictions is not None and not _is_compacted(group) and not self._is_fresh(group) and group != METADATA
        )

    def _note_producer(self, group: str, header: BatchHeader) -> None:
        assert self.evictions is not None
        model = self.models.setdefault(group, ProducerModel(self.evictions.producers_max))
        is_expired = (group, header.producer_id) in self.evictions.expired

        def violate(text: str) -> None:
            if not is_expired:
                self._violate("a producer's batches follow each other until it is forgotten", group, text)

        model.committed(header, violate)

    def _is_forgotten(self, group: str, producer_id: int, table: Table | None) -> bool:
        if table is None or self.evictions is None:
            return False
        return producer_id not in table or (group, producer_id) in self.evictions.expired

    def _compare_table(self, group: str, broker: int, watermark: int, log: PartitionLog) -> Table:
        """Does this replica know the producers that follow from its log? Those that time has taken may be missing."""
        assert self.evictions is not None
        model = self.models.setdefault(group, ProducerModel(self.evictions.producers_max))
        table, found = model.at_end_of(log, watermark), {producer.id for producer in log.producers}
        missing = {one for one in table.keys() - found if (group, one) not in self.evictions.expired}
        open_ones = {producer_id for producer_id, one in table.items() if one.is_open}
        if missing or found - table.keys() or open_ones - found:
            text = f"broker {broker}, {watermark} of {log.end_offset}: {sorted(found)}, not {sorted(table)}"
            self._violate("every replica knows the same producers", group, text)
        return table

    def _compare_disk(self, group: str, broker: int, seen: Seen, log: PartitionLog) -> None:
        if log.flushed_offset == seen.flushed or not log.online:
            return
        before, seen.flushed = seen.flushed, log.flushed_offset
        if seen.flushed > log.end_offset:
            text = f"broker {broker} counts all up to {log.flushed_offset} as synced, and has {log.end_offset}"
            self._violate("what counts as synced is on disk", group, text)
            return
        path = _not_durable(log, before, seen.flushed)
        if path is not None:
            text = f"broker {broker} counts all up to {log.flushed_offset} as synced, and {path} is not"
            self._violate("what counts as synced is on disk", group, text)

    def _compare_recovery_point(self, group: str, broker: int, seen: Seen, log: PartitionLog) -> None:
        """Below it nothing is scanned: what is there must be on disk."""
        saved = log.saved_offsets
        if saved == seen.saved or not log.online:
            return
        before, seen.saved = 0 if seen.saved is None else seen.saved.recovery_point, saved
        path = None if seen.saved is None else _not_durable(log, before, seen.saved.recovery_point)
        if path is not None:
            text = f"broker {broker} wrote {seen.saved}, and {path} is not on disk so far"
            self._violate("what is below the recovery point is on disk", group, text)

    def _compare_eligible(self, group: str, broker: int, seen: Seen) -> None:
        """A replica that lost records becomes eligible when it has all that was committed while its loss could matter.

        Commits of later leaders that it has not heard of did not count it.
        """
        node = seen.actor.member.node
        counted, seen.eligible = seen.eligible, node.eligible
        commits = self._committed_by.get(group, [])
        if counted and not node.eligible:
            seen.lost_at = len(commits)
        elif node.eligible and not counted:
            end = max((end for end, by in commits[: seen.lost_at] if by <= node.term), default=0)
            if not self._holds(seen.log, group, end, seen.log.end_offset):
                text = f"broker {broker} has {seen.log.end_offset} of epoch {seen.log.epochs.latest} and counts again; "
                self._violate("an eligible replica holds what was committed", group, f"{text}{end} was committed")

    def _compare_membership(self, group: str, broker: int, seen: Seen) -> None:
        """Raft's rules for a leader that changes one voter at a time."""
        node, epochs = seen.actor.member.node, seen.log.epochs
        at, seen.membership, seen.membership_at = seen.membership_at, node.membership, node.history.latest_offset
        self.votes.believed(_raw(group), seen.membership)
        if 0 <= seen.membership_at < node.watermark:
            known = self._memberships.setdefault(group, {}).setdefault(seen.membership_at, seen.membership)
            if known != seen.membership:
                text = f"broker {broker}, at {seen.membership_at}: {known} was committed, and now {seen.membership}"
                self._violate("a committed membership stays, even if all power is lost", group, text)
        if not seen.leads or seen.membership_at <= at or epochs.epoch_at(seen.membership_at) != node.term:
            return
        text = f"broker {broker} in {node.term}, at {seen.membership_at} after {at}; {node.watermark} is committed"
        is_first = epochs.epoch_at(seen.membership_at - 1) != node.term  # a membership that it was elected by, too
        is_known = is_first and any(
            other is not seen and other.membership == seen.membership
            for (name, _), other in self.seen.items()
            if name == group
        )
        if epochs.epoch_at(node.watermark - 1) != node.term and not is_known:
            self._violate("a leader commits something before it changes the membership", group, text)
        if at >= node.watermark:
            self._violate("the membership changes once at a time", group, text)

    def forget(self, *, keep: str) -> None:
        """Raft groups but one may lose committed records; votes, memberships and synced records may not be lost."""
        self._kept = keep
        of_groups: tuple[dict[str, Any], ...] = (
            self.committed, self._found, self.values, self._sequences, self.committed_end, self._committed_by,
            self._sole,
        )  # fmt: skip
        for table in of_groups:
            for group in [group for group in table if group != keep]:
                del table[group]
        self.seen = {key: seen for key, seen in self.seen.items() if key[0] == keep}
        self._past = {key: logs for key, logs in self._past.items() if key[0] == keep}

    def voters(self, group: str) -> Membership | None:
        """The voters of a group, by the last membership that is committed and was not its first."""
        known = self._memberships.get(self.newest(group))
        return known[max(known)] if known else None

    def compare_all(self, group: str, broker: int) -> None:
        """Everything that this replica knows to be committed, once more."""
        group = self.newest(group)
        seen = self.seen[group, broker]
        seen.checked = 0
        self._compare(group, broker, seen, seen.log)

    def look_at_all(self, group: str, broker: int) -> None:
        """Everything that this leader holds, once more."""
        self.compare_all(group, broker)
        group = self.newest(group)
        seen = self.seen[group, broker]
        if seen.watermark < self.committed_end.get(group, 0):
            text = f"broker {broker} leads with {seen.watermark}; {self.committed_end[group]} was committed"
            self._violate("a leader holds everything committed", group, text)

    def _is_holder(self, group: str, voter: Voter, end: int) -> bool:
        seen = self.seen.get((group, voter.broker))
        logs = self._past.get((group, voter), [])[-_PAST_LOGS:]  # what it said then may still be counted
        if seen is not None and seen.directory == voter.directory:
            logs.append(seen.log)
        flushes = self._flushes or group == METADATA
        return any(self._holds(log, group, end, log.flushed_offset if flushes else log.end_offset) for log in logs)

    def holders(self, group: str, end: int) -> int:
        """How many brokers have, or had before they were restarted, everything up to there."""
        group = self.newest(group)
        voters = {Voter(broker, seen.directory) for (name, broker), seen in self.seen.items() if name == group}
        voters |= {voter for name, voter in self._past if name == group}
        return len({voter.broker for voter in voters if self._is_holder(group, voter, end)})

    def votes_alone(self, group: str, broker: int, since: float) -> bool:
        """Has this broker been the only voter since then?"""
        sole, at = self._sole.get(self.newest(group), (-1, 0.0))
        return sole == broker and at <= since

    def led_alone(self, group: str, broker: int, since: float) -> bool:
        """Did this broker lead, since then, without a link to any other voter? Such a leader may answer stale reads."""
        return self._alone_at.get((self.newest(group), broker), -1.0) >= since

    def expect_same(self, broker: int, groups: Iterable[str]) -> None:
        """This broker is killed, and its disk stays as it is."""
        for group in groups:
            seen = self.seen.get((group, broker))
            if seen is not None and _lives(seen.actor) and seen.log.online:
                self._expected[group, broker, seen.directory] = (seen.log.end_offset, seen.log.epochs.latest)

    def expect_nothing(self, broker: int) -> None:
        """This broker lost its power in the middle of something."""
        for key in [key for key in self._expected if key[1] == broker]:
            del self._expected[key]

    def expect_synced(self, broker: int, groups: Iterable[str]) -> None:
        """This broker loses its power: only what it had not synced may go, and it must know if it acknowledged that."""
        for group in groups:
            seen = self.seen.get((group, broker))
            if seen is None:
                continue
            self._expected.pop((group, broker, seen.directory), None)
            self._note_acknowledged(group, broker, seen)
            if _lives(seen.actor) or (seen.actor.node.ending and seen.log.is_closed_cleanly):
                offset = seen.log.flushed_offset
                self._synced[group, broker, seen.directory] = (offset, seen.log.epochs.epoch_at(offset - 1))

    def _note_acknowledged(self, group: str, broker: int, seen: Seen) -> None:
        node, log = seen.actor.member.node, seen.log
        if _lives(seen.actor) and log.online and node.eligible and not node.config.flush_before_ack:
            end = log.end_offset
            self._acknowledged[group, broker, seen.directory] = (end, log.epochs.epoch_at(end - 1))

    def _holds(self, log: PartitionLog, group: str, end: int, held: int) -> bool:
        if end <= log.log_start_offset:  # deleted, which only what is committed is
            return True
        epoch = self.leaders_epoch(group, end)
        return held >= end and (epoch is None or log.epochs.epoch_at(end - 1) == epoch)

    def committed_before(self, group: str, term: int) -> Beat | None:
        """The heartbeat of the last leader before this term that committed anything."""
        group = self.newest(group)
        ends = self._committed_by.get(group, ())
        by, end = max(((by, end) for end, by in ends if by < term and (group, by) in self.leaders), default=(0, 0))
        return Beat(by, self.leaders[group, by], end, certain=True) if end else None

    def was_followed(self, group: str, epoch: int, before: float) -> bool:
        """Was a leader elected in a later epoch, before that time?"""
        return any(term > epoch and at < before for term, at in self.elected_at.get(self.newest(group), ()))

    def leaders_epoch(self, group: str, end: int) -> int | None:
        """The epoch of the committed batch that holds the offset before this end, if a look found it."""
        batches = self.committed.get(group, {})
        for offset in range(end - 1, max(end - 8, -1), -1):
            if offset in batches:
                return batches[offset].epoch if batches[offset].next_offset >= end else None
        return None

    def _directory_of(self, group: str, broker: int) -> str:
        seen = self.seen.get((self.newest(group), broker)) or self.seen.get((group, broker))
        return "" if seen is None else seen.directory

    def _violate(self, promise: str, group: str, text: str) -> None:
        self._report(Violation(promise, group, text))


def _raw(group: str) -> str:
    """A group as brokers call it, without its generation: votes have epochs, which say that."""
    return group.partition(_GENERATION)[0]


def _is_compacted(group: str) -> bool:
    return group.startswith((f"{GROUPS_TOPIC}-", f"{TRANSACTIONS_TOPIC}-"))


def _lives(actor: RaftActor) -> bool:
    return actor.node.actor(actor.address) is actor


def _has(log: PartitionLog, end: int, epoch: int) -> bool:
    return log.end_offset >= end and log.epochs.epoch_at(end - 1) == epoch


def _memory_of(files: Filesystem) -> MemoryFilesystem:
    """The disk behind a broker's filesystem."""
    assert isinstance(files, ReservedFilesystem)
    assert isinstance(files.files, MemoryFilesystem)
    return files.files


def _not_durable(log: PartitionLog, start: int, end: int) -> str | None:
    """A file of this log that a loss of power could take something from between `start` and `end`."""
    disk = _memory_of(log.filesystem)
    first = segment_at(log.segments, start)
    for at, segment in enumerate(log.segments[first:], start=first):
        if segment.base_offset >= end:
            break
        file = disk.file(segment.path)
        upper = log.segments[at + 1].base_offset if at + 1 < len(log.segments) else log.end_offset
        size = segment.size if upper <= end else _size_below(file.data, end, segment.size)
        if file.durable[:size] != file.data[:size]:
            return segment.path
    return None


def _size_below(data: bytearray, end: int, size: int) -> int:
    """How many bytes of a segment hold the batches below `end`."""
    at, view = 0, memoryview(bytes(data[:size]))
    while at < size:
        header = read_header(view, at)
        if header.next_offset > end:
            break
        at += header.size
    return at
