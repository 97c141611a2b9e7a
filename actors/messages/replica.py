"""What clients of a replica ask, what it answers, and where it is found."""

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
    """Append whole batches. acks: 0, 1, or -1 for all; the answer to 0 is sent at once and means nothing."""

    acks: int
    timeout_ms: int
    batches: Payload
    leader_epoch: int = -1
    """Only if this is the leader's; -1 if it does not matter."""
    own: bool = False
    """From the partition's own coordinator: not looked at as a client's batches are, nor its producers vouched for."""
    transactional_id: str = ""
    adds: bool = False
    """With transactions v2: the first batch of a transaction puts the partition into it."""


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
    """Where the records are, or why they are not. `append_time_ms`: the time that was put into them, or -1."""

    error: int
    base_offset: int
    leader_epoch: int
    message: str
    log_start_offset: int = -1
    append_time_ms: int = -1
    blamed: tuple[int, ...] = ()
    """The numbers of the records in the batch for which it was refused, where only some are to blame."""


@wire(0x0222)
@frozen(slots=True)
class ReadRecords:
    """Read whole batches from `offset`, waiting up to `wait_ms` for at least `min_bytes`."""

    offset: int
    bytes_max: int
    min_bytes: int
    wait_ms: int
    read_committed: bool = False
    """Only up to the last stable offset, and with the transactions in it that were aborted."""


@wire(0x022E)
@frozen(slots=True)
class Aborted:
    """A transaction that was aborted: whose, and where it begins."""

    producer_id: int
    first_offset: int


@wire(0x0223)
@frozen(slots=True)
class ReadResult:
    """Batches below the high watermark, or why there are none."""

    error: int
    high_watermark: int
    log_start_offset: int
    leader_epoch: int
    batches: Payload
    last_stable_offset: int = -1
    aborted: tuple[Aborted, ...] = ()
    """By where they begin."""


@wire(0x0224)
@frozen(slots=True)
class DescribeReplica:
    """How are you?"""


@wire(0x0225)
@frozen(slots=True)
class ReplicaFacts:
    """As this replica sees it. leader -1: nobody known."""

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
    """What do you have, and why is there no leader?"""


@wire(0x0232)
@frozen(slots=True)
class SurvivorFacts:
    """What one replica has, for an operator who has to decide what is lost."""

    broker: int
    leader: int
    is_complete: bool
    """False if it may have lost what it had acknowledged."""
    last_epoch: int
    log_start_offset: int
    end_offset: int
    high_watermark: int
    voters: tuple[int, ...]
    waits_for: str
    """Which replicas the election waits for; empty if there is a leader."""
    generation: int
    """How often replicas of the partition were given up: the latest generation that this one has begun."""
    latest_generation: int
    """The latest one of which it has heard. The metadata may have lost its record (recover-metadata)."""
    is_voter: bool
    leads: bool
    """Does it lead, and does a majority answer it?"""


@wire(0x0226)
@frozen(slots=True)
class TransferLeadership:
    """Hand leadership over to this broker. Answers whether that was begun."""

    to: int


@frozen(slots=True)
class DiskIsFull:
    """To a replica, from its own broker: let another one lead that is in sync and takes records, if there is one."""


@wire(0x0227)
@frozen(slots=True)
class HandOver:
    """You are about to stop: let another replica lead. The answer says whether one does.

    It comes as soon as that is known: at once if no other replica can lead.
    """


LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
"""Kafka's names for offsets that are no timestamp."""


@wire(0x0228)
@frozen(slots=True)
class FindOffset:
    """The first offset with this timestamp or a later one; or LATEST, EARLIEST, MAX_TIMESTAMP."""

    timestamp: int
    read_committed: bool
    known_epoch: int = -1
    """The leader's, as the asker knows it; -1 if it does not."""


@wire(0x0229)
@frozen(slots=True)
class OffsetFound:
    """-1 and -1 if there is none such."""

    error: int
    offset: int
    timestamp: int
    leader_epoch: int


@wire(0x022F)
@frozen(slots=True)
class ConfirmLeadership:
    """Do you lead in this epoch? A majority is asked."""

    leader_epoch: int


@wire(0x0230)
@frozen(slots=True)
class LeadershipAnswer:
    error: int


@wire(0x022A)
@frozen(slots=True)
class MemberStarted:
    """To the other members of its group: this broker's has just started, and has heard nothing of what was sent it."""

    broker: int


@frozen(slots=True)
class ReadSlice:
    """To a replica on this broker: whole batches from `offset`, at least one, where they lie.

    Epochs as the reader knows them, -1 if it does not: the leader's, and that of the record before `offset`.
    """

    offset: int
    bytes_max: int
    read_committed: bool
    leader_epoch: int = -1
    last_fetched_epoch: int = -1
    copied: bool = False
    """In memory, and no more than a little: readers that are slow hold too many files open."""


@frozen(slots=True)
class SliceRead:
    """A slice of a log, or why there is none. `diverged`: the reader's log parts from this one at (epoch, end).

    `withheld`: there is something to read, but too many files are held open by slices that are being sent.
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
    """To a replica on this broker: tell `watcher` LogMoved once there is more to read than up to `end`, or it is over.

    Watching again replaces what the same watcher watched here under the same number.
    """

    watcher: Address
    number: int
    end: int
    read_committed: bool


@frozen(slots=True)
class UnwatchLog:
    """To a replica on this broker: nobody waits under this number any more."""

    watcher: Address
    number: int


@frozen(slots=True)
class LogMoved:
    """What was watched under this number has more to read, or is not here any more."""

    number: int


@frozen(slots=True)
class FetchExpired:
    """To a connection, from itself: whoever asked under this number has waited long enough."""

    number: int


@frozen(slots=True)
class DeleteRecords:
    """To a replica on this broker: let the log start here; -1 for the high watermark.

    Answered when all replicas that can be reached have done so, or when the time is up.
    """

    offset: int
    timeout_ms: int


@frozen(slots=True)
class RecordsDeleted:
    """The lowest log start of all replicas that can be reached, or why there is none."""

    error: int
    low_watermark: int
    message: str = ""


@wire(0x0240)
@frozen(slots=True)
class RaiseLogStart:
    """From a replica's leader in this epoch: let your log start here. Answered with the log start once it is done."""

    leader_epoch: int
    offset: int


@frozen(slots=True)
class FindEpochEnd:
    """To a replica on this broker: where does what this epoch wrote end? `known_epoch`: the leader's, -1 if unknown."""

    epoch: int
    known_epoch: int


@frozen(slots=True)
class EpochEnd:
    """The largest epoch up to the one in question, and where it ends (exclusive); -1 and -1 if there is none."""

    error: int
    epoch: int
    end_offset: int


@frozen(slots=True)
class DescribeProducers:
    """To a replica on this broker: who wrote to you lately, with a producer id?"""


@frozen(slots=True)
class DescribeLog:
    """To a replica on this broker: how large are you, and how far behind?"""


@frozen(slots=True)
class LogFacts:
    """`lag`: how many offsets of what is committed, as far as is known here, are missing."""

    size_bytes: int
    lag: int


@frozen(slots=True)
class CleanUp:
    """To a replica, from its own broker: compact what is dirty, and delete what is old. Answered when that is done."""

    retention: bool = True
    """Is it time to look for segments that are to be deleted?"""


@frozen(slots=True)
class Discard:
    """To a replica, from its own broker: end, and leave everything as it is; your files will go."""


def group_name(topic: str, number: int, topic_id: str) -> str:
    """`orders-3.<topic id>`: who reads it knows what it is, and another topic of that name has another."""
    return f"{topic[:_TOPIC_CHARS_MAX]}-{number}.{topic_id}"


def parts_of(raft_group: str) -> tuple[str, int]:
    """The topic id and the partition's number in a group's name."""
    name, _, topic_id = raft_group.rpartition(".")
    return topic_id, int(name.rpartition("-")[2])


def replica_address(raft_group: str, broker: int) -> Address:
    return Address("replica", raft_group, broker)
