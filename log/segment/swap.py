"""Replacing segments by their compacted form, all or nothing.

    1. the new files are written beside the old ones, as `….cleaned`, and synced
    2. `<base>.swap` is put in place atomically and names the segments to be replaced, and whether the new one has a
       transaction index: from here on it is decided
    3. the old files go, the new ones get their names, the swap file goes

A crash before 2 leaves files that are removed; a crash after it is finished at the next start. Every step of 3 can be
done again.
"""

from __future__ import annotations

from collections.abc import Sequence

from log.disk.filesystem import TEMPORARY_SUFFIX, Filesystem
from log.errors import DamagedFile

CLEANED, SWAP = ".cleaned", ".swap"
_TRANSACTIONS = ".txnindex"
_SUFFIXES = (".log", ".index", ".timeindex", _TRANSACTIONS)
_WITH, _WITHOUT = "with-transactions", "without-transactions"


def commit_swap(files: Filesystem, directory: str, base_offset: int, replaced: Sequence[int]) -> None:
    """Decide that the synced `.cleaned` files of `base_offset` stand for the segments with these base offsets."""
    files.sync_directory(directory)  # if a crash took a `.cleaned` name but not the swap file, it would seem finished
    has_transactions = files.exists(f"{directory}/{base_offset:020d}{_TRANSACTIONS}{CLEANED}")
    data = f"{' '.join(map(str, replaced))} {_WITH if has_transactions else _WITHOUT}\n".encode()
    files.write_atomically(f"{directory}/{base_offset:020d}{SWAP}", data)


def may_be_decided(files: Filesystem, directory: str, base_offset: int) -> bool:
    """After a failed `commit_swap`: could a reader find the swap file? A disk that cannot answer counts as yes."""
    try:
        return files.exists(f"{directory}/{base_offset:020d}{SWAP}")
    except OSError:
        return True


def finish_swaps(files: Filesystem, directory: str, names: Sequence[str]) -> bool:
    """Finish what was decided and remove what was not. True if anything had to be done."""
    decided = [name for name in names if name.endswith(SWAP)]
    for name in decided:
        _finish(files, directory, name)
    leftovers = [name for name in names if name.endswith((CLEANED, TEMPORARY_SUFFIX))]
    for name in leftovers:
        files.remove(f"{directory}/{name}")
    if decided or leftovers:
        files.sync_directory(directory)
    return bool(decided or leftovers)


def finish_swap(files: Filesystem, directory: str, base_offset: int) -> None:
    """Step 3. Cached handles of these files must have been forgotten before."""
    _finish(files, directory, f"{base_offset:020d}{SWAP}")


def _finish(files: Filesystem, directory: str, name: str) -> None:
    path, stem = f"{directory}/{name}", name.removesuffix(SWAP)
    try:
        *words, transactions = files.read(path).decode().split()
        replaced = [int(word) for word in words]
        if not replaced or min(replaced) < 0 or transactions not in (_WITH, _WITHOUT):
            raise ValueError(f"{words} {transactions}")
    except ValueError as error:
        raise DamagedFile(f"{path} does not name the segments it replaces: {error}") from error
    for base_offset in replaced:
        if f"{base_offset:020d}" != stem:
            for suffix in _SUFFIXES:
                files.remove(f"{directory}/{base_offset:020d}{suffix}")
    if files.exists(f"{directory}/{stem}.log{CLEANED}"):
        for suffix in _SUFFIXES[1:]:  # the log comes last: as long as it is there, this step is not over
            if files.exists(f"{directory}/{stem}{suffix}{CLEANED}"):
                files.rename(f"{directory}/{stem}{suffix}{CLEANED}", f"{directory}/{stem}{suffix}")
        if transactions == _WITHOUT:
            files.remove(f"{directory}/{stem}{_TRANSACTIONS}")
        files.sync_directory(directory)
        files.rename(f"{directory}/{stem}.log{CLEANED}", f"{directory}/{stem}.log")
    files.sync_directory(directory)
    files.remove(path)
    files.sync_directory(directory)
