"""Whether the disks of an existing cluster are mounted.

A disk that is not mounted looks like an empty directory, and with empty directories a cluster is formed without further
questions, so that a newcomer needs only one command. So the mount points are noted where they are found without the
disks. Those of brokers' directories are in `formation` in the cluster's data directory. That of the data directory is
in a small file beside the cluster's file, `cluster.toml.mount`; only if the two are on different filesystems, since
otherwise both are there or both are missing.

An empty directory on the same filesystem as before was emptied on purpose, and may be used. An empty directory on
another filesystem is refused.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

import orjson

from actors.process.errors import FormationError
from log.disk.filesystem import DiskFilesystem

SUFFIX = ".mount"
_VERSION = 1
_log = logging.getLogger("barnabas.launcher")


def mount_of(path: Path) -> str:
    """The mount point of the filesystem that this path is on, or would be."""
    for place in (path, *path.parents):
        if os.path.ismount(place):
            return str(place)
    return str(path.anchor)


def check_data_dir(data_dir: Path, file: Path | None) -> None:
    """This data directory is empty: refuse it if it had a cluster on a disk that is not mounted now."""
    if file is None:
        return
    note = _note_beside(file)
    before = _noted_mount(note, data_dir)
    if before is not None and before != mount_of(data_dir):
        raise FormationError(
            f"{_was_elsewhere(data_dir, before)}; mount it, or remove {note} to form a new, empty cluster here"
        )


def check_broker_dir(directory: Path, before: str | None) -> None:
    """This broker's directory is empty: refuse it if its disk is not mounted."""
    if before is not None and before != mount_of(directory):
        raise FormationError(f"{_was_elsewhere(directory, before)}; mount it, or give the broker another data_dir")


def note_data_dir(data_dir: Path, file: Path | None) -> None:
    """A cluster is here: note its mount point, unless the cluster's file is on the same filesystem."""
    if file is None:
        return
    mount, note = mount_of(data_dir), _note_beside(file)
    if mount == mount_of(file.resolve().parent) or _noted_mount(note, data_dir) == mount:
        return
    try:
        value = {"version": _VERSION, "data_dir": str(data_dir), "mount": mount}
        DiskFilesystem().write_atomically(str(note), orjson.dumps(value))
    except OSError as error:
        text = "launcher: %s cannot be written (%s): if %s is not mounted at the next start, a new cluster is formed"
        _log.warning(text, note, error.strerror, mount)


def _note_beside(file: Path) -> Path:
    path = file.resolve()
    return path.with_name(path.name + SUFFIX)


def _noted_mount(note: Path, data_dir: Path) -> str | None:
    try:
        value = orjson.loads(note.read_bytes())
        if value["version"] != _VERSION:
            raise FormationError(f"{note} has version {value['version']}; this Barnabas knows {_VERSION}")
        return str(value["mount"]) if value["data_dir"] == str(data_dir) else None
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise FormationError(f"{note} is damaged ({error}); remove it if {data_dir} is as it should be") from error


def _was_elsewhere(directory: Path, before: str) -> str:
    return f"{directory} is empty: it was on the filesystem mounted at {before} and is on {mount_of(directory)} now"
