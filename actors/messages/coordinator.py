"""The messages to coordinators, and their addresses.

A coordinator owns the keys (group ids, transactional ids) that belong to one partition of an internal topic. It
lives on every broker that keeps a replica of that partition, and works where that replica leads.
"""

from __future__ import annotations

from functools import lru_cache

from actors.messages.replica import AppendMarker
from actors.runtime import Address, Payload, wire
from protocol.late_attrs import frozen

GROUPS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
KINDS = {GROUPS_TOPIC: "group_coordinator", TRANSACTIONS_TOPIC: "transaction_coordinator"}


@frozen(slots=True)
class Coordinate:
    """To a coordinator on this broker: a decoded request of Kafka's protocol about keys of this coordinator.

    Answered with the response, or with an error code instead.
    """

    request: object
    version: int
    client_id: str
    client_host: str


@wire(0x0260)
@frozen(slots=True)
class CoordinateBytes:
    """As Coordinate, from another broker: the request encoded as for a client, without a header."""

    api_key: int
    version: int
    client_id: str
    client_host: str
    request: Payload


@wire(0x0261)
@frozen(slots=True)
class CoordinatedBytes:
    """The encoded response, or an error code instead."""

    error: int
    response: Payload


@wire(0x0262)
@frozen(slots=True)
class TellRebalances:
    """To a group's coordinator, on any broker: why did this group rebalance?"""

    group: str


@wire(0x0263)
@frozen(slots=True)
class RebalancesTold:
    """The last rebalances as JSON, or an error."""

    error: int
    rebalances: str


@wire(0x0264)
@frozen(slots=True)
class EndTransaction:
    """To a group coordinator, from a transaction coordinator: write this marker. Answered as AppendMarker."""

    marker: AppendMarker


@wire(0x0265)
@frozen(slots=True)
class CalendarMoved:
    """To a coordinator, from a test that has moved the calendar: look at all time-outs now. Answered when it has."""


@wire(0x0266)
@frozen(slots=True)
class EndSession:
    """To a group's coordinator, from a test: this member was silent for too long. Answered with SessionEnded.

    `member`: its id, its group.instance.id, or the client.id that it alone has.
    """

    group: str
    member: str


@wire(0x0267)
@frozen(slots=True)
class SessionEnded:
    """NONE, or an error. UNKNOWN_MEMBER_ID comes with the ids of the members that there are."""

    error: int
    members: tuple[str, ...] = ()


@frozen(slots=True)
class LeadershipChanged:
    """From a replica of an internal topic to its coordinator: the replica leads in this epoch, or (-1) does not."""

    raft_group: str
    epoch: int


@lru_cache(maxsize=10_000)
def partition_of(key: str, partitions: int) -> int:
    """The partition of an internal topic that a key belongs to: by the hash of Java's strings, as in Kafka."""
    value = 0
    data = key.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(data), 2):
        value = (31 * value + (data[at] << 8 | data[at + 1])) & 0xFFFFFFFF
    return (value & 0x7FFFFFFF) % partitions


def coordinator_address(topic: str, partition: int, broker: int) -> Address:
    return Address(KINDS[topic], str(partition), broker)
