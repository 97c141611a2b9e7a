"""What clients of a replica ask, what it answers, and where it is found."""

from __future__ import annotations

from attrs import frozen

from actors.runtime import Address, Payload, wire

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


@wire(0x0221)
@frozen(slots=True)
class AppendResult:
    """Where the records are, or why they are not."""

    error: int
    base_offset: int
    leader_epoch: int
    message: str


@wire(0x0222)
@frozen(slots=True)
class ReadRecords:
    """Read whole batches from `offset`, waiting up to `wait_ms` for at least `min_bytes`."""

    offset: int
    bytes_max: int
    min_bytes: int
    wait_ms: int


@wire(0x0223)
@frozen(slots=True)
class ReadResult:
    """Batches below the high watermark, or why there are none."""

    error: int
    high_watermark: int
    log_start_offset: int
    leader_epoch: int
    batches: Payload


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


@wire(0x0226)
@frozen(slots=True)
class TransferLeadership:
    """Hand leadership over to this broker. Answers whether that was begun."""

    to: int


@wire(0x0227)
@frozen(slots=True)
class HandOver:
    """You are about to stop: let somebody else lead. Answered once somebody does, or nobody is there who could."""


LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
"""Kafka's names for offsets that are no timestamp."""


@wire(0x0228)
@frozen(slots=True)
class FindOffset:
    """The first offset with this timestamp or a later one; or LATEST, EARLIEST, MAX_TIMESTAMP."""

    timestamp: int
    read_committed: bool


@wire(0x0229)
@frozen(slots=True)
class OffsetFound:
    """-1 and -1 if there is none such."""

    error: int
    offset: int
    timestamp: int
    leader_epoch: int


@frozen(slots=True)
class CleanUp:
    """To a replica, from its own broker: delete and compact what is old. Answered when that is done."""


@frozen(slots=True)
class Discard:
    """To a replica, from its own broker: end, and leave everything as it is; your files will go."""


def group_name(topic: str, number: int, topic_id: str) -> str:
    """`orders-3.<topic id>`: who reads it knows what it is, and another topic of that name has another."""
    return f"{topic[:_TOPIC_CHARS_MAX]}-{number}.{topic_id}"


def parts_of(group: str) -> tuple[str, int]:
    """The topic id and the partition's number in a group's name."""
    name, _, topic_id = group.rpartition(".")
    return topic_id, int(name.rpartition("-")[2])


def replica_address(group: str, broker: int) -> Address:
    return Address("replica", group, broker)
