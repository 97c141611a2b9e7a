"""Small files that say where a log stands, each written whole or not at all.

partition.metadata   made once: format version, topic id, directory of the log
offsets-checkpoint   recovery-point, log-start-offset, high-watermark; made before there is a second segment
clean-shutdown       there only after a clean stop: what recovery would have found out
restarting           there only while the log is being emptied, to begin at another offset
failed-sync          there only after a sync failed: up to where the log was on disk before
cleaner-checkpoint   there only in a compacted log: where its dirty part begins
synced-first         there only while every acknowledged record was synced before it was acknowledged
sparse               there only in a log that was filled by a leader with a compacted log: offsets may skip
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from crc32c import crc32c

from log.disk.filesystem import TEMPORARY_SUFFIX, File, Filesystem
from log.errors import DamagedFile, UnknownFormat
from log.segment.epoch_cache import EpochEntry
from protocol.late_attrs import frozen

FORMAT_VERSION = 1
METADATA, OFFSETS, CLEAN = "partition.metadata", "offsets-checkpoint", "clean-shutdown"
CLEANER = "cleaner-checkpoint"
FAILED_SYNC = "failed-sync"
RESTARTING = "restarting"
SPARSE = "sparse"
SYNCED_FIRST = "synced-first"
_SNAPSHOT_CRC = "\ncrc: "


@frozen(slots=True)
class Offsets:
    """Below the recovery point everything is known to be on disk; the high watermark came from the leader."""

    recovery_point: int = 0
    log_start_offset: int = 0
    high_watermark: int = 0


@frozen(slots=True)
class CleanStop:
    """The log at the moment of a clean stop, so that opening it needs no scan."""

    end_offset: int
    active_size: int
    active_max_timestamp: int
    active_max_timestamp_offset: int
    epochs: tuple[EpochEntry, ...] | None = None
    """The epochs of a small log, which have no other file yet. Its recovery point was not written either."""


def write_metadata(files: Filesystem, directory: str, topic_id: str) -> None:
    _write(files, f"{directory}/{METADATA}", {"version": FORMAT_VERSION, "topic_id": topic_id})


def put_metadata(files: Filesystem, directory: str, topic_id: str) -> None:
    """As `write_metadata`, for a log that was just made: a killed process leaves it whole, a power loss maybe blank."""
    path = f"{directory}/{METADATA}"
    file = files.create(path + TEMPORARY_SUFFIX)
    try:
        file.pwrite(_encode({"version": FORMAT_VERSION, "topic_id": topic_id}), 0)
    finally:
        file.close()
    files.rename(path + TEMPORARY_SUFFIX, path)


def read_metadata(files: Filesystem, directory: str) -> str | None:
    """The topic id of a log directory; None if it is not one yet. A newer format is refused.

    What is damaged counts as missing: if the power goes before a log was first synced, anything may be in there.
    """
    try:
        values = _read(files, f"{directory}/{METADATA}")
    except DamagedFile:
        return None
    return None if values is None else values.get("topic_id")


def is_log(files: Filesystem, directory: str) -> bool:
    """Is there a log? One that stopped before anything was in it may have no metadata that outlived a power loss."""
    try:
        return read_metadata(files, directory) is not None or read_clean_stop(files, directory) is not None
    except DamagedFile:
        return False


def write_offsets(files: Filesystem, directory: str, offsets: Offsets) -> None:
    values = {
        "version": FORMAT_VERSION,
        "recovery-point": offsets.recovery_point,
        "log-start-offset": offsets.log_start_offset,
        "high-watermark": offsets.high_watermark,
    }
    _write(files, f"{directory}/{OFFSETS}", values)


def read_offsets(files: Filesystem, directory: str) -> Offsets | None:
    """None if the file is missing, which is no damage in a log that never had more than its first segment."""
    path = f"{directory}/{OFFSETS}"
    values = _read(files, path)
    if values is None:
        return None
    return Offsets(*(_whole(values, name, path) for name in ("recovery-point", "log-start-offset", "high-watermark")))


SyncLater = Callable[[Filesystem, str, str], None]
"""Makes a file durable, and its name: in this directory, with this name."""


def write_clean_stop(files: Filesystem, directory: str, stop: CleanStop, sync_later: SyncLater | None = None) -> None:
    """Say that the log is whole. Everything in it is on disk by now. With `sync_later`, that is made durable later."""
    values: dict[str, object] = {
        "version": FORMAT_VERSION,
        "end-offset": stop.end_offset,
        "active-size": stop.active_size,
        "active-max-timestamp": stop.active_max_timestamp,
        "active-max-timestamp-offset": stop.active_max_timestamp_offset,
    }
    if stop.epochs is not None:
        values["epochs"] = " ".join(f"{entry.epoch}@{entry.start_offset}" for entry in stop.epochs)
    # No earlier file must survive, and a torn one counts as missing: one sync less than `write_atomically`.
    file = files.create(f"{directory}/{CLEAN}")
    try:
        file.truncate(0)
        file.pwrite(_encode(values), 0)
        if sync_later is None:
            file.sync()
    finally:
        file.close()
    if sync_later is None:
        files.sync_directory(directory)
    else:
        sync_later(files, directory, CLEAN)


def read_clean_stop(files: Filesystem, directory: str) -> CleanStop | None:
    path = f"{directory}/{CLEAN}"
    values = _read(files, path)
    if values is None:
        return None
    names = ("end-offset", "active-size", "active-max-timestamp", "active-max-timestamp-offset")
    end_offset, size, max_timestamp, max_timestamp_offset = (_whole(values, name, path) for name in names)
    return CleanStop(end_offset, size, max_timestamp, max_timestamp_offset, _epochs(values, path))


def forget_clean_stop(files: Filesystem, directory: str) -> None:
    """From now on the log may change: after a crash it must be scanned. Durable before the first append."""
    files.remove(f"{directory}/{CLEAN}")
    files.sync_directory(directory)


def write_failed_sync(files: Filesystem, directory: str, flushed_offset: int) -> None:
    """If it cannot be written, for want of room, an empty one is left: it says that nothing is surely on disk."""
    path = f"{directory}/{FAILED_SYNC}"
    try:
        _write(files, path, {"version": FORMAT_VERSION, "flushed-offset": flushed_offset})
    except OSError as error:
        try:
            files.create(path).close()
        except OSError as also:
            error.add_note(f"and not even an empty one could be made: {also}")
        raise


def read_failed_sync(files: Filesystem, directory: str) -> int | None:
    """Up to where the log was on disk when a sync failed; None if none did."""
    path = f"{directory}/{FAILED_SYNC}"
    try:
        values = _read(files, path)
        return None if values is None else _whole(values, "flushed-offset", path)
    except DamagedFile:
        return 0


def forget_failed_sync(files: Filesystem, directory: str) -> None:
    """What could not be synced was written again."""
    files.remove(f"{directory}/{FAILED_SYNC}")


def write_restarting(files: Filesystem, directory: str) -> None:
    """From now on until it is forgotten, what is in this directory belongs to two logs."""
    _write(files, f"{directory}/{RESTARTING}", {"version": FORMAT_VERSION})


def is_restarting(files: Filesystem, directory: str) -> bool:
    return files.exists(f"{directory}/{RESTARTING}")


def forget_restarting(files: Filesystem, directory: str) -> None:
    files.remove(f"{directory}/{RESTARTING}")
    files.sync_directory(directory)


def put_synced_first(files: Filesystem, directory: str) -> File:
    """Everything acknowledged is on disk, and stays so. Durable once the given file and its name are synced."""
    file = files.create(f"{directory}/{SYNCED_FIRST}")
    file.truncate(0)
    file.pwrite(_encode({"version": FORMAT_VERSION}), 0)
    return file


def is_synced_first(files: Filesystem, directory: str) -> bool:
    """Was every record of this log synced before it was acknowledged? A damaged file promises nothing."""
    try:
        return _read(files, f"{directory}/{SYNCED_FIRST}") is not None
    except DamagedFile:
        return False


def forget_synced_first(files: Filesystem, directory: str) -> None:
    """Records may be acknowledged before they are synced, once `sync_directory` has made this durable."""
    files.remove(f"{directory}/{SYNCED_FIRST}")


def write_first_dirty(files: Filesystem, directory: str, offset: int) -> None:
    _write(files, f"{directory}/{CLEANER}", {"version": FORMAT_VERSION, "first-dirty-offset": offset})


def read_first_dirty(files: Filesystem, directory: str) -> int | None:
    """Up to where the log is compacted; None if it never was, or if that is unknown."""
    path = f"{directory}/{CLEANER}"
    try:
        values = _read(files, path)
        return None if values is None else _whole(values, "first-dirty-offset", path)
    except DamagedFile:
        return None


def lower_first_dirty(files: Filesystem, directory: str, offset: int) -> None:
    """The log is truncated to `offset`. Later records there are dirty, even where the old ones were clean."""
    first_dirty = read_first_dirty(files, directory)
    if first_dirty is not None and first_dirty > offset:
        write_first_dirty(files, directory, offset)


def forget_first_dirty(files: Filesystem, directory: str) -> None:
    files.remove(f"{directory}/{CLEANER}")


def write_snapshot(files: Filesystem, path: str, data: bytes) -> None:
    """What a machine's log came to, with a checksum: the log before it goes, so it may be all that there is."""
    files.write_atomically(path, data + f"{_SNAPSHOT_CRC}{crc32c(data):08x}\n".encode())


def read_snapshot(files: Filesystem, path: str) -> bytes | None:
    """None if the file is missing. One that ends like JSON is of a version that wrote no checksum."""
    try:
        whole = files.read(path)
    except FileNotFoundError:
        return None
    data, found, crc = whole.rpartition(_SNAPSHOT_CRC.encode())
    if not found and whole.endswith(b"}"):
        return whole
    if not found:
        raise DamagedFile(f"{path} has no checksum")
    if crc != f"{crc32c(data):08x}\n".encode():
        raise DamagedFile(f"{path} has checksum {crc.decode(errors='replace').strip()!r}; it is {crc32c(data):08x}")
    return data


def _write(files: Filesystem, path: str, values: Mapping[str, object]) -> None:
    files.write_atomically(path, _encode(values))


def _encode(values: Mapping[str, object]) -> bytes:
    data = "".join(f"{name}: {value}\n" for name, value in values.items()).encode()
    return data + f"crc: {crc32c(data):08x}\n".encode()


def _read(files: Filesystem, path: str) -> dict[str, str] | None:
    try:
        data = files.read(path)
    except FileNotFoundError:
        return None
    try:
        values = dict(line.split(": ", 1) for line in data.decode().splitlines())
    except ValueError as error:
        raise DamagedFile(f"{path} is damaged: {error}") from error
    version = _whole(values, "version", path)
    if version != FORMAT_VERSION:
        raise UnknownFormat(f"{path} has format version {version}; this Barnabas knows {FORMAT_VERSION}")
    crc = f"{crc32c(data[: data.rfind(b'crc: ')]):08x}"
    if values.get("crc") != crc:  # a wrong digit in a log start would delete records
        raise DamagedFile(f"{path} has checksum {values.get('crc')}; its content has {crc}")
    return values


def _epochs(values: dict[str, str], path: str) -> tuple[EpochEntry, ...] | None:
    text = values.get("epochs")
    try:
        return None if text is None else tuple(EpochEntry(*map(int, one.split("@"))) for one in text.split())
    except (TypeError, ValueError) as error:
        raise DamagedFile(f"{path} has no epochs: {error}") from error


def _whole(values: dict[str, str], name: str, path: str) -> int:
    try:
        return int(values[name])
    except (KeyError, ValueError) as error:
        raise DamagedFile(f"{path} has no whole number for {name}: {error}") from error
