"""All planted bugs by name, and how one is planted for a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tools.simulator.mutants.groups import GROUP_MUTANTS
from tools.simulator.mutants.log import LOG_MUTANTS
from tools.simulator.mutants.metadata import METADATA_MUTANTS
from tools.simulator.mutants.mutant import Mutant
from tools.simulator.mutants.raft import RAFT_MUTANTS
from tools.simulator.mutants.recoveries import RECOVERY_MUTANTS
from tools.simulator.mutants.transactions import TRANSACTION_MUTANTS

SUBJECTS = (RAFT_MUTANTS, LOG_MUTANTS, METADATA_MUTANTS, GROUP_MUTANTS, TRANSACTION_MUTANTS, RECOVERY_MUTANTS)
MUTANTS: dict[str, Mutant] = {name: mutant for subject in SUBJECTS for name, mutant in subject.items()}


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    """Run with this bug."""
    if name is None:
        yield
        return
    patches = MUTANTS[name].patches
    originals = [target.__dict__[attribute] for target, attribute, _ in patches]
    for target, attribute, replacement in patches:
        setattr(target, attribute, replacement)
    try:
        yield
    finally:
        for (target, attribute, _), original in zip(patches, originals, strict=True):
            setattr(target, attribute, original)
