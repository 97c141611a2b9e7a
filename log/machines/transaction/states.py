"""The states of a transaction, and which may follow which.

            InitProducerId            first partition            EndTxn                 all markers written
    Empty ◄──────────────── Complete* ───────────────► Ongoing ─────────► PrepareCommit ─────────► CompleteCommit
      │                                                  │ ▲      ╲
      └──────────────────────────────────────────────────┼─┘       ╲ or a timeout, or another producer
                                                         ▼          ▼
                                                 PrepareEpochFence → PrepareAbort ────────────────► CompleteAbort

PrepareEpochFence is passed within one step and never written. With transactions v2 a transaction that has no partition
yet may be aborted, too.
"""

from __future__ import annotations

import enum


class State(enum.IntEnum):
    """As it is written into __transaction_state."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def told(self) -> str:
        """As Kafka names it: PrepareCommit."""
        return self.name.title().replace("_", "")

    @property
    def is_prepared(self) -> bool:
        """It is decided how the transaction ends, and its markers are being written."""
        return self in (State.PREPARE_COMMIT, State.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """No transaction is under way."""
        return self in (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)


IDLE = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})
MAY_FOLLOW = {
    State.EMPTY: IDLE,
    State.ONGOING: IDLE | {State.ONGOING},
    State.PREPARE_COMMIT: frozenset({State.ONGOING}),
    State.PREPARE_ABORT: frozenset({State.ONGOING}),
    State.COMPLETE_COMMIT: frozenset({State.PREPARE_COMMIT}),
    State.COMPLETE_ABORT: IDLE | {State.PREPARE_ABORT},
    State.DEAD: IDLE,
}
BY_NAME = {state.told: state for state in State}
