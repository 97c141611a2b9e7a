"""A majority of the disks with the metadata is lost: the survivors begin a new generation of its Raft group.

The cluster must be stopped. Only `formation` is written, atomically: brokers read it when they start, also those that
were given up and come back later, and begin the generation (`Controller`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from attrs import evolve

from actors.broker.directory_lock import DirectoryLock
from actors.broker.identity import FILE_NAME as IDENTITY
from actors.broker.identity import DirectoryIdentity
from actors.cluster_file.config import ClusterConfig
from actors.cluster_file.facts import GROUP
from actors.process.formation import Formation, read_formation, write_formation
from log.disk.filesystem import DiskFilesystem
from log.errors import LogError
from log.raft.generation import GENERATIONS_MAX
from log.raft.membership import Membership, MembershipHistory, Voter
from log.recovery import losses
from log.recovery.recovery import EPOCHS_FILE
from log.replica.member import MEMBERSHIP_FILE
from log.segment.epoch_cache import EpochCache
from protocol.errors import ProtocolError
from protocol.late_attrs import frozen
from protocol.records.batches import read_header


class RecoveryRefused(Exception):
    """The recovery is refused, with the reason for an operator."""


@frozen(slots=True)
class MetadataCopy:
    """The copy of the metadata in one broker's directory."""

    voter: Voter
    path: Path
    generation: int
    """The last generation that it began."""
    membership: Membership
    known_at: int
    """The offset from which that membership is in force."""
    is_complete: bool
    """False if it may have lost acknowledged records."""
    last_epoch: int
    end_offset: int

    def keeps_log(self, formed: Formation) -> bool:
        """False for a replica that was given up before. As ReplicaSpec.keeps_log, which decides at the next start."""
        since = dict(zip(formed.voters, formed.since, strict=False)).get(self.voter)
        return self.generation >= formed.generation or (since is not None and self.generation >= since - 1)


def copies_in(config: ClusterConfig) -> list[MetadataCopy]:
    """The copies in all brokers' directories. Nothing is changed."""
    found = (_copy_in(broker.data_dir, broker.id) for broker in config.brokers)
    return sorted((one for one in found if one is not None), key=lambda one: (-one.last_epoch, -one.end_offset))


def recover(config: ClusterConfig, survivors: Sequence[int]) -> Formation:
    """Let these brokers, or all voters that were not given up, begin a new generation. Raises RecoveryRefused."""
    with ExitStack() as locks:
        locks.enter_context(DirectoryLock(config.data_dir))
        copies = copies_in(config)
        for copy in copies:
            locks.enter_context(DirectoryLock(copy.path))
        formed = read_formation(config.data_dir) or Formation((), {})
        made = _next_formation(formed, copies, survivors)
        write_formation(config.data_dir, made)
        return made


def _next_formation(formed: Formation, copies: Sequence[MetadataCopy], named: Sequence[int]) -> Formation:
    usable = {one.voter.broker: one for one in copies if one.keeps_log(formed)}
    membership = _membership(formed, list(usable.values()))
    voting = [one for one in usable.values() if one.voter in membership.voters]
    survivors = list(named) or sorted(one.voter.broker for one in voting)
    if not survivors:
        raise RecoveryRefused("no directory has a copy of the metadata whose broker votes; restore one from a backup")
    _refuse_majority(membership, voting)
    for broker in survivors:
        if broker not in usable:
            was = "was given up before" if any(one.voter.broker == broker for one in copies) else "has no metadata"
            raise RecoveryRefused(f"the directory of broker {broker} {was}; leave it out of the survivors")
    if len(set(survivors)) != len(survivors):
        raise RecoveryRefused(f"{survivors} are not different brokers")
    generation = max(formed.generation, *(one.generation for one in usable.values())) + 1
    if generation > GENERATIONS_MAX:
        raise RecoveryRefused(f"the metadata was recovered {generation - 1} times and cannot be recovered again")
    voters = tuple(usable[broker].voter for broker in survivors)
    known = dict(zip(formed.voters, formed.since, strict=False))
    since = tuple(known.get(voter, generation) for voter in voters)
    return evolve(formed, voters=voters, generation=generation, since=since)


def _membership(formed: Formation, copies: Sequence[MetadataCopy]) -> Membership:
    """The present voters: those of `formation` if no directory has begun its generation yet."""
    latest = max(copies, key=lambda one: (one.generation, one.known_at), default=None)
    if latest is None or latest.generation < formed.generation:
        return Membership(formed.voters, generation=formed.generation)
    return latest.membership


def _refuse_majority(membership: Membership, voting: Sequence[MetadataCopy]) -> None:
    whole = [one for one in voting if one.is_complete and one.generation == membership.generation]
    if len(whole) >= membership.majority or len(voting) == len(membership.voters):
        have = ", ".join(str(one.voter.broker) for one in voting)
        of = ", ".join(map(str, membership.brokers))
        raise RecoveryRefused(
            f"the directories of brokers {have} are enough of the voters {of}; start the cluster, nothing has to be"
            " given up (a directory that is of no use must be moved away first)"
        )


def _copy_in(directory: Path, broker: int) -> MetadataCopy | None:
    log_dir = directory / GROUP
    if not (directory / IDENTITY).exists() or not (log_dir / MEMBERSHIP_FILE).exists():
        return None
    try:
        history = MembershipHistory.decode((log_dir / MEMBERSHIP_FILE).read_bytes())
        epoch, end = _end_of(log_dir)
    except LogError as error:
        raise RecoveryRefused(
            f"{log_dir} cannot be read: {error}; move {directory} away to go on without it"
        ) from error
    voter = Voter(broker, str(DirectoryIdentity.known(directory, broker).directory_id))
    is_complete = not losses.is_marked(DiskFilesystem(), str(log_dir))
    latest = history.latest
    return MetadataCopy(
        voter, directory, latest.generation, latest, history.latest_offset, is_complete, epoch, end
    )  # fmt: skip


def _end_of(log_dir: Path) -> tuple[int, int]:
    """The last epoch and the end of a log, from its files; a torn batch is not counted."""
    epoch, end = -1, 0
    if (log_dir / EPOCHS_FILE).exists():
        epoch = EpochCache.decode((log_dir / EPOCHS_FILE).read_bytes(), str(log_dir / EPOCHS_FILE)).latest
    for path in sorted(log_dir.glob("*.log"))[-2:]:  # the last one may be empty
        data, at, end = path.read_bytes(), 0, max(end, int(path.stem))
        while at < len(data):
            try:
                header = read_header(data, at)
            except ProtocolError:
                break
            if at + header.size > len(data):
                break
            at, end, epoch = at + header.size, header.next_offset, max(epoch, header.leader_epoch)
    return epoch, end
