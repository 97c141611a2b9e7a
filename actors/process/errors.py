"""The error with which a cluster refuses to start on its disks."""

from __future__ import annotations


class FormationError(Exception):
    """The data on the disks does not fit the cluster file, or is missing."""
