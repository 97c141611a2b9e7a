"""What `doctor` looks at in a running cluster, by Kafka's protocol, as far as the cluster tells."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from log.settings import unclean
from tools.cli.operations.finding import Finding, bad, ok, warning
from tools.cli.operations.observation import BEHIND, UNLED, Observation, observe
from tools.client.admin import Admin
from tools.client.errors import ClientError
from tools.client.metadata import TopicPartition
from tools.client.offsets import MAX_TIMESTAMP

_NAMED_MAX = 5
"""Partitions that one finding names."""
_FREE_SHARE_MIN = 0.05
_AHEAD_SECONDS_MAX = 60.0
Checks = Iterator[Finding]


def check(admin: Admin, older_than: float, now: Callable[[], float] = time.time) -> list[Finding]:
    """Whether the cluster is well. ClientError if nobody answers."""
    seen = observe(admin)
    return [
        *_brokers(seen),
        *_partitions(seen),
        *_disks(seen),
        *_versions(admin, seen),
        *_clock(admin, seen, now()),
        *_transactions(admin, seen, older_than),
    ]


def _brokers(seen: Observation) -> Checks:
    yield ok("cluster", f"{seen.cluster_id}: brokers {_listed(sorted(seen.brokers))} are alive")
    for broker in seen.known_brokers:
        if broker not in seen.brokers:
            yield bad("broker", f"broker {broker} is gone, and has replicas", "start it; its log says why it ended")
    if seen.controller is None:
        remedy = "start the brokers that keep the metadata; nothing can be made or changed without a majority of them"
        yield bad("controller", "there is none", remedy)
    for what, reason in seen.unknown.items():
        yield bad(what.partition(" ")[0], f"{what}: not told: {reason}", "ask again; look into the broker's log")


def _partitions(seen: Observation) -> Checks:
    by_problem: dict[str, list[TopicPartition]] = {UNLED: [], BEHIND: []}
    for where, one in seen.partitions:
        if (problem := seen.problem(one)) is not None:
            by_problem[problem].append(where)
    if by_problem[UNLED]:
        yield bad("partitions", _named(by_problem[UNLED], "without leader"), unclean.REMEDY)
    if by_problem[BEHIND]:
        remedy = "start the brokers that are missing; a replica whose broker runs catches up by itself"
        yield bad("partitions", _named(by_problem[BEHIND], "under-replicated"), remedy)
    if not any(by_problem.values()):
        yield ok("partitions", f"all {len(seen.partitions)} have a leader and their replicas in sync")
    alone = sorted(
        {where.topic for where, one in seen.partitions if len(one.replicas) == 1} if len(seen.brokers) > 1 else ()
    )
    if alone:
        yield warning("topics", f"one replica only: {_listed(alone)}", "`move` gives a partition more replicas")


def _disks(seen: Observation) -> Checks:
    for broker, disks in seen.disks.items():
        if 0 <= disks.free_bytes < _FREE_SHARE_MIN * disks.total_bytes:
            text = f"broker {broker} has {disks.free_bytes / 1e6:,.0f} MB left of {disks.total_bytes / 1e6:,.0f} MB"
            yield warning("disk", text, "make room, or lower retention.ms or retention.bytes of topics")


def _versions(admin: Admin, seen: Observation) -> Checks:
    """Brokers of one version advertise the same."""
    spoken: dict[str, list[int]] = {}
    for broker in seen.brokers:
        try:
            spoken.setdefault(str(sorted(admin.brokers.versions(broker).items())), []).append(broker)
        except ClientError:
            continue  # told already: it gave no other answer either
    if len(spoken) > 1:
        kinds = " and ".join(_listed(sorted(brokers)) for brokers in spoken.values())
        remedy = "finish the upgrade: restart the older brokers with the newer version"
        yield warning("versions", f"brokers {kinds} advertise different versions of Kafka's APIs", remedy)
    elif spoken:
        yield ok("versions", "all brokers advertise the same versions of Kafka's APIs")


def _clock(admin: Admin, seen: Observation, now: float) -> Checks:
    """Records from the future are kept longer than retention.ms says."""
    newest: dict[TopicPartition, int] = {}
    for broker in seen.brokers:
        led = [where for where, one in seen.partitions if one.leader == broker and seen.ends.get(where)]
        try:
            newest |= {where: at.timestamp for where, at in admin.brokers.offsets(broker, led, MAX_TIMESTAMP).items()}
        except ClientError:  # an older broker has no such question
            continue
    ahead = sorted(where for where, at in newest.items() if at / 1000 > now + _AHEAD_SECONDS_MAX)
    if ahead:
        remedy = "compare the clocks of producers with this machine's; retention counts from the records' times"
        yield warning("clock", _named(ahead, "with records from the future"), remedy)


def _transactions(admin: Admin, seen: Observation, older_than: float) -> Checks:
    wheres = [where for where, one in seen.partitions if seen.problem(one) != UNLED]
    try:
        found = admin.transactions.find_hanging(wheres, older_than)
    except ClientError as error:
        yield bad("transactions", f"not told: {' '.join(str(error).split())}", "ask again; look into the brokers' logs")
        return
    for one in found[:_NAMED_MAX]:
        where, start = one.transaction.where, one.transaction.start_offset
        remedy = f"`transactions abort --topic {where.topic} --partition {where.partition} --start-offset {start}`"
        yield bad("transactions", f"one hangs in {where} since offset {start}: {one.reason}", remedy)
    if len(found) > _NAMED_MAX:
        remedy = "`transactions find-hanging` lists all"
        yield bad("transactions", f"{len(found) - _NAMED_MAX} more hang", remedy)
    if not found:
        yield ok("transactions", "none hangs")


def _named(wheres: list[TopicPartition], what: str) -> str:
    more = f" and {len(wheres) - _NAMED_MAX} more" if len(wheres) > _NAMED_MAX else ""
    return f"{len(wheres)} {what}: {', '.join(map(str, wheres[:_NAMED_MAX]))}{more}"


def _listed(values: list[int] | list[str]) -> str:
    more = f" and {len(values) - 2 * _NAMED_MAX} more" if len(values) > 2 * _NAMED_MAX else ""
    return ", ".join(map(str, values[: 2 * _NAMED_MAX])) + more
