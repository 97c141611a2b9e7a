"""Planted bugs in recoveries: in what replicas make of a new generation of their partition."""

from __future__ import annotations

from functools import partial

from actors.raft.raft_actor import RaftActor
from actors.raft.spec import ReplicaSpec
from log.raft.membership import Voter
from tools.simulator.mutants.mutant import Mutant, always
from tools.simulator.topics.recoveries import KIND

_FAULTS = (KIND, "kill", "transfer")


_begin_generation = RaftActor.begin_generation


def _begin_as_survivor(self: RaftActor, spec: ReplicaSpec) -> None:
    if Voter(self.node.broker, self._member.node.directory) in spec.first_voters:
        _begin_generation(self, spec)


_of_recoveries = partial(Mutant, faults=_FAULTS, brokers=4, replication_factor=3, writers=1, seconds=3.0)

RECOVERY_MUTANTS = {
    "survivor-drops-log": _of_recoveries(
        "the survivors of a recovery drop what they have, as replicas that were given up do", ReplicaSpec, "keeps_log",
        always(False),
    ),
    "given-up-goes-on": _of_recoveries(
        "a replica that was given up stays in its old generation", RaftActor, "begin_generation", _begin_as_survivor,
    ),
}  # fmt: skip
