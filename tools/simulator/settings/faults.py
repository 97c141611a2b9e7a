"""The names of the faults, as `--faults` and the report have them, and in which share of the seeds some of them are."""

from __future__ import annotations

LINK_FAULTS = ("drop", "slow", "reconnect", "cut", "silent", "one-way", "clog", "isolate")
PROCESS_FAULTS = ("stop", "kill", "kill-all", "crash", "power", "power-all", "empty", "pause", "sniper")
DISK_FAULTS = ("write-error", "no-space", "sync-error", "missing-index", "stale-checkpoint")
OTHER_FAULTS = ("clock", "transfer", "retention", "usurp")
DIRECTED_FAULTS = (
    "clean", "slow-sync", "late-word", "cut-again", "bit-flip", "move-ended", "late-request", "slow-marker",
    "late-vouching", "old-word",
)  # fmt: skip
LASTING_FAULTS = ("full-disk", "slow-disk", "calendar", "configure")
LASTING_SHARE = 0.25
OWN_SHARES = {"lost-votes": 0.2, "forged-marker": 0.4, "passing-topics": 0.3, "recovery": 0.2, "evictions": 0.2}
"""Faults that draw from generators of their own whether a seed has them, and in which share of the seeds they are."""
DISK_LOSSES = ("empty", "bit-flip", "lost-votes")
"""Faults after which a disk does not have all that was synced to it."""
FAULTS = (*LINK_FAULTS, *PROCESS_FAULTS, *DISK_FAULTS, *OTHER_FAULTS, *DIRECTED_FAULTS, *LASTING_FAULTS, *OWN_SHARES)
