"""Replicas that may have lost what they had acknowledged, and know it.

A replica acknowledges what is in its log, and that is in memory first. If the machine goes down before it is on disk,
the replica comes back with less, and its vote could elect a leader without records that only it and its leader had. So
the replica is *ineligible*: its votes and its copy count again when a leader has caught it up, or when all voters agree
on a leader, which then has the best log that is left.

A replica that acknowledges only what is on disk has lost nothing then. But what it was just writing may be torn in any
way, where a killed process only leaves a file that ends too early; so it is noted, too, until its log is opened.

All that must outlive any number of restarts, so it is files in the log's directory. They are there before anything
else may change: the data directory holds the boot under which it was last used, and a new one is noted only after
every log that was not stopped cleanly got its note. That note becomes a mark when the log is opened, unless the file
`synced-first` says that the log never acknowledged a record before it was synced. A flush writes that file after it
has synced everything, and a flush removes it before the log acknowledges what is not synced.
"""

from __future__ import annotations

from collections.abc import Iterable

from log.disk.filesystem import Filesystem
from log.recovery.checkpoint import CLEAN, is_synced_first

BOOT_FILE = "boot"
MARK_FILE = "catching-up"
TORN_FILE = "machine-went-down"
_NEW = b"new"


def note_boot(files: Filesystem, data_dir: str, boot: str, groups: Iterable[str]) -> None:
    """The logs of these groups are about to be used under this boot of the machine."""
    path = f"{data_dir}/{BOOT_FILE}"
    known = files.read(path).decode() if files.exists(path) else boot
    if known != boot:
        for group in groups:
            directory = f"{data_dir}/{group}"
            if files.exists(directory) and not files.exists(f"{directory}/{CLEAN}"):
                files.write_atomically(f"{directory}/{TORN_FILE}", b"")
    if known != boot or not files.exists(path):
        files.write_atomically(path, boot.encode())


def mark_if_torn(files: Filesystem, directory: str) -> None:
    """This log is about to be opened. Its own file says whether it acknowledged records before they were synced.

    The topic's settings do not: they may have been changed since the machine went down.
    """
    if files.exists(f"{directory}/{TORN_FILE}") and not is_synced_first(files, directory):
        mark(files, directory)


def is_marked(files: Filesystem, directory: str) -> bool:
    return files.exists(f"{directory}/{MARK_FILE}")


def is_new(files: Filesystem, directory: str) -> bool:
    """Did this replica leave its Raft group once, and come back empty?

    Then it knows the voters from its log alone, and while that is being filled again, its membership is an old one:
    perhaps of this replica alone.
    """
    return is_marked(files, directory) and files.read(f"{directory}/{MARK_FILE}") == _NEW


def mark(files: Filesystem, directory: str, *, new: bool = False) -> None:
    if not is_marked(files, directory):
        remark(files, directory, new=new)


def remark(files: Filesystem, directory: str, *, new: bool) -> None:
    """Mark it so, however it was marked before: an operator has decided which replicas begin a new generation."""
    files.write_atomically(f"{directory}/{MARK_FILE}", _NEW if new else b"")


def unmark(files: Filesystem, directory: str) -> None:
    """A leader has caught it up. If the removal of the mark is lost, that is only done once more.

    But a replica that is marked as new does not vote, and its leader is about to make it a voter: it must not be new
    again after a power loss.
    """
    was_new = is_new(files, directory)
    files.remove(f"{directory}/{MARK_FILE}")
    if was_new:
        files.sync_directory(directory)
