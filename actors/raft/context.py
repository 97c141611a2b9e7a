"""What the actors of one broker share."""

from __future__ import annotations

import random
from collections.abc import Mapping

from attrs import Factory

from actors.raft.background import Background
from actors.raft.calendar import Calendar
from actors.raft.elections import Elections
from actors.raft.exclusive_work import ExclusiveWork
from actors.raft.last_syncs import LastSyncs
from actors.raft.leadership import Leadership
from actors.raft.pulse import Pulse
from log.disk.handles import Handles
from log.machines.group.config import GroupConfig
from log.machines.metadata.metadata import Metadata
from log.machines.transaction.config import TransactionConfig
from log.partition.refusals import Refusals
from log.raft.config import RaftConfig
from log.raft.pacer import Pacer
from log.replica.vote_journal import VoteJournal
from protocol.late_attrs import frozen


@frozen(slots=True)
class BrokerContext:
    """See the module's docstring."""

    data_dir: str
    directory_id: str
    handles: Handles
    journal: VoteJournal
    heard: dict[int, float]
    metadata: Metadata
    leadership: Leadership
    calendar: Calendar
    rng: random.Random
    codecs: Background
    """Runs long compressions and decompressions."""
    raft: RaftConfig = Factory(RaftConfig)
    topic_defaults: Mapping[str, str] = Factory(dict)
    pacer: Pacer = Factory(Pacer)
    groups: GroupConfig = Factory(GroupConfig)
    transactions: TransactionConfig = Factory(TransactionConfig)

    def wall_ms(self) -> int:
        return self.calendar.wall_ms()

    refusals: Refusals = Factory(Refusals)
    pulse: Pulse = Factory(Pulse)
    elections: Elections = Factory(Elections)
    lookups: ExclusiveWork = Factory(ExclusiveWork)
    """The long look-ups by time of all replicas."""
    long_calls: ExclusiveWork = Factory(ExclusiveWork)
    """The long calls of all connections: run by another thread, with the use of their results."""
    last_syncs: LastSyncs | None = None
