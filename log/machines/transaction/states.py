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


class TransactionState(enum.IntEnum):
    """The state of a transaction, as it is written into __transaction_state."""

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
        """Is it decided how the transaction ends, so that its markers are being written?"""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """Is no transaction under way?"""
        return self in IDLE


IDLE = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})
MAY_FOLLOW = {
    TransactionState.EMPTY: IDLE,
    TransactionState.ONGOING: IDLE | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: frozenset({TransactionState.ONGOING}),
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: IDLE | {TransactionState.PREPARE_ABORT},
    TransactionState.DEAD: IDLE,
}
BY_NAME = {state.told: state for state in TransactionState}
