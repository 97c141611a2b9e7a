"""Kafka's settings of producers with ids and of their transactions, under their names with underscores."""

from __future__ import annotations

from protocol.late_attrs import frozen


@frozen(slots=True)
class TransactionConfig:
    """Kafka's defaults. The number of transactional ids is our own setting."""

    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    producer_id_expiration_ms: int = 86_400_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    transaction_two_phase_commit_enable: bool = False
    transaction_state_log_max_ids_per_partition: int = 20_000
