"""What processes use, seen from outside."""

from __future__ import annotations

from collections.abc import Iterable

import psutil


def cpu_seconds(pids: Iterable[int]) -> float:
    """The processor time of all of them together, so far."""
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return sum(used.user + used.system for used in times)


def memory_bytes(pids: Iterable[int]) -> int:
    """The resident memory of all of them together."""
    return sum(psutil.Process(pid).memory_info().rss for pid in pids)
