"""What a measurement may write: never so much that it could fill the disk."""

from __future__ import annotations

import shutil
import tempfile

_SHARE = 0.5
_BATCHES = 1.2  # what lies on disk beside keys and values


class NoRoom(Exception):
    """The disk has too little room for the wanted records; the message says how many fit."""


def must_fit(option: str, asked: float, bytes_for_one: float, least: float) -> None:
    """Raise NoRoom unless so many units can be written to the temporary directory, and half of it stays free."""
    if not asked >= least:
        raise NoRoom(f"{option} must be at least {least:g}, not {asked:g}")
    directory = tempfile.gettempdir()
    free = shutil.disk_usage(directory).free
    most = free * _SHARE / (bytes_for_one * _BATCHES)
    if asked > most:
        raise NoRoom(
            f"{option} {asked:g} would write {asked * bytes_for_one * _BATCHES / 1e9:.1f} GB with all replicas, but "
            f"{directory} has {free / 1e9:.1f} GB free, of which half is to stay free: at most {option} {most:.3g}"
        )
