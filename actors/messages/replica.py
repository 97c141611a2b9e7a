"""The messages to replicas, their answers, and the addresses of replicas."""

from __future__ import annotations

from actors.runtime import Address, Payload, wire
from log.disk.slice import Slice
from log.segment.transaction_index import AbortedTransaction
from protocol.late_attrs import frozen

_TOPIC_CHARS_MAX = 200  # a file's name has at most 255

ALL = -1
"""acks=all: answered once every record is held by a majority, and by min.insync.replicas at least."""


@wire(0x0220)
@frozen(slots=True)
class AppendRecords:
    """Append whole batches. acks: 0, 1, or -1 for all; the answer to acks=0 comes at once and is ignored."""

    acks: int
    timeout_ms: int
    batches: Payload
    leader_epoch: int = -1
    """The expected leader epoch; -1 for any."""
    own: bool = False
    """From the coordinator of this partition: not checked as batches of clients are, and not vouched for."""
    transactional_id: str = ""
    adds: bool = False
    """With transactions v2: the first batch of a transaction adds the partition to it."""


@wire(0x0241)
@frozen(slots=True)
class AppendMarker:
    """End a producer's transaction in this partition. Answered (AppendResult) once the marker is committed."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    transaction_version: int
    leader_epoch: int = -1
    """As in AppendRecords."""


@wire(0x0221)
@frozen(slots=True)
class AppendResult:
    """Where the records are, or an error. `append_time_ms`: the time that was stamped into them, or -1."""

    error: int
    base_offset: int
    leader_epoch: int
    message: str
    log_start_offset: int = -1
    append_time_ms: int = -1
    blamed: tuple[int, ...] = ()
    """The indexes of the invalid records of a refused batch, where only some are invalid."""


@wire(0x0222)
@frozen(slots=True)
class ReadRecords:
    """Read whole batches from `offset`, waiting up to `wait_ms` for at least `min_bytes`."""

    offset: int
    bytes_max: int
    min_bytes: int
    wait_ms: int
    read_committed: bool = False
    """Only up to the last stable offset, and with the aborted transactions."""


@wire(0x022E)
@frozen(slots=True)
class Aborted:
    """An aborted transaction: its producer, and its first offset."""

    producer_id: int
    first_offset: int


@wire(0x0223)
@frozen(slots=True)
class ReadResult:
    """Batches below the high watermark, or an error."""

    error: int
    high_watermark: int
    log_start_offset: int
    leader_epoch: int
    batches: Payload
    last_stable_offset: int = -1
    aborted: tuple[Aborted, ...] = ()
    """Ordered by first offset."""


@wire(0x0224)
@frozen(slots=True)
class DescribeReplica:
    """The state of this replica: answered with ReplicaFacts."""


@wire(0x0225)
@frozen(slots=True)
class ReplicaFacts:
    """The state of a replica, as the replica sees it. leader -1: no leader is known."""

    leader: int
    leader_epoch: int
    role: str
    high_watermark: int
    log_start_offset: int
    end_offset: int
    in_sync: tuple[int, ...]
    cleaned_to: int


@wire(0x0231)
@frozen(slots=True)
class DescribeSurvivor:
    """What this replica holds, and why there is no leader: answered with SurvivorFacts."""


@wire(0x0232)
@frozen(slots=True)
class SurvivorFacts:
    """What one replica holds, for an operator that has to decide which replicas to give up."""

    broker: int
    leader: int
    is_complete: bool
    """False if it may have lost acknowledged records."""
    last_epoch: int
    log_start_offset: int
    end_offset: int
    high_watermark: int
    voters: tuple[int, ...]
    waits_for: str
    """Which replicas the election waits for; empty if there is a leader."""
    generation: int
    """The latest generation that this replica has begun."""
    latest_generation: int
    """The latest generation that it has heard of. The metadata may have lost its record (recover-metadata)."""
    is_voter: bool
    leads: bool
    """Does it lead, and does a majority answer it?"""


@wire(0x0226)
@frozen(slots=True)
class TransferLeadership:
    """Transfer leadership to this broker. Answered with whether the transfer was begun."""

    to: int


@frozen(slots=True)
class DiskIsFull:
    """To a replica, from its own broker: transfer leadership to an in-sync replica whose disk has space."""


@wire(0x0227)
@frozen(slots=True)
class HandOver:
    """To a member of a Raft group that is about to stop: let another member lead. Answered with whether one leads.

    The answer comes once that is known: at once if no other member can lead.
    """


LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
"""Kafka's special timestamps."""


@wire(0x0228)
@frozen(slots=True)
class FindOffset:
    """The first offset with this timestamp or a later one; or LATEST, EARLIEST, MAX_TIMESTAMP."""

    timestamp: int
    read_committed: bool
    known_epoch: int = -1
    """The leader epoch that the asker knows; -1 if it knows none."""


@wire(0x0229)
@frozen(slots=True)
class OffsetFound:
    """The offset with its timestamp; -1 and -1 if there is no such record."""

    error: int
    offset: int
    timestamp: int
    leader_epoch: int


@wire(0x022F)
@frozen(slots=True)
class ConfirmLeadership:
    """Does this replica lead in this epoch? It asks a majority before it answers."""

    leader_epoch: int


@wire(0x0230)
@frozen(slots=True)
class LeadershipAnswer:
    error: int


@wire(0x022A)
@frozen(slots=True)
class MemberStarted:
    """To the other members of its Raft group: the member on this broker has just started, and lost earlier messages."""

    broker: int


@frozen(slots=True)
class ReadSlice:
    """To a replica on this broker: a slice of the log with whole batches from `offset`, at least one.

    The epochs are those that the reader knows, or -1: the leader epoch, and that of the record before `offset`.
    """

    offset: int
    bytes_max: int
    read_committed: bool
    leader_epoch: int = -1
    last_fetched_epoch: int = -1
    copied: bool = False
    """Copied into memory, and only a few: slow readers hold too many files open."""


@frozen(slots=True)
class SliceRead:
    """A slice of a log, or an error. `diverged`: the (epoch, end) at which the reader's log parts from this one.

    `withheld`: there are records to read, but slices that are being sent hold too many files open.
    """

    error: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    slice: Slice
    aborted: list[AbortedTransaction] | None = None
    diverged: tuple[int, int] | None = None
    withheld: bool = False


@frozen(slots=True)
class WatchLog:
    """To a replica on this broker: send `watcher` one LogMoved when `wanted` bytes can be read from `offset` on.

    It is sent also when this replica leads no longer. A second watch of the same watcher under the same number replaces
    the first.
    """

    watcher: Address
    number: int
    """Of the fetch, among those of its connection."""
    place: int
    """Of the partition, in the fetch."""
    offset: int
    read_committed: bool
    lacks: int
    """Bytes that the whole fetch lacks. If it lacks more than one, LogMoved counts them."""
    wanted: int


@frozen(slots=True)
class UnwatchLog:
    """To a replica on this broker: the fetch with this number waits no longer."""

    watcher: Address
    number: int


@frozen(slots=True)
class LogMoved:
    """From a replica to a connection: the log of this partition of this fetch can be read up to `end` now.

    `size` counts the bytes from the offset of the watch on, and is at least 1. `end` is -1 if the replica leads no
    longer.
    """

    number: int
    place: int
    end: int
    size: int


@frozen(slots=True)
class FetchExpired:
    """From a connection to itself: the fetch with this number has waited long enough."""

    number: int


@frozen(slots=True)
class DeleteRecords:
    """To a replica on this broker: raise the log start to `offset`; -1 for the high watermark.

    Answered when all reachable replicas have done so, or when the time is up.
    """

    offset: int
    timeout_ms: int


@frozen(slots=True)
class RecordsDeleted:
    """The lowest log start of all reachable replicas, or an error."""

    error: int
    low_watermark: int
    message: str = ""


@wire(0x0240)
@frozen(slots=True)
class RaiseLogStart:
    """From the leader in this epoch to a follower: raise the log start. Answered with the log start once it is done."""

    leader_epoch: int
    offset: int


@frozen(slots=True)
class FindEpochEnd:
    """To a replica on this broker: the end of this epoch. `known_epoch`: the leader epoch, -1 if unknown."""

    epoch: int
    known_epoch: int


@frozen(slots=True)
class EpochEnd:
    """The largest epoch up to the one in question, and its end; -1 and -1 if there is no such epoch."""

    error: int
    epoch: int
    end_offset: int


@frozen(slots=True)
class DescribeProducers:
    """To a replica on this broker: the idempotent producers that it knows."""


@frozen(slots=True)
class DescribeLog:
    """To a replica on this broker: the size of its log, and its lag."""


@frozen(slots=True)
class LogFacts:
    """`lag`: how many committed offsets are missing here, as far as this replica knows."""

    size_bytes: int
    lag: int


@frozen(slots=True)
class CleanUp:
    """To a replica, from its own broker: apply retention and compact its log. Answered when that is done."""

    retention: bool = True
    """Is retention applied, too?"""


@frozen(slots=True)
class Discard:
    """To a member of a Raft group, from its own broker: end without closing the log; its files will be removed."""


def group_name(topic: str, number: int, topic_id: str) -> str:
    """The name of a partition's Raft group: readable, and another one for another topic of the same name."""
    return f"{topic[:_TOPIC_CHARS_MAX]}-{number}.{topic_id}"


def parts_of(raft_group: str) -> tuple[str, int]:
    """The topic id and the partition's number in the name of a Raft group."""
    name, _, topic_id = raft_group.rpartition(".")
    return topic_id, int(name.rpartition("-")[2])


def replica_address(raft_group: str, broker: int) -> Address:
    return Address("replica", raft_group, broker)
