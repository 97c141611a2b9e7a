"""All planted bugs by name, and how one is planted for a run."""

from __future__ import annotations

from contextlib import AbstractContextManager

from tools.simulator.mutants.groups import GROUP_MUTANTS
from tools.simulator.mutants.log import LOG_MUTANTS
from tools.simulator.mutants.metadata import METADATA_MUTANTS
from tools.simulator.mutants.mutant import Mutant
from tools.simulator.mutants.raft import RAFT_MUTANTS
from tools.simulator.mutants.recoveries import RECOVERY_MUTANTS
from tools.simulator.mutants.transactions import TRANSACTION_MUTANTS
from tools.simulator.settings.replacing import replaced

SUBJECTS = (RAFT_MUTANTS, LOG_MUTANTS, METADATA_MUTANTS, GROUP_MUTANTS, TRANSACTION_MUTANTS, RECOVERY_MUTANTS)
MUTANTS: dict[str, Mutant] = {name: mutant for subject in SUBJECTS for name, mutant in subject.items()}


def planted(name: str | None) -> AbstractContextManager[None]:
    """Run with this bug."""
    return replaced(() if name is None else MUTANTS[name].patches)
