"""Which partition lives where, once decided: `assignment` in the cluster's data directory.

Placement is a function of the file's topics, and the file gets edited. A partition that exists must not move because a
topic was added above its own: it would begin empty in its new place. So what was placed is written down, with the
directories its replicas had then, and only what is new is placed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import orjson

from actors.process.config import ClusterConfig
from actors.process.identity import Identity
from actors.process.placement import place
from actors.replica import Partition
from log.filesystem import DiskFilesystem
from log.raft.membership import Voter

FILE_NAME = "assignment"
_VERSION = 1
_log = logging.getLogger("barnabas.assignment")

Assignment = dict[tuple[str, int], tuple[Voter, ...]]


class AssignmentError(Exception):
    """The assignment on disk cannot be used with this file."""


def partitions_of(config: ClusterConfig) -> tuple[Partition, ...]:
    """The partitions of the file's topics: where they are, or, for new ones, where they shall be."""
    directories = {broker.id: str(Identity.of(broker.data_dir, broker.id).directory_id) for broker in config.brokers}
    path = str(config.data_dir / FILE_NAME)
    known = _read(path)
    assignment = _with_new(config, known, directories)
    if assignment != known:
        _write(path, assignment)
    wanted = {topic.name: topic for topic in config.topics}
    for name in sorted({name for name, _ in assignment} - wanted.keys()):
        _log.warning("assignment: topic %r is no longer in the file; its data is kept and not served", name)
    return tuple(
        Partition(name, number, voters, min_insync_replicas=config.config.min_insync_replicas)
        for (name, number), voters in assignment.items()
        if name in wanted
    )


def _with_new(config: ClusterConfig, known: Assignment, directories: Mapping[int, str]) -> Assignment:
    assignment = dict(known)
    placement = place(sorted(directories), config.topics)
    for (name, number), brokers in placement.replicas.items():
        voters = assignment.get((name, number))
        if voters is None:
            assignment[name, number] = tuple(Voter(broker, directories[broker]) for broker in brokers)
        else:
            _check(name, number, voters, directories, len(brokers))
    return assignment


def _check(name: str, number: int, voters: Sequence[Voter], directories: Mapping[int, str], factor: int) -> None:
    missing = [voter.broker for voter in voters if voter.broker not in directories]
    if missing:
        raise AssignmentError(
            f"partition {name}-{number} has a replica on broker {missing[0]}, which is not in the file; put it back"
        )
    if len(voters) != factor:
        _log.warning(
            "assignment: %s-%d has %d replicas and keeps them; the file says %d", name, number, len(voters), factor
        )


def _read(path: str) -> Assignment:
    try:
        data = DiskFilesystem().read(path)
    except FileNotFoundError:
        return {}
    try:
        value = orjson.loads(data)
        if value["version"] != _VERSION:
            raise AssignmentError(f"{path} has version {value['version']}; this Barnabas knows {_VERSION}")
        return {
            (str(name), int(number)): tuple(Voter(int(broker), str(directory)) for broker, directory in voters)
            for name, number, voters in value["partitions"]
        }
    except (ValueError, KeyError, TypeError) as error:
        raise AssignmentError(f"{path} is damaged ({error}); restore it from a copy") from error


def _write(path: str, assignment: Assignment) -> None:
    partitions = [
        [name, number, [[voter.broker, voter.directory] for voter in voters]]
        for (name, number), voters in sorted(assignment.items())
    ]
    DiskFilesystem().write_atomically(path, orjson.dumps({"version": _VERSION, "partitions": partitions}))
