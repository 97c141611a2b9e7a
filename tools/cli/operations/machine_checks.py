"""What `doctor` looks at on this machine: ports, directories, limits, disks, the clock, versions.

Nothing is changed. A cluster that runs holds its ports and locks, so of one only the rest is checked.
"""

from __future__ import annotations

import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from actors.broker.directory_lock import owner_of
from actors.broker.identity import FILE_NAME as IDENTITY
from actors.broker.identity import DirectoryIdentity, IdentityError
from actors.cluster_file.config import ClusterConfig
from actors.process.formation import FILE_NAME as FORMATION
from actors.process.hosts import DESCRIPTORS_WANTED
from actors.process.preflight import check_machine
from actors.process.running_file import RunningCluster
from actors.serving.doorkeeper import connections_for
from log.disk.reserve import FILE_NAME as RESERVE
from tools.cli.operations.finding import Finding, bad, ok, warning

_FREE_SHARE_MIN = 0.05
_FREE_FILES_MIN = 10_000
_AHEAD_SECONDS_MAX = 60.0
_OLDEST_NOW = datetime(2025, 1, 1, tzinfo=UTC)
Checks = Iterator[Finding]


def check(config: ClusterConfig, running: RunningCluster | None, now: Callable[[], float] = time.time) -> list[Finding]:
    """Whether this cluster is well on this machine, or would be."""
    return [
        *_versions(config),
        *_start(config, running),
        *_limits(config, running),
        *_disks(config),
        *_clock(config, now()),
    ]


def _versions(config: ClusterConfig) -> Checks:
    yield ok("python", f"{platform.python_version()} on {platform.system()} {platform.release()}")
    if not sys.platform.startswith(("linux", "darwin")):
        yield bad("platform", f"{sys.platform} is neither Linux nor macOS", "run brokers on one of those")
    for broker in config.brokers:
        try:
            DirectoryIdentity.known(broker.data_dir, broker.id)
        except (FileNotFoundError, NotADirectoryError):
            continue  # a directory that cannot be made is told below
        except (IdentityError, OSError) as error:
            text, _, remedy = str(error).rpartition("; ")
            yield bad("format", text or remedy, remedy or "restore the directory")


def _start(config: ClusterConfig, running: RunningCluster | None) -> Checks:
    """Can it start, or is it running?"""
    if running is not None:
        down = [broker for broker, directory in running.brokers.items() if owner_of(directory) is None]
        yield ok("cluster", f"runs in {config.data_dir} since {running.started_at}, pid {running.pid}")
        for broker in down:
            yield bad("broker", f"broker {broker} does not run", "it is restarted by itself; the log says why it died")
        if not running.bootstrap:
            yield warning("cluster", "it is not ready yet", "wait for its ready line, and look into its log")
        return
    problems = check_machine(config)
    for line in problems:
        text, _, remedy = line.rpartition("; ")
        is_port = ".port: " in line
        hint = ", or say where your cluster runs with --data or --file" if is_port and config.file is None else ""
        yield bad("port" if is_port else "directory", text, remedy + hint)
    if not problems:
        ports = [str(broker.port) for broker in config.brokers if broker.port]
        yield ok("port", f"{', '.join(ports)} on {config.host}: free" if ports else "any free ones are taken")
        yield ok("directory", f"{config.data_dir} can be used")


def _limits(config: ClusterConfig, running: RunningCluster | None) -> Checks:
    hard = _hard_limit(running)
    files = DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_WANTED)
    connections = min(connections_for(files), config.config.max_connections)
    text = f"{files} open files allow {connections} connections to each broker"
    if connections < config.config.max_connections:
        remedy = (
            f"raise the hard limit: ulimit -Hn {DESCRIPTORS_WANTED}, or LimitNOFILE={DESCRIPTORS_WANTED} of systemd"
        )
        yield warning("open files", f"{text}, and max.connections is {config.config.max_connections}", remedy)
    else:
        yield ok("open files", text)


def _hard_limit(running: RunningCluster | None) -> int:
    """Of open files: that of the cluster that runs, where the system tells, else that of this shell."""
    if running is not None and hasattr(resource, "prlimit"):  # Linux
        with suppress(OSError):  # another user's process, or it has just ended
            return resource.prlimit(running.pid, resource.RLIMIT_NOFILE)[1]
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def _disks(config: ClusterConfig) -> Checks:
    """Each filesystem once, with the brokers on it."""
    places: dict[int, list[Path]] = {}
    for broker in config.brokers:
        place = next((path for path in (broker.data_dir, *broker.data_dir.parents) if path.exists()), None)
        if place is not None:
            places.setdefault(place.stat().st_dev, []).append(place)
    reserve = config.config.disk_reserve_bytes
    for found in places.values():
        yield from _room(found[0], 2 * reserve * len(found))
    for broker in config.brokers:
        file = broker.data_dir / RESERVE
        if (broker.data_dir / IDENTITY).exists() and (not file.exists() or file.stat().st_size < reserve):
            yield bad(
                "reserve", f"broker {broker.id} has not the {reserve} bytes in {file} that it keeps for a full disk",
                "make room on this disk; the broker takes them again by itself",
            )  # fmt: skip


def _room(path: Path, needed: int) -> Checks:
    found = os.statvfs(path)
    free, total = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
    text = f"{path}: {_megabytes(free)} of {_megabytes(total)} are free"
    if total == 0:
        return  # no disk, as /proc; that nothing can be made there is told already
    if free < needed:
        yield bad("disk", f"{text}; records are refused below {_megabytes(needed)}", "make room, or lower retention")
    elif free < _FREE_SHARE_MIN * total:
        yield warning("disk", text, "make room, or lower retention.ms or retention.bytes of topics")
    elif found.f_files > 0 and found.f_favail < _FREE_FILES_MIN:
        yield bad("disk", f"{path}: only {found.f_favail} more files can be made", "remove files, or use another disk")
    else:
        yield ok("disk", text)


def _clock(config: ClusterConfig, now: float) -> Checks:
    told = datetime.fromtimestamp(now, UTC)
    remedy = "set the clock, and let NTP or chrony keep it; time-outs and retention depend on it"
    files = [config.data_dir / FORMATION, *(broker.data_dir / IDENTITY for broker in config.brokers)]
    ahead = max((file.stat().st_mtime - now for file in files if file.exists()), default=0.0)
    if told < _OLDEST_NOW:
        yield bad("clock", f"it is {told:%Y-%m-%d %H:%M} by this machine's clock", remedy)
    elif ahead > _AHEAD_SECONDS_MAX:
        yield bad("clock", f"files of the cluster were written {ahead:.0f} s from now: the clock went back", remedy)
    else:
        yield ok("clock", f"{told:%Y-%m-%dT%H:%M:%SZ}")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB" if size < 10_000_000_000 else f"{size / 1e9:,.0f} GB"
