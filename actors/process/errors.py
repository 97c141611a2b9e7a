"""The error with which a cluster refuses to start on its disks."""

from __future__ import annotations

from pathlib import Path


class FormationError(Exception):
    """The data on the disks does not fit the cluster file, or is missing."""


def unusable(directory: Path, error: OSError) -> FormationError:
    """The operating system refuses what the start does with a directory."""
    return FormationError(f"{directory} cannot be used ({error.strerror or error}); choose another data_dir")
