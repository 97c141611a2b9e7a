"""Why a cluster is not started on what is on its disks."""

from __future__ import annotations


class FormationError(Exception):
    """What is on disk cannot be used with this file, or is not there."""
