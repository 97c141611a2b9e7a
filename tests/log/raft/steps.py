"""What tests of Raft groups do and ask again and again."""

from __future__ import annotations

from log.disk.memory_filesystem import MemoryFilesystem
from log.partition.partition_log import PartitionLog
from log.raft.leader import Leader
from log.raft.membership import Membership, Voter
from protocol.records.batches import Record, build_batch, check_batches
from tests.log.raft.groups import Group
from tests.log.raft.test_paper_claims import pump


def leader_of(group: Group, broker: int) -> Leader:
    role = group.members[broker].node.role
    assert isinstance(role, Leader)
    return role


def append_many(group: Group, broker: int, count: int, *, records: int = 1) -> None:
    for number in range(count):
        batch = build_batch([Record(at, 1, None, b"%d-%d" % (number, at), ()) for at in range(records)])
        group.act(broker, lambda member, batch=batch: member.append(check_batches(batch), group.now))  # type: ignore[misc]
        pump(group)


def come_back_empty(group: Group, broker: int, *, to: int) -> None:
    """It dies, and starts with nothing but its votes; the first link is to this one."""
    group.kill(broker)
    group.disks[broker] = MemoryFilesystem()
    group.start(broker)
    group.connect(to, broker)


def append(log: PartitionLog, value: bytes) -> None:
    log.append(check_batches(build_batch([Record(0, 1, None, value, ())])), epoch=1, now_ms=0)


ALONE, BOTH = (Membership(tuple(Voter(broker, f"dir-{broker}") for broker in brokers)) for brokers in ((1,), (1, 2)))
