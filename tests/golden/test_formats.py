"""No format changes without a new version: what each one makes of the same content is written down here.

If one of these fails: raise the version of that format, keep reading the one before, raise FORMAT_VERSION of
actors/broker/identity.py, make a golden directory (`python -m tests.golden.make`), and write the new form down here.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import orjson
import pytest
from attrs import fields

from log.disk.memory_filesystem import MemoryFilesystem
from log.errors import DamagedFile, UnknownFormat
from log.machines.metadata.records import known_kinds
from log.raft.membership import Membership, MembershipHistory, Voter
from log.raft.ready import Vote
from log.recovery import checkpoint
from log.recovery.checkpoint import CleanStop, Offsets
from log.replica.vote_journal import VoteJournal
from log.segment.epoch_cache import EpochCache, EpochEntry
from log.segment.producer_state import EndedTransaction, Producer, ProducerStates, WrittenBatch
from tests.log.machines.clusters import cluster

FILES = {
    "partition.metadata": b"version: 1\ntopic_id: id\ncrc: 26f161ac\n",
    "offsets-checkpoint": b"version: 1\nrecovery-point: 1\nlog-start-offset: 2\nhigh-watermark: 3\ncrc: 31babfc9\n",
    "clean-shutdown": (
        b"version: 1\nend-offset: 1\nactive-size: 2\nactive-max-timestamp: 3\nactive-max-timestamp-offset: 4\n"
        b"epochs: 5@6\ncrc: 09ca55f1\n"
    ),
    "failed-sync": b"version: 1\nflushed-offset: 7\ncrc: 97bbc45c\n",
    "cleaner-checkpoint": b"version: 1\nfirst-dirty-offset: 8\ncrc: 0385f2cb\n",
    "synced-first": b"version: 1\ncrc: b9bcba00\n",
    "snapshot": b"{}\ncrc: 297bd0aa\n",
    "leader-epoch-checkpoint": b"0\n2\n5 6\n7 8\n",
    "votes": b"BVJ2" + 2 * b'\xc1"\t\x9a\x00\r\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x02g',
}
PRODUCERS = (
    "000373977f5400000001000000000000000100020000000700000000000000080000000000000009000000000000000a0100"
    "0000030000000400000000000000050000000000000006000000010000000000000001000000000000000200000000000000"
    "03000000000000000401"
)
MEMBERSHIP = (
    b'{"version":1,"entries":[[-1,"{\\"version\\":2,\\"voters\\":[[1,\\"a\\"],[2,\\"b\\"]],\\"move\\":0,\\"generation\\":0}"],'
    b'[5,"{\\"version\\":2,\\"voters\\":[[1,\\"a\\"]],\\"move\\":1,\\"generation\\":3}"]]}'
)
SNAPSHOT = {
    "version": 2,
    "names": ["answers", "applied", "brokers", "cluster_id", "next_producer_id", "topics", "version"],
    "topic": ["configs", "id", "name", "partitions"],
    "brokers": 5,
    "partitions": 9,
}
RECORDS = {
    "cluster": ["cluster_id"],
    "broker": ["broker", "directory", "host", "port"],
    "drain": ["broker", "draining"],
    "topic": ["topic_id", "name", "configs"],
    "partitions": ["topic_id", "first", "replicas"],
    "move": ["topic_id", "partition", "replicas"],
    "moved": ["topic_id", "partition"],
    "recovered": ["topic_id", "partition", "survivors"],
    "recovered-beyond": ["topic_id", "partition", "survivors", "generation", "begun"],
    "drop": ["topic_id"],
    "configs": ["topic_id", "configs"],
    "producer-ids": ["next_id"],
    "confirm": [],
    "done": ["request_id", "answer"],
}


def producers() -> ProducerStates:
    one = Producer(1, 2, deque([WrittenBatch(3, 4, 5, 6)], maxlen=5), 7, 8, 9, 10)
    return ProducerStates([one], [EndedTransaction(1, 2, 3, 4, aborted=True)])


def file_of(name: str) -> bytes:
    files = MemoryFilesystem()
    files.make_directory("/d")
    checkpoint.write_metadata(files, "/d", "id")
    checkpoint.write_offsets(files, "/d", Offsets(1, 2, 3))
    checkpoint.write_clean_stop(files, "/d", CleanStop(1, 2, 3, 4, (EpochEntry(5, 6),)))
    checkpoint.write_failed_sync(files, "/d", 7)
    checkpoint.write_first_dirty(files, "/d", 8)
    checkpoint.put_synced_first(files, "/d")
    checkpoint.write_snapshot(files, "/d/snapshot", b"{}")
    files.write_atomically("/d/leader-epoch-checkpoint", EpochCache([EpochEntry(5, 6), EpochEntry(7, 8)]).encode())
    journal = VoteJournal(files, "/d/votes")
    journal.write({"g": Vote(1, 2)})
    journal.sync()
    return files.read(f"/d/{name}")


def membership() -> bytes:
    return MembershipHistory(
        [(-1, Membership((Voter(1, "a"), Voter(2, "b")))), (5, Membership((Voter(1, "a"),), 1, 3))]
    ).encode()


def snapshot_shape() -> dict[str, Any]:
    """Names, and what stands behind them. Where rows have no names, how long they are."""
    value = orjson.loads(cluster(2, orders=((1, 2),)).metadata.encode())
    (topic,) = value["topics"]
    rows = {"brokers": len(value["brokers"][0]), "partitions": len(topic["partitions"][0])}
    return {"version": value["version"], "names": sorted(value), "topic": sorted(topic), **rows}


def record_shapes() -> dict[str, list[str]]:
    return {one.kind: [each.name for each in fields(one)] for one in known_kinds()}


@pytest.mark.parametrize("name", FILES)
def test_a_small_file_is_as_its_version_says(name: str) -> None:
    assert file_of(name) == FILES[name]


def test_a_snapshot_of_producers_is_as_its_version_says() -> None:
    assert producers().encode().hex() == PRODUCERS


def test_a_history_of_memberships_is_as_its_version_says() -> None:
    assert membership() == MEMBERSHIP


def test_a_metadata_snapshot_is_as_its_version_says() -> None:
    assert snapshot_shape() == SNAPSHOT


def test_metadata_records_are_as_their_kinds_say() -> None:
    """They have no versions: another field needs another kind, and a broker refuses a kind that it does not know."""
    shapes = record_shapes()
    assert {kind: shapes.get(kind) for kind in RECORDS} == RECORDS


# -- what another version wrote ------------------------------------------------------------------------------------


def test_producers_of_a_later_version_are_unknown_and_not_damaged() -> None:
    later = ProducerStates.encode_as(4, b"what comes later")
    with pytest.raises(UnknownFormat, match="the-path has version 4; 3 is known here"):
        ProducerStates.decode(later, "the-path")
    with pytest.raises(DamagedFile):
        ProducerStates.decode(later[:-1] + b"?", "the-path")


def test_producers_of_the_version_before_are_read() -> None:
    assert (
        ProducerStates.decode(ProducerStates.encode_as(2, producers().encode()[6:]), "").encode()
        == producers().encode()
    )


def test_epochs_and_memberships_of_a_later_version_are_unknown() -> None:
    with pytest.raises(UnknownFormat, match="the-path has version 1; 0 is known here"):
        EpochCache.decode(b"1\nwhat comes later\n", "the-path")
    with pytest.raises(UnknownFormat, match="a membership history of version 2; 1 is known here"):
        MembershipHistory.decode(b'{"version":2}')
    with pytest.raises(UnknownFormat, match="a membership of version 3; 2 is known here"):
        Membership.decode(b'{"version":3}')
